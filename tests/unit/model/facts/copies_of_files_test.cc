#include "model/facts/copies_of_files.h"

#include <catch2/catch.hpp>

#include "model/facts/run_model.h"

namespace cowprof {
namespace {

constexpr uint64_t kInherited = 4'000;

void Append(const ProcessModel& process, const SweepFigures* sweep, CopiesOfFiles* copies) {
  ProcessSample row = {.counts = process.counts};
  if (sweep != nullptr) row.sweep = *sweep;
  copies->Append(row, process, kInherited);
}

uint64_t PagesOf(const ProcessModel& process, const SweepFigures* sweep) {
  CopiesOfFiles copies;
  Append(process, sweep, &copies);
  return copies.pages();
}

// A worker that has copied 500 pages that it inherited and touched 10 new ones.
struct Worker {
  uint64_t copies = 500, written = 0, zero_fills = 10, anonymous = kInherited + 10;
  SweepFigures sweep = {.shared_pages = 3'500, .diverged_pages = 500, .same_pages = 3'500, .new_pages = 10};

  void CopyOfFile(uint64_t pages) { copies += pages, written += pages, anonymous += pages, sweep.new_pages += pages; }
  void Copy(uint64_t pages) { copies += pages, sweep.diverged_pages += pages; }
  void WriteInherited(uint64_t pages) { Copy(pages), written += pages; }
  void CopyWhatTheParentFreed(uint64_t pages) { copies += pages, sweep.new_pages += pages; }
  void GetByGup(uint64_t pages) { anonymous += pages, sweep.new_pages += pages; }

  ProcessModel process() const {
    ProcessModel process;
    process.counts = {.copies = copies, .zero_fill_pages = zero_fills, .file_copies = 0};
    process.causes = CauseCounts{};
    (*process.causes)[static_cast<int>(Cause::kData)] = written;
    process.proc.anon_pages = anonymous;
    return process;
  }
  uint64_t BySweep() const { return PagesOf(process(), &sweep); }
  uint64_t WithoutSweep() const { return PagesOf(process(), nullptr); }
};

TEST_CASE("copies of a file's pages are those that raised RssAnon where the parent has nothing") {
  Worker worker;
  CHECK(worker.BySweep() == 0);
  worker.CopyOfFile(24'500);
  CHECK(worker.BySweep() == 24'500);
  CHECK(worker.WithoutSweep() == 24'500);
}

TEST_CASE("copies of inherited memory are none") {
  Worker worker;
  SECTION("that the parent still has") { worker.Copy(25'000); }
  SECTION("that the parent has freed") { worker.CopyWhatTheParentFreed(25'000); }
  SECTION("beside new memory without exceptions") {
    worker.Copy(25'000);
    worker.GetByGup(20'000);
    CHECK(worker.WithoutSweep() == 0);
    worker.GetByGup(30'000);
  }
  SECTION("as many as the worker has freed") {
    worker.CopyOfFile(25'000);
    worker.anonymous -= 25'000;
  }
  CHECK(worker.BySweep() == 0);
  CHECK(worker.WithoutSweep() == 0);
}

TEST_CASE("a process that never forked and shares nothing copies files only") {
  Worker worker{.anonymous = kInherited, .sweep = {.full = true}};
  worker.zero_fills = 0;
  worker.copies = 10'000;
  worker.anonymous += 9'000;
  CHECK(worker.BySweep() == 9'000);
  worker.sweep.shared_pages = 1;
  CHECK(worker.BySweep() == 0);
  worker.sweep.shared_pages = 0;
  ProcessModel parent = worker.process();
  parent.forks = 1;
  CHECK(PagesOf(parent, &worker.sweep) == 0);
}

TEST_CASE("what was copied since the last sweep counts by RssAnon alone, until the next one") {
  Worker worker;
  CopiesOfFiles copies;
  worker.CopyOfFile(10'000);
  Append(worker.process(), &worker.sweep, &copies);
  CHECK(copies.pages() == 10'000);
  worker.CopyOfFile(5'000);
  Append(worker.process(), nullptr, &copies);
  CHECK(copies.pages() == 15'000);
  worker.anonymous -= 12'000;  // as while it ends
  Append(worker.process(), nullptr, &copies);
  CHECK(copies.pages() == 15'000);
  worker.anonymous += 12'000;
  worker.Copy(20'000);
  Append(worker.process(), nullptr, &copies);
  CHECK(copies.pages() == 15'000);
  Append(worker.process(), &worker.sweep, &copies);
  CHECK(copies.pages() == 15'000);
}

TEST_CASE("a sweep that can't tell keeps what RssAnon told: of a process with children, or of some regions") {
  Worker trainer{.copies = 0, .zero_fills = 0, .anonymous = kInherited, .sweep = {.full = true}};
  CopiesOfFiles copies;
  uint64_t forks = 0, before_attach = 0;
  const auto append = [&](uint64_t pages_of_file) {
    trainer.copies += pages_of_file;
    trainer.written += pages_of_file;
    trainer.anonymous += pages_of_file;
    ProcessModel process = trainer.process();
    process.forks = forks;
    process.forks_before_attach = before_attach;
    Append(process, &trainer.sweep, &copies);
    return copies.pages();
  };
  CHECK(append(10'000) == 10'000);
  SECTION("it has forked") { forks = 1; }
  SECTION("its children were there at the attach") { before_attach = 1; }
  SECTION("some regions") { trainer.sweep.full = false; }
  trainer.sweep.shared_pages = 14'000;
  CHECK(append(5'000) == 15'000);
  trainer.copies += 20'000;  // of what it shares
  trainer.written += 20'000;
  CHECK(append(0) == 15'000);
  CHECK(append(2'000) == 15'000);
}

TEST_CASE("a first sweep corrects what RssAnon alone told") {
  Worker worker;
  CopiesOfFiles copies;
  worker.WriteInherited(20'000);
  worker.GetByGup(20'000);
  Append(worker.process(), nullptr, &copies);
  CHECK(copies.pages() > 0);
  Append(worker.process(), &worker.sweep, &copies);
  CHECK(copies.pages() == 0);
}

TEST_CASE("reading inherited objects beside as much new memory without exceptions copies no file") {
  Worker worker;
  worker.Copy(20'000);
  worker.GetByGup(20'000);
  CHECK(worker.WithoutSweep() == 0);
}

TEST_CASE("few pages, or missing counts, give 0") {
  Worker worker;
  worker.CopyOfFile(1'000);
  CHECK(worker.BySweep() == 0);
  worker.CopyOfFile(24'000);
  ProcessModel process = worker.process();
  process.counts.zero_fill_pages.reset();  // by the page map only
  CHECK(PagesOf(process, &worker.sweep) == 0);
  process = worker.process();
  process.proc.anon_pages.reset();
  CHECK(PagesOf(process, &worker.sweep) == 0);
}

}  // namespace
}  // namespace cowprof
