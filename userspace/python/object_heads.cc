// See object_heads.h.
#include "python/object_heads.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace cowprof {
namespace {

constexpr uint64_t kPageBytes = 4096, kMostPages = 256;
constexpr uint64_t kMostOfPage = 2;  // what a few pages are full of says nothing of the large objects on the others
constexpr double kGoldenRatio = 0.6180339887498949;  // its multiples fall evenly, and into step with nothing
constexpr uint32_t kMostReferences = 1 << 30;        // immortal objects (PEP 683) have more, and are not written

}  // namespace

std::vector<ObjectHead> FindHeads(absl::Span<const uint64_t> words, const HeadLayout& layout, const TypeLookup& types) {
  std::vector<ObjectHead> heads;
  for (size_t i = 0; i + 1 < words.size(); i += 2) {
    const uint64_t references = layout.count_has_flags ? words[i] & UINT32_MAX : words[i];
    if (references == 0 || references > kMostReferences || !IsUserPointer(words[i + 1])) continue;
    if (const std::optional<TypeTraits> traits = types(words[i + 1])) heads.push_back({i, words[i + 1], *traits});
  }
  return heads;
}

uint64_t CountHeads(absl::Span<const uint64_t> words, const HeadLayout& layout, const TypeLookup& types) {
  return FindHeads(words, layout, types).size();
}

RegionHeads LookForHeads(const Region& region, const MemoryReader& memory, const HeadLayout& layout,
                         const TypeLookup& types) {
  RegionHeads found;
  const uint64_t pages = (region.end - region.start) / kPageBytes, looks = std::min(pages, kMostPages);
  std::array<uint64_t, kPageBytes / sizeof(uint64_t)> words;
  const absl::Span<char> bytes(reinterpret_cast<char*>(words.data()), kPageBytes);
  for (uint64_t i = 0; i < looks; ++i) {
    const double part = std::fmod(i * kGoldenRatio, 1);
    const uint64_t page = looks == pages ? i : static_cast<uint64_t>(part * pages);
    if (!memory.Read(region.start + page * kPageBytes, bytes)) continue;
    const uint64_t heads = CountHeads(words, layout, types);
    ++found.pages;
    found.with_heads += heads > 0;
    found.heads += std::min(heads, kMostOfPage);
  }
  return found;
}

}  // namespace cowprof
