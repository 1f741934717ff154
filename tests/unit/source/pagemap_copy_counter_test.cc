// pagemap_copy_counter.cc on planted looks at a worker's pages: whose copies they are, when a page counts again, and
// that nothing is counted that no fault can have copied.
#include "source/pagemap_copy_counter.h"

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

struct Worker {  // without siblings
  PagemapCopyCounter counter;
  ParentsCopies parents;
  NewCopies Take(const RegionSharing& look, uint64_t most = kPlenty) { return TakeWith(look, most, &parents, {}); }
  // With `siblings`, all of them alive.
  NewCopies TakeWith(const RegionSharing& look, uint64_t most, ParentsCopies* all,
                     const std::vector<const Worker*>& siblings) {
    const auto held = [&](uint64_t address, const PageBits& pages) {
      PageBits bits;
      for (const Worker* sibling : siblings) bits |= sibling->counter.HoldsOfLeft(address, (*all)[address]) & pages;
      return bits;
    };
    return counter.Take(std::vector<RegionSharing>{look}, 4096, most, {all, held});
  }
};

// Workers of a parent that has copied 40 pages, which their looks show.
struct Workers {
  explicit Workers(int count) : of(count) {
    for (Worker& worker : of) worker.Take(Look({}));
    for (Worker& worker : of) copies += Take(&worker, Look({}, From(0, 40))).parents;
  }
  NewCopies Take(Worker* worker, const RegionSharing& look, uint64_t most = kPlenty) {
    std::vector<const Worker*> siblings;
    for (const Worker& one : of) {
      if (&one != worker && &one != gone) siblings.push_back(&one);
    }
    return worker->TakeWith(look, most, &parents, siblings);
  }
  std::vector<Worker> of;
  const Worker* gone = nullptr;
  ParentsCopies parents;
  uint64_t copies = 0;  // by the parent
};

}  // namespace

TEST_CASE("pages that can only be the worker's are reported, whatever its faults") {
  Worker worker;
  worker.Take(Look({}));
  const NewCopies found = worker.Take(Look(From(10, 100)), 1);
  CHECK(found.own == 1);
  CHECK(found.own_pages.size() == 100);
}

TEST_CASE("pages that a worker has alone at its first look were copied since the fork") {
  Worker worker;
  const NewCopies found = worker.Take(Look(From(10, 3)));
  CHECK(found.own == 3);
  CHECK(found.own_pages == std::vector<uint64_t>{kRegion + 10 * 4096, kRegion + 11 * 4096, kRegion + 12 * 4096});
  CHECK(found.parents == 0);
}

TEST_CASE("pages that a worker copied before it was followed are not counted") {
  Worker worker = {.counter = PagemapCopyCounter(/*was_there=*/true), .parents = {}};
  CHECK(worker.Take(Look(From(0, 100))).own == 0);
  CHECK(worker.Take(Look(From(0, 150))).own == 50);
}

TEST_CASE("a page counts once, and once more after it was shared again") {
  Worker worker;
  CHECK(worker.Take(Look(From(0, 5))).own == 5);
  CHECK(worker.Take(Look(From(0, 5))).own == 0);
  CHECK(worker.Take(Look({})).own == 0);  // it forked a child of its own
  CHECK(worker.Take(Look(From(0, 5))).own == 5);
}

TEST_CASE("new memory is not a copy, even if the parent now has a page at that address") {
  Worker worker;
  RegionSharing look = Look({});
  look.shared = From(0, 256);
  worker.Take(look);
  look.exclusive = From(256, 256);
  CHECK(worker.Take(look).own == 0);
  const RegionSharing elsewhere = {.address = kRegion + (2 << 20), .exclusive = ~PageBits(), .peer = ~PageBits()};
  CHECK(worker.Take(elsewhere).own == 0);
}

TEST_CASE("a page that was freed and allocated again is not a copy") {
  Worker worker;
  worker.Take(Look({}));
  RegionSharing gone = Look({});
  gone.shared.reset();
  worker.Take(gone);
  CHECK(worker.Take(Look(From(0, 512))).own == 0);
}

TEST_CASE("pages exclusive on both sides are the worker's up to its faults, the rest are the parent's") {
  Worker worker;
  worker.Take(Look({}));
  const NewCopies found = worker.Take(Look(From(0, 300), From(100, 200)), /*most=*/120);
  CHECK(found.own == 120);
  CHECK(found.parents == 180);
  CHECK(found.own_pages.size() == 100);  // of the others it is not known which ones
  CHECK(worker.Take(Look(From(0, 300), From(100, 200))).own == 0);
}

