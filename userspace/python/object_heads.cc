// Chooses pages at multiples of the golden ratio, which spread evenly and match no stride.
#include "python/object_heads.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace cowprof {
namespace {

constexpr uint64_t kMostPages = 256;
constexpr uint64_t kMostOfPage = 2;  // a few pages full of small objects say nothing about large objects on the others
constexpr double kGoldenRatio = 0.6180339887498949;  // multiples modulo 1 spread evenly
constexpr uint32_t kMostReferences = 1 << 30;        // immortal objects (PEP 683) have more and are never written

}  // namespace

std::vector<ObjectHead> FindHeads(absl::Span<const uint64_t> words, const HeadLayout& layout, const TypeLookup& types) {
  std::vector<ObjectHead> heads;
  // Where GC heads have 24 bytes, objects and pymalloc's blocks lie at multiples of 8.
  const size_t step = layout.gc_head_bytes == 24 ? 1 : 2;
  for (size_t i = 0; i + 1 < words.size(); i += step) {
    const uint64_t references = layout.count_has_flags ? words[i] & UINT32_MAX : words[i];
    if (references == 0 || references > kMostReferences || !IsUserPointer(words[i + 1])) continue;
    if (const std::optional<TypeTraits> traits = types(words[i + 1])) heads.push_back({i, words[i + 1], *traits});
  }
  return heads;
}

uint64_t CountHeads(absl::Span<const uint64_t> words, const HeadLayout& layout, const TypeLookup& types) {
  return FindHeads(words, layout, types).size();
}

RegionHeads LookForHeads(const Region& region, uint64_t page_bytes, const MemoryReader& memory,
                         const HeadLayout& layout, const TypeLookup& types) {
  RegionHeads found;
  const uint64_t pages = (region.end - region.start) / page_bytes, looks = std::min(pages, kMostPages);
  std::vector<uint64_t> words(page_bytes / sizeof(uint64_t));
  const absl::Span<char> bytes(reinterpret_cast<char*>(words.data()), page_bytes);
  for (uint64_t i = 0; i < looks; ++i) {
    const double part = std::fmod(i * kGoldenRatio, 1);
    const uint64_t page = looks == pages ? i : static_cast<uint64_t>(part * pages);
    if (!memory.Read(region.start + page * page_bytes, bytes)) continue;
    const uint64_t heads = CountHeads(words, layout, types);
    ++found.pages;
    found.with_heads += heads > 0;
    found.heads += std::min(heads, kMostOfPage);
  }
  return found;
}

}  // namespace cowprof
