// What the processes of one lineage have run since the last exec: which Python, and the names of addresses in it. A
// forked child has its parent's program.
#ifndef COWPROF_ATTRIBUTION_PROGRAM_H_
#define COWPROF_ATTRIBUTION_PROGRAM_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "cowprof.h"
#include "model/facts/sample.h"
#include "python/frames.h"
#include "python/instruction.h"
#include "python/interpreter.h"
#include "python/objects.h"
#include "python/page_diff.h"
#include "python/process_memory.h"
#include "source/native_symbols.h"

namespace cowprof {

// The memory of a lineage: what one process does not have (any more), another may. A worker that ended leaves pointers
// behind that its parent can still resolve.
class LineageMemory : public MemoryReader {
 public:
  explicit LineageMemory(const ProcFs& proc) : proc_(proc) {}
  LineageMemory(const LineageMemory&) = delete;
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  // Of the first member alone: not from another one what Read() would take from the first.
  bool ReadIfPresent(uint64_t address, absl::Span<char> bytes) const override;
  void Add(const ProcessId& id);
  void Remove(const ProcessId& id);  // its pid may be reused by now
  void Prefer(const ProcessId& id);  // read it first, if it is a member
  void LookAgain() { files_ = {}; }  // for mapped files: a library may have been loaded since
  ProcessMemory Of(pid_t pid) const { return ProcessMemory(pid, proc_, &files_); }  // of one member alone
  pid_t first() const { return members_.empty() ? 0 : members_.front().id.pid; }
  std::vector<pid_t> pids() const;  // of those that are read, in this order

 private:
  static constexpr size_t kMostOpen = 8;  // any few of hundreds of workers have what all have
  struct MemberMemory {
    ProcessId id;
    mutable std::unique_ptr<ProcessMemory> memory;  // opened when it is first read
  };
  const ProcessMemory& Open(const MemberMemory& member) const;

  ProcFs proc_;
  std::vector<MemberMemory> members_;
  mutable ProgramFiles files_;
};

class Program {
 public:
  // kNone: none found so far. A program that has just called exec maps its libraries a moment later.
  enum class Python { kNotKnownYet, kNone, kUnusable, kReadable };

  // `starting`: it called exec just now.
  Program(uint32_t image, const ProcFs& proc, ElfCache* elf_cache, bool starting);

  uint32_t image() const { return image_; }
  Python python() const { return python_; }
  const std::string& version() const { return interpreter_.version; }  // "3.11.2"; "" where there is none
  const std::string& reason() const { return reason_; }                // why it is unusable, or can't become known
  const Interpreter& interpreter() const { return interpreter_; }
  LineageMemory& memory() { return memory_; }

  // Looks for an interpreter, if it is time to; `now` counts from anywhere. True if one became known by this call.
  bool Inspect(absl::Duration now);
  // When to look again without waiting for the next tick: copies have no cause until a starting program is known.
  absl::Duration next_urgent_look() const;
  // Looks for glibc's malloc, if it is time to.
  void LookForMalloc(absl::Duration now);
  const std::optional<cowprof_malloc>& malloc() const { return malloc_; }  // nullopt: not found so far
  // How the probes read it. Only where python() is kReadable.
  cowprof_image ProbeImage() const;

  // gc.isenabled() in that process; nullopt if unknown.
  std::optional<bool> CollectorOn(pid_t pid) const;
  // How often the collector has gone through all objects; nullopt if unknown.
  std::optional<uint64_t> FullCollections(pid_t pid) const;
  bool IsCollecting(pid_t pid) const;  // false if unknown
  bool HasFrozen(pid_t pid) const;     // whether gc.freeze() keeps objects from the collector; false if unknown
  // The memory of that process alone, where another of its lineage may have something else.
  ProcessMemory MemoryOf(pid_t pid) const { return memory_.Of(pid); }
  // Where the processes of the lineage have their variable `environ`, looked for in `pid`; 0 if unknown.
  uint64_t EnvironAddress(pid_t pid);

  // What the comparison of pages of objects needs; nullopt if heads of objects can't be recognized.
  std::optional<HeadLayout> Heads() const;
  TypeLookup Types();
  std::string TypeName(uint64_t type);
  // The C++ class of objects with this table of virtual functions: "c10::TensorImpl"; "" if it can't be read.
  std::string NativeTypeName(uint64_t virtual_table);
  // nullopt: an entry frame of the interpreter, not Python code. A Frame without a file: it can't be read (any more).
  std::optional<Frame> FrameOf(const cowprof_frame& frame);
  // The code at `ip`, in the member that is preferred if it is still there. nullopt: nobody has it (any more).
  std::optional<NativeSymbol> SymbolOf(uint64_t ip);
  std::optional<WriteKind> KindOf(uint64_t ip);

 private:
  bool ReadMappings();
  bool HasOtherCode(uint64_t ip) const;

  uint32_t image_;
  ProcFs proc_;
  ElfCache* elf_cache_;
  absl::Duration gap_, next_look_ = -absl::InfiniteDuration();
  absl::Duration malloc_gap_, next_malloc_look_ = -absl::InfiniteDuration();
  int malloc_looks_ = 0;
  std::optional<cowprof_malloc> malloc_;
  Python python_ = Python::kNotKnownYet;
  std::string reason_;
  FilesWithoutPython without_python_;
  uint64_t environ_address_ = 0;
  int environ_looks_ = 0;
  LineageMemory memory_{proc_};
  Interpreter interpreter_;
  std::unique_ptr<TypeReader> types_;
  std::unique_ptr<CodeReader> codes_;
  std::unique_ptr<NativeSymbols> symbols_;
  pid_t mapped_by_ = 0;       // whose mappings those are
  absl::Duration mapped_at_;  // when they were read, by BootTime()
  absl::flat_hash_map<uint64_t, WriteKind> kinds_;
};

// Why it can't be judged what objects of this program's Python would do when they are pickled; "": it can.
std::string PickleObstacle(const Program& program);

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_PROGRAM_H_
