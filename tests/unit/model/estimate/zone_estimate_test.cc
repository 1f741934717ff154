// What copied pages tell of how items are read, on pieces of real recordings.
#include "model/estimate/zone_estimate.h"

#include <bit>
#include <catch2/catch.hpp>
#include <iterator>

namespace cowprof {
namespace {

// Sixteen neighbouring chunks of pymalloc's arenas, as four workers of a DataLoader had copied them after a third to
// a half of an epoch, shuffled: a list of 600,000 dicts, of which an item reads some neighbours (loader_ends.py).
struct Recorded {
  int first_record, last_record, added;
  uint64_t bits[4];  // of each worker
};
// clang-format off
// 150 rows an item, which are two to seven pages of objects of one size.
constexpr Recorded kBlocks[] = {
    {2, 4, 5, {0x0000000000000370, 0, 0, 0x0000001070e00000}},
    {1, 3, 0, {0x00000000007f0000, 0, 0x0e080000001100ee, 0}},
    {2, 3, 0, {0, 0x00000001100ec000, 0x0000000000000007, 0}},
    {2, 3, 0, {0, 0x0e08000000000000, 0x0000000000100000, 0x0000000000700000}},
    {2, 4, 7, {0, 0x0000000000000007, 0, 0x0030700d900ec000}},
    {2, 2, 0, {0, 0x000000000100f0e0, 0, 0}},
    {1, 1, 0, {0x0800000000000000, 0, 0, 0}},
    {1, 1, 0, {0x00000000000070f0, 0, 0x00000330c0c00000, 0x3f00080000000000}},
    {3, 3, 0, {0, 0, 0x0080000000000000, 0}},
    {3, 4, 2, {0, 0xc000000000000000, 0x00000000000007f0, 0}},
    {2, 4, 6, {0, 0x000000000013000e, 0xe0000001007e0000, 0}},
    {2, 3, 0, {0, 0x001030e00c000000, 0x000000000000100e, 0x000000000000f000}},
    {1, 4, 3, {0, 0, 0x000700e800000000, 0x0e00003f00c00000}},
    {1, 4, 20, {0x700e800000000000, 0x0003f00800000000, 0, 0xc008000000007f0e}},
    {3, 4, 5, {0, 0x000000000110e0c0, 0, 0x0000000000003070}},
    {1, 2, 0, {0x700e080000000000, 0, 0, 0x0000000130000000}},
};
// 50 rows an item: about one page of the smallest objects.
constexpr Recorded kPages[] = {
    {2, 5, 7, {0x0000800010c00000, 0x000660000000030f, 0x0000003060000000, 0x0003300000000000}},
    {2, 5, 21, {0x010808000030d0db, 0xfe00000000000000, 0, 0x0003060600800000}},
    {3, 5, 4, {0x0600800060c00000, 0x0000000010300000, 0x0800000000100800, 0}},
    {3, 5, 3, {0, 0x0c08000000003f00, 0x0000000000000008, 0x0800000010d0be00}},
    {2, 5, 1, {0x0800010600800000, 0x0000000000010080, 0x0000000000000080, 0x0200000000000000}},
    {3, 5, 10, {0x0000000000011008, 0x30600003c0000000, 0x0000300c00000000, 0x000000016006e003}},
    {4, 5, 11, {0x000000001300c0c0, 0x1000680000000000, 0, 0x0000000036000000}},
    {2, 5, 10, {0x0000000001030800, 0x0ec007f008080000, 0x000000000c0c0000, 0x0b60000000000000}},
    {4, 5, 6, {0x0000800000000000, 0x001010d0b0800000, 0, 0x00808060c0000000}},
    {2, 5, 4, {0x0000000000000100, 0, 0, 0x000001030b00c000}},
    {5, 5, 6, {0x3080000000000000, 0, 0, 0x0000000001200800}},
    {3, 5, 11, {0, 0x060c00006c000100, 0, 0x0102080000000000}},
    {2, 5, 4, {0x00000037000cd0c0, 0x0000000000066000, 0, 0x0000000000033000}},
    {3, 5, 8, {0x040006c000000000, 0x0b0c000000000000, 0x0000000000000700, 0x0800000000000003}},
    {2, 5, 5, {0x0000000370808030, 0x0026000000000060, 0, 0x30b30000000010c0}},
    {2, 5, 6, {0, 0, 0x000010d0b0c00000, 0x0000000000100600}},
};
// One row an item.
constexpr Recorded kSingle[] = {
    {1, 3, 10, {0x0002200000000000, 0x0002208090400000, 0x000a600000400800, 0x0008804040000208}},
    {1, 3, 7, {0x4800088000000000, 0x8000066000004008, 0, 0x2200022000000002}},
    {1, 3, 11, {0x0042000000001040, 0x00000000000020a0, 0x008804090b00c000, 0x001100000600c000}},
    {1, 3, 17, {0x0000002004010920, 0x0030600000010800, 0x80102000030c0680, 0x10c0801004000240}},
    {1, 3, 15, {0x0400001060800000, 0x0e00000030c00000, 0x0200000030c00008, 0x06000030c0360001}},
    {3, 3, 2, {0x8000000000000000, 0, 0x2000000000000000, 0}},
    {1, 3, 11, {0x00d0400000000008, 0x004030a400000000, 0x0000000000042001, 0x000010ec00042000}},
    {1, 3, 18, {0x0400000022002205, 0x0401200001008109, 0x0000000055000000, 0x0208000088002400}},
    {1, 3, 16, {0xed0008c004505005, 0x0000022000001005, 0xc800088000004008, 0x2800044004401002}},
    {1, 3, 16, {0x0000040908002070, 0x000d040404008000, 0x0000000108002090, 0x0802000000002080}},
    {1, 3, 14, {0x0000053000108000, 0x2400000008800000, 0x920000000130a00c, 0x2800084004c00002}},
    {1, 3, 6, {0x009d0000000030c0, 0x0000004400000000, 0x002200c800002090, 0x0000000001004000}},
    {1, 3, 18, {0xf0037080020a0800, 0x00024000010405a0, 0x40012000030c0000, 0x0004800000000000}},
    {1, 3, 11, {0x000200800025000b, 0x0000001020000000, 0x0006008000000004, 0x0002004020a20000}},
    {1, 3, 12, {0xa000000000000000, 0x9080000000000042, 0x4010060904000088, 0x4000020800000077}},
    {1, 3, 16, {0x0000109020099005, 0x00a0108000000004, 0x0080000000011006, 0x0000000000000002}},
};
// clang-format on

template <size_t kRows>
std::optional<PoolEstimate> Judge(const Recorded (&recorded)[kRows], int record) {
  std::vector<CopiedChunk> chunks;
  for (const Recorded& one : recorded) {
    chunks.push_back({chunks.size(), one.first_record, one.last_record, one.added, 0, one.bits});
    for (const uint64_t bits : one.bits) chunks.back().hits += std::popcount(bits);
  }
  CopiedZone zone = {.kind = PagesKind::kArena, .parts = {{0, kRows * kChunkPages, PagesKind::kArena}}, .workers = 4};
  for (const CopiedChunk& chunk : chunks) zone.rows.push_back(&chunk);
  return EstimateOf(zone, record, HitsOf(zone));
}

}  // namespace

TEST_CASE("items that are blocks of neighbours: nothing is said of how far each worker will come") {
  CHECK_FALSE(Judge(kBlocks, 4));
  CHECK_FALSE(Judge(kPages, 5));
}

TEST_CASE("items that are single objects: the pools tell") {
  const std::optional<PoolEstimate> pages = Judge(kSingle, 3);
  REQUIRE(pages);
  CHECK(pages->best > 0.4 * std::size(kSingle) * kChunkPages);
}

}  // namespace cowprof
