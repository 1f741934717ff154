// Reads the memory of a process from outside: the seam between everything in python/ and the world. Two real readers:
// a live process, and the bytes recorded from one (tests/unit/recorded_memory.h). The target is only read: no ptrace
// stop, no signal, no code run in it. So what is read is a moving picture, and every reader of it must take any bytes.
#ifndef COWPROF_PYTHON_MEMORY_READER_H_
#define COWPROF_PYTHON_MEMORY_READER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/types/span.h"
#include "posix/fd.h"

namespace cowprof {

// One piece of a bulk read; `ok` is the answer.
struct ReadRequest {
  uint64_t address = 0;
  absl::Span<char> bytes;
  bool ok = false;
};

class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  // Fills all of `bytes` from `address` on; false if any byte can't be read (then `bytes` holds anything). An empty
  // read succeeds anywhere.
  virtual bool Read(uint64_t address, absl::Span<char> bytes) const = 0;
  // The same for many pieces, each on its own.
  virtual void ReadMany(absl::Span<ReadRequest> requests) const {
    for (ReadRequest& request : requests) request.ok = Read(request.address, request.bytes);
  }
};

template <typename T>
std::optional<T> ReadValue(const MemoryReader& memory, uint64_t address) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  if (!memory.Read(address, absl::MakeSpan(reinterpret_cast<char*>(&value), sizeof(T)))) return std::nullopt;
  return value;
}

// A string of the target up to its NUL, at most `max_bytes` long (then it was cut). nullopt if a byte before the end
// can't be read. Reads no further than the page that the end is on.
std::optional<std::string> ReadCString(const MemoryReader& memory, uint64_t address, size_t max_bytes);

// User addresses of x86-64 with four-level page tables, the first page left out: what a pointer can be at all.
inline bool IsUserAddress(uint64_t address) { return address >= 4096 && address < (uint64_t{1} << 47); }
inline bool IsUserPointer(uint64_t address) { return IsUserAddress(address) && address % 8 == 0; }

// A live process, read through /proc/PID/mem: needs PTRACE_MODE_ATTACH_FSCREDS (root, or the same user where Yama
// allows it), when it is made. Not process_vm_readv(2): that pins pages, and since Linux 5.19 pinning one that is
// shared copy-on-write copies it first, for the target (commit a7f226604170, GUP's FAULT_FLAG_UNSHARE). Reading a hole
// inside a mapping may give the target page tables, so callers follow pointers only. The descriptor holds on to the
// address space: a pid that has a new owner reads as gone.
class ProcessMemory : public MemoryReader {
 public:
  explicit ProcessMemory(pid_t pid);
  pid_t pid() const { return pid_; }
  bool Read(uint64_t address, absl::Span<char> bytes) const override;

 private:
  pid_t pid_;
  Fd memory_;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_MEMORY_READER_H_
