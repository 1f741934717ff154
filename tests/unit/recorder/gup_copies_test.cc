#include "recorder/gup_copies.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

constexpr uint32_t kParent = 1, kWorker = 2;

struct Counted {
  uint64_t faults = 0, copies = 0, zero_fills = 0, anon_pages = 0;
};

ProcessSample RowOf(const Counted& counted) {
  ProcessSample row;
  row.counts = {.faults = counted.faults,
                .kernel_faults = 0,
                .write_protect_faults = counted.copies,
                .copies = counted.copies,
                .kernel_copies = 0,
                .zero_upgrades = 0,
                .zero_fill_pages = counted.zero_fills,
                .file_copies = 0};
  row.causes = CauseCounts{};
  (*row.causes)[static_cast<int>(Cause::kData)] = counted.copies;
  row.proc.anon_pages = counted.anon_pages;
  return row;
}

// A parent of 30,000 pages, and a worker of it: what the kernel counts of both is `of_parent` and `of_worker`.
struct Fork {
  GupCopies gup;
  Counted parent = {.faults = 40'000, .zero_fills = 30'000, .anon_pages = 30'000};

  Fork() { gup.NoteFaults(kParent, 0, 40'000, RowOf(parent)); }
  ProcessSample Sample(uint64_t worker_faults, const Counted& worker) {
    gup.NoteFaults(kParent, 0, parent.faults, RowOf(parent));
    ProcessSample row = RowOf(worker);
    gup.NoteFaults(kWorker, kParent, worker_faults, row);
    gup.AddTo(kWorker, &row);
    return row;
  }
  void Sweep(uint64_t diverged, uint64_t fresh, ProcessSample* row) {
    row->sweep = SweepFigures{.full = true, .diverged_pages = diverged, .new_pages = fresh};
    gup.Learn(kWorker, kParent, row);
  }
};

TEST_CASE("pages that a sweep finds are copies as far as the kernel counted faults for them") {
  Fork fork;
  ProcessSample row = fork.Sample(20'500, {.faults = 500, .copies = 300, .zero_fills = 200, .anon_pages = 30'200});
  CHECK(fork.gup.FaultsOf(kWorker) == 20'000);
  CHECK(!row.gup_copies);
  fork.Sweep(20'300, 200, &row);
  CHECK(row.gup_copies == 20'000);
  CHECK(row.counts.copies == 20'300);
  CHECK(row.counts.kernel_copies == 20'000);
  CHECK(row.counts.faults == 20'500);
  CHECK(row.counts.write_protect_faults == 20'300);
  CHECK(Sum(*row.causes) == 20'300);
  CHECK((*row.causes)[static_cast<int>(Cause::kKernel)] == 20'000);
  // They stay in every later sample, and are not counted twice.
  row = fork.Sample(20'600, {.faults = 600, .copies = 400, .zero_fills = 200, .anon_pages = 30'200});
  CHECK(row.counts.copies == 20'400);
  fork.Sweep(20'400, 200, &row);
  CHECK(row.counts.copies == 20'400);
  CHECK(row.gup_copies == 20'000);
}

TEST_CASE("without faults of GUP, pages that differ are no copies of the worker") {
  Fork fork;
  ProcessSample row = fork.Sample(500, {.faults = 500, .copies = 300, .zero_fills = 200});
  fork.Sweep(25'000, 200, &row);
  CHECK(!row.gup_copies);
  CHECK(row.counts.copies == 300);
}

TEST_CASE("new memory of GUP is no copy") {
  Fork fork;
  ProcessSample row = fork.Sample(20'000, {.anon_pages = 50'000});
  fork.Sweep(0, 20'000, &row);
  CHECK(fork.gup.FaultsOf(kWorker) == 20'000);
  CHECK(!row.gup_copies);
}

TEST_CASE("pages that the parent copied or made anew are not the worker's") {
  Fork fork;
  fork.Sample(0, {});
  SECTION("copied") { fork.parent = {.faults = 60'000, .copies = 20'000, .zero_fills = 30'000, .anon_pages = 30'000}; }
  SECTION("freed, and got others in their place") {
    fork.parent = {.faults = 60'000, .zero_fills = 50'000, .anon_pages = 30'000};
  }
  ProcessSample row = fork.Sample(20'000, {});
  fork.Sweep(20'000, 0, &row);
  CHECK(!row.gup_copies);
}

TEST_CASE("what the parent loads before or after the fork, at other addresses, hides nothing") {
  GupCopies gup;
  gup.NoteFaults(kParent, 0, 100, RowOf({.faults = 100, .zero_fills = 100, .anon_pages = 100}));
  // Between two samples it loads 30,000 pages and forks.
  gup.NoteFaults(kParent, 0, 30'100, RowOf({.faults = 30'100, .zero_fills = 30'100, .anon_pages = 30'100}));
  ProcessSample row = RowOf({});
  gup.NoteFaults(kWorker, kParent, 20'000, row);
  row.sweep = SweepFigures{.full = true, .diverged_pages = 20'000};
  gup.Learn(kWorker, kParent, &row);
  CHECK(row.gup_copies == 20'000);
}

TEST_CASE("new memory in the place of inherited memory is no copy") {
  Fork fork;
  ProcessSample row = fork.Sample(20'500, {.faults = 20'500, .zero_fills = 20'000, .anon_pages = 30'000});
  fork.Sweep(20'000, 0, &row);
  CHECK(!row.gup_copies);
}

TEST_CASE("a few faults of GUP are nothing, and a process that ended is forgotten") {
  Fork fork;
  ProcessSample row = fork.Sample(200, {});
  fork.Sweep(200, 0, &row);
  CHECK(!row.gup_copies);
  fork.gup.Forget(kWorker);
  CHECK(fork.gup.FaultsOf(kWorker) == 0);
  ProcessSample other = RowOf({});
  fork.gup.AddTo(kWorker, &other);
  fork.gup.Learn(kWorker, kParent, &other);
  CHECK(other.counts.copies == 0);
}

TEST_CASE("where nothing was counted, nothing is added") {
  Fork fork;
  ProcessSample row;
  fork.gup.NoteFaults(kWorker, kParent, 20'000, row);
  fork.Sweep(20'000, 0, &row);
  CHECK(row == [&] {
    ProcessSample same;
    same.sweep = row.sweep;
    return same;
  }());
}

}  // namespace
}  // namespace cowprof