TEST_CASE("pages exclusive to the parent while workers share the originals are its copies, counted once for all") {
  Worker first, second, third;
  first.Take(Look({}));
  const NewCopies found = first.Take(Look({}, From(0, 40)));
  CHECK(found.own == 0);
  CHECK(found.parents == 40);
  CHECK(first.Take(Look({}, From(0, 40))).parents == 0);
  const auto see = [&](Worker* worker, const RegionSharing& look) {
    return worker->TakeWith(look, kPlenty, &first.parents, {}).parents;
  };
  CHECK(see(&second, Look({}, From(0, 41))) == 1);
  CHECK(see(&second, Look({})) == 0);  // the parent shares them with a new worker
  CHECK(see(&third, Look({})) == 0);
  // Alone the parent's again: by a copy of its own, which the new worker sees, or of the new worker or its end.
  CHECK(see(&second, Look({}, From(0, 41))) == 0);
  CHECK(see(&third, Look({}, From(0, 41))) == 41);
}

TEST_CASE("an original that the parent left is not a copy once the last sibling drops it") {
  for (const uint64_t most : {uint64_t{0}, kPlenty}) {
    Workers two(2);
    CHECK(two.copies == 40);
    two.gone = &two.of[1];
    const NewCopies found = two.Take(&two.of[0], Look(From(0, 40), From(0, 40)), most);
    CHECK(found.own == 0);
    CHECK(found.own_pages.empty());
    CHECK(found.parents == 0);
  }
}

TEST_CASE("nor is it a copy after the parent shared its own copy with a new worker") {
  Workers two(2);
  two.Take(&two.of[0], Look({}));
  two.gone = &two.of[1];
  CHECK(two.Take(&two.of[0], Look(From(0, 40))).own == 0);
}

TEST_CASE("of the workers that share an original that the parent left, all but the last copy it") {
  Workers three(3);
  const RegionSharing all = Look(From(0, 40), From(0, 40));
  uint64_t own = 0;
  for (Worker& worker : three.of) own += three.Take(&worker, all).own;
  CHECK(own == 2 * 40);
  CHECK(three.copies == 40);
}

TEST_CASE("of two workers that shared it, the one with faults copied it, whichever is looked at first") {
  for (const int writer : {0, 1}) {
    Workers two(2);
    const RegionSharing all = Look(From(0, 40), From(0, 40));
    CHECK(two.Take(&two.of[0], all, writer == 0 ? kPlenty : 1).own == (writer == 0 ? 40 : 1));
    CHECK(two.Take(&two.of[1], all, writer == 1 ? kPlenty : 0).own == (writer == 1 ? 40 : 0));
  }
}

TEST_CASE("a copy that a worker shares with its own child is not the parent's") {
  Worker worker;
  worker.Take(Look(From(0, 10)));
  CHECK(worker.Take(Look({}, From(0, 10))).parents == 0);
}

TEST_CASE("one fault copies a whole hugetlb page, and no more pages are copied than there were faults") {
  RegionSharing look = Look(From(0, 512), From(0, 512));
  look.hugetlb = true;
  for (const uint64_t faults : {0, 1, 7}) {
    Worker worker;
    worker.Take(Look({}));
    const NewCopies found = worker.Take(look, faults);
    CHECK(found.own == (faults == 0 ? 0 : 512));
    CHECK(found.parents == 512 - found.own);
    CHECK(found.faults == (faults == 0 ? 0 : 1));  // the rest is for what comes next
    Worker of_small_pages;
    of_small_pages.Take(Look({}));
    CHECK(of_small_pages.Take(Look(From(0, 512), From(0, 512)), faults).own == faults);
  }
}

TEST_CASE("a child's look does not count again what its parent, a worker, copied") {
  Worker worker;
  worker.Take(Look({}));
  worker.counter.Forked();
  const auto look_of_child = [&](PagemapCopyCounter* child, const RegionSharing& look) {
    ParentsCopies workers_copies;
    const auto nobody = [](uint64_t, const PageBits&) { return PageBits(); };
    return child->Take(std::vector<RegionSharing>{look}, 4096, 0, {&workers_copies, nobody, &worker.counter});
  };
  PagemapCopyCounter holds, is_the_last;
  look_of_child(&holds, Look({}));
  look_of_child(&is_the_last, Look({}));
  // Either look may come first. The child shares the old page with its grandparent, or has it alone.
  CHECK(look_of_child(&holds, Look({}, From(0, 40))).parents == 0);
  CHECK(worker.Take(Look(From(0, 40))).own == 40);
  CHECK(look_of_child(&is_the_last, Look(From(0, 40), From(0, 40))).parents == 0);
  // It forks again and copies what it now shares with the new child, before the next look at it.
  worker.counter.Forked();
  PagemapCopyCounter younger;
  look_of_child(&younger, Look({}));
  CHECK(look_of_child(&younger, Look({}, From(0, 40))).parents == 40);
  // Pages that the grandparent never had: only the child's look shows them.
  RegionSharing alone = Look({});
  alone.peer.reset();
  worker.Take(alone);
  PagemapCopyCounter other;
  look_of_child(&other, Look({}));
  CHECK(look_of_child(&other, Look({}, From(0, 40))).parents == 40);
}

TEST_CASE("after an exec nothing is inherited") {
  Worker worker;
  worker.Take(Look({}));
  worker.counter.Exec();
  CHECK(worker.Take(Look(From(0, 512), From(0, 512))).own == 0);
}

}  // namespace cowprof
