// Joins what /proc, CPython's objects and native symbols say of one waiting process and of its parent into facts.
#include "recorder/hang_look.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/judge/fork_hazards.h"
#include "model/library_name.h"
#include "posix/clock.h"
#include "python/interpreter.h"
#include "python/locks.h"
#include "recorder/lock_owner.h"
#include "recorder/native_callers.h"
#include "recorder/opened_process.h"
#include "source/wait_state.h"

namespace cowprof {
namespace {

constexpr size_t kMutexCallers = 6;  // pthread_mutex_lock() is among the innermost

// ---- What one thread waits for ----

class Inspection {
 public:
  Inspection(const ProcFs& proc, OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork,
             ElfCache* elf_cache)
      : proc_(proc),
        at_fork_(at_fork),
        child_(child),
        parent_(parent),
        mappings_(proc.ReadMaps(child->pid).value_or(std::vector<Mapping>())),
        symbols_(mappings_, proc.PathOf(child->pid, ""), elf_cache) {}

  WaitingThread Inspect(const ThreadWait& thread) {
    WaitingThread found = {.wait = thread, .name = thread.comm, .stack = {}, .native = "", .awaited = {}};
    const ThreadState* state = child_->StateOf(thread.tid_inside);
    if (state != nullptr) found.stack = child_->locks->StackOf(*state);
    if (thread.endless_futex == 0) return found;
    const std::vector<NativeSymbol> callers = CallersOf(&symbols_, child_->memory, mappings_, thread);
    found.native = ShownCallers(callers);
    Awaited& awaited = found.awaited;
    if (state != nullptr) awaited = child_->locks->WhatFramesSay(*state);
    if (awaited.kind == AwaitedKind::kImportLock) {
      FindImporter(child_, parent_, at_fork_, thread, &awaited);
    } else if (awaited.kind == AwaitedKind::kNotification) {
      awaited.in_parent = InParent(awaited.object);
    } else if (awaited.kind == AwaitedKind::kUnknown) {
      InspectLock(thread, callers, &awaited);
      if (awaited.kind == AwaitedKind::kUnknown && state != nullptr) InspectLibrary(callers, &awaited);
    }
    return found;
  }

 private:
  void InspectLock(const ThreadWait& thread, const std::vector<NativeSymbol>& callers, Awaited* awaited) {
    const auto lock = child_->locks ? child_->locks->FindAwaited(thread.endless_futex, thread.stack_pointer)
                                    : std::optional<LockObject>();
    if (lock) {
      awaited->kind = lock->kind;
      awaited->object = lock->address;
      FindOwner(child_, parent_, at_fork_, thread, *lock, awaited);
      return;
    }
    if (!callers.empty() && IsOpenMp(callers[0].module)) {
      awaited->kind = AwaitedKind::kOpenMp;
      awaited->detail = CallerOfOpenMp(callers);
      return;
    }
    const auto innermost = absl::MakeSpan(callers).subspan(0, kMutexCallers);
    const auto calls = [innermost](absl::string_view function) {
      return absl::c_any_of(
          innermost, [function](const NativeSymbol& caller) { return absl::StrContains(caller.symbol, function); });
    };
    if (calls("pthread_mutex_lock")) InspectNative(thread, thread.endless_futex, OwnerOfMutex, awaited);
    if (awaited->kind != AwaitedKind::kUnknown || !calls("pthread_rwlock_")) return;
    for (const uint64_t offset : kFutexesOfRwlock) {
      if (!InspectNative(thread, thread.endless_futex - offset, OwnerOfRwlock, awaited)) continue;
      awaited->detail = kRwlock;
      return;
    }
  }

  void InspectLibrary(const std::vector<NativeSymbol>& callers, Awaited* awaited) {
    if (parent_ == nullptr || child_->waits.threads.size() != 1) return;
    const std::string library = WaitingLibrary(callers);
    const size_t left_behind = library.empty() ? 0 : LeftBehind(proc_, *child_, *parent_, at_fork_, library);
    if (left_behind == 0) return;
    awaited->kind = AwaitedKind::kLibrary;
    awaited->detail = library;
    awaited->left_behind = left_behind;
  }

