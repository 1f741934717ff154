// Heads of objects on planted pages: finds every object of a known type, and nothing else.
#include "python/object_heads.h"

#include <catch2/catch.hpp>
#include <vector>

#include "python_recording.h"

namespace cowprof {
namespace {

constexpr uint64_t kStart = 0x7f0000000000, kType = 0x560000001000;

std::optional<TypeTraits> Known(uint64_t address) {
  return address == kType ? std::optional(TypeTraits{}) : std::nullopt;
}

std::string Bytes(const std::vector<uint64_t>& words) {
  return std::string(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
}

}  // namespace

TEST_CASE("heads: a count before a type, at a multiple of 16") {
  const HeadLayout layout;
  CHECK(CountHeads({1, kType, 0, 0, 7, kType}, layout, Known) == 2);
  CHECK(CountHeads({0, 1, kType, 0}, layout, Known) == 0);
  CHECK(CountHeads({0, kType}, layout, Known) == 0);                  // freed
  CHECK(CountHeads({uint64_t{1} << 40, kType}, layout, Known) == 0);  // a pointer before a pointer
  CHECK(CountHeads({UINT32_MAX, kType}, layout, Known) == 0);         // immortal: never written
  CHECK(CountHeads({1, kType + 8, 1, kType + 1, 1, UINT64_MAX}, layout, Known) == 0);
  CHECK(CountHeads({1}, layout, Known) == 0);
  CHECK(CountHeads({}, layout, Known) == 0);
  const uint64_t flagged = uint64_t{1} << 48 | 3;
  CHECK(CountHeads({flagged, kType}, layout, Known) == 0);
  CHECK(CountHeads({flagged, kType}, {.count_has_flags = true}, Known) == 1);
}

TEST_CASE("heads: behind GC heads of 24 bytes, at a multiple of 8") {
  const HeadLayout layout = {.gc_head_bytes = 24};
  CHECK(CountHeads({0, 0, 0, 1, kType, 0, 7, kType, 1}, layout, Known) == 2);
  CHECK(CountHeads({0, kType, 0, 0, kType}, layout, Known) == 0);
}

TEST_CASE("heads: pages of a region") {
  // Of every three pages one has two heads and one is a hole.
  const uint64_t page_bytes = GENERATE(4096, 16384);
  INFO(page_bytes);
  RecordedMemory memory;
  for (const uint64_t pages : {30, 3000}) {
    for (uint64_t page = 0; page < pages; ++page) {
      std::vector<uint64_t> words(page_bytes / 8, 0x7878787878787878);
      if (page % 3 == 0) words[100] = 1, words[101] = kType, words[page_bytes / 8 - 2] = 2, words.back() = kType;
      if (page % 6 == 0) words[300] = 1, words[301] = kType;  // a third one, which does not count
      if (page % 3 != 2) memory.Add(kStart + page * page_bytes, Bytes(words));
    }
    const Region region = {RegionKind::kHeap, "[heap]", kStart, kStart + pages * page_bytes};
    const RegionHeads heads = LookForHeads(region, page_bytes, memory, {}, Known);
    INFO(pages);
    CHECK(heads.heads == 2 * heads.with_heads);
    CHECK(static_cast<double>(heads.with_heads) / heads.pages == Approx(0.5).margin(pages == 30 ? 0 : 0.08));
    CHECK(heads.pages == Approx(pages == 30 ? 20 : 256 * 2 / 3.0).margin(pages == 30 ? 0 : 12));
  }
  CHECK(LookForHeads({RegionKind::kHeap, "", kStart, kStart}, page_bytes, memory, {}, Known).pages == 0);
  CHECK(LookForHeads({RegionKind::kHeap, "", 0, 1 << 20}, page_bytes, memory, {}, Known).pages == 0);
}

}  // namespace cowprof
