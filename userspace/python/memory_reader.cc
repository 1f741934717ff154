// Reads strings and ranges that may end at an unmapped page.
#include "python/memory_reader.h"

#include <algorithm>
#include <cstring>

namespace cowprof {

std::optional<std::string> ReadCString(const MemoryReader& memory, uint64_t address, size_t max_bytes) {
  std::string text;
  while (text.size() < max_bytes) {
    const uint64_t at = address + text.size();
    if (at < address) return std::nullopt;  // wrapped around
    // Most names are short: read little at first, and never across a page boundary, behind which nothing may be mapped.
    const size_t page_rest = kLeastPageBytes - at % kLeastPageBytes;
    const size_t want =
        std::min({page_rest, max_bytes - text.size(), text.empty() ? size_t{64} : size_t{kLeastPageBytes}});
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

void ReadOrZero(const MemoryReader& memory, uint64_t address, absl::Span<char> bytes) {
  while (!bytes.empty()) {
    const absl::Span<char> piece =
        bytes.first(std::min(bytes.size(), size_t{kLeastPageBytes - address % kLeastPageBytes}));
    if (!memory.Read(address, piece)) std::fill(piece.begin(), piece.end(), '\0');
    address += piece.size();
    bytes.remove_prefix(piece.size());
  }
}

}  // namespace cowprof
