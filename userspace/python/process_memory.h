// Reads the memory of a live process through /proc/PID/mem. Opening it needs PTRACE_MODE_ATTACH_FSCREDS: root, or the
// same user if Yama allows it. The target is only read: it is never stopped, signalled or made to run code. Not
// process_vm_readv(2): that pins pages, and since Linux 5.19 pinning a page that is shared copy-on-write copies it
// first (commit a7f226604170, GUP's FAULT_FLAG_UNSHARE). The descriptors refer to the address space: a reused pid reads
// as gone.
//
// Even a read changes the process if nothing is mapped there. For an unmapped address the kernel takes mmap_lock for
// writing (since 6.5, stable kernels since 6.1.37: expand_stack() in __access_remote_vm()) and grows the stack down to
// it if it can; older kernels grow the stack, too. In a hole of a mapping it maps a zero page, and of shared memory it
// allocates a page. So only read what the page map says is present, and pages of the program's own files.
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

// Reads only pages that are in memory; everything else is unreadable. Reading a swapped page would bring it back.
class PresentMemory : public MemoryReader {
 public:
  PresentMemory(pid_t pid, const ProcFs& proc);
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  // Fastest when the addresses ascend.
  void ReadMany(absl::Span<ReadRequest> requests) const override;
  // Does not ask the page map: only for what is there for as long as the process lives. Half the cost.
  bool ReadUnchecked(uint64_t address, absl::Span<char> bytes) const;

 protected:
  // Page map entries from page `first` on, 0 for those that can't be read. False if the address space is gone.
  bool ReadEntries(uint64_t first, absl::Span<uint64_t> entries) const;
  const uint64_t page_bytes_;

 private:
  Fd memory_, pagemap_;
};

using AddressRanges = std::vector<std::pair<uint64_t, uint64_t>>;  // [begin, end), ascending

// Private mappings of files that also have executable mappings: the program's own files.
AddressRanges RangesOfFiles(const std::vector<Mapping>& mappings);

// Where a program's own files are mapped. Read again on demand after 10 s, not sooner: with 100,000 mappings it takes a
// tenth of a second.
class ProgramFiles {
 public:
  // `pid` runs the program and is alive; nothing can be read after its end. `now`: of any monotonic clock.
  bool Have(const ProcFs& proc, pid_t pid, uint64_t address, absl::Duration now = BootTime());

 private:
  AddressRanges ranges_;
  absl::Duration looked_ = -absl::InfiniteDuration();
};

// Reads all pages, including swapped ones and pages of the program's files that were not touched yet. `files`: those of
// the program; shared by the processes that run it, not owned.
class ProcessMemory : public PresentMemory {
 public:
  ProcessMemory(pid_t pid, const ProcFs& proc, ProgramFiles* files)
      : PresentMemory(pid, proc), pid_(pid), proc_(proc), files_(files) {}
  ProcessMemory(const ProcessMemory&) = delete;
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  bool ReadIfPresent(uint64_t address, absl::Span<char> bytes) const override {
    return PresentMemory::Read(address, bytes);
  }
  // Not PresentMemory's, which leaves out absent pages. NOLINTNEXTLINE(bugprone-parent-virtual-call)
  void ReadMany(absl::Span<ReadRequest> requests) const override { MemoryReader::ReadMany(requests); }

 private:
  const pid_t pid_;
  const ProcFs proc_;
  ProgramFiles* const files_;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PROCESS_MEMORY_H_
