// Which addresses a full sweep reads: every piece of 2 MiB once, whatever mappings have parts of it.
#include "source/sweep_spans.h"

#include <catch2/catch.hpp>
#include <vector>

namespace cowprof {
namespace {

constexpr uint64_t kPiece = kRegionBytes;
using Spans = std::vector<AddressSpan>;

Mapping Private(uint64_t begin, uint64_t end) {
  return {.begin = begin, .end = end, .readable = true, .writable = true};
}

}  // namespace

TEST_CASE("mappings that meet in a piece or at its border become one span") {
  CHECK(SpansToSweep({Private(10 * kPiece + 4096, 10 * kPiece + 8192), Private(10 * kPiece + 8192, 11 * kPiece + 4096),
                      Private(12 * kPiece, 13 * kPiece), Private(14 * kPiece, 14 * kPiece + 4096)}) ==
        Spans{{10 * kPiece, 13 * kPiece}, {14 * kPiece, 15 * kPiece}});
  CHECK(SpansToSweep({}).empty());
}

TEST_CASE("mappings that can't hold copies are left out") {
  Mapping shared = Private(kPiece, 2 * kPiece), reserved = shared, kernels = shared,
          data_set = Private(kPiece, 9 * kPiece);
  shared.shared = true;
  reserved.readable = reserved.writable = false;
  kernels.name = "[vdso]";
  data_set.inode = 7;
  data_set.writable = false;
  CHECK(SpansToSweep({shared, reserved, kernels, data_set}).empty());
  data_set.writable = true;
  CHECK(SpansToSweep({data_set}) == Spans{{kPiece, 9 * kPiece}});
}

TEST_CASE("a mapping of terabytes is one span") {
  const Spans spans = SpansToSweep({Private(1ull << 40, 121ull << 40)});
  REQUIRE(spans.size() == 1);
  CHECK(PiecesIn(spans) == (120ull << 40) / kPiece);
}

TEST_CASE("mappings in any order, empty ones and the end of all addresses do no harm") {
  CHECK(SpansToSweep({Private(4 * kPiece, 5 * kPiece), Private(kPiece, 2 * kPiece), Private(9 * kPiece, 9 * kPiece),
                      Private(8 * kPiece, 7 * kPiece)}) == Spans{{4 * kPiece, 5 * kPiece}});
  for (const AddressSpan& span : SpansToSweep({Private(UINT64_MAX - 4095, UINT64_MAX), Private(0, UINT64_MAX)}))
    CHECK(span.begin < span.end);
}

TEST_CASE("spans of single pieces, and what is in them") {
  const Spans spans = SpansOf({3 * kPiece, 4 * kPiece, 9 * kPiece});
  CHECK(spans == Spans{{3 * kPiece, 5 * kPiece}, {9 * kPiece, 10 * kPiece}});
  CHECK(PiecesIn(spans) == 3);
  for (const uint64_t piece : {3, 4, 9}) CHECK(Contains(spans, piece * kPiece));
  for (const uint64_t piece : {0, 2, 5, 8, 10}) CHECK_FALSE(Contains(spans, piece * kPiece));
}

TEST_CASE("hugetlb pages are told by the name of the mapping") {
  Mapping huge = Private(kPiece, 3 * kPiece);
  huge.name = "/anon_hugepage (deleted)";
  CHECK(HugetlbSpans({huge, Private(4 * kPiece, 5 * kPiece)}) == Spans{{kPiece, 3 * kPiece}});
}

}  // namespace cowprof
