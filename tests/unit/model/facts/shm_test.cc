// What names, owners and two looks in a row mean: tables of planted segments, and the near misses of each rule.
#include "model/facts/shm.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace cowprof {
namespace {

constexpr uint64_t kDevice = 40, kMiB = 1 << 20;

ShmSegment Segment(const std::string& name, uint64_t inode, std::vector<pid_t> owners = {}) {
  return {.name = name,
          .kind = KindOfName(name),
          .device = kDevice,
          .inode = inode,
          .bytes = kMiB,
          .length_bytes = kMiB,
          .creator = CreatorInName(name),
          .mapped_by = std::move(owners)};
}

ShmSample Look(std::vector<ShmSegment> segments) {
  return {.mount = "/dev/shm",
          .device = kDevice,
          .capacity_bytes = 64 * kMiB,
          .used_bytes = segments.size() * kMiB,
          .whole = true,
          .segments = std::move(segments)};
}

ShmSegment Deleted(ShmSegment segment) {
  segment.deleted = true;
  return segment;
}

ShmSegment Lasting(ShmSegment segment) {
  segment.lasting_name = true;
  return segment;
}

}  // namespace

TEST_CASE("kinds and creators are in the names") {
  const struct {
    const char* name;
    SegmentKind kind;
    pid_t creator;
  } kNames[] = {
      {"torch_9481_935535855_1", SegmentKind::kTorch, 9481},
      {"torch_77_3", SegmentKind::kTorch, 77},  // before torch 1.12
      {"torch_x_1", SegmentKind::kFile, 0},
      {"torch_0_1_1", SegmentKind::kFile, 0},
      {"torch_-5_1", SegmentKind::kFile, 0},
      {"torch_99999999999999_1", SegmentKind::kFile, 0},
      {"torch_12", SegmentKind::kFile, 0},
      {"my/torch_12_1_1", SegmentKind::kFile, 0},
      {"psm_a9d5d8b1", SegmentKind::kMultiprocessing, 0},
      {"pym-4242-x7f_a", SegmentKind::kArray, 4242},
      {"pym-", SegmentKind::kFile, 0},
      {"sem.mp-ab12", SegmentKind::kSemaphore, 0},
      {"features.npy", SegmentKind::kFile, 0},
      {"", SegmentKind::kFile, 0},
      {"\xff\n", SegmentKind::kFile, 0},
  };
  for (const auto& one : kNames) {
    INFO(one.name);
    CHECK(KindOfName(one.name) == one.kind);
    CHECK(CreatorInName(one.name) == one.creator);
  }
}

TEST_CASE("left behind: named, of a kind that ends with its processes, and owned by nobody") {
  const auto ownership = [](const ShmSegment& segment) { return OwnershipOf(Look({}), segment); };
  const std::string kind = GENERATE("torch_7_1_1", "psm_1", "pym-7-1");
  CHECK(ownership(Segment(kind, 1)) == Ownership::kLeaked);
  CHECK(ownership(Segment(kind, 1, {5})) == Ownership::kOwned);
  CHECK(ownership(Deleted(Segment(kind, 1))) == Ownership::kOwned);
  ShmSegment held = Segment(kind, 1), on_its_way = Segment(kind, 1);
  held.opened_by = {5};
  CHECK(ownership(held) == Ownership::kOwned);
  on_its_way.creator_alive = true;
  CHECK(ownership(on_its_way) == Ownership::kOwned);
  for (const char* other : {"features.npy", "sem.x", "cache/psm_1"}) {
    CHECK(ownership(Segment(other, 1)) == Ownership::kOwned);
  }
  ShmSample partly = Look({});
  partly.whole = false;
  CHECK(OwnershipOf(partly, Segment(kind, 1)) == Ownership::kUnknown);
  ShmSample unreadable = Look({});
  unreadable.unreadable = 1;
  unreadable.unreadable_bytes = kMiB;
  CHECK(OwnershipOf(unreadable, Segment(kind, 1)) == Ownership::kUnknown);
  unreadable.unreadable_bytes = kMiB - 1;
  CHECK(OwnershipOf(unreadable, Segment(kind, 1)) == Ownership::kLeaked);
}

