// Causes, and trust in instructions, from rows that a made-up source of faults hands out, for real processes: forked
// children of this program, which is not Python. Copy sites and programs: attribution_copy_sites_test.cc.
#include <catch2/catch.hpp>
#include <map>

#include "attribution/row_causes.h"
#include "attribution_setting.h"

namespace cowprof {

// ---- Causes ----

TEST_CASE("attribution: causes of a process, and copies without a row are unknown") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.Learn();
  setting.pull.causes = {
      Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 5),       Looked(COWPROF_SHAPE_COLLECTION, kStore, 7),
      Looked(COWPROF_SHAPE_LAST_REFERENCE, kDecrement, 2), Looked(COWPROF_SHAPE_LAST_REFERENCE, kIncrement, 3),
      Told(COWPROF_SHAPE_REFCOUNT, kIncrement, 11),        Looked(COWPROF_SHAPE_KERNEL, kStore, 1)};
  const CauseCounts all =
      Counts({{Cause::kRefcount, 19}, {Cause::kGcHeader, 7}, {Cause::kFree, 2}, {Cause::kKernel, 1}});
  CHECK(setting.CausesOf(1) == all);
  CauseCounts more = all;
  more[static_cast<int>(Cause::kUnknown)] = 4;
  CHECK(setting.CausesOf(1, 4) == more);
  // Nobody has looked yet how many there were in all: then nothing is said of their causes.
  setting.pull.counts[1].copies.reset();
  CHECK_FALSE(setting.Judge().processes[0].causes);
}

TEST_CASE("attribution: rows that say more than was counted make no huge figure") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.Learn();
  setting.pull.causes = {Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 12)};
  setting.pull.counts[1].copies = 10;
  const Sample sample = setting.Judge();
  for (const uint64_t copies : *sample.processes[0].causes) CHECK(copies <= 12);
}

TEST_CASE("attribution: rows of a process that nobody follows are left out") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 5, 77)};
  CHECK(setting.CausesOf(1) == CauseCounts{});
  setting.faults.copy_sites = {{.serial = 77, .copies = 3, .samples = 3, .squares = 3}};
  CHECK(setting.ToldCopySites() == Sample{});
}

TEST_CASE("attribution: what could not be read is data where there is no Python, and unknown where that is not known") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {{.serial = 1, .shape = COWPROF_SHAPE_UNREAD, .copies = 9}};
  CHECK(setting.CausesOf(1) == Counts({{Cause::kUnknown, 9}}));
  CHECK(setting.Learn().empty());
  CHECK(setting.CausesOf(1) == Counts({{Cause::kData, 9}}));
  CHECK(setting.faults.learned.empty());
}

TEST_CASE("attribution: a process that ended before anybody looked is not known to be no Python") {
  Child child;
  const pid_t pid = child.pid();
  child.End();
  Setting setting;
  setting.Follow(1, pid);
  setting.Learn();
  setting.pull.causes = {{.serial = 1, .shape = COWPROF_SHAPE_UNREAD, .copies = 9}};
  CHECK(setting.CausesOf(1) == Counts({{Cause::kUnknown, 9}}));
}

TEST_CASE("attribution: a zombie is not known to be no Python") {
  Child child;
  child.Kill();
  Setting setting;
  setting.Follow(1, child.pid());
  setting.Learn();
  setting.pull.causes = {{.serial = 1, .shape = COWPROF_SHAPE_UNREAD, .copies = 9}};
  CHECK(setting.CausesOf(1) == Counts({{Cause::kUnknown, 9}}));
}

// ---- Trust ----

TEST_CASE("attribution: an instruction with one cause is trusted after enough looks, once") {
  struct Row {
    const Code* code;
    cowprof_shape shape;
    uint64_t enough;
  };
  const Row row = GENERATE(Row{&kIncrement, COWPROF_SHAPE_REFCOUNT, 16}, Row{&kStore, COWPROF_SHAPE_COLLECTION, 256},
                           Row{&kStore, COWPROF_SHAPE_REFCOUNT, 256}, Row{&kStore, COWPROF_SHAPE_OUTSIDE, 256});
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Looked(row.shape, *row.code, row.enough - 1)};
  setting.Judge();
  CHECK(setting.faults.verdicts.empty());
  setting.pull.causes[0].copies = row.enough;
  setting.Judge();
  REQUIRE(setting.faults.verdicts.size() == 1);
  CHECK(Is(setting.faults.verdicts[0], *row.code, 1, row.shape));
  setting.pull.causes[0].copies = 10 * row.enough;
  setting.Judge();
  CHECK(setting.faults.verdicts.size() == 1);
}

