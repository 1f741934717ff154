// `cowprof serve-page`, which `--serve` and `--metrics-listen` start: serves the page and the metrics of a recording in
// progress. Uses only descriptors that are open when it starts, and gives up all rights before it reads the first
// request.
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "posix/clock.h"
#include "serve/http.h"
#include "serve/live_page.h"
#include "serve/page_server.h"
#include "serve/request_policy.h"
#include "serve/sandbox.h"
#include "serve/scrape.h"

namespace cowprof {
namespace {

constexpr absl::Duration kCatchUpEvery = absl::Seconds(5);  // while no page is open
// An answer that is half sent at the end may take so long: the recorder waits ten seconds for this process.
constexpr absl::Duration kLastAnswerTime = absl::Milliseconds(9500);
// A page that was heard of so lately is open: it may still receive or decode its last answer, as through ssh.
constexpr absl::Duration kOpenFor = absl::Seconds(6);
// That open pages have at the end to ask for the rest.
constexpr absl::Duration kFarewellTime = absl::Seconds(3);
// That a reader, and a scraper, may take to receive an answer.
constexpr absl::Duration kAnswerTime = absl::Seconds(60), kScrapeTime = absl::Seconds(5);

struct Settings {
  RequestPolicy policy, metrics;  // port 0: not served
  UserIds user;
  std::string path;
};

// Reads them from the pipe. False: there is no recorder at its other end.
bool ReadSettings(Settings* settings) {
  std::string text;
  while (std::count(text.begin(), text.end(), '\0') < kServeSettings) {
    char piece[1024];
    const ssize_t bytes = read(kLifelineFd, piece, sizeof(piece));
    if (bytes <= 0) return false;
    text.append(piece, bytes);
  }
  const std::vector<std::string> words = absl::StrSplit(text, '\0');
  unsigned port = 0, metrics_port = 0;
  const bool numbers = absl::SimpleAtoi(words[1], &port) && absl::SimpleAtoi(words[7], &metrics_port) &&
                       absl::SimpleAtoi(words[3], &settings->user.uid) &&
                       absl::SimpleAtoi(words[4], &settings->user.gid);
  settings->policy = {.host = words[0], .port = static_cast<uint16_t>(port), .token = words[2]};
  settings->path = words[5];
  settings->metrics = {.host = words[6], .port = static_cast<uint16_t>(metrics_port), .token = ""};
  return numbers;
}

// Answers requests for the page, and knows when open pages have had time to fetch the rest.
class Answers {
 public:
  Answers(RequestPolicy policy, LiveViewer viewer, LivePage* page)
      : request_policy_(std::move(policy)),
        html_(std::make_shared<const std::string>(std::move(viewer.html))),
        policy_(std::move(viewer.policy)),
        page_(page) {}

  HttpAnswer To(const HttpRequest& request) {
    const Ruling ruling = RuleOn(request.page, request_policy_);
    HttpAnswer answer = {
        .status = ruling.status,
        .headers = {{"Cache-Control", "no-store"},
                    {"X-Content-Type-Options", "nosniff"},
                    {"Referrer-Policy", "no-referrer"},
                    {"Cross-Origin-Resource-Policy", "same-origin"},
                    {"Cross-Origin-Opener-Policy", "same-origin"},
                    {"Content-Security-Policy", ruling.asked == Asked::kPage ? policy_ : "default-src 'none'"}}};
    if (ruling.asked == Asked::kPage) {
      answer.body = html_;
      answer.headers.emplace_back("Content-Type", "text/html; charset=utf-8");
    } else if (ruling.asked == Asked::kData) {
      AddData(request.known_version, &answer);
    } else {
      Refuse(ruling, &answer);
    }
    return answer;
  }

  // A page asks for data, or receives an answer.
  void Heard() { heard_at_ = BootTime(); }
  // The recording has ended.
  void End() {
    page_->End();
    ended_at_ = BootTime();
  }
  bool ended() const { return ended_at_ != absl::InfiniteDuration(); }
  absl::Duration ended_at() const { return ended_at_; }
  // Open pages ask again after a poll interval. While none has got the rest, all of them may be slow.
  absl::Duration leave_at() const {
    if (!ended() || heard_at_ < ended_at_ - kOpenFor) return ended_at_;
    const bool gave_rest = rest_at_ != -absl::InfiniteDuration();
    return std::max({ended_at_, heard_at_, rest_at_}) + (gave_rest ? 1.5 * page_->poll_interval() : kFarewellTime);
  }

 private:
  void AddData(const std::string& known_version, HttpAnswer* answer) {
    if (!ended()) Heard();
    const LivePage::Data& data = page_->Latest();
    // Making it may take seconds, in which others wait.
    if (ended() && rest_at_ == -absl::InfiniteDuration()) rest_at_ = BootTime();
    const std::string version = absl::StrCat("\"", data.version, "\"");
    answer->headers.insert(answer->headers.end(),
                           {{"ETag", version},
                            {"Cowprof-Poll-Seconds", absl::StrCat(absl::ToDoubleSeconds(page_->poll_interval()))},
                            {"Cowprof-Sample-Age", absl::StrCat(absl::ToDoubleSeconds(page_->sample_age()))}});
    answer->status = data.bytes == nullptr ? 503 : known_version == version ? 304 : 200;
    if (answer->status != 200) return;
    answer->body = data.bytes;
    answer->headers.emplace_back("Content-Type", "application/octet-stream");
  }

