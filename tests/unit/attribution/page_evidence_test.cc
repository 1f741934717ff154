// What is said of the first write to a page from its bytes alone.
#include "attribution/page_evidence.h"

#include <catch2/catch.hpp>

namespace cowprof {

TEST_CASE("what differs says what was written") {
  for (const Collected collected : {Collected::kNo, Collected::kYes, Collected::kUnknown}) {
    CHECK(ShapeOf(PageDiff::kData, true, true, collected) == COWPROF_SHAPE_OUTSIDE);
    CHECK(ShapeOf(PageDiff::kHashOnly, true, false, collected) == COWPROF_SHAPE_HASH);
    CHECK(ShapeOf(PageDiff::kGcHeaderOnly, true, true, collected) == COWPROF_SHAPE_COLLECTION);
    for (const bool tracked : {false, true})
      CHECK(ShapeOf(PageDiff::kRefcountOnly, true, tracked, collected) == COWPROF_SHAPE_REFCOUNT);
  }
}

TEST_CASE("an identical page of objects was read, unless a collection may have come by") {
  CHECK(ShapeOf(PageDiff::kIdentical, true, false, Collected::kYes) == COWPROF_SHAPE_REFCOUNT);
  CHECK(ShapeOf(PageDiff::kIdentical, true, true, Collected::kNo) == COWPROF_SHAPE_REFCOUNT);
  CHECK(ShapeOf(PageDiff::kIdentical, true, true, Collected::kYes) == COWPROF_SHAPE_COLLECTION);
  CHECK(ShapeOf(PageDiff::kIdentical, true, true, Collected::kUnknown) == COWPROF_SHAPE_UNREAD);
}

TEST_CASE("of an identical page without objects nothing is said") {
  CHECK(ShapeOf(PageDiff::kIdentical, false, false, Collected::kNo) == COWPROF_SHAPE_UNREAD);
}

TEST_CASE("of a process that ended nothing is kept") {
  ElfCache elf_cache;
  const Program program(/*image=*/1, ProcFs(), &elf_cache, /*starting=*/false);
  PageEvidence bytes{ProcFs()};
  bytes.NoteCollections({.pid = 1, .start_ns = 1}, program);
  bytes.NoteCollections({.pid = 2, .start_ns = 1}, program);
  CHECK(bytes.processes() == 2);
  bytes.Forget({.pid = 1, .start_ns = 1});
  CHECK(bytes.processes() == 1);
}

}  // namespace cowprof
