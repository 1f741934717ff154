// Reads the memory of a live process through /proc/PID/mem, which needs PTRACE_MODE_ATTACH_FSCREDS (root, or the same
// user where Yama allows it) when it is opened. The target is only read: no ptrace stop, no signal, no code run in it.
// Not process_vm_readv(2): that pins pages, and since Linux 5.19 pinning one that is shared copy-on-write copies it
// first, for the target (commit a7f226604170, GUP's FAULT_FLAG_UNSHARE). Both descriptors hold on to the address space:
// a pid that has a new owner reads as gone.
//
// Even a read changes a process where nothing is. Of an address without a mapping the kernel takes mmap_lock for
// writing (since 6.5, stable ones since 6.1.37: expand_stack() in __access_remote_vm()) and lets the stack grow down to
// it, if that can reach there; older ones do the latter, too. In a hole of a mapping it maps a page of zeroes, and
// where that is of shared memory it takes a new page. So nothing is asked for but what the page map says is there, and
// pages of a program's own files.
#ifndef COWPROF_PYTHON_PROCESS_MEMORY_H_
#define COWPROF_PYTHON_PROCESS_MEMORY_H_

#include <sys/types.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "python/memory_reader.h"
#include "source/procfs.h"

namespace cowprof {

// Only pages in memory: to read swap brings a page back. Anything else is unreadable.
class PresentMemory : public MemoryReader {
 public:
  PresentMemory(pid_t pid, const ProcFs& proc);
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  // Fastest when the addresses ascend.
  void ReadMany(absl::Span<ReadRequest> requests) const override;

 protected:
  // Page map entries of `pages` from `first` on, 0 for those that can't be read. False if the address space is gone.
  bool ReadEntries(uint64_t first, absl::Span<uint64_t> entries) const;
  bool ReadUnchecked(uint64_t address, absl::Span<char> bytes) const;
  const uint64_t page_bytes_;

 private:
  Fd memory_, pagemap_;
};

using AddressRanges = std::vector<std::pair<uint64_t, uint64_t>>;  // begin and end, ascending

// Private mappings of files that have code: a program's own.
AddressRanges RangesOfFiles(const std::vector<Mapping>& mappings);

// Where a program's own files are mapped. Read when it is asked and older than 10 s; that is long, since with 100,000
// mappings it takes a tenth of a second.
class ProgramFiles {
 public:
  // `pid` runs the program, and lives; of one that has ended nothing is learned. `now`: of any one clock.
  bool Have(const ProcFs& proc, pid_t pid, uint64_t address, absl::Duration now = BootTime());

 private:
  AddressRanges ranges_;
  absl::Duration looked_ = -absl::InfiniteDuration();
};

// All of its pages, swapped ones, too, and what it has not touched yet of its program's files. `files`: of the program
// that it runs, shared with others that run it and not owned.
class ProcessMemory : public PresentMemory {
 public:
  ProcessMemory(pid_t pid, const ProcFs& proc, ProgramFiles* files)
      : PresentMemory(pid, proc), pid_(pid), proc_(proc), files_(files) {}
  ProcessMemory(const ProcessMemory&) = delete;
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  void ReadMany(absl::Span<ReadRequest> requests) const override { MemoryReader::ReadMany(requests); }

 private:
  const pid_t pid_;
  const ProcFs proc_;
  ProgramFiles* const files_;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PROCESS_MEMORY_H_
