// What pagemap.cc makes of entries written by hand, bit by bit, and of real children that write some of the
// pages they inherited: as root the figures must be exact, without PFNs bit 56 alone must do. What is counted by range
// and page by page is checked on page maps that the tests write as files.
#include "source/pagemap.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "fixture_tree.h"

namespace cowprof {
namespace {

constexpr uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kFile = 1ull << 61, kExclusive = 1ull << 56;
constexpr uint64_t kSoftDirty = 1ull << 55, kUffd = 1ull << 57, kGuard = 1ull << 58;
constexpr uint64_t kZero = 77;  // PFN of the page of zeroes

RegionPages Classify(std::vector<uint64_t> own, std::vector<uint64_t> peer, uint64_t zero_pfn = kZero) {
  return ClassifyPages(own, peer, zero_pfn);
}

uint64_t BootNs() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return now.tv_sec * 1'000'000'000ull + now.tv_nsec;
}

ProcessId IdOf(pid_t pid) {
  const auto stat = ProcFs().ReadStat(pid);
  REQUIRE(stat.ok());
  return {pid, stat->start_ticks * 10'000'000};
}

// Anonymous memory at a 2 MiB boundary, so that its regions hold nothing else; every page was written.
class Memory {
 public:
  explicit Memory(size_t regions, int advice = MADV_NOHUGEPAGE) : bytes_(regions * kRegionBytes) {
    map_ = mmap(nullptr, bytes_ + kRegionBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(map_ != MAP_FAILED);
    start_ = (reinterpret_cast<uint64_t>(map_) + kRegionBytes - 1) / kRegionBytes * kRegionBytes;
    madvise(map_, bytes_ + kRegionBytes, advice);
    for (size_t page = 0; page < pages(); ++page) Write(page);
  }
  ~Memory() { munmap(map_, bytes_ + kRegionBytes); }

  size_t pages() const { return bytes_ / getpagesize(); }
  void Write(size_t page) { reinterpret_cast<volatile char*>(start_)[page * getpagesize()] = 1; }
  void Drop(size_t page) {
    madvise(reinterpret_cast<char*>(start_) + page * getpagesize(), getpagesize(), MADV_DONTNEED);
  }
  void Read(size_t page) { static_cast<void>(reinterpret_cast<volatile char*>(start_)[page * getpagesize()]); }
  std::vector<uint64_t> regions() const {
    std::vector<uint64_t> regions;
    for (uint64_t at = start_; at < start_ + bytes_; at += kRegionBytes) regions.push_back(at);
    return regions;
  }

 private:
  void* map_;
  uint64_t start_;
  size_t bytes_;
};

// A forked child that has run `body` and waits; ends with its owner.
class Child {
 public:
  explicit Child(const std::function<void()>& body) {
    int ready[2];
    REQUIRE(pipe(ready) == 0);
    pid_ = fork();
    if (pid_ == 0) {
      body();
      static_cast<void>(!write(ready[1], "x", 1));
      while (true) pause();
    }
    close(ready[1]);
    char byte;
    REQUIRE(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

SweepFigures Sweep(SweepJob job, int* runs = nullptr) {
  PagemapSweep sweep(ProcFs(), getpagesize(), BootNs());
  sweep.Add(std::move(job));
  for (int i = 0; i < 100'000; ++i) {
    const std::vector<FinishedSweep> finished = sweep.Run(runs ? absl::Nanoseconds(1) : absl::Seconds(1));
    if (runs) ++*runs;
    if (finished.empty()) continue;
    CHECK(sweep.idle());
    CHECK(finished[0].index == 5);
    return finished[0].figures;
  }
  FAIL("no result");
  return {};
}

bool PfnsVisible() {
  Memory memory(1);
  const ProcessId self = IdOf(getpid());
  return Sweep({.index = 5, .process = self, .peer = self, .regions = memory.regions()}).same_pages > 0;
}

// A process of two files: 8 MiB at kFakeBase, of whose pages each has the entry that a test gives it.
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

TEST_CASE("entries that are not present, or a file's, are nobody's") {
  CHECK(Classify({}, {}) == RegionPages{});
  CHECK(Classify({0, kSoftDirty, kUffd, kGuard, kExclusive, 5}, {0, 0, 0, 0, 0, 5}) == RegionPages{});
  CHECK(Classify({kPresent | kFile | 9, kPresent | kFile | kExclusive | 9}, {9, 9}) == RegionPages{});
}

TEST_CASE("anonymous pages are private or shared by bit 56") {
  CHECK(Classify({kPresent | kExclusive | 9, kPresent | 10, kPresent | 11 | kSoftDirty | kUffd}, {}) ==
        RegionPages{.private_pages = 1, .shared_pages = 2});
}

TEST_CASE("the page of zeroes is counted apart") {
  CHECK(Classify({kPresent | kZero}, {kPresent | kZero}) == RegionPages{.zero_pages = 1});
  CHECK(Classify({kPresent | kZero}, {}) == RegionPages{.zero_pages = 1});
  // PFNs that are hidden are 0, and so is what is known of the zero page then.
  CHECK(Classify({kPresent}, {}, 0) == RegionPages{.shared_pages = 1});
}

TEST_CASE("against the peer a page is the same, diverged or new") {
  CHECK(Classify({kPresent | 9}, {kPresent | 9}) == RegionPages{.shared_pages = 1, .same_pages = 1});
  CHECK(Classify({kPresent | kExclusive | 8}, {kPresent | kExclusive | 9}) ==
        RegionPages{.private_pages = 1, .diverged_pages = 1});
  CHECK(Classify({kPresent | kExclusive | 8}, {0}) == RegionPages{.private_pages = 1, .new_pages = 1});
  // Diverged from the parent, and shared with a child of its own.
  CHECK(Classify({kPresent | 8}, {kPresent | 9}) == RegionPages{.shared_pages = 1, .diverged_pages = 1});
  CHECK(Classify({kPresent | kExclusive | 8, kPresent | kExclusive | 7}, {kPresent | 9}) ==
        RegionPages{.private_pages = 2, .diverged_pages = 1, .new_pages = 1});
}

TEST_CASE("an equal PFN is shared, even where bit 56 says exclusive as for huge pages since 6.17") {
  CHECK(Classify({kPresent | kExclusive | 9}, {kPresent | kExclusive | 9}) ==
        RegionPages{.shared_pages = 1, .same_pages = 1});
}

TEST_CASE("swapped pages are counted and are not present") {
  CHECK(Classify({kSwapped | 5, kSwapped | kExclusive | 6}, {kSwapped | 5, 0}) == RegionPages{.swapped_pages = 2});
  // A swap entry of the peer is no PFN, even where the number is the same.
  CHECK(Classify({kPresent | kExclusive | 5}, {kSwapped | 5}).private_pages == 1);
  CHECK(Classify({kPresent | kExclusive | 5}, {kSwapped | 5}).same_pages == 0);
}

TEST_CASE("without PFNs nothing is said about the peer") {
  CHECK(Classify({kPresent | kExclusive, kPresent, kPresent | kFile}, {kPresent, kPresent, kPresent}, 0) ==
        RegionPages{.private_pages = 1, .shared_pages = 1});
}

TEST_CASE("a whole region of each kind is counted without overflow") {
  const std::vector<uint64_t> own(512, kPresent | kExclusive | 9), peer(512, kPresent | 8);
  CHECK(Classify(own, peer) == RegionPages{.private_pages = 512, .diverged_pages = 512});
}

TEST_CASE("live: a child that wrote N of M pages has N private ones") {
  if (!PfnsVisible()) {
    WARN("PFNs are hidden (no CAP_SYS_ADMIN): not tested");
    return;
  }
  Memory memory(3);
  const uint64_t all = memory.pages(), written = GENERATE(0, 1, 300, 1536);
  Child child([&] {
    for (uint64_t page = 0; page < written; ++page) memory.Write((page * 5) % memory.pages());
  });
  const ProcessId worker = IdOf(child.pid()), parent = IdOf(getpid());
  const SweepFigures own = Sweep({.index = 5, .process = worker, .peer = parent, .regions = memory.regions()});
  CHECK(own.private_pages == written);
  CHECK(own.shared_pages == all - written);
  CHECK(own.diverged_pages == written);
  CHECK(own.same_pages == all - written);
  CHECK(own.new_pages == 0);
  CHECK(own.zero_pages == 0);
  CHECK(own.regions == 3);
  CHECK_FALSE(own.full);
  CHECK(own.cost > absl::ZeroDuration());
  CHECK(own.end >= own.begin);
  // The parent is left alone with the originals of what was copied.
  const SweepFigures parents = Sweep({.index = 5, .process = parent, .peer = worker, .regions = memory.regions()});
  CHECK(parents.private_pages == written);
  CHECK(parents.diverged_pages == written);
  CHECK(parents.same_pages == all - written);
}

TEST_CASE("live: new pages, dropped ones and the page of zeroes") {
  if (!PfnsVisible()) {
    WARN("PFNs are hidden (no CAP_SYS_ADMIN): not tested");
    return;
  }
  Memory memory(2);
  for (size_t page = 0; page < 40; ++page) memory.Drop(page);  // the parent lacks 0..39
  Child child([&] {
    for (size_t page = 0; page < 10; ++page) memory.Write(page);    // new
    for (size_t page = 10; page < 17; ++page) memory.Read(page);    // zeroes
    for (size_t page = 40; page < 43; ++page) memory.Write(page);   // copies
    for (size_t page = 100; page < 130; ++page) memory.Drop(page);  // gone
  });
  const SweepFigures own =
      Sweep({.index = 5, .process = IdOf(child.pid()), .peer = IdOf(getpid()), .regions = memory.regions()});
  CHECK(own.private_pages == 10 + 3);
  CHECK(own.new_pages == 10);
  CHECK(own.zero_pages == 7);
  CHECK(own.diverged_pages == 3);
  CHECK(own.shared_pages == memory.pages() - 40 - 3 - 30);
  CHECK(own.same_pages == own.shared_pages);
}

TEST_CASE("live: a full sweep finds the same by itself, in pieces as small as they come") {
#ifdef __SANITIZE_ADDRESS__
  WARN("AddressSanitizer maps terabytes of shadow memory, which a full sweep reads: not tested");
  return;
#endif
  Memory memory(4);
  Child child([&] {
    for (size_t page = 0; page < 777; ++page) memory.Write(page);
  });
  int runs = 0;
  const SweepFigures full =
      Sweep({.index = 5, .process = IdOf(child.pid()), .peer = IdOf(getpid()), .full = true}, &runs);
  CHECK(full.full);
  CHECK(runs >= 4);
  CHECK(full.regions > 4);
  // Beside the 777 there are the child's stack, libc's data and the like: some, not many.
  CHECK(full.private_pages >= 777);
  CHECK(full.private_pages < 777 + 300);
  CHECK(full.shared_pages >= memory.pages() - 777);
}

TEST_CASE("live: a process that is gone, or another of the same pid, has no result") {
  PagemapSweep sweep(ProcFs(), getpagesize(), BootNs());
  pid_t gone;
  {
    Child child([] {});
    gone = child.pid();
    ProcessId other = IdOf(gone);
    other.start_ns += 20'000'000;
    sweep.Add({.index = 1, .process = other, .full = true});
  }
  sweep.Add({.index = 2, .process = {gone, 1}, .full = true});
  sweep.Add({.index = 3, .process = IdOf(getpid()), .regions = {}});
  std::vector<FinishedSweep> finished;
  for (int i = 0; i < 100 && !sweep.idle(); ++i) {
    for (const FinishedSweep& one : sweep.Run(absl::Seconds(1))) finished.push_back(one);
  }
  CHECK(sweep.idle());
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].index == 3);
  CHECK(finished[0].figures.private_pages == 0);
}

TEST_CASE("live: a run stops at its time by the clock, whatever CPU time it has left") {
  Memory memory(3);
  PagemapSweep sweep(ProcFs(), getpagesize(), BootNs());
  sweep.Add({.index = 1, .process = IdOf(getpid()), .regions = memory.regions()});
  CHECK(sweep.Run(absl::Seconds(100), /*longest=*/absl::Nanoseconds(1)).empty());
  CHECK_FALSE(sweep.idle());
  CHECK(sweep.Run(absl::Seconds(100)).size() == 1);
}

TEST_CASE("live: a sweep of a few regions adds to what is known of the others") {
  Memory memory(3);
  Child child([&] {
    for (size_t page = 0; page < memory.pages(); page += 2) memory.Write(page);
  });
  const ProcessId worker = IdOf(child.pid());
  PagemapSweep sweep(ProcFs(), getpagesize(), BootNs());
  const auto swept = [&](std::vector<uint64_t> regions) {
    sweep.Add({.index = 1, .process = worker, .regions = std::move(regions)});
    std::vector<FinishedSweep> finished;
    while (finished.empty()) finished = sweep.Run(absl::Seconds(1));
    return finished[0].figures.private_pages;
  };
  const std::vector<uint64_t> regions = memory.regions();
  CHECK(swept({regions[0]}) == 256);
  CHECK(swept({regions[1], regions[2]}) == 768);
  CHECK(swept({regions[1]}) == 768);
  sweep.Forget(1);
  CHECK(swept({regions[1]}) == 256);
}

TEST_CASE("a page is the peer's, diverged or new, as it is counted") {
  CHECK(StateOfPage(kPresent | 9, kPresent | kExclusive | 9, kZero) == PageState::kSame);
  CHECK(StateOfPage(kPresent | 9, kPresent | 8, kZero) == PageState::kDiverged);
  CHECK(StateOfPage(kPresent | 9, 0, kZero) == PageState::kNew);
  CHECK(StateOfPage(kPresent | 9, kPresent | kZero, kZero) == PageState::kNew);
  CHECK(StateOfPage(kPresent | 9, kSwapped | 9, kZero) == PageState::kOther);
  for (const uint64_t own : {uint64_t{0}, kSwapped | 9, kPresent | kFile | 9, kPresent | kZero, kPresent}) {
    CHECK(StateOfPage(own, kPresent | 9, kZero) == PageState::kOther);
  }
}

TEST_CASE("pages are counted by range, across the pieces that are read, and summed up as before") {
  FixtureTree tree;
  FakeProcess parent(tree, 10), worker(tree, 11);
  parent.Set(0, 1500, kPresent, 5000);
  worker.Set(0, 1500, kPresent, 5000);
  worker.Set(500, 20, kPresent | kExclusive, 9000);   // diverged, on both sides of a 2 MiB boundary
  worker.Set(1490, 30, kPresent | kExclusive, 9000);  // 10 diverged and 20 new
  worker.Set(1700, 5, kSwapped, 1);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  // Pages 0 to 99 and 1600 on are in none; the two others touch.
  const auto ranges = Ranges({{AddressOf(100), AddressOf(510), 7}, {AddressOf(510), AddressOf(1600), 3}});
  SweepJob job = {.index = 1, .process = worker.id(), .peer = parent.id(), .full = true, .ranges = ranges};
  FinishedSweep found = RunOne(&sweep, job);
  CHECK(found.ranges == std::vector<RangePages>{{3, 40, 970, 20, 970, 20}, {7, 10, 400, 10, 400, 0}});
  CHECK(found.figures.private_pages == 50);
  CHECK(found.figures.shared_pages == 1470);
  CHECK(found.figures.swapped_pages == 5);
  CHECK(found.diverged_sample.empty());
  // Read again, a piece has what it has now; the others stand. Number 3 is gone from the list, not from what is known.
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

TEST_CASE("without a peer, ranges have private and shared pages only") {
  FixtureTree tree;
  FakeProcess worker(tree, 11);
  worker.Set(0, 700, kPresent, 5000);
  worker.Set(20, 30, kPresent | kExclusive, 5000);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  const FinishedSweep found = RunOne(&sweep, {.index = 1,
                                              .process = worker.id(),
                                              .full = true,
                                              .ranges = Ranges({{AddressOf(10), AddressOf(600), 0}}),
                                              .sample_diverged = 5});
  CHECK(found.ranges == std::vector<RangePages>{{0, 30, 560, 0, 0, 0}});
  CHECK(found.diverged_met == 0);
}

TEST_CASE("diverged pages are handed out: all if they are few, otherwise a fair sample") {
  FixtureTree tree;
  FakeProcess parent(tree, 10), worker(tree, 11);
  parent.Set(0, 2048, kPresent, 5000);
  worker.Set(0, 2048, kPresent, 5000);
  worker.Set(300, 1000, kPresent | kExclusive, 9000);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  const auto sampled = [&](size_t size) {
    return RunOne(&sweep,
                  {.index = 1, .process = worker.id(), .peer = parent.id(), .full = true, .sample_diverged = size});
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

TEST_CASE("who shares each page is handed out where it is asked for") {
  FixtureTree tree;
  FakeProcess parent(tree, 10), worker(tree, 11);
  parent.Set(0, 520, kPresent, 5000);
  worker.Set(0, 530, kPresent, 5000);
  worker.Set(3, 2, kPresent | kExclusive, 9000);
  worker.Set(520, 10, kPresent | kExclusive, 9000);
  PagemapSweep sweep(ProcFs(tree.root()), 4096, 0);
  SweepJob job = {
      .index = 1, .process = worker.id(), .peer = parent.id(), .full = true, .ranges = nullptr, .sharing = true};
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

TEST_CASE("live: ranges of a forked child have exactly what it wrote in each") {
  if (!PfnsVisible()) {
    WARN("PFNs are hidden (no CAP_SYS_ADMIN): not tested");
    return;
  }
  Memory memory(3);
  Child child([&] {
    for (size_t page = 90; page < 130; ++page) memory.Write(page);
    for (size_t page = 1000; page < 1100; ++page) memory.Write(page);
  });
  const uint64_t start = memory.regions()[0], page_bytes = getpagesize();
  const auto at = [&](uint64_t page) { return start + page * page_bytes; };
  PagemapSweep sweep(ProcFs(), page_bytes, BootNs());
  const FinishedSweep found = RunOne(&sweep, {.index = 5,
                                              .process = IdOf(child.pid()),
                                              .peer = IdOf(getpid()),
                                              .regions = memory.regions(),
                                              .ranges = Ranges({{at(0), at(100), 0}, {at(100), at(1536), 1}}),
                                              .sample_diverged = 512});
  CHECK(found.ranges == std::vector<RangePages>{{0, 10, 90, 10, 90, 0}, {1, 130, 1306, 130, 1306, 0}});
  CHECK(found.diverged_met == 140);
  REQUIRE(found.diverged_sample.size() == 140);
  CHECK(found.diverged_sample[0] == at(90));
  CHECK(found.diverged_sample[139] == at(1099));
}

}  // namespace cowprof
