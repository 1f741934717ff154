// The memory of a process, as everything in python/ reads it: that of a live process (process_memory.h) or bytes that
// were recorded from one (tests/unit/python_recording.h). A live process keeps running while it is read, so what is
// read may be inconsistent, and every caller must accept any bytes.
#ifndef COWPROF_PYTHON_MEMORY_READER_H_
#define COWPROF_PYTHON_MEMORY_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>

#include "absl/types/span.h"

namespace cowprof {

// One piece of a bulk read; ReadMany() sets `ok`.
struct ReadRequest {
  uint64_t address = 0;
  absl::Span<char> bytes;
  bool ok = false;
};

class MemoryReader {
 public:
  virtual ~MemoryReader() = default;
  // Fills `bytes` from `address` on; false if any byte can't be read (`bytes` is then unspecified). An empty
  // read succeeds anywhere.
  virtual bool Read(uint64_t address, absl::Span<char> bytes) const = 0;
  // The same of what need not be read: false also if it would bring back a swapped page, or load one of a file.
  virtual bool ReadIfPresent(uint64_t address, absl::Span<char> bytes) const { return Read(address, bytes); }
  // As Read() for many pieces, each independently.
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

// A NUL-terminated string of the target, cut at `max_bytes`. nullopt if a byte before the end can't be read. Reads no
// further than the page that contains the end.
std::optional<std::string> ReadCString(const MemoryReader& memory, uint64_t address, size_t max_bytes);

// Fills `bytes` from `address` on, page by page, with zeroes for pages that can't be read.
void ReadOrZero(const MemoryReader& memory, uint64_t address, absl::Span<char> bytes);

// Every architecture has pages of a multiple of this: what crosses no multiple of it crosses no page.
inline constexpr uint64_t kLeastPageBytes = 4096;

// User addresses of x86-64 with four-level page tables, without the first page: the possible values of a pointer.
inline bool IsUserAddress(uint64_t address) { return address >= kLeastPageBytes && address < (uint64_t{1} << 47); }
inline bool IsUserPointer(uint64_t address) { return IsUserAddress(address) && address % 8 == 0; }

}  // namespace cowprof

#endif  // COWPROF_PYTHON_MEMORY_READER_H_
