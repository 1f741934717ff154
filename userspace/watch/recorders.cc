// Executes /proc/self/exe, so that a recorder has nothing of this process but two descriptors.
#include "watch/recorders.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "model/facts/run_model.h"
#include "posix/clock.h"
#include "posix/exit_status.h"
#include "posix/start_again.h"
#include "watch/keep.h"

namespace cowprof {
namespace {

constexpr absl::Duration kFirstPause = absl::Seconds(10), kLongestPause = absl::Minutes(10);
constexpr absl::Duration kListed = absl::Minutes(1);                            // a root, after its end, at most
constexpr int kLifelineFd = STDERR_FILENO + 1, kMetricsFd = STDERR_FILENO + 2;  // of a recorder

}  // namespace

Attempts AfterEnd(const Attempts& before, std::optional<int> status, absl::Duration now, absl::Duration lived) {
  Attempts after = before;
  if (lived > kLongestPause) after.failed = 0;
  after.again = absl::InfiniteDuration();
  if (status && *status == kDone) return after;  // the target has ended, or --duration is over
  if (status && *status == kNoProcess) {
    after.refused_from = now + kListed;
    return after;
  }
  after.again = now + std::min(kFirstPause * (1 << std::min(after.failed, 10)), kLongestPause);
  ++after.failed;
  return after;
}

const Root* NextRoot(const std::vector<Root>& roots, const std::vector<Root>& recorded,
                     const absl::flat_hash_map<ProcessId, Attempts>& attempts, absl::Duration now) {
  std::map<uid_t, int> of_user;
  for (const Root& root : recorded) ++of_user[root.user];
  const Root* next = nullptr;
  for (const Root& root : roots) {
    const auto same = [&](const Root& other) { return other.id == root.id; };
    const auto tried = attempts.find(root.id);
    if (std::any_of(recorded.begin(), recorded.end(), same) || (tried != attempts.end() && tried->second.again > now))
      continue;
    if (next == nullptr || of_user[root.user] < of_user[next->user]) next = &root;
  }
  return next;
}

uint32_t PlaceFor(std::optional<uint32_t> before, uint32_t last, const std::vector<uint32_t>& taken, uint32_t places) {
  const auto is_taken = [&](uint32_t place) { return std::find(taken.begin(), taken.end(), place) != taken.end(); };
  if (before && !is_taken(*before)) return *before;
  uint32_t place = last;
  do {
    place = place >= places - 1 ? 0 : place + 1;
  } while (is_taken(place));
  return place;
}

Recorders::Recorders(Settings settings, std::function<Fd(uint32_t)> metrics_for)
    : settings_(std::move(settings)), metrics_for_(std::move(metrics_for)) {}

uint32_t Recorders::TakePlace(const ProcessId& root) {
  std::vector<uint32_t> taken;
  for (const Running& one : running_) taken.push_back(one.place);
  const auto tried = attempts_.find(root);
  const std::optional<uint32_t> before = tried != attempts_.end() ? tried->second.place : std::nullopt;
  const uint32_t place = PlaceFor(before, last_place_, taken, static_cast<uint32_t>(settings_.at_most));
  if (place != before) last_place_ = place;
  return place;
}

std::string Recorders::Start(const Root& root, absl::Duration now) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::StrCat("make a pipe: ", strerror(errno));
  const Fd reading(ends[0]);
  Running recorder = {.root = root, .started = now, .place = TakePlace(root.id), .lifeline = Fd(ends[1])};
  const Fd metrics = metrics_for_(recorder.place);

  std::vector<std::string> words;
  words.insert(words.end(), settings_.options.begin(), settings_.options.end());
  words.insert(words.end(), {"--quiet", absl::StrCat("--attach=", root.id.pid),
                             absl::StrCat("--output=", absl::StrReplaceAll(settings_.folder, {{"%", "%%"}}), "/",
                                          RecordingName(root.id.pid, absl::Now())),
                             absl::StrCat("--watched=", root.id.start_ticks(), ",", kLifelineFd, ",",
                                          metrics.ok() ? kMetricsFd : -1)});
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) environment.emplace_back(*variable);
  std::vector<int> descriptors = {reading.fd()};
  if (metrics.ok()) descriptors.push_back(metrics.fd());
  const absl::StatusOr<pid_t> pid = cowprof::Start({.arguments = std::move(words),
                                                    .environment = std::move(environment),
                                                    .descriptors = std::move(descriptors),
                                                    .signals = settings_.signals});
  if (!pid.ok()) return absl::StrCat("start a recorder of process ", root.id.pid, ": ", pid.status().message());
  recorder.pid = *pid;
  ++started_;
  running_.push_back(std::move(recorder));
  return "";
}

