// Parses whatever it is given; reads at most four small files a thread.
#include "source/wait_state.h"

#include <signal.h>
#include <sys/syscall.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr size_t kMaxThreads = 4096;
constexpr absl::Duration kPatience = absl::Milliseconds(20);  // of a LockCheck
constexpr uint32_t kFutexWait = 0, kFutexWaitBitset = 9;      // include/uapi/linux/futex.h
constexpr uint32_t kFutexPrivate = 128, kFutexClockRealtime = 256;

bool ParseHex(absl::string_view word, uint64_t* out) {
  return absl::ConsumePrefix(&word, "0x") && absl::SimpleHexAtoi(word, out);
}

constexpr uint64_t Bit(int signal) { return uint64_t{1} << (signal - 1); }

// Whether `address` is in a private mapping: then FUTEX_PRIVATE_FLAG changes nothing, since the kernel keys the word by
// address space (get_futex_key(), kernel/futex/core.c). glibc's pthread_join() leaves the flag out.
bool IsPrivate(const std::vector<Mapping>& mappings, uint64_t address) {
  const auto found =
      std::partition_point(mappings.begin(), mappings.end(), [&](const Mapping& m) { return m.end <= address; });
  return found != mappings.end() && found->begin <= address && !found->shared;
}

absl::Status TooManyThreads() {
  return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxThreads, " threads"));
}

}  // namespace

std::optional<SyscallState> ParseSyscall(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
  SyscallState state;
  if (words.empty() || !absl::SimpleAtoi(words[0], &state.number)) return std::nullopt;
  const bool in_call = state.number >= 0;
  if (words.size() != (in_call ? 9 : 3)) return std::nullopt;
  for (size_t i = 0; in_call && i < 6; ++i) {
    if (!ParseHex(words[1 + i], &state.arguments[i])) return std::nullopt;
  }
  if (!ParseHex(words[words.size() - 2], &state.stack_pointer) || !ParseHex(words.back(), &state.instruction))
    return std::nullopt;
  return state;
}

std::optional<FutexWait> EndlessFutexWait(const SyscallState& state) {
  // futex(uaddr, op, val, timeout, uaddr2, val3); the kernel reads 32 bits of op.
  if (state.number != SYS_futex || state.arguments[3] != 0) return std::nullopt;
  const auto operation = static_cast<uint32_t>(state.arguments[1]);
  const uint32_t command = operation & ~(kFutexPrivate | kFutexClockRealtime);
  if (command != kFutexWait && command != kFutexWaitBitset) return std::nullopt;
  return FutexWait{state.arguments[0], (operation & kFutexPrivate) != 0};
}

TaskStatus ParseTaskStatus(absl::string_view text) {
  TaskStatus status;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<absl::string_view, absl::string_view> field = absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view value = absl::StripAsciiWhitespace(field.second);
    uint64_t number = 0;
    if (field.first == "SigCgt" && absl::SimpleHexAtoi(value, &number)) status.caught = number;
    if ((field.first == "voluntary_ctxt_switches" || field.first == "nonvoluntary_ctxt_switches") &&
        absl::SimpleAtoi(value, &number)) {
      status.switches += number;
    }
    if (field.first == "NSpid") {
      const std::vector<absl::string_view> ids = absl::StrSplit(value, absl::ByAnyChar(" \t"), absl::SkipEmpty());
      if (ids.empty() || !absl::SimpleAtoi(ids.back(), &status.tid_inside)) status.tid_inside = 0;
    }
  }
  return status;
}

bool MayBeTold(uint64_t caught, bool has_children) {
  // glibc catches two of the first real-time signals for itself: SIGCANCEL (32) and SIGSETXID (33).
  constexpr uint64_t kNever = Bit(SIGINT) | Bit(SIGSEGV) | Bit(SIGBUS) | Bit(SIGFPE) | Bit(SIGILL) | Bit(SIGABRT) |
                              Bit(SIGTRAP) | Bit(SIGSYS) | Bit(32) | Bit(33);
  return (caught & ~kNever & ~(has_children ? 0 : Bit(SIGCHLD))) != 0;
}

absl::StatusOr<ThreadWaits> ReadThreadWaits(const ProcFs& proc, pid_t pid) {
  ThreadWaits waits;
  std::error_code failed;
  std::optional<std::vector<Mapping>> mappings;
  bool shows_calls = false;
  for (const auto& entry : std::filesystem::directory_iterator(proc.PathOf(pid, "task"), failed)) {
    ThreadWait thread;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &thread.tid)) continue;
    if (waits.threads.size() == kMaxThreads) return TooManyThreads();
    const auto read = [&](absl::string_view file) {
      return proc.ReadFile(pid, absl::StrCat("task/", thread.tid, "/", file));
    };
    const absl::StatusOr<std::string> stat_text = read("stat"), status_text = read("status");
    const absl::StatusOr<std::string> syscall = read("syscall");
    if (absl::IsPermissionDenied(syscall.status())) return syscall.status();
    const absl::StatusOr<ProcStat> stat = stat_text.ok() ? ParseStat(*stat_text) : stat_text.status();
    if (!stat.ok() || !status_text.ok()) continue;  // it has just ended
    if (stat->state == 'Z' || stat->state == 'X') continue;
    const TaskStatus status = ParseTaskStatus(*status_text);
    thread.comm = stat->comm;
    thread.start_ns = stat->start_ns();
    thread.cpu_ns = (stat->user_ticks + stat->system_ticks) * kNsPerTick;
    uint64_t ran_ns = 0;  // the first figure of schedstat; finer than clock ticks where the kernel has it
    const std::string schedule = read("schedstat").value_or("");
    if (absl::SimpleAtoi(schedule.substr(0, schedule.find(' ')), &ran_ns) && ran_ns != 0) thread.cpu_ns = ran_ns;
    thread.switches = status.switches;
    thread.tid_inside = status.tid_inside != 0 ? status.tid_inside : thread.tid;
    thread.stopped = stat->state == 'T' || stat->state == 't';
    const bool asks = MayBeTold(status.caught, true) && !MayBeTold(status.caught, false);
    const absl::StatusOr<std::string> children = asks ? read("children") : std::string();
    waits.may_be_told |= MayBeTold(status.caught, !children.ok() || !children->empty());
    shows_calls |= syscall.ok();
    const std::optional<SyscallState> state = syscall.ok() ? ParseSyscall(*syscall) : std::nullopt;
    if (state) {
      thread.stack_pointer = state->stack_pointer;
      thread.instruction = state->instruction;
      const std::optional<FutexWait> futex = EndlessFutexWait(*state);
      if (futex && !futex->is_private && !mappings) mappings = proc.ReadMaps(pid).value_or(std::vector<Mapping>());
      if (futex && stat->state == 'S' && (futex->is_private || IsPrivate(*mappings, futex->address)))
        thread.endless_futex = futex->address;
    }
    waits.threads.push_back(std::move(thread));
  }
  if (waits.threads.empty()) return absl::NotFoundError(absl::StrCat("no process ", pid));
  if (!shows_calls) return absl::UnimplementedError("this kernel has no /proc/PID/task/TID/syscall");
  std::sort(waits.threads.begin(), waits.threads.end(),
            [](const ThreadWait& a, const ThreadWait& b) { return a.tid < b.tid; });
  return waits;
}

