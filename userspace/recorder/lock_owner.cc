#include "recorder/lock_owner.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "model/judge/fork_hazards.h"
#include "model/judge/fork_holder.h"
#include "python/native_threads.h"

namespace cowprof {
namespace {

Holder HolderIn(OpenedProcess* process, const ThreadWait& thread, bool still_holds) {
  Holder holder = {.tid = thread.tid, .name = thread.comm, .still_holds = still_holds};
  const ThreadState* state = process->StateOf(thread.tid_inside);
  if (state == nullptr) return holder;
  if (std::string name = process->locks->NameOf(*state); !name.empty()) holder.name = std::move(name);
  if (still_holds) holder.stack = process->locks->StackOf(*state);
  return holder;
}

// Whether `thread` waits for the lock `mutex` itself.
bool WaitsFor(OpenedProcess* process, const ThreadWait& thread, uint64_t mutex) {
  if (thread.endless_futex == mutex) return true;
  if (thread.endless_futex == 0) return false;
  const auto lock = process->locks->FindAwaited(thread.endless_futex, thread.stack_pointer);
  return lock && lock->mutex == mutex;
}

ProcessId IdOf(const OpenedProcess& process) {
  ProcessId id = {.pid = process.pid};
  for (const ThreadWait& thread : process.waits.threads) {
    if (thread.tid == process.pid) id.start_ns = thread.start_ns;
  }
  return id;
}

// Whether the waiter is the only thread of its process that could release a lock which a thread of the parent, that
// began at `holder_start_ns`, had before the fork.
bool IsLeftBehind(OpenedProcess* child, const ThreadWait& waiter, uint64_t holder_start_ns) {
  for (const ThreadWait& thread : child->waits.threads) {
    if (thread.tid == child->pid && thread.start_ns < holder_start_ns) return false;
    const ThreadState* state = child->StateOf(thread.tid_inside);
    // A native thread that only threads of this process could wake, as in an idle pool, stays where it is.
    const bool is_idle = state == nullptr && thread.endless_futex != 0;
    if (thread.tid == waiter.tid || is_idle) continue;
    if (state == nullptr || !RunsOnlyHelperCode(child->locks->StackOf(*state))) return false;
  }
  return true;
}

// Of what keeps no owner: `now` is the thread of the parent that has it, `then` the one that had it at the look near
// the fork. Whether `now` had it at the fork, as far as that is known.
bool HadItAtFork(const OpenedProcess& child, const ThreadWait& now, const HazardThread* then,
                 const ForkSnapshot* at_fork) {
  return BeganBefore(IdOf(child), now.tid, now.start_ns) &&
         (at_fork == nullptr || !GotItLater(*at_fork, then, now.tid));
}

// Whether the thread is in a `with` statement of the lock, or of a Condition on it, and has it: it neither waits for it
// nor, in Condition.wait(), has given it back.
bool HasByWith(OpenedProcess* process, const ThreadState& state, const ThreadWait& thread, const LockObject& lock) {
  return absl::c_any_of(process->locks->WithStatementsOf(state),
                        [&](const auto& with) { return with.lock.address == lock.address; }) &&
         !WaitsFor(process, thread, lock.mutex) && !process->locks->HasGivenBack(state, lock.address);
}

// The one thread that has it so.
const ThreadWait* HolderByWith(OpenedProcess* process, const LockObject& lock) {
  std::vector<const ThreadWait*> holders;
  for (const auto& [tid, state] : process->states) {
    const ThreadWait* thread = process->ThreadInside(tid);
    if (thread != nullptr && HasByWith(process, state, *thread, lock)) holders.push_back(thread);
  }
  return holders.size() == 1 ? holders[0] : nullptr;
}

// A Lock keeps no owner; its `with` statement does, on the stack of the frame that it is in.
void FindOwnerByWith(OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork, const ThreadWait& waiter,
                     const LockObject& lock, Awaited* awaited) {
  for (const auto& [tid, state] : child->states) {
    const ThreadWait* thread = child->ThreadInside(tid);
    if (thread == nullptr) continue;
    if (thread->tid != waiter.tid) {
      if (HasByWith(child, state, *thread, lock)) awaited->owner = OwnerIs::kAnotherThread;
    } else if (child->locks->CountWithStatements(state, lock.address) >= 2) {
      awaited->owner = OwnerIs::kWaiterItself;
    }
  }
  if (awaited->owner != OwnerIs::kUnknown) return;
  const HazardThread* then = at_fork == nullptr ? nullptr : HolderOfLock(*at_fork, lock.address);
  const ThreadWait* now = awaited->held_in_parent ? HolderByWith(parent, lock) : nullptr;
  if (now != nullptr && HadItAtFork(*child, *now, then, at_fork)) {
    awaited->holder = HolderIn(parent, *now, true);
    if (IsLeftBehind(child, waiter, now->start_ns)) awaited->owner = OwnerIs::kGone;
  } else if (then != nullptr) {
    awaited->holder = HolderAtFork(*at_fork, *then);
    // It may have released it between a look that came first and the fork.
    const bool after = at_fork->offset >= absl::ZeroDuration() && then->start_ns != 0;
    if (after && IsLeftBehind(child, waiter, then->start_ns)) awaited->owner = OwnerIs::kGone;
  }
}

// RLocks and buffered files keep pthread_self() of their owner.
void FindOwnerByIdent(OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork,
                      const ThreadWait& waiter, const LockObject& lock, const std::optional<LockObject>& in_parent,
                      Awaited* awaited) {
  if (lock.owner == 0) return;
  const auto owner_in = [&lock](const OpenedProcess& process) -> const ThreadWait* {
    for (const auto& [tid, state] : process.states) {
      if (state.thread_id == lock.owner) return process.ThreadInside(tid);
    }
    return nullptr;
  };
  const bool same_owner = in_parent && in_parent->owner == lock.owner;
  const ThreadWait* own = owner_in(*child);
  // glibc gives new threads the idents of those that stayed in the parent: then either may be meant.
  const HazardThread* then = at_fork == nullptr ? nullptr : ThreadByIdent(*at_fork, lock.owner, IdOf(*child));
  const ThreadWait* now = same_owner ? owner_in(*parent) : nullptr;
  const bool either = own != nullptr && own->tid != child->pid && (same_owner || then != nullptr);
  if (either) {
    if (own->tid == waiter.tid || (now == nullptr && then == nullptr)) return;
    if (!IsLeftBehind(child, waiter, then != nullptr ? then->start_ns : now->start_ns)) return;
  } else if (own != nullptr) {
    awaited->owner = own->tid == waiter.tid ? OwnerIs::kWaiterItself : OwnerIs::kAnotherThread;
    return;
  }
  if (own == nullptr && !child->has_all_states) return;  // it may be one that was not read
  const bool stayed = same_owner || then != nullptr;
  // Where not even the waiter is found by its ident, as with a C library other than glibc, the owner may live.
  if (!stayed && child->StateOf(waiter.tid_inside) == nullptr) return;
  // Otherwise it may be a thread of the child that has ended.
  awaited->owner = stayed ? OwnerIs::kGone : OwnerIs::kMissing;
  if (now != nullptr && BeganBefore(IdOf(*child), now->tid, now->start_ns) &&
      (then == nullptr || then->tid == now->tid))
    awaited->holder = HolderIn(parent, *now, true);
  else if (then != nullptr)
    awaited->holder = HolderAtFork(*at_fork, *then);
}

// The thread that imports `module` in `process`.
const ThreadWait* ImporterOf(OpenedProcess* process, absl::string_view module) {
  for (const auto& [tid, state] : process->states) {
    const ThreadWait* thread = process->ThreadInside(tid);
    if (thread != nullptr && absl::c_linear_search(process->locks->ImportsOf(state), module)) return thread;
  }
  return nullptr;
}

// Whether a thread other than the waiter may be importing `module`. One that is just looking for it does not wait, and
// then nothing is proven.
bool MayBeImporting(OpenedProcess* process, absl::string_view module, pid_t waiter) {
  return absl::c_any_of(process->states, [&](const auto& entry) {
    const ThreadWait* thread = process->ThreadInside(entry.first);
    return thread != nullptr && thread->tid != waiter && process->locks->IsWithinImport(entry.second, module);
  });
}

}  // namespace

void FindOwner(OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork, const ThreadWait& waiter,
               const LockObject& lock, Awaited* awaited) {
  std::optional<LockObject> in_parent;
  if (parent != nullptr && parent->locks) in_parent = parent->locks->ReadLock(lock.address, 0);
  // A buffered file's lock is found only by where it is.
  if (parent != nullptr && parent->locks && lock.kind == AwaitedKind::kFileBuffer)
    in_parent = parent->locks->ReadLock(lock.address, lock.mutex);
  if (in_parent && (in_parent->kind != lock.kind || in_parent->mutex != lock.mutex)) in_parent.reset();
  awaited->in_parent = in_parent.has_value();
  awaited->held_in_parent = in_parent && in_parent->locked.value_or(false);
  if (lock.kind == AwaitedKind::kLock)
    FindOwnerByWith(child, parent, at_fork, waiter, lock, awaited);
  else
    FindOwnerByIdent(child, parent, at_fork, waiter, lock, in_parent, awaited);
}

// Whether the parent's thread `thread` forked the child, whose first thread goes on on a copy of its stack. nullopt:
// not known.
std::optional<bool> IsForker(const OpenedProcess& child, const OpenedProcess& parent, const ThreadWait& thread) {
  const ThreadWait* const main = child.MainThread();
  if (main == nullptr) return std::nullopt;
  const ThreadState* const here = child.StateOf(main->tid_inside);
  const ThreadState* const there = parent.StateOf(thread.tid_inside);
  if (here != nullptr && there != nullptr) return here->thread_id == there->thread_id;
  if (main->stack_pointer == 0 || thread.stack_pointer == 0) return std::nullopt;
  constexpr uint64_t kSameStack = 256 << 10;
  return std::max(main->stack_pointer, thread.stack_pointer) - std::min(main->stack_pointer, thread.stack_pointer) <
         kSameStack;
}

void FindOwnerOfMutex(const ProcFs& proc, OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork,
                      const ThreadWait& waiter, pid_t owner, std::optional<pid_t> in_parent, Awaited* awaited) {
  const ThreadWait* own = child->ThreadInside(owner);
  if (own != nullptr) {
    awaited->owner = own->tid == waiter.tid ? OwnerIs::kWaiterItself : OwnerIs::kAnotherThread;
    return;
  }
  if (parent == nullptr || !SamePidNamespace(proc, child->pid, parent->pid)) return;
  const HazardThread* then = at_fork == nullptr ? nullptr : ThreadByTid(*at_fork, owner, IdOf(*child));
  const ThreadWait* now = parent->ThreadInside(owner);
  const bool is_that_one = now != nullptr && BeganBefore(IdOf(*child), now->tid, now->start_ns);
  // What the thread that forked had, the child's first thread has, under the number of the other, and may release.
  if (is_that_one && then == nullptr) {
    const std::optional<bool> forker = IsForker(*child, *parent, *now);
    const bool waits_itself = waiter.tid == child->pid;
    if (forker.value_or(false) && waits_itself) awaited->owner = OwnerIs::kWaiterItself;
    if (forker.value_or(!waits_itself)) return;
  }
  const bool same_owner = in_parent == owner, still = is_that_one && same_owner;
  awaited->owner = is_that_one || same_owner || then != nullptr ? OwnerIs::kGone : OwnerIs::kMissing;
  if (!still && then != nullptr)
    awaited->holder = HolderAtFork(*at_fork, *then);
  else if (is_that_one)
    awaited->holder = HolderIn(parent, *now, still);
}

void FindImporter(OpenedProcess* child, OpenedProcess* parent, const ForkSnapshot* at_fork, const ThreadWait& waiter,
                  Awaited* awaited) {
  if (MayBeImporting(child, awaited->detail, waiter.tid)) {
    awaited->owner = OwnerIs::kAnotherThread;
    return;
  }
  const HazardThread* then = at_fork == nullptr ? nullptr : ImporterAtFork(*at_fork, awaited->detail);
  const ThreadWait* now = parent != nullptr && parent->locks ? ImporterOf(parent, awaited->detail) : nullptr;
  if (now != nullptr && HadItAtFork(*child, *now, then, at_fork))
    awaited->holder = HolderIn(parent, *now, true);
  else if (then != nullptr)
    awaited->holder = HolderAtFork(*at_fork, *then);
  awaited->may_be_here = !awaited->holder && !child->has_all_states;
}

size_t LeftBehind(const ProcFs& proc, const OpenedProcess& child, const OpenedProcess& parent,
                  const ForkSnapshot* at_fork, absl::string_view module) {
  const ProcessId id = IdOf(child);
  const NativeThreads native(parent.memory, proc.ReadMaps(parent.pid).value_or(std::vector<Mapping>()));
  const size_t now = absl::c_count_if(parent.waits.threads, [&](const ThreadWait& thread) {
    if (parent.StateOf(thread.tid_inside) != nullptr || !BeganBefore(id, thread.tid, thread.start_ns)) return false;
    const uint64_t ident = native.FindByStack(thread.stack_pointer, thread.tid_inside);
    return ident != 0 && native.ModuleOf(ident) == module;
  });
  if (at_fork == nullptr || !IsClose(*at_fork)) return now;
  const size_t then = absl::c_count_if(at_fork->seen->threads, [&](const HazardThread& thread) {
    return !thread.python && thread.module == module && BeganBefore(id, thread.tid, thread.start_ns);
  });
  return std::max(now, then);
}

std::vector<std::string> SettersOfFutures(const OpenedProcess& child, OpenedProcess* parent,
                                          const ForkSnapshot* at_fork) {
  const ThreadWait* const main = child.MainThread();
  const ThreadState* const forker = main == nullptr ? nullptr : child.StateOf(main->tid_inside);
  if (forker == nullptr || parent == nullptr) return {};
  const ProcessId id = IdOf(child);
  const auto stayed = [&](uint64_t ident, pid_t tid, uint64_t start_ns, const std::vector<Frame>& stack) {
    return ident != forker->thread_id && BeganBefore(id, tid, start_ns) && SetsFutures(stack);
  };
  std::set<std::string> names;
  const auto add = [&](const std::string& name, pid_t tid) {
    names.insert(name.empty() ? absl::StrCat("thread ", tid) : name);
  };
  for (const auto& [tid, state] : parent->states) {
    const ThreadWait* thread = parent->ThreadInside(tid);
    if (thread != nullptr && stayed(state.thread_id, thread->tid, thread->start_ns, parent->locks->StackOf(state)))
      add(HolderIn(parent, *thread, false).name, thread->tid);
  }
  if (names.empty() && at_fork != nullptr && IsClose(*at_fork)) {
    for (const HazardThread& thread : at_fork->seen->threads) {
      if (stayed(thread.ident, thread.tid, thread.start_ns, thread.stack)) add(thread.name, thread.tid);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace cowprof
