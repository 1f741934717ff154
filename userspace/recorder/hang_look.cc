// Joins what /proc, CPython's objects and native symbols say of one waiting process and of its parent into facts.
#include "recorder/hang_look.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "posix/clock.h"
#include "python/interpreter.h"
#include "python/locks.h"
#include "python/process_memory.h"
#include "source/wait_state.h"

namespace cowprof {
namespace {

constexpr uint64_t kStackBytes = 16384;  // of a native stack, searched for return addresses
constexpr size_t kMostCallers = 40, kShownCallers = 3;
constexpr size_t kMutexCallers = 6;  // pthread_mutex_lock() is among the innermost

// ---- Native code ----

// Functions that may be on a native stack, innermost first: words that point behind a call instruction. Some may be
// left over from calls that have returned.
std::vector<NativeSymbol> CallersOf(NativeSymbols* symbols, const MemoryReader& memory,
                                    const std::vector<Mapping>& mappings, const ThreadWait& thread) {
  std::vector<NativeSymbol> callers;
  if (thread.instruction == 0) return callers;
  if (auto here = symbols->Find(thread.instruction)) callers.push_back(*std::move(here));
  std::vector<char> stack(kStackBytes);
  ReadOrZero(memory, thread.stack_pointer & ~uint64_t{7}, absl::MakeSpan(stack));
  for (size_t at = 0; at + 8 <= stack.size() && callers.size() < kMostCallers; at += 8) {
    uint64_t word;
    memcpy(&word, stack.data() + at, sizeof(word));
    const auto mapping =
        std::partition_point(mappings.begin(), mappings.end(), [word](const Mapping& m) { return m.end <= word; });
    if (mapping == mappings.end() || mapping->begin + 8 > word || !mapping->executable) continue;
    unsigned char before[7];
    if (!memory.Read(word - 7, absl::MakeSpan(reinterpret_cast<char*>(before), sizeof(before)))) continue;
    // call rel32, or call through a register or memory (FF /2) of 2, 3, 6 or 7 bytes.
    const auto indirect = [&before](size_t bytes) {
      return before[7 - bytes] == 0xff && (before[8 - bytes] >> 3 & 7) == 2;
    };
    if (before[2] != 0xe8 && !indirect(2) && !indirect(3) && !indirect(6) && !indirect(7)) continue;
    if (auto symbol = symbols->Find(word - 1)) callers.push_back(*std::move(symbol));
  }
  return callers;
}

bool IsOpenMp(absl::string_view module) {
  return absl::StartsWith(module, "libgomp") || absl::StartsWith(module, "libiomp") ||
         absl::StartsWith(module, "libomp");
}
bool IsCLibrary(absl::string_view module) {
  return absl::StartsWith(module, "libc.so") || absl::StartsWith(module, "libc-") ||
         absl::StartsWith(module, "libpthread");
}

// "libgomp.so.1; libtorch_cpu.so: at::...".
std::string Shown(const std::vector<NativeSymbol>& callers) {
  std::vector<std::string> shown;
  for (const NativeSymbol& caller : callers) {
    if (shown.size() == kShownCallers) break;
    std::string text = caller.symbol.empty() ? caller.module : absl::StrCat(caller.module, ": ", caller.symbol);
    if (shown.empty() || shown.back() != text) shown.push_back(std::move(text));
  }
  return absl::StrJoin(shown, "; ");
}

// The function that called the OpenMP runtime: of ATen, if there is one.
std::string CallerOfOpenMp(const std::vector<NativeSymbol>& callers) {
  for (const NativeSymbol& caller : callers) {
    if (absl::StartsWith(caller.symbol, "at::")) return caller.symbol.substr(0, caller.symbol.find('('));
  }
  for (const NativeSymbol& caller : callers) {
    if (!IsOpenMp(caller.module) && !IsCLibrary(caller.module)) return caller.symbol;
  }
  return "";
}

// ---- One process ----

struct Opened {
  Opened(const ProcFs& proc, pid_t pid, ThreadWaits found)
      : pid(pid), waits(std::move(found)), memory(pid, proc, &files), interpreter(FindInterpreter(proc, pid, memory)) {
    if (!interpreter.ok() || !interpreter->ready) return;
    locks.emplace(*interpreter, memory);
    states = locks->ThreadsByTid();
  }
  const ThreadState* StateOf(pid_t tid_inside) const {
    const auto found = states.find(tid_inside);
    return found == states.end() ? nullptr : &found->second;
  }
  const ThreadWait* ThreadInside(pid_t tid_inside) const {
    const auto found = absl::c_find_if(waits.threads, [&](const ThreadWait& t) { return t.tid_inside == tid_inside; });
    return found == waits.threads.end() ? nullptr : &*found;
  }

