// Recorders speak to it as to the process of sink/metrics/metrics_file.h: frames of a length and bytes, the first of
// which would be a path, and a byte in answer to each of the others.
#include "watch/metrics_hub.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "posix/clock.h"
#include "posix/exit_status.h"
#include "serve/http.h"
#include "serve/page_server.h"
#include "serve/sandbox.h"
#include "serve/scrape.h"
#include "sink/metrics/metrics_file.h"
#include "watch/join.h"

namespace cowprof {
namespace {

constexpr uint32_t kMostBytes = 4 << 20, kEnd = UINT32_MAX;  // of a frame; instead of a length: no more will come
constexpr absl::Duration kScrapeTime = absl::Seconds(5), kLeastGap = absl::Seconds(1);
// Metrics of a recorder that has ended: the rules ask for an hour what a job has left in /dev/shm; one that was killed
// still says that it records.
constexpr absl::Duration kKept = absl::Hours(1), kKeptOfKilled = absl::Minutes(5);
constexpr size_t kOtherDescriptors = 32;  // than those of connections and recorders

struct ControlMessage {
  bool is_recorder = false;  // its socket comes with it; otherwise figures
  uint32_t slot = 0;
  WatchFigures figures;
};

struct Source {
  Fd socket;
  std::string unread;
  bool named = false;  // the first frame has come
  std::vector<MetricFamily> families;
  absl::Duration ended = absl::InfiniteDuration();
};

class Hub {
 public:
  // Reads what has come of a source. True: there is a new text, or the source has ended.
  bool Read(Source* source) {
    char piece[64 << 10];
    const ssize_t bytes = recv(source->socket.fd(), piece, sizeof(piece), MSG_DONTWAIT);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (bytes > 0) source->unread.append(piece, bytes);
    bool news = false, end = bytes <= 0;
    for (uint32_t size = 0; !end && source->unread.size() >= sizeof(size);) {
      memcpy(&size, source->unread.data(), sizeof(size));
      end = size == kEnd || size > kMostBytes;
      dropped_ += size != kEnd && size > kMostBytes;
      if (end || source->unread.size() - sizeof(size) < size) break;
      if (std::exchange(source->named, true)) {
        Take(absl::string_view(source->unread).substr(sizeof(size), size), source);
        news = true;
      }
      source->unread.erase(0, sizeof(size) + size);
    }
    if (!end) return news;
    source->socket.Close();
    source->unread.clear();
    source->ended = BootTime();
    return true;
  }

  // What recorders that have ended have left.
  void ReadAll() {
    for (auto& [slot, source] : sources_) {
      for (int i = 0; i < 64 && source.socket.ok(); ++i) Read(&source);
    }
  }

  void Take(absl::string_view text, Source* source) {
    std::vector<MetricFamily> families;
    if (ParseMetrics(text, &families)) {
      source->families = std::move(families);
    } else {
      ++dropped_;
    }
    static_cast<void>(!send(source->socket.fd(), "+", 1, MSG_DONTWAIT | MSG_NOSIGNAL));
  }

  // False: the starter is gone.
  bool Control(int control) {
    ControlMessage message;
    iovec part = {&message, sizeof(message)};
    alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))];
    msghdr header = {};
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = space;
    header.msg_controllen = sizeof(space);
    const ssize_t bytes = recvmsg(control, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (bytes != sizeof(message)) return false;
    if (!message.is_recorder) {
      figures_ = message.figures;
      return true;
    }
    int fd = -1;
    const cmsghdr* with = CMSG_FIRSTHDR(&header);
    if (with != nullptr && with->cmsg_type == SCM_RIGHTS) memcpy(&fd, CMSG_DATA(with), sizeof(fd));
    sources_.erase(message.slot);
    if (fd < 0) return true;  // no descriptor was free: the recorder finds its socket closed
    sources_[message.slot].socket = Fd(fd);
    return true;
  }

  std::string Text() const {
    std::vector<std::pair<std::string, const std::vector<MetricFamily>*>> texts;
    for (const auto& [slot, source] : sources_) texts.emplace_back(absl::StrCat(slot), &source.families);
    std::string text = JoinMetrics(texts);
    const auto add = [&](absl::string_view name, absl::string_view type, absl::string_view help, uint64_t value) {
      absl::StrAppend(&text, "# HELP cowprof_watch_", name, " ", help, "\n# TYPE cowprof_watch_", name, " ", type,
                      "\ncowprof_watch_", name, " ", value, "\n");
    };
    add("recorders", "gauge", "Recorders that run.", figures_.recorders);
    add("left_out", "gauge", "Training runs that nothing records: all places are taken, or their recorder failed.",
        figures_.left_out);
    add("recorder_starts_total", "counter", "Recorders that were started.", figures_.started);
    add("recorder_failures_total", "counter", "Recorders that ended with a status other than 0.", figures_.failed);
    add("recordings_bytes", "gauge", "Size of the recordings in the folder, as of the last look.",
        figures_.recordings_bytes);
    add("recordings_removed_total", "counter", "Recordings that --keep has removed.", figures_.removed);
    add("dropped_texts_total", "counter", "Metrics of a recorder that were not well-formed.", dropped_);
    return text;
  }

  void Forget(absl::Duration now) {
    for (auto source = sources_.begin(); source != sources_.end();) {
      const absl::Duration kept = SaysItHasEnded(source->second.families) ? kKept : kKeptOfKilled;
      source = now - source->second.ended > kept ? sources_.erase(source) : std::next(source);
    }
  }
  std::map<uint32_t, Source>& sources() { return sources_; }

