// What the threads of a process wait for, at one moment: facts for judge/hangs.h. Everything here was read from
// outside, from processes that kept running.
#ifndef COWPROF_MODEL_FACTS_WAITS_H_
#define COWPROF_MODEL_FACTS_WAITS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/copy_site.h"
#include "model/facts/process_id.h"

namespace cowprof {

// One thread, as /proc shows it.
struct ThreadWait {
  pid_t tid = 0;
  pid_t tid_inside = 0;  // as the process's own pid namespace numbers it
  std::string comm;
  uint64_t start_ns = 0;  // CLOCK_BOOTTIME, to a clock tick
  uint64_t cpu_ns = 0;
  uint64_t switches = 0;  // context switches, voluntary or not
  bool stopped = false;   // by a signal or a debugger
  // It is in futex(2), without timeout, on a word that only threads of its own address space can wake. 0: it isn't, or
  // that can't be read.
  uint64_t endless_futex = 0;
  uint64_t stack_pointer = 0, instruction = 0;  // 0: unknown, or it is running
  bool operator==(const ThreadWait&) const = default;
};

enum class AwaitedKind {
  kUnknown,
  kLock,          // threading.Lock
  kRLock,         // threading.RLock
  kImportLock,    // of one module
  kFileBuffer,    // of an io.Buffered*
  kNotification,  // of a Condition, an Event or a queue: the thread holds nothing and waits to be told
  kJoin,          // the end of a thread of its own process
  kCMutex,        // pthread_mutex_t without a Python object that owns it, or pthread_rwlock_t
  kOpenMp,        // a barrier of an OpenMP runtime
  kLibrary,       // something else in a native library, threads of which stayed in the parent at the fork
};

// Whether the thread that holds what is waited for exists in the process of the waiter. Where it does not: kGone, it is
// known to have stayed in the parent at the fork; kMissing, it may as well have ended.
enum class OwnerIs { kUnknown, kGone, kMissing, kAnotherThread, kWaiterItself };

// A thread of the parent that holds, or held, in the parent what its child waits for.
struct Holder {
  pid_t tid = 0;  // 0: unknown
  std::string name;
  std::vector<Frame> stack;  // innermost first; as it is now where `still_holds`, else as of the look near the fork
  bool still_holds = false;  // it still held it when the parent was looked at
  // From the fork to the look that shows it there, below zero if that came first. nullopt: there was none.
  std::optional<absl::Duration> looked_after;
  bool operator==(const Holder&) const = default;
};

inline constexpr char kRwlock[] = "pthread_rwlock_t";

struct Awaited {
  AwaitedKind kind = AwaitedKind::kUnknown;
  uint64_t object = 0;  // of Python, or the mutex; 0: not found
  std::string detail;  // the module that is imported; the function that calls the OpenMP runtime; kRwlock; the library;
                       // "": none
  OwnerIs owner = OwnerIs::kUnknown;
  bool in_parent = false;       // the same object is at the same address in the parent
  bool held_in_parent = false;  // and is locked there
  std::optional<Holder> holder;
  size_t left_behind = 0;    // kLibrary: its threads that stayed in the parent
  bool may_be_here = false;  // kImportLock: nobody is known to import it, and a thread of the process was not read
};

struct WaitingThread {
  ThreadWait wait;
  std::string name;          // threading.Thread.name, else comm
  std::vector<Frame> stack;  // of Python, innermost first; empty: none, or unreadable
  std::string native;        // "libgomp.so.1: GOMP_parallel"; "": unknown
  Awaited awaited;
};

// What `parent` does meanwhile for a child of its own, by its Python stack: "Pool.join", "DataLoader".
struct WaitForChildren {
  pid_t pid = 0, tid = 0;
  std::string what;
  std::vector<Frame> stack;  // innermost first
  bool operator==(const WaitForChildren&) const = default;
};

struct WaitingProcess {
  ProcessId id;
  pid_t parent = 0;
  bool forked = false;           // and has not called exec since
  bool from_forkserver = false;  // its parent is multiprocessing's forkserver
  bool may_be_told = false;      // it catches signals whose handler could release something: any but SIGINT and faults
  std::vector<WaitingThread> threads;
  std::vector<std::string> set_futures;  // names of threads that stayed in the parent and set results of Futures
  std::vector<WaitForChildren> victims;  // what its parent, or that of its forkserver, waits for meanwhile
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_WAITS_H_
