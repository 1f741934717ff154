// When mappings are read again and their regions numbered anew, on files of maps that the tests write.
#include "attribution/address_spaces.h"

#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "fixture_tree.h"

namespace cowprof {
namespace {

struct Setting {
  FixtureTree tree;
  AddressSpaces spaces{ProcFs(tree.root()), 4096};
  Sample sample;  // as last taken

  void Map(const std::string& maps) const { tree.Write("/7/maps", maps); }
  // Starts of the regions that were numbered since the last call.
  std::vector<uint64_t> NewStarts() {
    spaces.Take(&sample);
    std::vector<uint64_t> starts;
    for (const NumberedRegion& region : sample.new_regions) starts.push_back(region.region.start);
    return starts;
  }
};

}  // namespace

TEST_CASE("mappings are read again after a while, and a region that is known keeps its number") {
  Setting setting;
  setting.Map("00400000-00500000 rw-p 00000000 00:00 0 [heap]\n");
  const auto first = setting.spaces.RangesOf(3, 7, 0, absl::Seconds(1));
  REQUIRE(first != nullptr);
  CHECK(setting.NewStarts() == std::vector<uint64_t>{0x400000});
  setting.Map("00400000-00600000 rw-p 00000000 00:00 0 [heap]\n00800000-00900000 rw-p 00000000 00:00 0\n");
  CHECK(setting.spaces.RangesOf(3, 7, 0, absl::Seconds(10)) == first);
  const auto second = setting.spaces.RangesOf(3, 7, 0, absl::Seconds(11));
  CHECK(*second == std::vector<AddressRange>{{0x400000, 0x600000, 0}, {0x800000, 0x900000, 1}});
  CHECK(setting.NewStarts() == std::vector<uint64_t>{0x800000});
  CHECK(setting.sample.grown_regions == std::vector<GrownRegion>{{0, 0x200000}});
  // A worker has less of it, and then the owner again what it had.
  for (const char* end : {"00580000", "00600000"}) {
    setting.Map(absl::StrCat("00400000-", end, " rw-p 00000000 00:00 0 [heap]\n"));
    setting.spaces.Forked(3, absl::Seconds(20));
    setting.spaces.RangesOf(3, 7, 0, absl::Seconds(40));
    CHECK(setting.NewStarts().empty());
    CHECK(setting.sample.grown_regions.empty());
  }
}

// As a mapping whose arenas are swapped out for a while, and not found.
TEST_CASE("a region whose place another had taken is told again, once, when it is back") {
  Setting setting;
  constexpr char kOne[] = "00400000-00600000 rw-p 00000000 00:00 0\n";
  constexpr char kTwo[] = "00400000-00500000 rw-p 00000000 00:00 0 [heap]\n00500000-00600000 rw-p 00000000 00:00 0\n";
  absl::Duration t;
  const auto grown = [&](const char* maps) {
    setting.Map(maps);
    setting.spaces.RangesOf(3, 7, 0, t += absl::Seconds(10));
    setting.spaces.Take(&setting.sample);
    return setting.sample.grown_regions;
  };
  CHECK(grown(kTwo).empty());
  CHECK(grown(kOne).empty());
  CHECK(setting.sample.new_regions.size() == 1);
  CHECK(grown(kTwo) == std::vector<GrownRegion>{{0, 0x100000}, {1, 0x100000}});
  CHECK(grown(kTwo).empty());
  CHECK(grown(kOne) == std::vector<GrownRegion>{{2, 0x200000}});
  CHECK(setting.sample.new_regions.empty());
}

TEST_CASE("what is known of the mappings outlives the process that they were read through") {
  Setting setting;
  setting.Map("00400000-00500000 rw-p 00000000 00:00 0 [heap]\n");
  const auto first = setting.spaces.RangesOf(3, 7, 0, absl::Seconds(1));
  setting.Map("");  // a zombie's
  CHECK(setting.spaces.RangesOf(3, 7, 0, absl::Seconds(20)) == first);
}

TEST_CASE("of an address space that is forgotten nothing is kept") {
  Setting setting;
  setting.Map("00400000-00500000 rw-p 00000000 00:00 0 [heap]\n");
  setting.spaces.RangesOf(3, 7, 0, absl::Seconds(1));
  setting.spaces.ForgetSpace(3);
  setting.spaces.Add(3, 5, {.ranges = {{.number = 0, .private_pages = 9}}});
  Sample sample;
  setting.spaces.Take(&sample);
  CHECK(sample.regions.empty());
  // The new program of the same process is read at once.
  setting.Map("00400000-00480000 rw-p 00000000 00:00 0 [heap]\n");
  const auto ranges = setting.spaces.RangesOf(3, 7, 0, absl::Seconds(2));
  CHECK(*ranges == std::vector<AddressRange>{{0x400000, 0x480000, 0}});
  setting.spaces.Add(3, 3, {.ranges = {{.number = 0, .private_pages = 9}}});
  setting.spaces.Take(&sample);
  REQUIRE(sample.new_regions.size() == 1);
  REQUIRE(sample.regions.size() == 1);
  CHECK(sample.regions[0].region == 1);
}

TEST_CASE("what was counted of a region that is gone is told to be nothing, once") {
  Setting setting;
  setting.Map("00400000-00500000 rw-p 00000000 00:00 0 [heap]\n00800000-00900000 rw-p 00000000 00:00 0\n");
  setting.spaces.RangesOf(3, 7, 0, absl::Seconds(1));
  const auto sweep = [&](std::vector<RangePages> ranges) {
    setting.spaces.Add(3, 3, {.ranges = std::move(ranges)});
    setting.spaces.Take(&setting.sample);
    return setting.sample.regions;
  };
  CHECK(sweep({{.number = 0, .private_pages = 9}, {.number = 1, .private_pages = 8}}).size() == 2);
  CHECK(sweep({{.number = 0, .private_pages = 9}}) == std::vector<RegionCount>{{.index = 3, .region = 1}});
  CHECK(sweep({{.number = 0, .private_pages = 9}}).empty());
  CHECK(sweep({{.number = 0, .private_pages = 9}, {.number = 1, .private_pages = 8}}).size() == 1);
}

TEST_CASE("when there are too many regions, those that have a number are counted, and it is said once") {
  FixtureTree tree;
  AddressSpaces spaces(ProcFs(tree.root()), 4096, /*most_regions=*/1);
  tree.Write("/7/maps", "00400000-00500000 rw-p 00000000 00:00 0 [heap]\n00800000-00900000 rw-p 00000000 00:00 0\n");
  CHECK(spaces.RangesOf(3, 7, 0, absl::Seconds(1))->size() == 2);
  spaces.Add(3, 3, {.ranges = {{.number = 0, .private_pages = 9}, {.number = 1, .private_pages = 8}}});
  Sample sample;
  spaces.Take(&sample);
  CHECK(sample.new_regions.size() == 1);
  REQUIRE(sample.regions.size() == 1);
  CHECK(sample.regions[0].private_pages == 9);
  REQUIRE(sample.events.size() == 1);
  CHECK(sample.events[0].Is<Note>());
  spaces.RangesOf(4, 7, 0, absl::Seconds(1));
  spaces.Take(&sample);
  CHECK(sample.new_regions.empty());
  CHECK(sample.events.size() == 1);
}

// As pymalloc's arenas of 256 KiB, up to CPython 3.9, once they hold 16 GiB.
TEST_CASE("when an address space has more regions than a sweep can number, it is said once") {
  Setting setting;
  std::string maps;
  for (uint64_t i = 1; i <= kMaxRanges; ++i)
    absl::StrAppend(&maps, absl::Hex(i << 20), "-", absl::Hex((i << 20) + 4096), " rw-p 00000000 00:00 0\n");
  setting.Map(maps);
  CHECK(setting.spaces.RangesOf(3, 7, 0, absl::Seconds(1))->size() == kMaxRanges);
  CHECK(setting.NewStarts().size() == kMaxRanges);
  CHECK(setting.sample.events.empty());
  setting.Map(maps + "7f0000000000-7f0000001000 rw-p 00000000 00:00 0\n");
  CHECK(setting.spaces.RangesOf(3, 7, 0, absl::Seconds(11))->size() == kMaxRanges);
  CHECK(setting.NewStarts().empty());
  REQUIRE(setting.sample.events.size() == 1);
  CHECK(setting.sample.events[0].As<Note>()->text ==
        "regions past the first 65535 of one address space are not listed; pages are still counted and explained");
  setting.spaces.RangesOf(3, 7, 0, absl::Seconds(21));
  setting.sample.events.clear();
  CHECK(setting.NewStarts().empty());
  CHECK(setting.sample.events.empty());
}

}  // namespace cowprof
