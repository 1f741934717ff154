// Joins /proc, glibc's and CPython's own lists of threads. Bounded: kMostHazardThreads threads, those of Python first.
#include "recorder/fork_hazard_look.h"

#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "model/base_name.h"
#include "posix/clock.h"
#include "python/cached_memory.h"
#include "python/duty.h"
#include "python/graph.h"
#include "python/locks.h"
#include "python/native_threads.h"
#include "source/wait_state.h"

namespace cowprof {
namespace {

constexpr size_t kMaxThreads = 4096, kMostLibraries = 32, kLongestName = 200;

// What may start threads, by the beginning of its file's name.
bool IsOfInterest(absl::string_view name) {
  constexpr absl::string_view kBeginnings[] = {"libgomp",        "libiomp", "libomp",       "libmkl_",   "libtbb",
                                               "libopencv_core", "cv2.",    "libtorch_cpu", "libcuda.so"};
  return absl::StrContains(name, "openblas") ||
         std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](absl::string_view beginning) { return absl::StartsWith(name, beginning); });
}

std::vector<std::string> LibrariesOf(const std::vector<Mapping>& mappings) {
  std::vector<std::string> names;
  for (const Mapping& mapping : mappings) {
    if (!mapping.executable) continue;
    std::string name(BaseName(absl::StripSuffix(mapping.name, " (deleted)")));
    const bool known = std::find(names.begin(), names.end(), name) != names.end();
    if (names.size() < kMostLibraries && !known && IsOfInterest(name)) names.push_back(std::move(name));
  }
  return names;
}

// /dev/nvidiactl, /dev/nvidia0.
bool HasCudaDevice(const ProcFs& proc, pid_t pid) {
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(proc.PathOf(pid, "fd"), failed)) {
    std::error_code unreadable;
    const auto target = std::filesystem::read_symlink(entry.path(), unreadable);
    if (!unreadable && absl::StartsWith(target.string(), "/dev/nvidia")) return true;
  }
  return false;
}

// A thread while it is looked at.
struct Seen {
  pid_t tid = 0, tid_inside = 0;
  uint64_t ident = 0;
  uint64_t stack_pointer = 0, futex = 0;  // 0: it runs, or does not wait for one
  uint64_t start_ns = 0;                  // 0: unknown
  const ThreadState* state = nullptr;
};

bool IsListed(pid_t tid, const ForkHazardSeen& seen) {
  return std::any_of(seen.threads.begin(), seen.threads.end(),
                     [tid](const HazardThread& thread) { return thread.tid == tid; });
}

class Look {
 public:
  Look(const ProcFs& proc, const HazardSubject& subject)
      : proc_(proc),
        subject_(subject),
        cached_(subject.memory),
        mappings_(proc.ReadMaps(subject.pid).value_or(std::vector<Mapping>())),
        native_(subject.memory, mappings_) {
    if (subject.python == nullptr || !subject.python->ready || subject.python->free_threaded) return;
    locks_.emplace(*subject.python, cached_);
    locks_now_.emplace(*subject.python, subject.memory);
    states_ = locks_->ThreadsByTid();
  }

  ForkHazardSeen Run() {
    ForkHazardSeen seen = {.libraries = LibrariesOf(mappings_), .python_read = locks_.has_value()};
    seen.cuda = std::any_of(seen.libraries.begin(), seen.libraries.end(),
                            [](const std::string& name) { return absl::StartsWith(name, "libcuda.so"); }) &&
                HasCudaDevice(proc_, subject_.pid);
    ListAll();
    FindIdents();
    seen.forker = Forker();
    const pid_t left_out = seen.forker != 0 ? seen.forker : subject_.pid;
    for (const Seen& thread : threads_) {
      if (thread.tid == left_out) continue;
      if (seen.threads.size() == kMostHazardThreads) {
        ++seen.threads_left_out;
      } else if (!HasBegunLater(thread)) {
        seen.threads.push_back(Describe(thread));
      }
    }
    std::sort(seen.threads.begin(), seen.threads.end(),
              [](const HazardThread& a, const HazardThread& b) { return a.tid < b.tid; });
    if (locks_) FindLocks(&seen);
    return seen;
  }

 private:
  void ListAll();
  void FindIdents();
  pid_t Forker() const;
  bool HasBegunLater(const Seen& thread) const;
  std::string NameOf(const Seen& thread, const std::vector<Frame>& stack);
  HazardThread Describe(const Seen& thread);
  void FindLocks(ForkHazardSeen* seen);
  bool Has(const Seen& thread, const LockReader::WithStatement& with);