 private:
  std::map<uint32_t, Source> sources_;
  WatchFigures figures_;
  uint64_t dropped_ = 0;
};

// Runs in the process from its fork to its end.
void Run(int control, PageServer::Listening listening, std::unique_ptr<MetricsFile> file, size_t at_most) {
  Hub hub;
  std::unique_ptr<HttpServer> server;
  const RequestPolicy policy = listening.policy;
  if (listening.socket.ok()) {
    const auto text = [&] { return std::make_shared<const std::string>(hub.Text()); };
    auto started = HttpServer::Start(
        std::move(listening.socket),
        [&, text](const HttpRequest& request) { return AnswerScrape(request.page, policy, text); }, kScrapeTime);
    if (!started.ok()) _exit(Fail(kInternalFailure, absl::StrCat("serve metrics: ", started.status().message())));
    server = *std::move(started);
  }
  prctl(PR_SET_NAME, "cowprof-metrics");
  const size_t most_descriptors = kMaxConnections + at_most + kOtherDescriptors;
  if (const absl::StatusOr<std::string> note = EnterSandbox(LesserUser(), most_descriptors); !note.ok())
    _exit(Fail(kInternalFailure, absl::StrCat("serve metrics: ", note.status().message())));
  absl::Duration next = BootTime();
  for (bool living = true; living;) {
    std::vector<pollfd> fds = {{control, POLLIN, 0}, {server != nullptr ? server->wake_fd() : -1, POLLIN, 0}};
    for (auto& [slot, source] : hub.sources()) fds.push_back({source.socket.fd(), POLLIN, 0});
    absl::Duration wait = std::max(next - BootTime(), absl::ZeroDuration());
    if (server != nullptr) wait = std::min(wait, server->WaitAtMost());
    const timespec timeout = absl::ToTimespec(wait);
    ppoll(fds.data(), fds.size(), &timeout, nullptr);
    size_t i = 2;
    for (auto& [slot, source] : hub.sources()) {
      if (fds[i++].revents != 0) hub.Read(&source);
    }
    if (fds[0].revents != 0) living = hub.Control(control);
    if (!living) hub.ReadAll();
    if (server != nullptr) server->Run();
    if (BootTime() < next && living) continue;
    next = BootTime() + kLeastGap;
    hub.Forget(BootTime());
    if (file == nullptr) continue;
    const std::string failure = living ? file->Write(hub.Text()) : file->Finish(hub.Text());
    if (!failure.empty()) Fail(kDone, failure);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsHub>> MetricsHub::Start(const std::string& path,
                                                              const std::optional<ServeAddress>& address,
                                                              size_t at_most) {
  absl::StatusOr<PageServer::Listening> listening = PageServer::Listen(address, "metrics");
  if (!listening.ok()) return absl::InvalidArgumentError(listening.status().message());
  const std::string served = listening->socket.ok() ? MetricsAddressOf(listening->policy) : "";
  std::unique_ptr<MetricsFile> file;
  if (!path.empty()) {
    absl::StatusOr<std::unique_ptr<MetricsFile>> started = MetricsFile::Start();
    if (!started.ok()) return started.status();
    file = *std::move(started);
    if (absl::Status status = file->Open(path, Hub().Text()); !status.ok()) return status;
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return absl::ErrnoToStatus(errno, "create a socket pair");
  Fd ours(ends[0]), theirs(ends[1]);
  const pid_t pid = fork();
  if (pid < 0) return absl::ErrnoToStatus(errno, "fork the process that serves metrics");
  if (pid == 0) {
    ours.Close();
    Run(theirs.fd(), *std::move(listening), std::move(file), at_most);
    _exit(0);
  }
  if (file != nullptr) file->LeaveToChild();
  return std::unique_ptr<MetricsHub>(new MetricsHub(pid, std::move(ours), served));
}

bool MetricsHub::HasDied() {
  if (pid_ == 0 || waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
  pid_ = 0;
  return true;
}

MetricsHub::~MetricsHub() {
  control_.Close();
  if (pid_ == 0) return;
  for (const absl::Duration end = BootTime() + absl::Seconds(1); waitpid(pid_, nullptr, WNOHANG) == 0;) {
    if (BootTime() >= end) return;
    absl::SleepFor(absl::Milliseconds(2));
  }
}

Fd MetricsHub::Add(uint32_t slot) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return Fd();
  Fd ours(ends[0]), theirs(ends[1]);
  ControlMessage message = {.is_recorder = true, .slot = slot, .figures = {}};
  iovec part = {&message, sizeof(message)};
  alignas(cmsghdr) char space[CMSG_SPACE(sizeof(int))] = {};
  msghdr header = {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = space;
  header.msg_controllen = sizeof(space);
  cmsghdr* with = CMSG_FIRSTHDR(&header);
  with->cmsg_level = SOL_SOCKET;
  with->cmsg_type = SCM_RIGHTS;
  with->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = theirs.fd();
  memcpy(CMSG_DATA(with), &fd, sizeof(fd));
  return sendmsg(control_.fd(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(message) ? std::move(ours) : Fd();
}

void MetricsHub::Send(const WatchFigures& figures) {
  const ControlMessage message = {.is_recorder = false, .slot = 0, .figures = figures};
  static_cast<void>(!send(control_.fd(), &message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL));
}

}  // namespace cowprof
