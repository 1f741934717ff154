// The page-map rung on real processes: one pull has all that its sweeps found, and what a reader made of it.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "child.h"
#include "skip.h"
#include "source/pagemap_faults.h"

namespace cowprof {
namespace {

constexpr size_t kPages = 256;

// Explains `most` of the pages it is given; nothing at all if it is busy.
class FakeReader : public PageReader {
 public:
  std::shared_ptr<const std::vector<AddressRange>> RangesOf(uint32_t serial, absl::Duration) override {
    ++ranges_read[serial];
    return nullptr;
  }
  std::optional<std::vector<ExplainedPage>> Explain(uint32_t serial, const std::vector<uint64_t>& copied,
                                                    absl::Duration) override {
    given[serial] = copied;
    if (busy) return std::nullopt;
    std::vector<ExplainedPage> pages;
    for (size_t i = 0; i < std::min(most, copied.size()); ++i)
      pages.push_back({copied[i], COWPROF_SHAPE_REFCOUNT, /*type=*/42});
    return pages;
  }
  size_t most = 0;
  bool busy = false;
  std::map<uint32_t, int> ranges_read;
  std::map<uint32_t, std::vector<uint64_t>> given;
};

struct Tick {
  TreeLook look;
  Pull pull;
};

// This process, which is followed, and a child that copied kPages pages of it. Another child only shares them with it,
// so that they stay shared, and it is clear whose copies they are.
struct Setting {
  Setting() {
    page_bytes = sysconf(_SC_PAGESIZE);
    void* mapped = mmap(nullptr, kPages * page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapped != MAP_FAILED);
    madvise(mapped, kPages * page_bytes, MADV_NOHUGEPAGE);
    area = static_cast<volatile char*>(mapped);
    Write();
    absl::StatusOr<std::unique_ptr<FaultSource>> loaded = LoadPagemapFaults(getpid(), {.page_bytes = page_bytes});
    REQUIRE(loaded.ok());
    faults = *std::move(loaded);
    REQUIRE(faults->Follow(getpid()).ok());
    faults->LogPages(true);
    sharer = std::make_unique<Child>();
    child = std::make_unique<Child>([this] { Write(); });
  }
  ~Setting() { munmap(const_cast<char*>(area), kPages * page_bytes); }
  void Write() const {
    for (size_t page = 0; page < kPages; ++page) area[page * page_bytes] = 1;
  }
  Tick TickOnce(bool last = true) {
    absl::StatusOr<TreeLook> look = faults->LookAtTree(/*last=*/false);
    REQUIRE(look.ok());
    t += absl::Seconds(1);
    absl::StatusOr<Pull> pull =
        faults->PullCounts({.t = t, .interval = absl::Seconds(10), .last = last, .reader = reader});
    REQUIRE(pull.ok());
    return {*std::move(look), *std::move(pull)};
  }
  // 0: the look does not have it.
  uint32_t SerialOf(const TreeLook& look) const {
    for (const FollowedProcess& process : look.processes) {
      if (process.id.pid == pid) return process.serial;
    }
    return 0;
  }

