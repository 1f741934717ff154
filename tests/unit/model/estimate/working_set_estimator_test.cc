// The plateau that working_set_estimator.cc tells from the first copied pages, against planted pools: a data set of
// small objects in arenas or of large ones elsewhere, read shuffled or in order by one worker or several.
#include "model/estimate/working_set_estimator.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace cowprof {
namespace {

constexpr uint64_t kBase = 0x7f0000000;  // a page

// Items in a row, each with its head in one of the pages; in arenas all four pages of a pool belong to one kind of
// object, and 4 of 5 pools are read.
struct Planted {
  std::vector<uint64_t> page_of_item;
  std::set<uint64_t> pool;
  uint64_t pages = 0;
  PagesKind kind = PagesKind::kArena;
};

Planted SmallObjects(uint64_t pages, int items_a_page) {
  Planted planted = {.pages = pages};
  for (uint64_t page = 0; page < pages; ++page) {
    if (page / 4 % 5 == 4) continue;
    planted.pool.insert(kBase + page);
    for (int i = 0; i < items_a_page; ++i) planted.page_of_item.push_back(kBase + page);
  }
  return planted;
}

Planted LargeObjects(int items) {
  Planted planted = {.kind = PagesKind::kOther};
  std::mt19937 random(3);
  uint64_t at = 0;
  for (int i = 0; i < items; ++i) {
    planted.page_of_item.push_back(kBase + at / 4096);
    planted.pool.insert(kBase + at / 4096);
    at += std::uniform_int_distribution<uint64_t>(2048, 8192)(random);
  }
  planted.pages = at / 4096 + 1;
  return planted;
}

// Workers read the items in turn, in batches of 64; pages are told at each 2 % of the epoch. Stops when worker 1 has
// copied `fraction` of the pool. `idle`: a worker that only starts.
struct Reading {
  WorkingSetEstimator pool;
  std::set<uint64_t> copied;  // by worker 1
};
Reading Read(const Planted& planted, int workers, bool shuffled, double fraction, int idle = 0) {
  Reading reading;
  if (idle > 0) reading.pool.Add(idle, kBase, 100);
  std::vector<uint64_t> order = planted.page_of_item;
  std::mt19937 random(4);
  if (shuffled) std::shuffle(order.begin(), order.end(), random);
  const std::vector<PageZone> zones = {{kBase, kBase + planted.pages, planted.kind}};
  size_t told = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    const int worker = 1 + static_cast<int>(i / 64 % workers);
    reading.pool.Add(worker, order[i], 1);
    if (worker == 1) reading.copied.insert(order[i]);
    const bool enough = reading.copied.size() >= fraction * planted.pool.size();
    if (enough || i - told > order.size() / 200) {
      reading.pool.EndRecord(zones);
      told = i;
    }
    if (enough) break;
  }
  return reading;
}

void CheckEstimate(const Reading& reading, double truth, double tolerance) {
  REQUIRE(reading.pool.estimate());
  const PoolEstimate& pages = *reading.pool.estimate();
  CHECK(pages.best == Approx(truth).epsilon(tolerance));
  CHECK(pages.low <= truth);
  CHECK(pages.high >= truth);
  CHECK(pages.low <= pages.best);
  CHECK(pages.high >= pages.best);
}

}  // namespace

