// Reads a live process with process_vm_readv(2), several pieces a system call. Called through MemoryReader; keeps
// nothing and believes nothing.
#include "python/memory_reader.h"

#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace cowprof {
namespace {

constexpr size_t kMaxPieces = 512;  // below IOV_MAX = 1,024
constexpr uint64_t kPageBytes = 4096;

iovec PieceOf(uint64_t address, size_t bytes) { return {reinterpret_cast<void*>(address), bytes}; }

}  // namespace

std::optional<std::string> ReadCString(const MemoryReader& memory, uint64_t address, size_t max_bytes) {
  std::string text;
  while (text.size() < max_bytes) {
    const uint64_t at = address + text.size();
    if (at < address) return std::nullopt;  // wrapped around
    // Most names are short: ask for little first, never across a page that may not be there.
    const size_t page_rest = kPageBytes - at % kPageBytes;
    const size_t want = std::min({page_rest, max_bytes - text.size(), text.empty() ? size_t{64} : size_t{4096}});
    const size_t before = text.size();
    text.resize(before + want);
    if (!memory.Read(at, absl::MakeSpan(text.data() + before, want))) return std::nullopt;
    const void* end = memchr(text.data() + before, 0, want);
    if (end != nullptr) {
      text.resize(static_cast<const char*>(end) - text.data());
      return text;
    }
  }
  return text;
}

bool ProcessMemory::Read(uint64_t address, absl::Span<char> bytes) const {
  if (bytes.empty()) return true;
  const iovec local{bytes.data(), bytes.size()};
  const iovec remote = PieceOf(address, bytes.size());
  // A short read is a hole within the range.
  return process_vm_readv(pid_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes.size());
}

// The kernel goes through the pieces in order and stops within the first bad one, so that one fails and the rest is
// asked for again.
void ProcessMemory::ReadMany(absl::Span<ReadRequest> requests) const {
  std::array<iovec, kMaxPieces> local, remote;
  size_t next = 0;
  while (next < requests.size()) {
    const size_t count = std::min(kMaxPieces, requests.size() - next);
    for (size_t i = 0; i < count; ++i) {
      const ReadRequest& request = requests[next + i];
      local[i] = {request.bytes.data(), request.bytes.size()};
      remote[i] = PieceOf(request.address, request.bytes.size());
    }
    const ssize_t got = process_vm_readv(pid_, local.data(), count, remote.data(), count, 0);
    size_t filled = got > 0 ? static_cast<size_t>(got) : 0;
    size_t done = 0;
    while (done < count && requests[next + done].bytes.size() <= filled) {
      filled -= requests[next + done].bytes.size();
      requests[next + done++].ok = true;
    }
    if (done < count) requests[next + done++].ok = false;
    next += done;
  }
}

}  // namespace cowprof
