// Reads a live process. Called through MemoryReader; keeps nothing and believes nothing.
#include "python/memory_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

constexpr uint64_t kPageBytes = 4096;

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

ProcessMemory::ProcessMemory(pid_t pid)
    : pid_(pid), memory_(open(absl::StrCat("/proc/", pid, "/mem").c_str(), O_RDONLY | O_CLOEXEC)) {}

bool ProcessMemory::Read(uint64_t address, absl::Span<char> bytes) const {
  if (bytes.empty()) return true;
  // A short read is a hole within the range.
  return memory_.ok() && pread(memory_.fd(), bytes.data(), bytes.size(), static_cast<off_t>(address)) ==
                             static_cast<ssize_t>(bytes.size());
}

}  // namespace cowprof