std::string Recorders::Reap(const Running& recorder, int status, absl::Duration now) {
  const Exit exit = ExitOf(status);
  Attempts& after = attempts_[recorder.root.id];
  after.place = recorder.place;
  after = AfterEnd(after, exit.signaled ? std::nullopt : std::optional(exit.code), now, now - recorder.started);
  if (after.again == absl::InfiniteDuration()) return "";
  ++failed_;
  return absl::StrCat("the recorder of process ", recorder.root.id.pid,
                      exit.signaled ? absl::StrCat(" was killed by ", SignalName(exit.signal))
                                    : absl::StrCat(" ended with status ", exit.code),
                      "; if that process lives, it is recorded again in ",
                      absl::FormatDuration(absl::Floor(after.again - now, absl::Seconds(1))));
}

std::vector<std::string> Recorders::Update(const std::vector<Root>& roots, absl::Duration now) {
  std::vector<std::string> sentences;
  const auto add = [&](std::string sentence) {
    if (!sentence.empty()) sentences.push_back(std::move(sentence));
  };
  for (auto one = running_.begin(); one != running_.end();) {
    int status = 0;
    if (waitpid(one->pid, &status, WNOHANG) != one->pid) {
      ++one;
      continue;
    }
    add(Reap(*one, status, now));
    one = running_.erase(one);
  }
  std::vector<Root> recorded;
  for (const Running& one : running_) recorded.push_back(one.root);
  const auto is_root = [&](const ProcessId& id) {
    return std::any_of(roots.begin(), roots.end(), [&](const Root& root) { return root.id == id; });
  };
  absl::erase_if(attempts_, [&](const auto& tried) { return !is_root(tried.first); });
  const Root* next = NextRoot(roots, recorded, attempts_, now);
  if (next != nullptr && running_.size() < settings_.at_most) {
    if (std::string failure = Start(*next, now); !failure.empty()) {
      attempts_[next->id] = AfterEnd(attempts_[next->id], std::nullopt, now);
      ++failed_;
      add(std::move(failure));
    }
    recorded.push_back(*next);
    next = NextRoot(roots, recorded, attempts_, now);
  }
  size_t unrecorded = 0, refused = 0;
  for (const Root& root : roots) {
    if (std::any_of(running_.begin(), running_.end(), [&](const Running& one) { return one.root.id == root.id; }))
      continue;
    const auto tried = attempts_.find(root.id);
    const bool over = tried != attempts_.end() && tried->second.again == absl::InfiniteDuration();
    unrecorded += !over;
    if (!over || tried->second.refused_from > now) continue;
    ++refused;
    if (std::exchange(tried->second.told, true)) continue;
    ++failed_;
    add(absl::StrCat("process ", root.id.pid, " is left out: its recorder could not look at it"));
  }
  const bool full = next != nullptr && running_.size() >= settings_.at_most;
  if (full && unrecorded > told_left_out_) {
    add(absl::StrCat(unrecorded, unrecorded == 1 ? " trainer is" : " trainers are", " not recorded, since ",
                     running_.size(), " are, and no more may be (--at-most), process ", next->id.pid, " among them"));
  }
  told_left_out_ = full ? unrecorded : 0;
  left_out_ = unrecorded + refused;
  return sentences;
}

size_t Recorders::StopAll(absl::Duration patience) {
  for (Running& one : running_) one.lifeline.Close();
  for (const absl::Duration end = BootTime() + patience; !running_.empty() && BootTime() < end;) {
    const auto has_ended = [](const Running& one) { return waitpid(one.pid, nullptr, WNOHANG) == one.pid; };
    running_.erase(std::remove_if(running_.begin(), running_.end(), has_ended), running_.end());
    if (!running_.empty()) absl::SleepFor(absl::Milliseconds(5));
  }
  return running_.size();
}

}  // namespace cowprof
