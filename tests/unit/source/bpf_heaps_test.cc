// Which processes' notes of free memory are deleted, and when.
#include "source/bpf_heaps.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

using Serials = absl::flat_hash_set<uint32_t>;

cowprof_process_row RowOf(cowprof_heap heap, unsigned execs = 0) {
  cowprof_process_row row = {};
  row.serial = 7;
  row.heap = heap;
  row.execs = execs;
  return row;
}

}  // namespace

TEST_CASE("free memory noted at a fork is kept for as long as the worker lives, and goes with it") {
  const cowprof_heap heap = GENERATE(COWPROF_HEAP_WALKED, COWPROF_HEAP_PARTLY);
  BpfHeaps heaps;
  heaps.Look(RowOf(heap), /*ended=*/false);
  CHECK(heaps.useless().empty());
  heaps.Look(RowOf(heap), /*ended=*/true);
  CHECK(heaps.useless() == Serials{7});
}

// A shell's command has forgotten its heap by the time it ends.
TEST_CASE("free memory noted at a fork goes when the child has called exec, whether it is seen again or not") {
  const bool seen_alive = GENERATE(true, false);
  BpfHeaps heaps;
  if (seen_alive) heaps.Look(RowOf(COWPROF_HEAP_UNKNOWN, 3), /*ended=*/false);
  CHECK(heaps.useless() == (seen_alive ? Serials{7} : Serials{}));
  heaps.Look(RowOf(COWPROF_HEAP_UNKNOWN, 3), /*ended=*/true);
  CHECK(heaps.useless() == Serials{7});
}

TEST_CASE("free memory of a child is not asked for once it has forked itself") {
  BpfHeaps heaps;
  heaps.Look(RowOf(COWPROF_HEAP_FORGOTTEN), /*ended=*/false);
  CHECK(heaps.useless() == Serials{7});
}

TEST_CASE("a child of vfork, and one of a program without malloc's lists, cost no look at the tables") {
  BpfHeaps heaps;
  cowprof_process_row vforked = RowOf(COWPROF_HEAP_UNKNOWN, 3);
  vforked.vforked = 1;
  heaps.Look(vforked, /*ended=*/true);
  heaps.Look(RowOf(COWPROF_HEAP_UNKNOWN), /*ended=*/true);
  CHECK(heaps.useless().empty());
}

}  // namespace cowprof