  // Returns whether `object` is such a lock and is held.
  bool InspectNative(const ThreadWait& thread, uint64_t object,
                     std::optional<pid_t> (*owner_of)(const MemoryReader&, uint64_t), Awaited* awaited) {
    const std::optional<pid_t> owner = owner_of(child_->memory, object);
    if (!owner) return false;
    awaited->kind = AwaitedKind::kCMutex;
    awaited->object = object;
    const auto in_parent = parent_ != nullptr ? owner_of(parent_->memory, object) : std::nullopt;
    FindOwnerOfMutex(proc_, child_, parent_, at_fork_, thread, *owner, in_parent, awaited);
    return true;
  }

  // Whether an object of the same type is at the same address in the parent.
  bool InParent(uint64_t object) const {
    if (parent_ == nullptr || !parent_->locks || object == 0) return false;
    const uint64_t at = object + child_->interpreter->layout.object.type;
    const auto own = ReadValue<uint64_t>(child_->memory, at), other = ReadValue<uint64_t>(parent_->memory, at);
    return own && other && *own == *other && TypeReader(*parent_->interpreter, parent_->memory).TypeOfObject(object);
  }

  const ProcFs& proc_;
  const ForkSnapshot* const at_fork_;
  OpenedProcess* const child_;
  OpenedProcess* const parent_;
  const std::vector<Mapping> mappings_;
  NativeSymbols symbols_;
};

// ---- Ancestors that wait for it ----

constexpr struct {
  absl::string_view file_end, function;  // as before 3.11, without the class
  const char* what;
} kWaitsForChildren[] = {
    {"/multiprocessing/pool.py", "join", "Pool.join()"},
    {"/multiprocessing/pool.py", "get", "a result of a Pool"},
    {"/multiprocessing/pool.py", "next", "a result of a Pool"},
    {"/multiprocessing/pool.py", "wait", "a result of a Pool"},
    {"/multiprocessing/process.py", "join", "Process.join()"},
    {"/torch/utils/data/dataloader.py", "_next_data", "the next batch of a DataLoader"},
    {"/concurrent/futures/_base.py", "result", "a result of an executor"},
    {"/concurrent/futures/_base.py", "as_completed", "results of an executor"},
    {"/concurrent/futures/_base.py", "wait", "results of an executor"},
    {"/concurrent/futures/process.py", "shutdown", "the end of an executor"},
    {"/datasets/utils/py_utils.py", "iflatmap_unordered", "datasets' map(num_proc=)"},
};

const char* WaitOf(const Frame& frame) {
  const absl::string_view function = absl::string_view(frame.function).substr(frame.function.rfind('.') + 1);
  for (const auto& known : kWaitsForChildren) {
    if (EndsInFile(frame.file, known.file_end) && function == known.function) return known.what;
  }
  return nullptr;
}

std::vector<Frame> MainStack(OpenedProcess* process) {
  const ThreadWait* const main = process->MainThread();
  const ThreadState* const state = main == nullptr ? nullptr : process->StateOf(main->tid_inside);
  return state == nullptr ? std::vector<Frame>() : process->locks->StackOf(*state);
}

std::optional<WaitForChildren> WaitForChildrenIn(OpenedProcess* process) {
  std::vector<Frame> stack = MainStack(process);
  for (const Frame& frame : stack) {
    if (const char* what = WaitOf(frame)) return WaitForChildren{process->pid, process->pid, what, std::move(stack)};
  }
  return std::nullopt;
}

std::optional<WaitingProcess> Inspect(const ProcFs& proc, pid_t pid, const ForkSnapshot* at_fork, ElfCache* elf_cache) {
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
  if (!stat.ok() || stat->state == 'Z') return std::nullopt;
  std::unique_ptr<OpenedProcess> child = OpenProcess(proc, pid);
  if (child == nullptr) return std::nullopt;
  WaitingProcess process = {.id = {pid, stat->start_ns()},
                            .parent = stat->parent,
                            .forked = stat->has_not_execed(),
                            .from_forkserver = false,
                            .may_be_told = child->waits.may_be_told,
                            .threads = {},
                            .set_futures = {},
                            .victims = {}};
  std::unique_ptr<OpenedProcess> parent = process.forked ? OpenParent(proc, *child, stat->parent) : nullptr;
  if (parent != nullptr && SharesMemory(*child, *parent)) return std::nullopt;
  process.from_forkserver = parent != nullptr && IsForkserver(MainStack(parent.get()));
  Inspection inspection(proc, child.get(), parent.get(), at_fork, elf_cache);
  for (const ThreadWait& thread : child->waits.threads) process.threads.push_back(inspection.Inspect(thread));
  const bool of_future = absl::c_any_of(process.threads, [&](const WaitingThread& thread) {
    return thread.awaited.kind == AwaitedKind::kNotification && WaitsForFuture(process, thread);
  });
  if (of_future) process.set_futures = SettersOfFutures(*child, parent.get(), at_fork);
  // Who started a forkserver waits for its workers; it may be another program.
  if (process.from_forkserver) {
    const absl::StatusOr<ProcStat> server = proc.ReadStat(parent->pid);
    parent = server.ok() ? OpenProcess(proc, server->parent) : nullptr;
  }
  if (parent != nullptr) {
    if (auto victim = WaitForChildrenIn(parent.get())) process.victims.push_back(*std::move(victim));
  }
  return process;
}

}  // namespace

ThreadsLook LookAtThreads(const ProcFs& proc, const std::vector<pid_t>& pids) {
  ThreadsLook look;
  for (const pid_t pid : pids) {
    absl::StatusOr<ThreadWaits> waits = ReadThreadWaits(proc, pid);
    if (waits.ok())
      look.processes[pid] = std::move(waits->threads);
    else if (absl::IsPermissionDenied(waits.status()))
      look.not_permitted.push_back(pid);
    else if (!absl::IsNotFound(waits.status()) && proc.ReadStat(pid).ok())  // it has not just ended
      look.not_looked_at[std::string(waits.status().message())].push_back(pid);
  }
  return look;
}

std::vector<Hang> FindHangs(const ProcFs& proc, const std::vector<pid_t>& pids, const ThreadsLook& before,
                            ElfCache* elf_cache, const ForkSnapshot* at_fork, std::vector<Hang>* suspects) {
  std::vector<Hang> hangs;
  for (const pid_t pid : pids) {
    const auto then = before.processes.find(pid);
    const absl::StatusOr<ThreadWaits> now = ReadThreadWaits(proc, pid);
    if (then == before.processes.end() || !now.ok() || !CompareLooks(then->second, now->threads).any) continue;
    // Reads the threads once more: what moves meanwhile is no longer as it was before.
    const std::optional<WaitingProcess> process = Inspect(proc, pid, at_fork, elf_cache);
    if (!process) continue;
    std::vector<Hang> suspected;
    const auto append = [&](std::vector<Hang> found, std::vector<Hang>* all) {
      for (Hang& hang : found) {
        const auto thread =
            absl::c_find_if(process->threads, [&](const auto& one) { return one.wait.tid == hang.tid; });
        // It can't wait since before the thread began; that is known to a clock tick.
        const absl::Duration began = absl::Nanoseconds(static_cast<int64_t>(thread->wait.start_ns));
        hang.waited = std::max(absl::Trunc(BootTime() - began, absl::Microseconds(1)), absl::ZeroDuration());
        all->push_back(std::move(hang));
      }
    };
    append(JudgeWaits(then->second, *process, suspects == nullptr ? nullptr : &suspected), &hangs);
    if (suspects != nullptr) append(std::move(suspected), suspects);
  }
  return hangs;
}

}  // namespace cowprof