TEST_CASE("totals are of the mount; what they don't explain is said") {
  ShmSample sample = Look({Segment("torch_7_1_1", 1, {7}), Segment("torch_7_1_2", 2, {7}), Segment("psm_1", 3)});
  sample.segments.push_back(Segment("memfd:x", 4, {7}));
  sample.segments.back().device = 1;
  sample.used_bytes = 10 * kMiB;
  auto totals = TotalsByKind(sample);
  CHECK(totals.size() == 2);
  CHECK(totals[SegmentKind::kTorch].segments == 2);
  CHECK(totals[SegmentKind::kTorch].bytes == 2 * kMiB);
  CHECK(UnexplainedBytes(sample) == 7 * kMiB);
  CHECK(LeakedIn(sample).segments == 1);
  sample.omitted_bytes = 6 * kMiB;
  CHECK(UnexplainedBytes(sample) == kMiB);
  sample.used_bytes = 0;  // read before the segments were written
  CHECK(UnexplainedBytes(sample) == 0);
}

TEST_CASE("batches in flight: the size that takes up most") {
  CHECK_FALSE(BatchesIn(Look({Segment("psm_1", 1, {5}), Segment("torch_7_1_1", 2)})));
  ShmSample sample = Look({});
  for (pid_t worker = 7; worker < 11; ++worker) {
    for (uint64_t i = 0; i < 3; ++i) {
      sample.segments.push_back(Segment("torch_" + std::to_string(worker) + "_1_1", worker * 10 + i, {worker}));
      sample.segments.back().length_bytes = 3'250'586;
      sample.segments.push_back(Segment("torch_" + std::to_string(worker) + "_1_2", worker * 10 + 5 + i, {worker}));
      sample.segments.back().length_bytes = 2048;  // labels
    }
  }
  const auto batches = BatchesIn(sample);
  REQUIRE(batches);
  CHECK(batches->segments == 12);
  CHECK(batches->creators == 4);
  CHECK(BatchesText(*batches) == "12 segments of 3.1 MiB from 4 processes, 3 each: 37.2 MiB in flight or still in use");
  CHECK(BatchesText({.segments = 5, .bytes_each = 1024, .creators = 2}) ==
        "5 segments of 1.0 KiB from 2 processes, up to 3 each: 5.0 KiB in flight or still in use");
  CHECK(BatchesText({.segments = 2, .bytes_each = 1024, .creators = 1}) ==
        "2 segments of 1.0 KiB from 1 process, 2 each: 2.0 KiB in flight or still in use");
  CHECK(BatchesText({.segments = 2, .bytes_each = 1024}) == "2 segments of 1.0 KiB: 2.0 KiB in flight or still in use");
}

