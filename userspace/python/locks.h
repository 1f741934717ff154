// Which lock of CPython a thread waits for, and who has it, read from outside: the object is found on the waiter's
// native stack, the owner where the object has one. Owns the layout of lock objects. Trusts nothing that it reads.
#ifndef COWPROF_PYTHON_LOCKS_H_
#define COWPROF_PYTHON_LOCKS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "model/facts/waits.h"
#include "python/frames.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"
#include "python/objects.h"

namespace cowprof {

// A lock, an RLock or a buffered file.
struct LockObject {
  AwaitedKind kind = AwaitedKind::kUnknown;
  uint64_t address = 0;
  uint64_t mutex = 0;          // of its semaphore (up to 3.13) or PyMutex
  std::optional<bool> locked;  // nullopt: unreadable
  uint64_t owner = 0;          // pthread_self() of the thread that has it; 0: none, or it keeps no owner
  bool operator==(const LockObject&) const = default;
};

// The kernel's number of the thread whose pthread_self() is `thread_id`, as its pid namespace counts; 0: unreadable.
// glibc x86-64, 2.26 to 2.43: struct pthread.tid (nptl/descr.h); a caller checks that such a thread exists.
pid_t TidOf(const MemoryReader& memory, uint64_t thread_id);

// The thread that has the pthread_mutex_t at `mutex`, by its number in its pid namespace. nullopt: nobody, or it is not
// a mutex. glibc x86-64, struct __pthread_mutex_s.
std::optional<pid_t> OwnerOfMutex(const MemoryReader& memory, uint64_t mutex);

// The thread that has the pthread_rwlock_t at `rwlock` for writing, likewise. Readers leave no trace. glibc
// x86-64, 2.26 to 2.43, struct __pthread_rwlock_arch_t, private to its process.
std::optional<pid_t> OwnerOfRwlock(const MemoryReader& memory, uint64_t rwlock);
// From its beginning to the words that threads wait on: for the writer's turn to end, and for the writer before them.
inline constexpr uint64_t kFutexesOfRwlock[] = {8, 12};

// The locks of one process.
class LockReader {
 public:
  // Both must outlive it. Nothing is found while `interpreter` is not ready.
  LockReader(const Interpreter& interpreter, const MemoryReader& memory);

  // The object whose lock a thread waits for in futex(2) on `futex`, with the stack pointer `stack_pointer`.
  std::optional<LockObject> FindAwaited(uint64_t futex, uint64_t stack_pointer);
  // The object at `address`, if it is a lock of one of these kinds. `mutex`: 0, or where its lock must be.
  std::optional<LockObject> ReadLock(uint64_t address, uint64_t mutex);

  // By the thread's number in its pid namespace: its state. The leader's is there even if it was read from a tstate
  // that a fork left behind. `complete`: as of ListThreads().
  absl::flat_hash_map<pid_t, ThreadState> ThreadsByTid(bool* complete = nullptr) const;

  // Its Python stack, innermost first.
  std::vector<Frame> StackOf(const ThreadState& thread);
  // threading.Thread.name; "": unknown, or a thread that Python did not start.
  std::string NameOf(const ThreadState& thread) const;
  // What its innermost frames wait for, where they say so: the module of an import lock, a notification. kUnknown:
  // neither. `object`: the Condition.
  Awaited WhatFramesSay(const ThreadState& thread);
  // The modules that it is importing, innermost first, without the one whose import lock it waits for.
  std::vector<std::string> ImportsOf(const ThreadState& thread);
  // Whether it is within the import of `module`, be it only in importlib's own frames, as while an extension is loaded,
  // and does not wait for that module's lock.
  bool IsWithinImport(const ThreadState& thread, absl::string_view module);
  // The locks of `with` statements that the thread has entered, or is entering, innermost first; those of a Condition,
  // too. Whether it has them is another question. nullopt `lock.locked`: unreadable.
  struct WithStatement {
    LockObject lock;
    Frame where;
  };
  std::vector<WithStatement> WithStatementsOf(const ThreadState& thread);
  // Whether a forked child has a new lock in place of it, by what CPython itself does there.
  bool IsNewInChild(const WithStatement& with) const;
  // Whether the thread is in Condition.wait() of a Condition on the lock at `address`, and so has given it back.
  bool HasGivenBack(const ThreadState& thread, uint64_t address);
  // How many `with` statements of the thread have entered, or are entering, the lock at `address`.
  int CountWithStatements(const ThreadState& thread, uint64_t address);

 private:
  // What is on the frame's stack of values, bottom first, without tag bits. Up to 3.13 the top is unknown: what lies
  // above it may be left over.
  std::vector<uint64_t> StackSlots(const RawFrame& frame) const;

  const Interpreter& interpreter_;
  const MemoryReader& memory_;
  TypeReader types_;
  CodeReader codes_;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_LOCKS_H_
