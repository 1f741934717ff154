#include "source/sweep_spans.h"

#include <algorithm>

#include "absl/strings/match.h"

namespace cowprof {
namespace {

constexpr uint64_t kHighest = UINT64_MAX / kRegionBytes * kRegionBytes;

// Mappings whose pages can be anonymous and private. A large read-only file mapping is a data set: its pages stay the
// file's.
bool MayHoldCopies(const Mapping& mapping) {
  if (mapping.shared || absl::StartsWith(mapping.name, "[v")) return false;  // [vdso], [vvar], [vsyscall]
  if (!mapping.readable && !mapping.writable) return false;                  // reserved address space
  const bool read_only_file = mapping.inode != 0 && !mapping.writable;
  return !read_only_file || mapping.end - mapping.begin <= 2 * kRegionBytes;
}

// `begin` and `end`: any addresses. What does not ascend is left out.
void Append(uint64_t begin, uint64_t end, std::vector<AddressSpan>* spans) {
  begin = begin / kRegionBytes * kRegionBytes;
  end = end > kHighest ? kHighest : (end + kRegionBytes - 1) / kRegionBytes * kRegionBytes;
  if (begin >= end) return;
  if (spans->empty() || begin > spans->back().end) {
    spans->push_back({begin, end});
  } else {
    spans->back().end = std::max(spans->back().end, end);
  }
}

}  // namespace

std::vector<AddressSpan> SpansToSweep(const std::vector<Mapping>& mappings) {
  std::vector<AddressSpan> spans;
  for (const Mapping& mapping : mappings) {
    if (MayHoldCopies(mapping)) Append(mapping.begin, mapping.end, &spans);
  }
  return spans;
}

std::vector<AddressSpan> HugetlbSpans(std::vector<Mapping> mappings) {
  std::erase_if(mappings, [](const Mapping& mapping) { return !absl::StartsWith(mapping.name, "/anon_hugepage"); });
  return SpansToSweep(mappings);
}

std::vector<AddressSpan> SpansOf(const std::vector<uint64_t>& regions) {
  std::vector<AddressSpan> spans;
  for (const uint64_t region : regions) Append(region, region + kRegionBytes, &spans);
  return spans;
}

uint64_t PiecesIn(const std::vector<AddressSpan>& spans) {
  uint64_t pieces = 0;
  for (const AddressSpan& span : spans) pieces += (span.end - span.begin) / kRegionBytes;
  return pieces;
}

bool Contains(const std::vector<AddressSpan>& spans, uint64_t address) {
  const auto span =
      std::partition_point(spans.begin(), spans.end(), [&](const AddressSpan& one) { return one.end <= address; });
  return span != spans.end() && span->begin <= address;
}

}  // namespace cowprof