  const ProcFs& proc_;
  const HazardSubject& subject_;
  const CachedMemory cached_;  // of frames and objects, which lie close together: 88 ms became 5
  const std::vector<Mapping> mappings_;
  const NativeThreads native_;
  std::optional<LockReader> locks_, locks_now_;  // the latter asks whether a lock is held, after the frames were read
  absl::flat_hash_map<pid_t, ThreadState> states_;  // by tid inside
  std::vector<Seen> threads_;                       // the first ones of interest; those of Python first
};

void Look::ListAll() {
  const absl::StatusOr<std::string> status = proc_.ReadFile(subject_.pid, "status");
  const bool same_namespace = !status.ok() || ParseStatus(*status).namespace_pids.size() <= 1;
  for (const pid_t tid : subject_.tids) {
    Seen thread = {.tid = tid, .tid_inside = tid};
    if (!same_namespace) {
      const absl::StatusOr<std::string> text = proc_.ReadFile(subject_.pid, absl::StrCat("task/", tid, "/status"));
      if (text.ok()) thread.tid_inside = ParseTaskStatus(*text).tid_inside;
    }
    if (const auto state = states_.find(thread.tid_inside); state != states_.end()) {
      thread.state = &state->second;
      thread.ident = state->second.thread_id;
    }
    threads_.push_back(thread);
  }
  std::stable_partition(threads_.begin(), threads_.end(), [](const Seen& thread) { return thread.state != nullptr; });
  for (size_t i = 0; i < std::min(threads_.size(), kMostHazardThreads + 1); ++i) {
    Seen& thread = threads_[i];
    const absl::StatusOr<std::string> stat_text =
        proc_.ReadFile(subject_.pid, absl::StrCat("task/", thread.tid, "/stat"));
    const absl::StatusOr<ProcStat> stat = stat_text.ok() ? ParseStat(*stat_text) : stat_text.status();
    if (stat.ok()) thread.start_ns = stat->start_ns();
    const absl::StatusOr<std::string> text =
        proc_.ReadFile(subject_.pid, absl::StrCat("task/", thread.tid, "/syscall"));
    const std::optional<SyscallState> state = text.ok() ? ParseSyscall(*text) : std::nullopt;
    if (!state) continue;
    thread.stack_pointer = state->stack_pointer;
    if (state->number == SYS_futex) thread.futex = state->arguments[0];
  }
}

// Of those without Python: by their stacks; of those that run just now, by glibc's list.
void Look::FindIdents() {
  uint64_t any = 0;
  bool missing = false;
  for (Seen& thread : threads_) {
    if (thread.ident == 0 && thread.stack_pointer != 0)
      thread.ident = native_.FindByStack(thread.stack_pointer, thread.tid_inside);
    if (thread.tid == subject_.pid) continue;  // in a list of its own
    if (thread.ident != 0) any = thread.ident;
    missing |= thread.ident == 0;
  }
  if (!missing || any == 0) return;
  const absl::flat_hash_map<pid_t, uint64_t> all = native_.ListFrom(any);
  for (Seen& thread : threads_) {
    const auto found = all.find(thread.tid_inside);
    if (thread.ident == 0 && found != all.end()) thread.ident = found->second;
  }
}

// The one thread that the child has is a copy of it: same pthread_self(), same stack. 0: unknown.
pid_t Look::Forker() const {
  if (subject_.child == 0) return 0;
  if (locks_ && subject_.child_memory != nullptr) {
    const std::vector<ThreadState> states = ListThreads(*subject_.python, *subject_.child_memory);
    for (const Seen& thread : threads_) {
      if (states.size() == 1 && thread.ident != 0 && thread.ident == states[0].thread_id) return thread.tid;
    }
  }
  const absl::StatusOr<std::string> text =
      proc_.ReadFile(subject_.child, absl::StrCat("task/", subject_.child, "/syscall"));
  const std::optional<SyscallState> state = text.ok() ? ParseSyscall(*text) : std::nullopt;
  const Mapping* stack = state ? native_.Find(state->stack_pointer) : nullptr;
  if (stack == nullptr) return 0;
  if (stack->name == "[stack]") return subject_.pid;
  const Seen* nearest = nullptr;
  for (const Seen& thread : threads_) {
    if (thread.tid == subject_.pid || thread.ident < state->stack_pointer || thread.ident >= stack->end) continue;
    if (nearest == nullptr || thread.ident < nearest->ident) nearest = &thread;
  }
  return nearest == nullptr ? 0 : nearest->tid;
}

// Than the fork, by at least a clock tick. One whose start can't be read has ended.
bool Look::HasBegunLater(const Seen& thread) const {
  return subject_.child != 0 && (thread.start_ns == 0 || thread.start_ns > subject_.forked_ns);
}