  uint64_t page_bytes;
  volatile char* area;
  FakeReader reader;
  std::unique_ptr<FaultSource> faults;
  std::unique_ptr<Child> sharer, child;
  pid_t pid = 0;
  absl::Duration t;
};

uint64_t CopiesIn(const std::vector<CauseRow>& rows, uint32_t serial, cowprof_shape shape) {
  uint64_t copies = 0;
  for (const CauseRow& row : rows) copies += row.serial == serial && row.shape == shape ? row.copies : 0;
  return copies;
}

// AddressSanitizer maps terabytes of shadow, which a sweep of all would read.
bool HasSmallAddressSpace() {
#ifdef __has_feature
  return !__has_feature(address_sanitizer);
#elif defined(__SANITIZE_ADDRESS__)
  return false;
#else
  return true;
#endif
}

bool CanSweep() {
  return !LacksRoot() && !Lacks("a small address space", HasSmallAddressSpace(), "the sweep would read the shadow");
}

std::vector<CopySiteRow> RowsOf(uint32_t serial, FaultSource& faults) {
  absl::StatusOr<std::vector<CopySiteRow>> rows = faults.PullCopySites();
  REQUIRE(rows.ok());
  std::erase_if(*rows, [&](const CopySiteRow& row) { return row.serial != serial; });
  return *std::move(rows);
}

TEST_CASE("page map: one pull has the counts, the causes, the pages and the sweeps of its look") {
  if (!CanSweep()) return;
  Setting setting;
  setting.pid = setting.child->pid();
  setting.reader.most = 10;
  const auto [look, pull] = setting.TickOnce();
  REQUIRE(look.processes.size() == 3);
  const uint32_t serial = setting.SerialOf(look);
  const uint64_t copies = pull.counts.at(serial).copies.value_or(0);
  CHECK(copies >= kPages);
  CHECK(copies <= kPages + 200);  // its stack, and what belongs to the test
  CHECK(setting.reader.given[serial].size() >= kPages);
  CHECK(CopiesIn(pull.causes, serial, COWPROF_SHAPE_REFCOUNT) == copies);  // those that were read stand for all
  CHECK(CopiesIn(pull.causes, serial, COWPROF_SHAPE_UNREAD) == 0);
  CHECK(std::all_of(pull.causes.begin(), pull.causes.end(), [](const CauseRow& row) { return row.sampled; }));
  CHECK(std::count_if(pull.sweeps.begin(), pull.sweeps.end(),
                      [&](const FinishedSweep& sweep) { return sweep.serial == serial && sweep.figures.full; }) == 1);
  CHECK(pull.sweep_cost > absl::ZeroDuration());
  CHECK(setting.reader.ranges_read[serial] == 1);
  // Ten pages by what their bytes say, and all of them once more without.
  const auto of_area = [&](const CopiedPage& page) {
    const uint64_t begin = reinterpret_cast<uint64_t>(setting.area);
    return page.serial == serial && page.address >= begin && page.address < begin + kPages * setting.page_bytes;
  };
  CHECK(std::count_if(pull.pages.begin(), pull.pages.end(), of_area) >= static_cast<ptrdiff_t>(kPages));
  CHECK(std::count_if(pull.pages.begin(), pull.pages.end(), [&](const CopiedPage& page) {
          return page.serial == serial && page.shape == COWPROF_SHAPE_REFCOUNT;
        }) == 10);
  CHECK(setting.faults->TakeNews(true));
  const std::vector<CopySiteRow> rows = RowsOf(serial, *setting.faults);
  REQUIRE(rows.size() == 1);
  CHECK(rows.front().type == 42);
  CHECK(rows.front().copies == copies);
  CHECK(rows.front().samples == 10);
}

TEST_CASE("page map: a child of vfork that has not called exec has nothing of its own, and shows no copies") {
  if (!CanSweep()) return;
  Setting setting;
  // Alone the parent's, as what a trainer allocates after it has forked its workers.
  const size_t bytes = 8 * kPages * setting.page_bytes;
  void* own = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  REQUIRE(own != MAP_FAILED);
  const VforkedChild borrower;
  REQUIRE(borrower.pid() > 0);
  setting.pid = borrower.pid();
  for (const bool last : {false, true}) {
    const auto [look, pull] = setting.TickOnce(last);
    const uint32_t serial = setting.SerialOf(look);
    REQUIRE(serial != 0);
    CHECK(std::none_of(pull.sweeps.begin(), pull.sweeps.end(),
                       [&](const FinishedSweep& sweep) { return sweep.serial == serial; }));
    CHECK_FALSE(pull.counts.at(serial).copies.has_value());
    CHECK(pull.counts.at(look.processes.front().serial).copies.value_or(0) < 2 * kPages);
  }
  munmap(own, bytes);
}

TEST_CASE("page map: copies that can't be explained now are counted, and explained later") {
  if (!CanSweep()) return;
  Setting setting;
  setting.pid = setting.child->pid();
  setting.reader.busy = true;
  const auto [look, pull] = setting.TickOnce(/*last=*/false);
  const uint32_t serial = setting.SerialOf(look);
  const uint64_t copies = pull.counts.at(serial).copies.value_or(0);
  CHECK(copies >= kPages);
  CHECK(CopiesIn(pull.causes, serial, COWPROF_SHAPE_UNREAD) == copies);
  CHECK(std::none_of(pull.pages.begin(), pull.pages.end(),
                     [&](const CopiedPage& page) { return page.serial == serial; }));
  CHECK(setting.faults->PullCopySites()->empty());
  setting.reader.busy = false;
  setting.reader.most = kPages;
  setting.t += absl::Minutes(2);  // a sweep of all is due
  const auto [later_look, later] = setting.TickOnce(/*last=*/false);
  const uint64_t later_copies = later.counts.at(serial).copies.value_or(0);
  CHECK(later_copies >= copies);
  CHECK(later_copies <= copies + 50);
  CHECK(CopiesIn(later.causes, serial, COWPROF_SHAPE_REFCOUNT) == later_copies);
  CHECK(RowsOf(serial, *setting.faults).size() == 1);
}

TEST_CASE("page map: a process that ended is told once more, with all that was found of it") {
  if (!CanSweep()) return;
  Setting setting;
  setting.pid = setting.child->pid();
  setting.reader.busy = true;
  const Tick first = setting.TickOnce(/*last=*/false);
  const uint32_t serial = setting.SerialOf(first.look);
  const uint64_t copies = first.pull.counts.at(serial).copies.value_or(0);
  setting.child->End();
  const auto [look, pull] = setting.TickOnce(/*last=*/false);
  REQUIRE(setting.SerialOf(look) == serial);
  CHECK(look.processes.back().exited_ns != 0);
  CHECK(pull.counts.at(serial).copies == copies);
  CHECK(CopiesIn(pull.causes, serial, COWPROF_SHAPE_UNREAD) == copies);
  CHECK_FALSE(pull.pages.empty());  // without a cause
  static_cast<void>(setting.faults->PullCopySites());
  const auto [after, pull_after] = setting.TickOnce(/*last=*/false);
  CHECK(setting.SerialOf(after) == 0);
  CHECK_FALSE(pull_after.counts.contains(serial));
}

TEST_CASE("page map: a grandchild comes before a child that was forked later") {
  absl::StatusOr<std::unique_ptr<FaultSource>> faults = LoadPagemapFaults(getpid(), PagemapOptions());
  REQUIRE(faults.ok());
  REQUIRE((*faults)->Follow(getpid()).ok());
  const Child first([] {
    const pid_t parent = getpid();
    if (fork() != 0) return;
    EndWith(parent);
    while (true) pause();
  });
  usleep(50'000);  // some clock ticks
  const Child second;
  const absl::StatusOr<TreeLook> look = (*faults)->LookAtTree(/*last=*/false);
  REQUIRE(look.ok());
  REQUIRE(look->processes.size() == 4);
  CHECK(look->processes[0].id.pid == getpid());
  CHECK(look->processes[1].id.pid == first.pid());
  CHECK(look->processes[2].parent.pid == first.pid());
  CHECK(look->processes[3].id.pid == second.pid());
}

}  // namespace
}  // namespace cowprof