absl::StatusOr<std::vector<ThreadGlance>> GlanceAtThreads(const ProcFs& proc, pid_t pid) {
  std::vector<ThreadGlance> threads;
  std::error_code failed;
  for (const auto& entry : std::filesystem::directory_iterator(proc.PathOf(pid, "task"), failed)) {
    ThreadGlance thread;
    const std::string name = entry.path().filename().string();
    if (!absl::SimpleAtoi(name, &thread.tid)) continue;
    if (threads.size() == kMaxThreads) return TooManyThreads();
    const std::string folder = absl::StrCat("task/", name, "/");
    const absl::StatusOr<std::string> syscall = proc.ReadFile(pid, absl::StrCat(folder, "syscall"));
    if (absl::IsPermissionDenied(syscall.status())) return syscall.status();
    if (!syscall.ok()) continue;  // it has just ended
    const std::optional<SyscallState> state = ParseSyscall(*syscall);
    if (const std::optional<FutexWait> futex = state ? EndlessFutexWait(*state) : std::nullopt) {
      thread.futex = futex->address;
      thread.is_private = futex->is_private;
      thread.stack_pointer = state->stack_pointer;
      thread.ran = proc.ReadFile(pid, absl::StrCat(folder, "schedstat")).value_or("");
      // A kernel without CONFIG_SCHED_INFO has no such file, or only zeroes in it.
      if (thread.ran.empty() || absl::StartsWith(thread.ran, "0 0 0")) {
        const std::string status = proc.ReadFile(pid, absl::StrCat(folder, "status")).value_or("");
        thread.ran = absl::StrCat(ParseTaskStatus(status).switches);
      }
    }
    threads.push_back(std::move(thread));
  }
  if (threads.empty()) return absl::NotFoundError(absl::StrCat("no process ", pid));
  std::sort(threads.begin(), threads.end(), [](const ThreadGlance& a, const ThreadGlance& b) { return a.tid < b.tid; });
  return threads;
}

void LockCheck::LookAt(const ProcFs& proc, pid_t pid, const std::string& tid) {
  const absl::StatusOr<std::string> text = proc.ReadFile(pid, absl::StrCat("task/", tid, "/stat"));
  const absl::StatusOr<ProcStat> stat = text.ok() ? ParseStat(*text) : text.status();
  pid_t thread = 0;
  if (!stat.ok() || stat->state != 'D' || stat->is_kernel_thread() || !absl::SimpleAtoi(tid, &thread)) return;
  const std::string status = proc.ReadFile(pid, absl::StrCat("task/", tid, "/status")).value_or("");
  asleep_.emplace(thread, ParseTaskStatus(status).switches);
}

// Most processes have one thread, or none of their own: one file tells that, and the state of the only thread.
LockCheck::Result LockCheck::Step(const ProcFs& proc, pid_t pid) {
  if (threads_ == nullptr) {
    if (before_.contains(pid)) absl::SleepFor(last_first_look_ + kPatience - BootTime());
    asleep_.clear();
    const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
    if (stat.ok() && stat->is_kernel_thread()) return Result::kKernel;
    if (stat.ok() && stat->threads == 1) {
      if (stat->state == 'D') LookAt(proc, pid, absl::StrCat(pid));
      return Judge(pid);
    }
    threads_.reset(opendir(proc.PathOf(pid, "task").c_str()));
    if (threads_ == nullptr) return Result::kFree;
  }
  if (const dirent* entry = readdir(threads_.get())) {
    LookAt(proc, pid, entry->d_name);
    return Result::kUnfinished;
  }
  threads_.reset();
  return Judge(pid);
}

LockCheck::Result LockCheck::Judge(pid_t pid) {
  const auto before = before_.find(pid);
  if (before == before_.end()) {
    if (asleep_.empty()) return Result::kFree;
    before_.emplace(pid, asleep_);
    last_first_look_ = BootTime();
    return Result::kAgain;
  }
  const bool hangs = std::any_of(before->second.begin(), before->second.end(),
                                 [&](const auto& thread) { return asleep_.contains(thread); });
  before_.erase(before);
  return hangs ? Result::kHangs : Result::kFree;
}

}  // namespace cowprof
