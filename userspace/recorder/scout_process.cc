// The watch reads one word, the number of names in sys.__dict__, since a traceback that is printed adds names. From
// then on the process lives for some milliseconds, which is why it is read that often.
#include "recorder/scout_process.h"

#include <malloc.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "attribution/program.h"
#include "model/estimate/pickle_cost.h"
#include "posix/clock.h"
#include "python/cached_memory.h"
#include "python/last_error.h"
#include "python/pickle_look.h"
#include "python/roots.h"
#include "recorder/privileges.h"
#include "source/procfs.h"
#include "timeline/json_start_methods.h"

namespace cowprof {
namespace {

constexpr size_t kMostWatched = 16, kMostListed = 16;  // processes; failures and unknowns of a report
constexpr size_t kMostBesideStarted = 8;               // processes: the others keep their room
constexpr size_t kLongestText = 400;                   // of a field of a report, bytes
// Between two reads while something is pickled; while it may be; later, of a program that pickled before; and of one
// that forks its workers, which must not lose batches to wake-ups: there an error is met only if the program lives on.
constexpr absl::Duration kFastGap = absl::Milliseconds(1), kGap = absl::Milliseconds(4),
                         kLateGap = absl::Milliseconds(50), kSlowGap = absl::Seconds(1);
// What is sent is pickled right after multiprocessing has started its helper: the error, if it is small, comes first.
constexpr absl::Duration kErrorFirst = absl::Milliseconds(40);
constexpr absl::Duration kFastTime = absl::Seconds(20), kTime = absl::Minutes(10), kStartTime = absl::Seconds(10);
constexpr absl::Duration kAgainTime = absl::Seconds(30);  // after each worker: an epoch may start some every minute
// A walk gets a quarter of one CPU, after a first part that nobody notices.
constexpr absl::Duration kFirstWork = absl::Milliseconds(50), kWork = absl::Milliseconds(5),
                         kRest = absl::Milliseconds(15);
constexpr uint64_t kMostObjects = 1'000'000;
constexpr absl::Duration kMostTime = absl::Seconds(30);
constexpr int kReserve = 4 << 20;  // bytes
// Of a process that is ending: it goes on for a while after the first finding, which need not be that of the error.
constexpr uint64_t kMostObjectsAtEnd = 300'000;
constexpr absl::Duration kMostTimeAtEnd = absl::Milliseconds(300);

absl::Duration CpuTime() { return ReadClock(CLOCK_PROCESS_CPUTIME_ID); }

void Cut(std::string* text) {
  if (text->size() > kLongestText) *text = absl::StrCat(text->substr(0, kLongestText), "...");
}

// What fits a packet.
PickleLook Shortened(PickleLook look) {
  if (look.failures.size() > kMostListed) {
    look.failures_left_out += look.failures.size() - kMostListed;
    look.failures.resize(kMostListed);
  }
  if (look.unknowns.size() > kMostListed) {
    look.unknowns_left_out += look.unknowns.size() - kMostListed;
    look.unknowns.resize(kMostListed);
  }
  for (PickleFailure& failure : look.failures) {
    for (std::string* text : {&failure.path, &failure.type, &failure.name, &failure.defined_at}) Cut(text);
  }
  for (PickleUnknown& unknown : look.unknowns) {
    for (std::string* text : {&unknown.path, &unknown.type, &unknown.runs}) Cut(text);
  }
  for (std::string* text : {&look.root, &look.expression}) Cut(text);
  if (look.items) {
    for (std::string* text : {&look.items->path, &look.items->type}) Cut(text);
  }
  return look;
}

struct WatchedPython {
  std::unique_ptr<Program> program;
  std::unique_ptr<ProcessMemory> memory;  // of this process
  std::optional<SysWatch> sys;
  JudgedRoots judged;
  PickleRoot looked_at;  // while a walk over it goes on
  bool started = false;  // by multiprocessing
  bool told = false;     // of its error
};

// Calls `before_read` before each read.
class InterruptedMemory : public MemoryReader {
 public:
  InterruptedMemory(const MemoryReader& memory, std::function<void()> before_read)
      : memory_(memory), before_read_(std::move(before_read)) {}
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    before_read_();
    return memory_.Read(address, bytes);
  }
  bool ReadIfPresent(uint64_t address, absl::Span<char> bytes) const override {
    before_read_();
    return memory_.ReadIfPresent(address, bytes);
  }

