// What can happen between two ticks, one struct per kind. Add a new kind to Event::what: every std::visit over it fails
// to compile until it handles the kind.
#ifndef COWPROF_MODEL_FACTS_EVENT_H_
#define COWPROF_MODEL_FACTS_EVENT_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "model/facts/copy_site.h"
#include "model/facts/count.h"
#include "model/facts/enum_names.h"
#include "model/facts/fork_hazard.h"
#include "model/facts/hang.h"
#include "model/facts/identity.h"
#include "model/facts/limit.h"
#include "model/facts/process_id.h"
#include "model/facts/start_methods.h"

namespace cowprof {

enum class Origin { kTarget, kFoundAtAttach, kForked };
template <>
inline constexpr auto kNamesOf<Origin> = NamesFor<Origin>("target", "attach", "fork");

// The process is followed from here on.
struct ProcessStarted {
  ProcessId id;
  int parent = -1;  // index of the process that forked it; -1: none is recorded
  // Index of the process whose address space it inherited a copy of, and keeps until it calls exec; -1: its own, or
  // (vfork) none yet.
  int space = -1;
  Origin origin = Origin::kForked;
  bool vforked = false;       // until it calls exec it has the memory of `parent` itself, and no copy of it
  std::string comm, command;  // the kernel's name for it, and its command line joined by spaces
  std::string executable;     // path of the program; "": not known, or that of `space`
  bool operator==(const ProcessStarted&) const = default;
};

// The process called exec: a new program in a new address space.
struct ProcessExeced {
  // As in ProcessStarted. Of a program that called exec again or ended before it was looked at, no command line, and of
  // its path only the name.
  std::string comm, command, executable;
  bool operator==(const ProcessExeced&) const = default;
};

struct ProcessExited {
  std::optional<int> status;  // wait(2) status; absent: unknown
  bool operator==(const ProcessExited&) const = default;
};

// A fatal signal was sent to the process.
struct SignalSent {
  int signal = 0;
  int code = 0;      // si_code
  pid_t sender = 0;  // 0: outside of our pid namespace
  std::string sender_comm;
  uint64_t cpu_limit_seconds = 0;  // SIGKILL: the receiver's hard RLIMIT_CPU, if it had used it up; else 0
  bool sender_exiting = false;     // nobody called kill: the kernel sent it as the sender ended (PR_SET_PDEATHSIG)
  bool operator==(const SignalSent&) const = default;
};

// The file behind an address that could not be accessed, as the kernel saw it at that moment.
struct FaultFile {
  std::string name;         // last component of its path
  uint64_t file_bytes = 0;  // its length
  uint64_t offset = 0;      // of the address in it; beyond the last page: the file was truncated
  bool in_memory = false;   // on a tmpfs, or a memfd
  uint64_t device = 0, inode = 0;
  bool on_dev_shm = false;  // on the file system that the target sees as /dev/shm
  Count capacity_bytes;     // of its tmpfs; absent: unbounded, or not a tmpfs
  bool operator==(const FaultFile&) const = default;
  // The kernel lets the last page be touched as a whole (filemap_fault, shmem_fault), and nothing beyond it.
  bool is_beyond_end(uint64_t page_bytes) const {
    return offset / page_bytes >= (file_bytes + page_bytes - 1) / page_bytes;
  }
};

// A fatal signal was delivered to the process.
struct SignalDelivered {
  int signal = 0;
  int code = 0;                   // si_code
  uint64_t address = 0;           // that could not be accessed; 0: the signal was not raised by a fault
  std::string module, symbol;     // the native code that was running; "": unknown
  std::optional<Frame> frame;     // the innermost line of Python
  std::optional<FaultFile> file;  // SIGBUS: the file that `address` lies in
  bool operator==(const SignalDelivered&) const = default;
};

// The OOM killer chose the process.
struct OomVictim {
  // The limit that was met, as the kernel counts it, page cache included. Kind kHost with name "": the host's memory.
  // Absent: unknown.
  std::optional<LimitSample> limit;
  bool operator==(const OomVictim&) const = default;
};

// A remark by cowprof itself.
struct Note {
  std::string text;  // one sentence, such as "interval stretched to 2s: ..."
  bool operator==(const Note&) const = default;
};

// The process runs Python.
struct PythonFound {
  std::string version;  // of the interpreter
  std::string problem;  // why cowprof cannot read it; "": it can
  bool operator==(const PythonFound&) const = default;
};

// Python printed the traceback of an error that nobody caught: in a process that multiprocessing's spawn started,
// outside of the worker's own function, or in a forkserver; or in any, while it pickled what it sent to a worker.
struct LastErrorSeen {
  std::string type, message;    // of the exception: "AttributeError", "Can't get attribute 'work' on <module ...>"
  bool importing_main = false;  // raised since it started a process while it imported the main module
  bool operator==(const LastErrorSeen&) const = default;
};

// What the process is for, as its frames say.
struct DutyFound {
  StartMethod start = StartMethod::kUnknown;
  Duty duty = Duty::kUnknown;
  Count number;      // Duty::kTrainer: which of the processes that torch.multiprocessing.spawn started
  Count configured;  // workers that its own pool, executor or server is to have; absent: it has none, or not known
  bool operator==(const DutyFound&) const = default;
};

// The process's place in a distributed job, as its environment says now.
struct RankFound {
  RankFacts rank;
  bool operator==(const RankFound&) const = default;
};

struct Event {
  absl::Duration t;  // since the start of the recording
  int index = -1;    // the process it happened to; -1: none
  std::variant<ProcessStarted, ProcessExeced, ProcessExited, SignalSent, SignalDelivered, OomVictim, Note, PythonFound,
               DutyFound, RankFound, StartMethodsSeen, StartFailed, LastErrorSeen, ForkHazardSeen, HangsSeen>
      what;
  bool operator==(const Event&) const = default;

  template <typename What>
  bool Is() const {
    return std::holds_alternative<What>(what);
  }
  // nullptr if the event is of another kind.
  template <typename What>
  const What* As() const {
    return std::get_if<What>(&what);
  }
  template <typename What>
  What* As() {
    return std::get_if<What>(&what);
  }
};

// Combines one lambda per kind into one visitor, for std::visit.
template <typename... Lambdas>
struct Overloaded : Lambdas... {
  using Lambdas::operator()...;
};
template <typename... Lambdas>
Overloaded(Lambdas...) -> Overloaded<Lambdas...>;

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_EVENT_H_