  const pid_t pid;
  ThreadWaits waits;
  ProgramFiles files;
  ProcessMemory memory;
  absl::StatusOr<Interpreter> interpreter;
  std::optional<LockReader> locks;
  absl::flat_hash_map<pid_t, ThreadState> states;  // by tid_inside
};

std::unique_ptr<Opened> Open(const ProcFs& proc, pid_t pid) {
  absl::StatusOr<ThreadWaits> waits = ReadThreadWaits(proc, pid);
  return waits.ok() ? std::make_unique<Opened>(proc, pid, *std::move(waits)) : nullptr;
}

bool SamePidNamespace(const ProcFs& proc, pid_t a, pid_t b) {
  std::error_code failed;
  const auto of = [&](pid_t pid) { return std::filesystem::read_symlink(proc.PathOf(pid, "ns/pid"), failed); };
  const auto first = of(a);
  return !failed && first == of(b) && !failed;
}

// The process that forked it: the parent that /proc shows, if it runs the same program. An orphan's new parent does
// not.
std::unique_ptr<Opened> OpenParent(const ProcFs& proc, const Opened& child, pid_t parent) {
  if (parent <= 1 || proc.ReadExecutable(parent) != proc.ReadExecutable(child.pid)) return nullptr;
  std::unique_ptr<Opened> opened = Open(proc, parent);
  if (opened == nullptr || opened->locks.has_value() != child.locks.has_value()) return nullptr;
  if (child.locks && opened->interpreter->main_interpreter != child.interpreter->main_interpreter) return nullptr;
  return opened;
}

// Whether the parent's memory is the child's own, as after clone(2) with CLONE_VM or vfork(2): then the parent could
// wake it. A fork's child has gone elsewhere on its stack since.
bool SharesMemory(const Opened& child, const Opened& parent) {
  const uint64_t stack = child.waits.threads[0].stack_pointer;
  char own[256], others[256];
  return stack != 0 && child.memory.Read(stack, absl::MakeSpan(own)) &&
         parent.memory.Read(stack, absl::MakeSpan(others)) && memcmp(own, others, sizeof(own)) == 0;
}

Holder HolderIn(Opened* process, const ThreadWait& thread, bool still_holds) {
  Holder holder = {.tid = thread.tid, .name = thread.comm, .still_holds = still_holds};
  const ThreadState* state = process->StateOf(thread.tid_inside);
  if (state == nullptr) return holder;
  if (std::string name = process->locks->NameOf(*state); !name.empty()) holder.name = std::move(name);
  if (still_holds) holder.stack = process->locks->StackOf(*state);
  return holder;
}

// ---- Who has it ----

// Whether `thread` waits for the lock `mutex` itself.
bool WaitsFor(Opened* process, const ThreadWait& thread, uint64_t mutex) {
  if (thread.endless_futex == mutex) return true;
  if (thread.endless_futex == 0) return false;
  const auto lock = process->locks->FindAwaited(thread.endless_futex, thread.stack_pointer);
  return lock && lock->mutex == mutex;
}

// A thread that multiprocessing started in a worker for itself, to feed a queue or to serve descriptors, and that runs
// no code of the program now: it neither takes nor releases the program's locks.
bool IsOfMultiprocessing(Opened* process, const ThreadState& state) {
  constexpr absl::string_view kFiles[] = {"/threading.py", "/multiprocessing/queues.py",
                                          "/multiprocessing/resource_sharer.py", "/multiprocessing/connection.py",
                                          "/socket.py"};
  const std::vector<Frame> stack = process->locks->StackOf(state);
  bool loops = false;
  for (const Frame& frame : stack) {
    const auto ends = [&](absl::string_view end) { return absl::EndsWith(frame.file, end); };
    if (!absl::StrContains(frame.file, "/lib/python") || absl::c_none_of(kFiles, ends)) return false;
    loops |= ends("/queues.py") || ends("/resource_sharer.py");
  }
  return loops;
}

// Whether the waiter is the only thread of its process that could release a lock which `holder` of the parent had
// before the fork.
bool IsLeftBehind(Opened* child, const ThreadWait& waiter, const ThreadWait& holder) {
  for (const ThreadWait& thread : child->waits.threads) {
    if (thread.tid == child->pid && thread.start_ns < holder.start_ns) return false;
    const ThreadState* state = child->StateOf(thread.tid_inside);
    if (thread.tid != waiter.tid && (state == nullptr || !IsOfMultiprocessing(child, *state))) return false;
  }
  return true;
}

// A Lock keeps no owner; its `with` statement does, on the stack of the frame that it is in.
void FindOwnerByWith(Opened* child, Opened* parent, const ThreadWait& waiter, const LockObject& lock,
                     Awaited* awaited) {
  for (const auto& [tid, state] : child->states) {
    const ThreadWait* thread = child->ThreadInside(tid);
    if (thread == nullptr) continue;
    const int count = child->locks->CountWithStatements(state, lock.address);
    if (thread->tid == waiter.tid && count >= 2) awaited->owner = OwnerIs::kWaiterItself;
    if (thread->tid != waiter.tid && count >= 1 && !WaitsFor(child, *thread, lock.mutex))
      awaited->owner = OwnerIs::kAnotherThread;
  }
  if (awaited->owner != OwnerIs::kUnknown || !awaited->held_in_parent) return;
  std::vector<const ThreadWait*> holders;
  for (const auto& [tid, state] : parent->states) {
    const ThreadWait* thread = parent->ThreadInside(tid);
    if (thread == nullptr || parent->locks->CountWithStatements(state, lock.address) == 0) continue;
    if (!WaitsFor(parent, *thread, lock.mutex)) holders.push_back(thread);
  }
  if (holders.size() != 1) return;
  awaited->holder = HolderIn(parent, *holders[0], true);
  if (IsLeftBehind(child, waiter, *holders[0])) awaited->owner = OwnerIs::kGone;
}

// RLocks and buffered files keep pthread_self() of their owner.
void FindOwnerByIdent(Opened* child, Opened* parent, const ThreadWait& waiter, const LockObject& lock,
                      const std::optional<LockObject>& in_parent, Awaited* awaited) {
  if (lock.owner == 0) return;
  const auto owner_in = [&lock](const Opened& process) -> const ThreadWait* {
    for (const auto& [tid, state] : process.states) {
      if (state.thread_id == lock.owner) return process.ThreadInside(tid);
    }
    return nullptr;
  };
  const bool same_owner = in_parent && in_parent->owner == lock.owner;
  const ThreadWait* own = owner_in(*child);
  // glibc gives new threads the idents of those that stayed in the parent: then either may be meant.
  const bool either = own != nullptr && own->tid != child->pid && same_owner;
  if (either) {
    const ThreadWait* other = owner_in(*parent);
    if (own->tid == waiter.tid || other == nullptr || !IsLeftBehind(child, waiter, *other)) return;
  } else if (own != nullptr) {
    awaited->owner = own->tid == waiter.tid ? OwnerIs::kWaiterItself : OwnerIs::kAnotherThread;
    return;
  }
  awaited->owner = OwnerIs::kGone;
  const ThreadWait* thread = same_owner ? owner_in(*parent) : nullptr;
  if (thread != nullptr) awaited->holder = HolderIn(parent, *thread, true);
}

void FindOwner(Opened* child, Opened* parent, const ThreadWait& waiter, const LockObject& lock, Awaited* awaited) {
  std::optional<LockObject> in_parent;
  if (parent != nullptr && parent->locks) in_parent = parent->locks->ReadLock(lock.address, 0);
  // A buffered file's lock is found only by where it is.
  if (parent != nullptr && parent->locks && lock.kind == AwaitedKind::kFileBuffer)
    in_parent = parent->locks->ReadLock(lock.address, lock.mutex);
  if (in_parent && (in_parent->kind != lock.kind || in_parent->mutex != lock.mutex)) in_parent.reset();
  awaited->in_parent = in_parent.has_value();
  awaited->held_in_parent = in_parent && in_parent->locked.value_or(false);
  if (lock.kind == AwaitedKind::kLock)
    FindOwnerByWith(child, parent, waiter, lock, awaited);
  else
    FindOwnerByIdent(child, parent, waiter, lock, in_parent, awaited);
}

void FindOwnerOfMutex(const ProcFs& proc, Opened* child, Opened* parent, const ThreadWait& waiter, pid_t owner,
                      Awaited* awaited) {
  const ThreadWait* own = child->ThreadInside(owner);
  if (own != nullptr) {
    awaited->owner = own->tid == waiter.tid ? OwnerIs::kWaiterItself : OwnerIs::kAnotherThread;
    return;
  }
  if (parent == nullptr || !SamePidNamespace(proc, child->pid, parent->pid)) return;
  awaited->owner = OwnerIs::kGone;
  const ThreadWait* thread = parent->ThreadInside(owner);
  if (thread == nullptr) return;
  const bool still = OwnerOfMutex(parent->memory, awaited->object) == owner;
  awaited->holder = HolderIn(parent, *thread, still);
}

// The thread that imports `module` in `process`, but for `waiter`.
const ThreadWait* ImporterOf(Opened* process, absl::string_view module, pid_t waiter) {
  for (const auto& [tid, state] : process->states) {
    const ThreadWait* thread = process->ThreadInside(tid);
    if (thread == nullptr || thread->tid == waiter) continue;
    if (absl::c_linear_search(process->locks->ImportsOf(state), module)) return thread;
  }
  return nullptr;
}

void FindImporter(Opened* child, Opened* parent, const ThreadWait& waiter, Awaited* awaited) {
  if (ImporterOf(child, awaited->detail, waiter.tid) != nullptr) {
    awaited->owner = OwnerIs::kAnotherThread;
  } else if (parent != nullptr && parent->locks) {
    const ThreadWait* thread = ImporterOf(parent, awaited->detail, 0);
    if (thread != nullptr) awaited->holder = HolderIn(parent, *thread, true);
  }
}

// ---- What one thread waits for ----

class Inspection {
 public:
  Inspection(const ProcFs& proc, Opened* child, Opened* parent, ElfCache* elf_cache)
      : proc_(proc),
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
    found.native = Shown(callers);
    Awaited& awaited = found.awaited;
    if (state != nullptr) awaited = child_->locks->WhatFramesSay(*state);
    if (awaited.kind == AwaitedKind::kImportLock) {
      FindImporter(child_, parent_, thread, &awaited);
    } else if (awaited.kind == AwaitedKind::kNotification) {
      awaited.in_parent = InParent(awaited.object);
    } else if (awaited.kind == AwaitedKind::kUnknown) {
      InspectLock(thread, callers, &awaited);
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
      FindOwner(child_, parent_, thread, *lock, awaited);
      return;
    }
    if (!callers.empty() && IsOpenMp(callers[0].module)) {
      awaited->kind = AwaitedKind::kOpenMp;
      awaited->detail = CallerOfOpenMp(callers);
      return;
    }
    const auto innermost = absl::MakeSpan(callers).subspan(0, kMutexCallers);
    const bool in_mutex = absl::c_any_of(
        innermost, [](const NativeSymbol& caller) { return absl::StrContains(caller.symbol, "pthread_mutex_lock"); });
    const std::optional<pid_t> owner =
        in_mutex ? OwnerOfMutex(child_->memory, thread.endless_futex) : std::optional<pid_t>();
    if (!owner) return;
    awaited->kind = AwaitedKind::kCMutex;
    awaited->object = thread.endless_futex;
    FindOwnerOfMutex(proc_, child_, parent_, thread, *owner, awaited);
  }