TEST_CASE("attribution: an instruction that takes 1 is never trusted") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  const cowprof_shape shape = GENERATE(COWPROF_SHAPE_REFCOUNT, COWPROF_SHAPE_LAST_REFERENCE, COWPROF_SHAPE_OUTSIDE);
  for (const uint64_t copies : {10u, 1000u, 1'000'000u}) {
    setting.pull.causes = {Looked(shape, kDecrement, copies)};
    setting.Judge();
  }
  CHECK(setting.faults.verdicts.empty());
}

TEST_CASE("attribution: what is free, unknown or without an instruction is never trusted") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Looked(COWPROF_SHAPE_LINK, kStore, 9999),  // free: without a name
                         Looked(COWPROF_SHAPE_UNREAD, kIncrement, 9999),
                         {.serial = 1, .image = 1, .shape = COWPROF_SHAPE_REFCOUNT, .ip = 0, .copies = 9999}};
  setting.Judge();
  CHECK(setting.faults.verdicts.empty());
}

TEST_CASE("attribution: copies that were not looked at make no trust") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Told(COWPROF_SHAPE_REFCOUNT, kIncrement, 9999),
                         Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 15)};
  setting.Judge();
  CHECK(setting.faults.verdicts.empty());
}

TEST_CASE("attribution: an instruction with two causes is not trusted, now or later") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 10), Looked(COWPROF_SHAPE_OUTSIDE, kIncrement, 1)};
  setting.Judge();
  setting.pull.causes[0].copies = 100'000;
  setting.Judge();
  CHECK(setting.faults.verdicts.empty());
  // The other cause was a process's that has gone.
  setting.pull.causes.pop_back();
  setting.Judge();
  CHECK(setting.faults.verdicts.empty());
}

TEST_CASE("attribution: two shapes of one cause are trusted as the more frequent one") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Looked(COWPROF_SHAPE_POOL_HEADER, kStore, 100), Looked(COWPROF_SHAPE_FREE_BLOCK, kStore, 200)};
  setting.Judge();
  REQUIRE(setting.faults.verdicts.size() == 1);
  CHECK(setting.faults.verdicts[0].shape == COWPROF_SHAPE_FREE_BLOCK);
}

TEST_CASE("attribution: looks at all processes of a program count together") {
  Child parent, worker;
  Setting setting;
  setting.Follow(1, parent.pid());
  setting.Follow(2, worker.pid(), 1, 1);
  setting.pull.causes = {Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 8, 1),
                         Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 8, 2)};
  setting.Judge();
  CHECK(setting.faults.verdicts.size() == 1);
}

TEST_CASE("attribution: trust that is contradicted is taken back for good") {
  Child child;
  Setting setting;
  setting.Follow(1, child.pid());
  setting.pull.causes = {Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 16)};
  setting.Judge();
  REQUIRE(setting.faults.verdicts.size() == 1);
  // One in a few is looked at all the same.
  setting.pull.causes = {Looked(COWPROF_SHAPE_REFCOUNT, kIncrement, 20),
                         Told(COWPROF_SHAPE_REFCOUNT, kIncrement, 1000)};
  CHECK(setting.Judge().cause_evidence == CauseEvidence{.looked = 20, .told = 1000, .audited = 4});
  CHECK(setting.faults.verdicts.size() == 1);
  setting.pull.causes.push_back(Looked(COWPROF_SHAPE_OUTSIDE, kIncrement, 3));
  CHECK(setting.Judge().cause_evidence == CauseEvidence{.looked = 23, .told = 1000, .audited = 7, .contradicted = 3});
  REQUIRE(setting.faults.verdicts.size() == 2);
  CHECK(Is(setting.faults.verdicts[1], kIncrement, 1, COWPROF_SHAPE_UNREAD));
  setting.pull.causes[0].copies = 100'000;
  setting.Judge();
  CHECK(setting.faults.verdicts.size() == 2);
}

TEST_CASE("attribution: evidence keeps what ended processes told, and is told when it changes") {
  Child one, two;
  Setting setting;
  setting.Follow(1, one.pid());
  setting.Follow(2, two.pid(), 1, 1);
  setting.pull.causes = {Looked(COWPROF_SHAPE_OUTSIDE, kStore, 30, 1), Looked(COWPROF_SHAPE_OUTSIDE, kStore, 50, 2)};
  CHECK(setting.Judge().cause_evidence == CauseEvidence{.looked = 80});
  CHECK_FALSE(setting.Judge().cause_evidence.has_value());
  setting.End(2);
  CHECK_FALSE(setting.Judge().cause_evidence.has_value());
  setting.pull.causes[0].copies = 31;
  CHECK(setting.Judge().cause_evidence == CauseEvidence{.looked = 81});
}

}  // namespace cowprof