// threading.Thread._name, by the outermost frame, which is that of Thread._bootstrap(self); else the kernel's.
std::string Look::NameOf(const Seen& thread, const std::vector<Frame>& stack) {
  const bool begins_there = !stack.empty() && absl::EndsWith(stack.back().function, "_bootstrap") &&
                            absl::EndsWith(stack.back().file, "threading.py");
  if (begins_there) {
    const Interpreter& python = *subject_.python;
    const std::vector<RawFrame> frames = WalkFrames(python, cached_, thread.state->address);
    const uint64_t self = frames.empty() ? 0 : FindLocal(python.layout, cached_, frames.back(), "self");
    if (self != 0) {
      ObjectGraph graph(python, cached_);
      std::string name = graph.Text(graph.InstanceAttribute(self, "_name"));
      if (!name.empty()) return name;
    }
  }
  const absl::StatusOr<std::string> comm = proc_.ReadFile(subject_.pid, absl::StrCat("task/", thread.tid, "/comm"));
  return comm.ok() ? std::string(absl::StripAsciiWhitespace(*comm)) : "";
}

HazardThread Look::Describe(const Seen& thread) {
  std::vector<Frame> stack = thread.state != nullptr ? locks_->StackOf(*thread.state) : std::vector<Frame>();
  HazardThread found = {.tid = thread.tid,
                        .ident = thread.ident,
                        .name = NameOf(thread, stack).substr(0, kLongestName),
                        .python = thread.state != nullptr,
                        .module = thread.ident != 0 && thread.state == nullptr ? native_.ModuleOf(thread.ident) : "",
                        .stack = std::move(stack),
                        .tid_inside = thread.tid_inside,
                        .start_ns = thread.start_ns};
  if (found.stack.size() > kMostHazardFrames) {
    found.frames_left_out = found.stack.size() - kMostHazardFrames;
    found.stack.resize(kMostHazardFrames);
  }
  return found;
}

// Whether a thread in such a statement has the lock, and does not just wait for it or, in Condition.wait(), has given
// it back.
bool Look::Has(const Seen& thread, const LockReader::WithStatement& with) {
  const std::optional<LockObject> now = locks_now_->ReadLock(with.lock.address, 0);
  if (!now || !now->locked.value_or(false)) return false;
  if (now->kind == AwaitedKind::kRLock) return now->owner == thread.ident;
  if (thread.futex != 0) {
    if (thread.futex == now->mutex) return false;
    const auto awaited = locks_now_->FindAwaited(thread.futex, thread.stack_pointer);
    if (awaited && awaited->mutex == now->mutex) return false;
  }
  return !locks_->HasGivenBack(*thread.state, with.lock.address);
}

// Of the threads that are listed; one that is not may have a lock all the same, and then no other has it.
void Look::FindLocks(ForkHazardSeen* seen) {
  std::map<uint64_t, std::vector<HeldLock>> claims;  // by lock
  size_t looked = 0;
  for (const Seen& thread : threads_) {
    if (thread.state == nullptr || looked++ > kMostHazardThreads) break;
    for (const LockReader::WithStatement& with : locks_->WithStatementsOf(*thread.state)) {
      if (!Has(thread, with) || locks_->IsNewInChild(with)) continue;
      const HeldLockKind kind = with.lock.kind == AwaitedKind::kRLock ? HeldLockKind::kRLock : HeldLockKind::kLock;
      claims[with.lock.address].push_back({kind, thread.tid, "", with.lock.address, with.where});
    }
    if (!IsListed(thread.tid, *seen)) continue;
    for (std::string& module : locks_->ImportsOf(*thread.state)) {
      if (seen->locks.size() == kMostHeldLocks) return;
      HeldLock lock = {.kind = HeldLockKind::kImport, .tid = thread.tid, .module = std::move(module)};
      for (const Frame& frame : locks_->StackOf(*thread.state)) {
        if (absl::StrContains(frame.file, "importlib._bootstrap")) continue;
        lock.where = frame;
        break;
      }
      seen->locks.push_back(std::move(lock));
    }
  }
  // Exactly one thread has a lock: of two that seem to, one is leaving or entering.
  for (const auto& [address, by] : claims) {
    const bool listed = by.size() == 1 && IsListed(by[0].tid, *seen);
    if (listed && seen->locks.size() < kMostHeldLocks) seen->locks.push_back(by[0]);
  }
}

}  // namespace

std::vector<pid_t> ListThreadIds(const ProcFs& proc, pid_t pid) {
  std::vector<pid_t> tids;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(proc.PathOf(pid, "task"), failed)) {
    pid_t tid = 0;
    if (tids.size() < kMaxThreads && absl::SimpleAtoi(entry.path().filename().string(), &tid)) tids.push_back(tid);
  }
  std::sort(tids.begin(), tids.end());
  return tids;
}

ForkHazardSeen LookAtForkHazard(const ProcFs& proc, const HazardSubject& subject) {
  const absl::Duration began = BootTime();
  ForkHazardSeen seen = Look(proc, subject).Run();
  seen.took = BootTime() - began;
  return seen;
}

}  // namespace cowprof