  // Whether an object of the same type is at the same address in the parent.
  bool InParent(uint64_t object) const {
    if (parent_ == nullptr || !parent_->locks || object == 0) return false;
    const uint64_t at = object + child_->interpreter->layout.object.type;
    const auto own = ReadValue<uint64_t>(child_->memory, at), other = ReadValue<uint64_t>(parent_->memory, at);
    return own && other && *own == *other && TypeReader(*parent_->interpreter, parent_->memory).TypeOfObject(object);
  }

  const ProcFs& proc_;
  Opened* const child_;
  Opened* const parent_;
  const std::vector<Mapping> mappings_;
  NativeSymbols symbols_;
};

// ---- Ancestors that wait for it ----

constexpr struct {
  absl::string_view file_end, function;  // as before 3.11, without the class
  const char* what;
} kWaitsForChildren[] = {
    {"multiprocessing/pool.py", "join", "Pool.join()"},
    {"multiprocessing/pool.py", "get", "a result of a Pool"},
    {"multiprocessing/pool.py", "next", "a result of a Pool"},
    {"multiprocessing/process.py", "join", "Process.join()"},
    {"torch/utils/data/dataloader.py", "_next_data", "the next batch of a DataLoader"},
    {"concurrent/futures/_base.py", "result", "a result of an executor"},
    {"concurrent/futures/process.py", "shutdown", "the end of an executor"},
};

const char* WaitOf(const Frame& frame) {
  const absl::string_view function = absl::string_view(frame.function).substr(frame.function.rfind('.') + 1);
  for (const auto& known : kWaitsForChildren) {
    if (absl::EndsWith(frame.file, known.file_end) && function == known.function) return known.what;
  }
  return nullptr;
}

std::optional<WaitForChildren> WaitForChildrenIn(Opened* process) {
  if (!process->locks) return std::nullopt;
  const ThreadState* state = process->StateOf(process->waits.threads[0].tid_inside);
  if (state == nullptr) return std::nullopt;
  std::vector<Frame> stack = process->locks->StackOf(*state);
  for (const Frame& frame : stack) {
    if (const char* what = WaitOf(frame))
      return WaitForChildren{process->pid, process->waits.threads[0].tid, what, std::move(stack)};
  }
  return std::nullopt;
}

std::optional<WaitingProcess> Inspect(const ProcFs& proc, pid_t pid, ElfCache* elf_cache) {
  const absl::StatusOr<ProcStat> stat = proc.ReadStat(pid);
  if (!stat.ok() || stat->state == 'Z') return std::nullopt;
  std::unique_ptr<Opened> child = Open(proc, pid);
  if (child == nullptr) return std::nullopt;
  WaitingProcess process = {.id = {pid, stat->start_ns()},
                            .parent = stat->parent,
                            .forked = stat->has_not_execed(),
                            .may_be_told = child->waits.may_be_told,
                            .threads = {},
                            .victims = {}};
  std::unique_ptr<Opened> parent = process.forked ? OpenParent(proc, *child, stat->parent) : nullptr;
  if (parent != nullptr && SharesMemory(*child, *parent)) return std::nullopt;
  Inspection inspection(proc, child.get(), parent.get(), elf_cache);
  for (const ThreadWait& thread : child->waits.threads) process.threads.push_back(inspection.Inspect(thread));
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
    if (absl::IsPermissionDenied(waits.status())) look.not_permitted.push_back(pid);
    if (waits.ok()) look.processes[pid] = std::move(waits->threads);
  }
  return look;
}

std::vector<Hang> FindHangs(const ProcFs& proc, const std::vector<pid_t>& pids, const ThreadsLook& before,
                            ElfCache* elf_cache) {
  std::vector<Hang> hangs;
  for (const pid_t pid : pids) {
    const auto then = before.processes.find(pid);
    const absl::StatusOr<ThreadWaits> now = ReadThreadWaits(proc, pid);
    if (then == before.processes.end() || !now.ok() || !CompareLooks(then->second, now->threads).any) continue;
    // Reads the threads once more: what moves meanwhile is no longer as it was before.
    const std::optional<WaitingProcess> process = Inspect(proc, pid, elf_cache);
    if (!process) continue;
    for (Hang& hang : JudgeWaits(then->second, *process)) {
      const auto thread = absl::c_find_if(process->threads, [&](const auto& one) { return one.wait.tid == hang.tid; });
      // It can't wait since before the thread began; that is known to a clock tick.
      const absl::Duration began = absl::Nanoseconds(static_cast<int64_t>(thread->wait.start_ns));
      hang.waited = std::max(absl::Trunc(BootTime() - began, absl::Microseconds(1)), absl::ZeroDuration());
      hangs.push_back(std::move(hang));
    }
  }
  return hangs;
}

}  // namespace cowprof
