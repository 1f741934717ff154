#include "model/judge/fork_holder.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"

namespace cowprof {
namespace {

// A lock or a stack seen so long before or after a fork says little about it.
constexpr absl::Duration kClose = absl::Seconds(1);
constexpr pid_t kMostInTick = 1000;  // processes and threads; a larger distance means that the numbers began anew

template <typename Is>
const HazardThread* FindThread(const ForkSnapshot& snapshot, Is is) {
  const auto found = absl::c_find_if(snapshot.seen->threads, is);
  return found == snapshot.seen->threads.end() ? nullptr : &*found;
}

template <typename Is>
const HazardThread* ThreadOfLock(const ForkSnapshot& snapshot, Is is) {
  const auto lock = absl::c_find_if(snapshot.seen->locks, is);
  if (lock == snapshot.seen->locks.end() || !IsClose(snapshot)) return nullptr;
  return FindThread(snapshot, [&](const HazardThread& thread) { return thread.tid == lock->tid; });
}

}  // namespace

bool IsClose(const ForkSnapshot& snapshot) { return absl::AbsDuration(snapshot.offset) < kClose; }

bool BeganBefore(const ProcessId& child, pid_t tid, uint64_t start_ns) {
  if (start_ns != child.start_ns) return start_ns != 0 && start_ns < child.start_ns;
  return tid < child.pid && child.pid - tid < kMostInTick;
}

const HazardThread* ThreadByIdent(const ForkSnapshot& snapshot, uint64_t ident, const ProcessId& child) {
  if (ident == 0) return nullptr;
  return FindThread(snapshot, [&](const HazardThread& thread) {
    return thread.ident == ident && BeganBefore(child, thread.tid, thread.start_ns);
  });
}

const HazardThread* ThreadByTid(const ForkSnapshot& snapshot, pid_t tid_inside, const ProcessId& child) {
  return FindThread(snapshot, [&](const HazardThread& thread) {
    return thread.tid_inside == tid_inside && BeganBefore(child, thread.tid, thread.start_ns);
  });
}

const HazardThread* HolderOfLock(const ForkSnapshot& snapshot, uint64_t object) {
  return ThreadOfLock(snapshot, [object](const HeldLock& lock) {
    return lock.kind == HeldLockKind::kLock && lock.object == object && object != 0;
  });
}

const HazardThread* ImporterAtFork(const ForkSnapshot& snapshot, absl::string_view module) {
  return ThreadOfLock(
      snapshot, [module](const HeldLock& lock) { return lock.kind == HeldLockKind::kImport && lock.module == module; });
}

bool GotItLater(const ForkSnapshot& snapshot, const HazardThread* holder, pid_t tid) {
  if (snapshot.offset < absl::ZeroDuration()) return false;
  if (holder != nullptr) return holder->tid != tid;
  return IsClose(snapshot) && snapshot.seen->python_read && snapshot.seen->locks.size() < kMostHeldLocks &&
         FindThread(snapshot, [tid](const HazardThread& thread) { return thread.tid == tid && thread.python; });
}

Holder HolderAtFork(const ForkSnapshot& snapshot, const HazardThread& thread) {
  Holder holder = {.tid = thread.tid, .name = thread.name, .looked_after = snapshot.offset};
  if (IsClose(snapshot)) holder.stack = thread.stack;
  return holder;
}

std::string WhenLooked(absl::Duration offset) {
  const absl::Duration distance = absl::AbsDuration(offset);
  const std::string amount = distance >= kClose
                                 ? HumanDuration(distance)
                                 : absl::StrCat(std::max<int64_t>(1, absl::ToInt64Milliseconds(distance)), " ms");
  return absl::StrCat(amount, offset < absl::ZeroDuration() ? " before the fork" : " after the fork");
}

}  // namespace cowprof
