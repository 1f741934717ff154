// What a sweep counts by range and by page, on page maps that the tests write as files.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fixture_tree.h"
#include "source/pagemap.h"

namespace cowprof {
namespace {

constexpr uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kExclusive = 1ull << 56;

// A process made of two files: 8 MiB at kFakeBase, each page with the entry that a test sets.
class FakeProcess {
 public:
  static constexpr uint64_t kFakeBase = 2 * kRegionBytes;

  FakeProcess(const FixtureTree& tree, pid_t pid) : tree_(tree), pid_(pid), entries_(2048) {
    tree.Write(Path("stat"), absl::StrCat(pid, " (python3) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 500 8388608 0\n"));
    tree.Write(Path("maps"), "00400000-00c00000 rw-p 00000000 00:00 0\n");
    Flush();
  }
  ProcessId id() const { return {pid_, 5'000'000'000}; }
  void Set(size_t first, size_t pages, uint64_t bits, uint64_t pfn) {
    for (size_t page = first; page < first + pages; ++page) entries_[page] = bits | (pfn == 0 ? 0 : pfn + page);
    Flush();
  }

 private:
  std::string Path(const std::string& file) const { return absl::StrCat("/", pid_, "/", file); }
  void Flush() const {
    std::string text(kFakeBase / 4096 * 8, '\0');
    text.append(reinterpret_cast<const char*>(entries_.data()), entries_.size() * 8);
    tree_.Write(Path("pagemap"), text);
  }

  const FixtureTree& tree_;
  pid_t pid_;
  std::vector<uint64_t> entries_;
};

uint64_t AddressOf(size_t page) { return FakeProcess::kFakeBase + page * 4096; }

std::shared_ptr<const std::vector<AddressRange>> Ranges(std::vector<AddressRange> ranges) {
  return std::make_shared<const std::vector<AddressRange>>(std::move(ranges));
}

FinishedSweep RunOne(PagemapSweep* sweep, SweepJob job) {
  sweep->Add(std::move(job));
  std::vector<FinishedSweep> finished;
  while (finished.empty() && !sweep->idle()) finished = sweep->Run(absl::Seconds(1));
  REQUIRE(finished.size() == 1);
  return finished[0];
}

}  // namespace

TEST_CASE("pages are counted by range, across the pieces that are read, with the same totals") {
  FixtureTree tree;
  FakeProcess parent(tree, 10), worker(tree, 11);
  parent.Set(0, 1500, kPresent, 5000);
  worker.Set(0, 1500, kPresent, 5000);
  worker.Set(500, 20, kPresent | kExclusive, 9000);   // diverged, on both sides of a 2 MiB boundary
  worker.Set(1490, 30, kPresent | kExclusive, 9000);  // 10 diverged and 20 new
  worker.Set(1700, 5, kSwapped, 1);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  // Pages 0 to 99 and from 1600 on are in no range; the two others are adjacent.
  const auto ranges = Ranges({{AddressOf(100), AddressOf(510), 7}, {AddressOf(510), AddressOf(1600), 3}});
  SweepJob job = {.serial = 1, .process = worker.id(), .peer = parent.id(), .full = true, .ranges = ranges};
  FinishedSweep found = RunOne(&sweep, job);
  CHECK(found.ranges == std::vector<RangePages>{{3, 40, 970, 20, 970, 20}, {7, 10, 400, 10, 400, 0}});
  CHECK(found.figures.private_pages == 50);
  CHECK(found.figures.shared_pages == 1470);
  CHECK(found.figures.swapped_pages == 5);
  CHECK(found.diverged_sample.empty());
  // A piece that is read again is updated; the others remain. Number 3 is gone from the list, but still known.
  worker.Set(120, 30, kPresent | kExclusive, 9000);
  job.full = false;
  job.regions = {AddressOf(0)};
  job.ranges = Ranges({{AddressOf(100), AddressOf(512), 7}});
  for (int again = 0; again < 3; ++again) {
    found = RunOne(&sweep, job);
    CHECK(found.ranges == std::vector<RangePages>{{3, 38, 970, 18, 970, 20}, {7, 42, 370, 42, 370, 0}});
    CHECK(found.figures.diverged_pages == 60);
  }
  job.ranges = nullptr;
  CHECK(RunOne(&sweep, job).ranges == std::vector<RangePages>{{3, 38, 970, 18, 970, 20}});
  job.full = true;
  CHECK(RunOne(&sweep, job).ranges.empty());
}

TEST_CASE("all of a process that has no memory any more is not found to be nothing: there is no result") {
  FixtureTree tree;
  FakeProcess worker(tree, 11);
  worker.Set(0, 700, kPresent | kExclusive, 5000);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  const SweepJob job = {.serial = 1, .process = worker.id(), .full = true};
  REQUIRE(RunOne(&sweep, job).figures.private_pages == 700);
  tree.Write("/11/maps", "");
  sweep.Add(job);
  for (int i = 0; i < 100 && !sweep.idle(); ++i) CHECK(sweep.Run(absl::Seconds(1)).empty());
  CHECK(sweep.idle());
}

TEST_CASE("without a peer, ranges have only private and shared pages") {
  FixtureTree tree;
  FakeProcess worker(tree, 11);
  worker.Set(0, 700, kPresent, 5000);
  worker.Set(20, 30, kPresent | kExclusive, 5000);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  const FinishedSweep found = RunOne(&sweep, {.serial = 1,
                                              .process = worker.id(),
                                              .full = true,
                                              .ranges = Ranges({{AddressOf(10), AddressOf(600), 0}}),
                                              .sample_diverged = 5});
  CHECK(found.ranges == std::vector<RangePages>{{0, 30, 560, 0, 0, 0}});
  CHECK(found.diverged_met == 0);
}

TEST_CASE("diverged pages are returned: all if they are few, otherwise a fair sample") {
  FixtureTree tree;
  FakeProcess parent(tree, 10), worker(tree, 11);
  parent.Set(0, 2048, kPresent, 5000);
  worker.Set(0, 2048, kPresent, 5000);
  worker.Set(300, 1000, kPresent | kExclusive, 9000);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  const auto sampled = [&](size_t size) {
    return RunOne(&sweep,
                  {.serial = 1, .process = worker.id(), .peer = parent.id(), .full = true, .sample_diverged = size});
  };
  CHECK(sampled(0).diverged_met == 0);
  const FinishedSweep most = sampled(5000);
  CHECK(most.diverged_met == 1000);
  CHECK(most.diverged_sample.size() == kMaxDivergedSample);
  CHECK(std::is_sorted(most.diverged_sample.begin(), most.diverged_sample.end()));
  std::vector<int> hits(2048);
  for (int round = 0; round < 100; ++round) {
    for (const uint64_t address : sampled(100).diverged_sample) ++hits[(address - AddressOf(0)) / 4096];
  }
  // Each of the 1,000 is expected 10 times; each 250 of them together 2,500 times, with a deviation of 41.
  for (size_t first = 300; first < 1300; first += 250) {
    CHECK(std::abs(std::accumulate(&hits[first], &hits[first] + 250, 0) - 2500) < 250);
  }
  CHECK(std::accumulate(hits.begin(), hits.end(), 0) == 100 * 100);
  worker.Set(300, 1000, kPresent, 5000);
  worker.Set(511, 2, kPresent | kExclusive, 9000);
  CHECK(sampled(100).diverged_sample == std::vector<uint64_t>{AddressOf(511), AddressOf(512)});
}

TEST_CASE("sharing of each page is returned on request") {
  FixtureTree tree;
  FakeProcess parent(tree, 10), worker(tree, 11);
  parent.Set(0, 520, kPresent, 5000);
  worker.Set(0, 530, kPresent, 5000);
  worker.Set(3, 2, kPresent | kExclusive, 9000);
  worker.Set(520, 10, kPresent | kExclusive, 9000);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  SweepJob job = {
      .serial = 1, .process = worker.id(), .peer = parent.id(), .full = true, .ranges = nullptr, .sharing = true};
  const std::vector<RegionSharing> sharing = RunOne(&sweep, job).sharing;
  REQUIRE(sharing.size() == 2);
  CHECK(sharing[0].address == AddressOf(0));
  CHECK(sharing[0].exclusive.count() == 2);
  CHECK(sharing[0].exclusive[3]);
  CHECK(sharing[0].shared.count() == 510);
  CHECK(sharing[0].peer.count() == 512);
  CHECK(sharing[1].shared.count() == 8);
  CHECK(sharing[1].exclusive.count() == 10);
  CHECK(sharing[1].peer.count() == 8);
  job.sharing = false;
  CHECK(RunOne(&sweep, job).sharing.empty());
}

}  // namespace cowprof