TEST_CASE("a lasting name that is gone while those who used it still do") {
  const ShmSample before = Look({Lasting(Segment("psm_1", 1, {5, 6}))});
  const auto lost = [&](const ShmSample& then, const ShmSegment& now, const std::vector<pid_t>& living) {
    ShmSample look = Look({now});
    CompareLooks(then, living, &look);
    CHECK(look.unlinked == (look.segments[0].lost_name ? 1 : 0));
    return look.segments[0].lost_name;
  };
  CHECK(lost(before, Deleted(Segment("psm_1", 1, {5, 6})), {5, 6}));
  CHECK(lost(before, Deleted(Segment("psm_1", 1, {5})), {5}));  // 6 ended, and its tracker removed the name
  SECTION("one that lives let go and removed it: as it should be") {
    CHECK_FALSE(lost(before, Deleted(Segment("psm_1", 1, {5})), {5, 6}));
  }
  SECTION("its maker, the oldest, has ended: its tracker removed it, as it should") {
    CHECK_FALSE(lost(before, Deleted(Segment("psm_1", 1, {6})), {6}));
  }
  SECTION("nobody uses it any more") { CHECK_FALSE(lost(before, Deleted(Segment("psm_1", 1)), {5, 6})); }
  SECTION("it has its name") { CHECK_FALSE(lost(before, Segment("psm_1", 1, {5, 6}), {5, 6})); }
  SECTION("another file, of another kind, with the same inode number") {
    CHECK_FALSE(lost(before, Deleted(Segment("torch_5_1_1", 1, {5, 6})), {5, 6}));
  }
  SECTION("its name was seen for an instant only") {
    CHECK_FALSE(lost(Look({Segment("psm_1", 1, {5, 6})}), Deleted(Segment("psm_1", 1, {5, 6})), {5, 6}));
  }
  SECTION("it never had one") {
    CHECK_FALSE(lost(Look({Deleted(Segment("psm_1", 1, {5}))}), Deleted(Segment("psm_1", 1, {5})), {5}));
  }
  SECTION("files may be unlinked by whom they belong to") {
    CHECK_FALSE(lost(Look({Lasting(Segment("a.npy", 1, {5}))}), Deleted(Segment("a.npy", 1, {5})), {5}));
  }
  SECTION("torch: not what its manager removes when the worker has ended") {
    const ShmSample torch = Look({Lasting(Segment("torch_6_1_1", 1, {5}))});
    ShmSegment now = Deleted(Segment("torch_6_1_1", 1, {5}));
    CHECK_FALSE(lost(torch, now, {5}));
    now.creator_alive = true;
    CHECK(lost(torch, now, {5, 6}));
  }
}

TEST_CASE("a lost name is counted once and stays so; a partial look decides nothing") {
  ShmSample first = Look({Lasting(Segment("psm_1", 1, {5}))}), second = Look({Deleted(Segment("psm_1", 1, {5}))});
  ShmSample third = second, partial = second;
  partial.whole = false;
  CompareLooks(first, {5}, &partial);
  CHECK(partial.unlinked == 0);
  CompareLooks(first, {5}, &second);
  CompareLooks(second, {5}, &third);
  CHECK(third.unlinked == 1);
  CHECK(third.segments[0].lost_name);
}

TEST_CASE("how long nobody owns it") {
  ShmSample first = Look({Segment("psm_1", 1)}), second = first, quick = first,
            owned = Look({Segment("psm_1", 1, {5})});
  CompareLooks({}, {}, &first);
  CHECK(first.segments[0].looks_unowned == 1);
  quick.whole = false;
  CompareLooks(first, {}, &quick);
  CHECK(quick.segments[0].looks_unowned == 1);
  CompareLooks(first, {}, &second);
  CHECK(second.segments[0].looks_unowned == 2);
  CompareLooks(second, {}, &owned);
  CHECK(owned.segments[0].looks_unowned == 0);
}

TEST_CASE("an inode that another process made again is another segment") {
  ShmSample first = Look({Segment("torch_6_1_1", 1)}), second = Look({Segment("torch_7_1_1", 1)});
  first.segments[0].creator = 6;
  second.segments[0].creator = 7;
  CompareLooks({}, {}, &first);
  CompareLooks(first, {}, &second);
  CHECK(second.segments[0].looks_unowned == 1);
}

TEST_CASE("a recording keeps the largest, and those that something is wrong with") {
  ShmSample sample = Look({});
  for (uint64_t i = 0; i < 10; ++i) {
    sample.segments.push_back(Segment("file" + std::to_string(i), i, {5}));
    sample.segments.back().bytes = (i + 1) * 1000;
  }
  sample.segments[0] = Segment("psm_leaked", 0);
  sample.segments[0].bytes = 1;
  KeepLargest(3, &sample);
  REQUIRE(sample.segments.size() == 3);
  CHECK(sample.segments[0].bytes == 10'000);
  CHECK(sample.segments[1].bytes == 9'000);
  CHECK(sample.segments[2].name == "psm_leaked");
  CHECK(sample.omitted == 7);
  CHECK(sample.omitted_bytes == 2000 + 3000 + 4000 + 5000 + 6000 + 7000 + 8000);
}

}  // namespace cowprof