TEST_CASE("small objects, shuffled: within 15 % when a fifth is copied", "[long]") {
  const Planted planted = SmallObjects(65'536, 12);
  for (const int workers : {1, 2, 4, 16}) {
    for (const double fraction : {0.2, 0.5, 0.9}) {
      INFO(workers << " workers, " << fraction);
      CheckEstimate(Read(planted, workers, true, fraction), planted.pool.size(), 0.15);
    }
  }
}

// What the dicts of a real data set do: of four pools one has mostly what nobody reads (keys of dicts), and few objects
// of the data (short strings), so that a worker copies less than half of its pages in an epoch.
TEST_CASE("pools that are shared with what is not read", "[long]") {
  Planted planted = {.pages = 65'536};
  for (uint64_t page = 0; page < planted.pages; ++page) {
    const int items = page / 4 % 4 == 3 ? 2 : 16;
    for (int i = 0; i < items; ++i) planted.page_of_item.push_back(kBase + page);
    planted.pool.insert(kBase + page);
  }
  const double truth = Read(planted, 4, true, 1).copied.size();
  REQUIRE(truth < 0.9 * planted.pool.size());
  for (const double fraction : {0.2, 0.3, 0.5, 0.7}) {
    INFO(fraction);
    CheckEstimate(Read(planted, 4, true, fraction * truth / planted.pool.size()), truth, 0.15);
  }
}

TEST_CASE("memory whose copies move on without an order of addresses comes as far as the rest") {
  // Each item has a head on the heap, which marches, and a small part in one of 64 arenas, which were not taken in
  // order.
  constexpr uint64_t kHeap = 40'000, kArenas = 64, kArenaPages = 256, kArenaBase = kBase + (1 << 20);
  WorkingSetEstimator pool;
  const std::vector<PageZone> zones = {{kBase, kBase + kHeap, PagesKind::kOther},
                                       {kArenaBase, kArenaBase + kArenas * kArenaPages, PagesKind::kArena}};
  for (uint64_t page = 0; page < kHeap * 2 / 5; ++page) {
    pool.Add(1, kBase + page, 1);
    const uint64_t small = page * kArenas * kArenaPages / kHeap, arena = small / kArenaPages * 37 % kArenas;
    pool.Add(1, kArenaBase + arena * kArenaPages + small % kArenaPages, 1);
    if (page % 400 == 399) pool.EndRecord(zones);
  }
  REQUIRE(pool.estimate());
  CHECK(pool.estimate()->sequential);
  CheckEstimate({.pool = pool}, kHeap + kArenas * kArenaPages, 0.10);
}

TEST_CASE("large objects, shuffled: pages without a head are not counted as read") {
  const Planted planted = LargeObjects(30'000);
  CheckEstimate(Read(planted, 1, true, 0.2), planted.pool.size(), 0.15);
  CheckEstimate(Read(planted, 2, true, 0.2), planted.pool.size(), 0.30);  // if they read on: one epoch is half of it
}

TEST_CASE("large objects of several workers: how far they go is known of workers that end with the epoch", "[long]") {
  Planted planted = LargeObjects(60'000);
  const double heads_each = 1.0 * planted.page_of_item.size() / planted.pool.size();
  for (const int workers : {2, 4}) {
    const double share = Read(planted, workers, true, 1).copied.size();  // what is read in a whole epoch
    REQUIRE(share < 0.8 * planted.pool.size());
    for (const double fraction : {0.2, 0.5}) {
      INFO(workers << " workers, " << fraction);
      Reading reading = Read(planted, workers, true, fraction * share / planted.pool.size());
      std::vector<PageZone> zones = {{kBase, kBase + planted.pages, planted.kind}};
      zones[0].headed = 1.0 * planted.pool.size() / planted.pages;
      zones[0].heads_each = heads_each;
      reading.pool.EndRecord(zones, false);
      CheckEstimate(reading, share, 0.10);
      for (const std::optional<bool> persistent : {std::optional<bool>(true), std::optional<bool>()}) {
        reading.pool.EndRecord(zones, persistent);
        CHECK(reading.pool.estimate()->low <= share);
        CHECK(reading.pool.estimate()->high >= planted.pool.size());
      }
    }
  }
}

TEST_CASE("the time until nearly all is copied, in what is copied lately") {
  const Planted planted = SmallObjects(32'768, 12);
  std::vector<size_t> copied;  // pages, after each read
  std::vector<uint64_t> order = planted.page_of_item;
  std::mt19937 random(4);
  std::shuffle(order.begin(), order.end(), random);
  std::set<uint64_t> pages;
  for (const uint64_t page : order) {
    pages.insert(page);
    copied.push_back(pages.size());
  }
  for (const double fraction : {0.2, 0.4, 0.6, 0.8}) {
    INFO(fraction);
    const Reading reading = Read(planted, 1, true, fraction);
    REQUIRE(reading.pool.estimate());
    const size_t now = std::lower_bound(copied.begin(), copied.end(), reading.copied.size()) - copied.begin();
    const double rest = planted.pool.size() - copied[now], lately = (copied[now] - copied[now * 3 / 4]) / (now / 4.0);
    const auto end = std::lower_bound(copied.begin(), copied.end(), copied[now] + 0.95 * rest);
    const double best = reading.pool.estimate()->best - copied[now];
    // Early the rates at which places are hit are known less well.
    const double tolerance = fraction < 0.3 ? 0.6 : 0.3;
    CHECK(reading.pool.estimate()->stretch * best / lately == Approx(end - copied.begin() - now).epsilon(tolerance));
  }
  CHECK(Read(LargeObjects(30'000), 1, true, 0.3).pool.estimate()->stretch == Approx(0.95));
  CHECK(Read(SmallObjects(16'384, 12), 1, false, 0.3).pool.estimate()->stretch == Approx(0.95));
}

TEST_CASE("a record of a few pages is left to the next one") {
  // At the end of a run the last words of a worker fall into pages of their own: that copies have moved on is no news.
  const Planted planted = SmallObjects(16'384, 12);
  Reading reading = Read(planted, 1, true, 0.5);
  const std::vector<PageZone> zones = {{kBase, kBase + planted.pages + 640, planted.kind}};
  const PoolEstimate before = *reading.pool.estimate();
  for (uint64_t page = 0; page < 30; ++page) reading.pool.Add(1, kBase + planted.pages + 64 + page, 1);
  reading.pool.EndRecord(zones);
  REQUIRE(reading.pool.estimate());
  CHECK(reading.pool.estimate()->best == before.best);
}

// A recorder asks at each tick, a replay at the end.
TEST_CASE("when the estimate is asked for does not change it") {
  const Planted planted = SmallObjects(65'536, 12);
  const Reading reading = Read(planted, 2, true, 0.4);
  const std::vector<PageZone> zones = {{kBase, kBase + planted.pages, planted.kind}};
  WorkingSetEstimator asked = reading.pool, unasked = reading.pool;
  REQUIRE(asked.estimate());
  for (WorkingSetEstimator* pool : {&asked, &unasked}) {
    // Too little for a record, of a third worker: it waits for the next one.
    for (uint64_t page = 0; page < 40; ++page) pool->Add(3, kBase + 97 * page, 1);
    pool->EndRecord(zones);
  }
  REQUIRE(unasked.estimate());
  CHECK(asked.estimate()->best == unasked.estimate()->best);
  CHECK(asked.estimate()->low == unasked.estimate()->low);
  CHECK(asked.estimate()->high == unasked.estimate()->high);
  CHECK(asked.estimate()->stretch == unasked.estimate()->stretch);
}

TEST_CASE("objects of one large size: the distance of their heads shows which pages have none") {
  Planted planted = {.kind = PagesKind::kOther};
  for (uint64_t i = 0; i < 10'000; ++i) {
    planted.page_of_item.push_back(kBase + 4 * i);
    planted.pool.insert(kBase + 4 * i);
  }
  planted.pages = 40'000;
  const Reading reading = Read(planted, 1, true, 0.3);
  REQUIRE(reading.pool.estimate());
  CHECK(reading.pool.estimate()->best < 1.6 * planted.pool.size());  // at worst: every page, four times as many
  CHECK(reading.pool.estimate()->high >= planted.pool.size());
}

TEST_CASE("workers that keep to blocks of their own: nothing is said, for no pool tells how far each will come") {
  const Planted planted = SmallObjects(60'000, 30);
  const std::vector<PageZone> zones = {{kBase, kBase + planted.pages, planted.kind}};
  // Blocks of 300 neighbours, in no order, four workers in turn; or single objects.
  const auto read = [&](size_t block) {
    std::vector<size_t> blocks(planted.page_of_item.size() / block);
    std::iota(blocks.begin(), blocks.end(), 0);
    std::mt19937 random(5);
    std::shuffle(blocks.begin(), blocks.end(), random);
    WorkingSetEstimator pool;
    const size_t many = blocks.size() * 2 / 5 / (block == 1 ? 20 : 1);
    for (size_t i = 0; i < many; ++i) {
      const int worker = 1 + static_cast<int>(i % 4);
      for (size_t item = 0; item < block; ++item) pool.Add(worker, planted.page_of_item[blocks[i] * block + item], 1);
      if (i % (many / 20) == 0) pool.EndRecord(zones, false);
    }
    return pool.estimate();
  };
  CHECK_FALSE(read(300));
  CHECK(read(1));
}

TEST_CASE("in order: what lies ahead is copied as what lies behind") {
  for (const Planted& planted : {SmallObjects(16'384, 12), LargeObjects(30'000)}) {
    for (const double fraction : {0.2, 0.5, 0.9}) {
      INFO(fraction);
      const Reading reading = Read(planted, 1, false, fraction);
      CheckEstimate(reading, planted.pool.size(), 0.10);
      CHECK(reading.pool.estimate()->sequential);
    }
  }
}

TEST_CASE("a worker that idles does not halve what the other one is expected to copy") {
  for (const auto& [planted, shuffled] :
       {std::pair(SmallObjects(16'384, 12), false), std::pair(LargeObjects(30'000), true)}) {
    INFO(shuffled);
    CheckEstimate(Read(planted, 1, shuffled, 0.2, /*idle=*/2), planted.pool.size(), 0.15);
  }
}

TEST_CASE("nothing is said of little") {
  const Planted planted = SmallObjects(16'384, 12);
  CHECK_FALSE(Read(planted, 1, true, 0.01).pool.estimate());
  WorkingSetEstimator pool;
  pool.EndRecord({});
  CHECK_FALSE(pool.estimate());
}

TEST_CASE("the sample is bounded, and still good", "[long]") {
  const Planted planted = SmallObjects(1 << 21, 1);  // 8 GiB
  WorkingSetEstimator pool;
  std::mt19937_64 random(5);
  const std::vector<PageZone> zones = {{kBase, kBase + planted.pages, planted.kind}};
  std::set<uint64_t> copied;
  for (int record = 0; record < 10; ++record) {
    for (int i = 0; i < 80'000; ++i) {
      const uint64_t page = planted.page_of_item[random() % planted.page_of_item.size()];
      copied.insert(page);
      pool.Add(1, page, 1);
    }
    pool.EndRecord(zones);
  }
  REQUIRE(pool.estimate());
  CHECK(pool.estimate()->best == Approx(planted.pool.size()).epsilon(0.15));
}

TEST_CASE("where each place was hit more than once, there is nothing left to expect") {
  WorkingSetEstimator pool;
  for (uint64_t group = 0; group < 800; ++group) pool.Add(1, kBase + 4 * group, 2 + group % 2);
  const std::vector<PageZone> zones = {{kBase, kBase + 3200, PagesKind::kArena}};
  pool.EndRecord(zones);
  for (uint64_t group = 0; group < 160; group += 2) pool.Add(1, kBase + 4 * group + 3, 1);
  pool.EndRecord(zones);
  REQUIRE(pool.estimate());
  CHECK(pool.estimate()->best == Approx(3200).epsilon(0.02));
}

TEST_CASE("odd runs and zones do no harm") {
  WorkingSetEstimator pool;
  pool.Add(-1, UINT64_MAX - 3, UINT64_MAX);
  pool.Add(1, 0, 0);
  for (int worker = 0; worker < 500; ++worker) pool.Add(worker, 64 * worker, 3000);
  pool.EndRecord({{5, 5, PagesKind::kOther}, {7, 3, PagesKind::kArena}, {100, UINT64_MAX, PagesKind::kArena}});
  pool.Add(1, 1 << 20, 5000);
  pool.EndRecord({});
  for (int worker = -1; worker < 500; ++worker) pool.Forget({worker});
  pool.EndRecord({});
  if (const auto& pages = pool.estimate()) {
    CHECK(std::isfinite(pages->low));
    CHECK(std::isfinite(pages->best));
    CHECK(std::isfinite(pages->high));
  }
}

}  // namespace cowprof
