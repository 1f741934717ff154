// The memory of a process as everything in python/ sees it. Two kinds of real readers: of a live process
// (process_memory.h), and of the bytes recorded from one (tests/unit/python_recording.h). A live one runs on while it
// is read: what is read is a moving picture, and every reader of it must take any bytes.
#ifndef COWPROF_PYTHON_MEMORY_READER_H_
#define COWPROF_PYTHON_MEMORY_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/types/span.h"

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

// Fills `bytes` from `address` on, page by page; zeroes where nothing can be read.
void ReadOrZero(const MemoryReader& memory, uint64_t address, absl::Span<char> bytes);

// User addresses of x86-64 with four-level page tables, the first page left out: what a pointer can be at all.
inline bool IsUserAddress(uint64_t address) { return address >= 4096 && address < (uint64_t{1} << 47); }
inline bool IsUserPointer(uint64_t address) { return IsUserAddress(address) && address % 8 == 0; }

}  // namespace cowprof

#endif  // COWPROF_PYTHON_MEMORY_READER_H_