  RequestPolicy request_policy_;
  std::shared_ptr<const std::string> html_;
  std::string policy_;
  LivePage* page_;
  absl::Duration heard_at_ = -absl::InfiniteDuration(), ended_at_ = absl::InfiniteDuration();
  absl::Duration rest_at_ = -absl::InfiniteDuration();  // when the first page was given the rest
};

// Runs until the recording has ended and open pages have had time to fetch the rest. `of_page`: the server of
// `answers`; null if no page is served.
void Serve(LivePage* page, Answers* answers, const HttpServer* of_page,
           const std::vector<std::unique_ptr<HttpServer>>& servers) {
  absl::Duration catch_up_at = BootTime();
  const auto answering = [](const std::unique_ptr<HttpServer>& server) { return server->answering(); };
  while (true) {
    // Whoever receives an answer that was begun before the end will ask for the rest.
    if (of_page != nullptr && of_page->answering(answers->ended_at())) answers->Heard();
    const absl::Duration leave_at = answers->leave_at(), last_answer_at = answers->ended_at() + kLastAnswerTime;
    // The last answer is not cut off.
    if (BootTime() >= last_answer_at ||
        (BootTime() >= leave_at && std::none_of(servers.begin(), servers.end(), answering)))
      return;
    if (BootTime() >= catch_up_at) {
      page->CatchUp();
      catch_up_at = BootTime() + kCatchUpEvery;
    }
    absl::Duration wait =
        std::min({catch_up_at, last_answer_at, BootTime() < leave_at ? leave_at : last_answer_at}) - BootTime();
    std::vector<pollfd> fds = {{answers->ended() ? -1 : kLifelineFd, POLLIN, 0}};
    for (const std::unique_ptr<HttpServer>& server : servers) {
      wait = std::min(wait, server->WaitAtMost());
      fds.push_back({server->wake_fd(), POLLIN, 0});
    }
    const timespec timeout = absl::ToTimespec(std::max(wait, absl::ZeroDuration()));
    ppoll(fds.data(), fds.size(), &timeout, nullptr);
    for (const std::unique_ptr<HttpServer>& server : servers) server->Run();
    if (!answers->ended() && fds[0].revents != 0) answers->End();
  }
}

}  // namespace

int ServePage(const Options&) {
  Settings settings;
  if (!ReadSettings(&settings))
    return Fail(kUsage, "serve-page is internal, --serve starts it; to see a recording, use cowprof view");
  signal(SIGPIPE, SIG_IGN);
  setpriority(PRIO_PROCESS, 0, 10);  // yield to the recorded program; below, also when memory is short
  std::ofstream("/proc/self/oom_score_adj") << 500;
  const auto refuse = [](const absl::Status& status) {
    return Fail(kInternalFailure, absl::StrCat("serve the page: ", status.message()));
  };
  const bool has_page = settings.policy.port != 0, has_metrics = settings.metrics.port != 0;
  const Fd recorder = has_metrics ? OpenStat(absl::StrCat(getppid())) : Fd();
  if (!has_page) close(kListeningFd);
  if (!has_metrics) close(kMetricsFd);

  absl::StatusOr<LiveViewer> viewer = has_page ? MakeLiveViewer(settings.path) : LiveViewer();
  if (!viewer.ok()) return refuse(viewer.status());
  LivePage page(Fd(kTimelineFd), has_page);
  Answers answers(settings.policy, *std::move(viewer), &page);
  std::vector<std::unique_ptr<HttpServer>> servers;
  const auto start = [&](int socket, HttpServer::Handler handler, absl::Duration answer_time) {
    absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(Fd(socket), std::move(handler), answer_time);
    if (server.ok()) servers.push_back(*std::move(server));
    return server.status();
  };
  absl::Status started;
  if (has_page)
    started = start(
        kListeningFd, [&](const HttpRequest& request) { return answers.To(request); }, kAnswerTime);
  if (has_metrics) {
    started.Update(start(
        kMetricsFd,
        [&](const HttpRequest& request) {
          return AnswerScrape(request.page, settings.metrics, [&] { return page.Metrics(recorder); });
        },
        kScrapeTime));
  }
  if (!started.ok()) return refuse(started);
  const absl::StatusOr<std::string> note = EnterSandbox(settings.user);
  if (!note.ok()) return refuse(note.status());
  if (!note->empty()) Fail(kDone, absl::StrCat("serve the page: ", *note));

  Serve(&page, &answers, has_page ? servers.front().get() : nullptr, servers);
  _exit(kDone);  // the sandbox forbids what exit handlers of libraries would do
}

}  // namespace cowprof