 private:
  const MemoryReader& memory_;
  const std::function<void()> before_read_;
};

// While it lives, malloc gives nothing back to the kernel: the next walk of a look takes what the last one had. A new
// page costs more than to fill it, up to 12 us.
class KeptHeap {
 public:
  KeptHeap() { mallopt(M_TRIM_THRESHOLD, INT_MAX); }
  ~KeptHeap() {
    mallopt(M_TRIM_THRESHOLD, 2 * kReserve);
    malloc_trim(kReserve);
  }
};

class Scout {
 public:
  explicit Scout(int socket) : socket_(socket) {
    mallopt(M_MMAP_THRESHOLD, 2 * kReserve);
    mallopt(M_TRIM_THRESHOLD, 2 * kReserve);
  }
  void Run();

 private:
  // False: the recorder is gone.
  bool Serve();
  absl::Duration Gap() const;
  WatchedPython* Know(const ProcessId& id);
  void Poll();
  void Reserve();
  void AwaitError(const WatchedPython* watched);
  void Look(const ScoutRequest& request);
  void LookAtError(const ProcessId& id, WatchedPython* watched);
  absl::Duration GapInWalk() const;
  void PollInWalk();
  bool GoOn();
  void Tell(const ProcessId& id, const char* key, Json report);

  const int socket_;
  const ProcFs proc_;
  absl::flat_hash_map<ProcessId, WatchedPython> watched_;
  absl::Duration fast_until_ = -absl::InfiniteDuration(), until_ = -absl::InfiniteDuration();
  bool pickles_ = false;  // the program, for workers that it starts
  bool found_ = false;    // what workers would be sent
  // For a look at an error, which has milliseconds: to get a new page from the kernel may take longer than to read one
  // of the target's. malloc keeps what is freed.
  std::string reserve_;
  absl::Duration polled_, asked_, walk_began_, rested_;
};

WatchedPython* Scout::Know(const ProcessId& id) {
  if (const auto found = watched_.find(id); found != watched_.end()) return &found->second;
  if (watched_.size() >= kMostWatched) return nullptr;
  WatchedPython watched;
  watched.program = std::make_unique<Program>(/*image=*/1, proc_, nullptr, /*starting=*/false);
  watched.program->memory().Add(id);
  watched.program->Inspect(absl::ZeroDuration());
  const Interpreter& python = watched.program->interpreter();
  if (!PickleObstacle(*watched.program).empty()) return nullptr;
  Reserve();
  watched.memory.reset(new ProcessMemory(watched.program->MemoryOf(id.pid)));
  watched.sys.emplace(python, *watched.memory);
  return &(watched_[id] = std::move(watched));
}

absl::Duration Scout::Gap() const {
  const absl::Duration now = BootTime();
  return watched_.empty()    ? absl::InfiniteDuration()
         : now < fast_until_ ? kFastGap
         : now < until_      ? kGap
         : pickles_          ? kLateGap
                             : kSlowGap;
}

void Scout::Run() {
  for (;;) {
    const absl::Duration gap = Gap();
    const timespec timeout = absl::ToTimespec(gap);
    pollfd news = {socket_, POLLIN, 0};
    const bool asked = ppoll(&news, 1, gap == absl::InfiniteDuration() ? nullptr : &timeout, nullptr) > 0;
    if (asked && !Serve()) return;
    Poll();
  }
}

bool Scout::Serve() {
  ScoutRequest request;
  const ssize_t got = recv(socket_, &request, sizeof(request), 0);
  if (got != sizeof(request)) return false;
  const absl::Duration now = BootTime();
  switch (request.what) {
    case kWatch: {
      const bool again = watched_.contains(request.id);
      if (Know(request.id) != nullptr) until_ = std::max(until_, now + (again ? kAgainTime : kTime));
      break;
    }
    case kWatchStarted:
      if (watched_.size() >= kMostBesideStarted) break;
      if (WatchedPython* const watched = Know(request.id)) {
        watched->started = true;
        until_ = std::max(until_, now + kStartTime);
      }
      break;
    case kPickling:
      pickles_ = true;
      fast_until_ = now + kFastTime;
      until_ = now + kTime;
      AwaitError(Know(request.id));
      Look(request);
      break;
    case kLook:
      if (request.other.pid != 0 && !found_) {
        fast_until_ = until_ = now;
        pickles_ = false;
      }
      Look(request);
      break;
    case kEnded:
      watched_.erase(request.id);
      Tell(request.id, "ended", true);
      break;
    default:
      break;
  }
  return true;
}

void Scout::Poll() {
  polled_ = BootTime();
  for (auto& [id, watched] : watched_) {
    if (watched.told || !watched.sys->HasNewNames(*watched.memory)) continue;
    LookAtError(id, &watched);
    Reserve();  // it may have been another name, or there is another process
  }
}

void Scout::Reserve() {
  if (reserve_.empty()) reserve_.assign(kReserve, '\1');
}

void Scout::LookAtError(const ProcessId& id, WatchedPython* watched) {
  const Interpreter& python = watched->program->interpreter();
  const LineageMemory& memory = watched->program->memory();
  std::string().swap(reserve_);
  const CachedMemory taken(memory);
  std::optional<LastError> error = ReadLastError(python, taken);
  if (!error || !(error->in_start || error->in_send || watched->started)) return;
  watched->told = true;
  if (watched->started || !error->in_start) {
    Tell(id, "error", {{"error", error->type}, {"message", error->message}, {"importing_main", error->importing_main}});
    return;
  }
  const PickleLook look = LookAtEnding(python, memory, taken, FindWhatFailed(python, taken, watched->looked_at),
                                       {.objects = kMostObjectsAtEnd, .time = kMostTimeAtEnd});
  Tell(id, "failed",
       {{"error", error->type},
        {"message", error->message},
        {"package", error->package},
        {"method", error->method},
        {"raised_in", error->raised_in},
        {"path", error->path},
        {"look", EncodeLook(Shortened(look))}});
}

absl::Duration Scout::GapInWalk() const { return BootTime() < fast_until_ ? kFastGap : kGap; }

// Called at each read of a walk: its steps may be longer than the error is there.
void Scout::PollInWalk() {
  if (BootTime() - polled_ >= GapInWalk()) Poll();
}

// Called within a walk. False: the recorder is gone, which would wait for the end of the walk.
bool Scout::GoOn() {
  if (const absl::Duration now = BootTime(); now - asked_ >= kGap) {
    asked_ = now;
    pollfd recorder = {socket_, POLLRDHUP, 0};
    if (poll(&recorder, 1, 0) > 0 && (recorder.revents & (POLLHUP | POLLRDHUP)) != 0) return false;
  }
  PollInWalk();
  if (CpuTime() - walk_began_ < kFirstWork || CpuTime() - rested_ < kWork) return true;
  const absl::Duration gap = GapInWalk();
  for (absl::Duration rest = kRest; rest > absl::ZeroDuration(); rest -= gap) {
    absl::SleepFor(std::min(rest, gap));
    Poll();
  }
  rested_ = CpuTime();
  return true;
}

void Scout::AwaitError(const WatchedPython* watched) {
  const absl::Duration end = BootTime() + kErrorFirst;
  while (watched != nullptr && !watched->told && BootTime() < end) {
    Poll();
    absl::SleepFor(kFastGap);
  }
}

void Scout::Look(const ScoutRequest& request) {
  WatchedPython* const watched = Know(request.id);
  if (watched == nullptr) return;
  if (watched->told) return;
  const KeptHeap kept;
  walk_began_ = rested_ = CpuTime();
  const Interpreter& python = watched->program->interpreter();
  const PickleLimits limits = {.objects = kMostObjects, .time = kMostTime, .go_on = [this] { return GoOn(); }};
  // One that pickles is about to send what is found first.
  const JudgedRoots judged = request.what == kPickling ? JudgedRoots() : watched->judged;
  const pid_t starter = proc_.PidInside(request.id.pid);
  std::vector<uint64_t> subjects;
  const auto find_root = [&](const MemoryReader& memory) {
    PickleRoot root = FindWhatWorkersGet(python, memory, starter, limits.go_on, judged);
    if (!root.parts.empty()) subjects = root.subjects;
    return watched->looked_at = root;
  };
  PickleMix mix;
  const auto look_in = [&](const MemoryReader& memory) {
    return LookAtPickle(python, InterruptedMemory(memory, [this] { PollInWalk(); }), find_root, limits, &mix);
  };
  PickleLook look = look_in(watched->program->memory());
  if (look.root.empty() && request.other.pid != 0) look = look_in(watched->program->MemoryOf(request.other.pid));
  watched->looked_at = PickleRoot();
  if (!look.root.empty()) {
    look.held = UnpickledBytes(mix, look.bytes.high.has_value());
    watched->judged.subjects.insert(subjects.begin(), subjects.end());
    watched->judged.loader |= look.of_loader.value_or(false);
    found_ = true;
  }
  Tell(request.id, "look", EncodeLook(Shortened(std::move(look))));
}

void Scout::Tell(const ProcessId& id, const char* key, Json report) {
  const std::string packet = Dump({{"pid", id.pid}, {"start_ns", id.start_ns}, {key, std::move(report)}});
  // Never waits: a recorder that is stopped gets no more reports than its socket holds.
  if (packet.size() <= kMostOfScoutPacket) send(socket_, packet.data(), packet.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace

void RunScout(int socket, pid_t recorder) {
  static_cast<void>(GiveUpPrivileges({}));
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user resets it, so this comes after
  if (getppid() == recorder) Scout(socket).Run();
  _exit(0);
}

}  // namespace cowprof
