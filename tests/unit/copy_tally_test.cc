// What copy_tally.cc makes of planted looks at a worker's pages: whose copies they are, when a page counts again, and
// that nothing is counted that no fault can have copied.
#include "source/copy_tally.h"

#include <catch2/catch.hpp>
#include <vector>

namespace cowprof {
namespace {

constexpr uint64_t kRegion = 0x7f0000000000, kPlenty = 1'000'000;

PageBits From(size_t first, size_t count) {
  PageBits bits;
  for (size_t i = first; i < first + count; ++i) bits.set(i);
  return bits;
}

// The parent has all 512 pages.
RegionSharing Look(PageBits exclusive, PageBits peer_exclusive = {}) {
  return {.address = kRegion,
          .shared = ~exclusive,
          .exclusive = exclusive,
          .peer = ~PageBits(),
          .peer_exclusive = peer_exclusive};
}

struct Worker {
  CopyTally tally;
  ParentsCopies parents;
  NewCopies Take(const RegionSharing& look, uint64_t most = kPlenty) {
    return tally.Take(std::vector<RegionSharing>{look}, 4096, most, &parents);
  }
};

}  // namespace

TEST_CASE("pages that a worker has alone at its first look were copied since the fork") {
  Worker worker;
  const NewCopies found = worker.Take(Look(From(10, 3)));
  CHECK(found.own == 3);
  CHECK(found.own_pages == std::vector<uint64_t>{kRegion + 10 * 4096, kRegion + 11 * 4096, kRegion + 12 * 4096});
  CHECK(found.parents == 0);
}

TEST_CASE("what a worker had copied before it was followed is not counted") {
  Worker worker = {.tally = CopyTally(/*was_there=*/true), .parents = {}};
  CHECK(worker.Take(Look(From(0, 100))).own == 0);
  CHECK(worker.Take(Look(From(0, 150))).own == 50);
}

TEST_CASE("a page counts once, and again after it was shared again") {
  Worker worker;
  CHECK(worker.Take(Look(From(0, 5))).own == 5);
  CHECK(worker.Take(Look(From(0, 5))).own == 0);
  CHECK(worker.Take(Look({})).own == 0);  // it forked a child of its own
  CHECK(worker.Take(Look(From(0, 5))).own == 5);
}

TEST_CASE("new memory is no copy, also where the parent has a page at that address by now") {
  Worker worker;
  RegionSharing look = Look({});
  look.shared = From(0, 256);
  worker.Take(look);
  look.exclusive = From(256, 256);
  CHECK(worker.Take(look).own == 0);
  const RegionSharing elsewhere = {.address = kRegion + (2 << 20), .exclusive = ~PageBits(), .peer = ~PageBits()};
  CHECK(worker.tally.Take(std::vector<RegionSharing>{elsewhere}, 4096, kPlenty, &worker.parents).own == 0);
}

TEST_CASE("a page that was given back and taken anew is no copy") {
  Worker worker;
  worker.Take(Look({}));
  RegionSharing gone = Look({});
  gone.shared.reset();
  worker.Take(gone);
  CHECK(worker.Take(Look(From(0, 512))).own == 0);
}

TEST_CASE("pages that both sides have alone are the worker's as far as its faults reach, the rest are the parent's") {
  Worker worker;
  worker.Take(Look({}));
  const NewCopies found = worker.Take(Look(From(0, 300), From(100, 200)), /*most=*/120);
  CHECK(found.own == 120);
  CHECK(found.parents == 180);
  CHECK(found.own_pages.size() == 100);  // of the others it is not known which ones
  CHECK(worker.Take(Look(From(0, 300), From(100, 200))).own == 0);
}

TEST_CASE(
    "pages that the parent alone has, while workers share the old ones, are the parent's: once, for all workers") {
  Worker first, second;
  first.Take(Look({}));
  const NewCopies found = first.Take(Look({}, From(0, 40)));
  CHECK(found.own == 0);
  CHECK(found.parents == 40);
  CHECK(first.Take(Look({}, From(0, 40))).parents == 0);
  ParentsCopies& parents = first.parents;
  const auto see = [&](const RegionSharing& look) {
    return second.tally.Take(std::vector<RegionSharing>{look}, 4096, kPlenty, &parents).parents;
  };
  CHECK(see(Look({}, From(0, 41))) == 1);
  CHECK(see(Look({})) == 0);  // shared with a new worker
  CHECK(see(Look({}, From(0, 41))) == 41);
}

TEST_CASE("a copy that a worker shares with its own child is not its parent's") {
  Worker worker;
  worker.Take(Look(From(0, 10)));
  CHECK(worker.Take(Look({}, From(0, 10))).parents == 0);
}

TEST_CASE("after an exec nothing is inherited") {
  Worker worker;
  worker.Take(Look({}));
  worker.tally.Exec();
  CHECK(worker.Take(Look(From(0, 512), From(0, 512))).own == 0);
}

}  // namespace cowprof
