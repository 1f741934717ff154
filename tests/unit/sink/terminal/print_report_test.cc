// The report at the width of a terminal: nothing is lost, and no line but code is too long.
#include "sink/terminal/print_report.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "json_schema.h"
#include "sink/terminal/columns.h"

namespace cowprof {
namespace {

std::string Golden(const std::string& name) {
  std::ifstream file(RepositoryRoot() / "tests" / "golden" / name);
  REQUIRE(file.good());
  return (std::ostringstream() << file.rdbuf()).str();
}

std::vector<std::string> WordsOf(absl::string_view text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
}

}  // namespace

TEST_CASE("a report fits its terminal, with every word") {
  for (const char* name : {"report_training.txt", "report_alone.txt", "report_empty.txt", "report_cut_off.txt"}) {
    const std::string text = Golden(name);
    for (const size_t columns : {80, 100, 132}) {
      const std::string fitted = FitText(text, columns);
      INFO(name << " at " << columns << "\n" << fitted);
      CHECK(WordsOf(fitted) == WordsOf(text));
      for (const absl::string_view line : absl::StrSplit(fitted, '\n')) {
        const bool code = absl::StartsWith(line, "        ");
        CHECK((code || ColumnsOf(line) <= columns));
      }
    }
    CHECK(FitText(text, 1000) == text);
  }
}

TEST_CASE("a table keeps its columns") {
  const std::string table =
      "  name                    size                                          share            note of some length\n"
      "  a                      1,234                                            5 %            x\n";
  CHECK(FitText(table, 80) ==
        "  name   size  share  note of some length\n"
        "  a     1,234    5 %  x\n");
}

TEST_CASE("paths are cut in the middle, and only where they don't fit") {
  const std::string path = "/home/somebody/projects/vision/training/datasets/detection/coco/dataset.py:41";
  const std::string fitted = FitText("  71.2 %  312.4 MiB  " + path + "  __getitem__", 80);
  INFO(fitted);
  CHECK(ColumnsOf(fitted) <= 80);
  CHECK(absl::StrContains(fitted, "  /home/somebody"));
  CHECK(absl::StrContains(fitted, "…"));
  CHECK(absl::StrContains(fitted, "coco/dataset.py:41  __getitem__"));
  CHECK(absl::StrContains(FitText("  " + path, 80), path));
}

TEST_CASE("lines break at blanks and hang; code does not break, its comments do") {
  CHECK(FitText("    > one two three four five six seven eight nine", 40) ==
        "    > one two three four five six seven\n      eight nine");
  const std::string code = "        items = [load(name) for name in names if name.endswith('.json')]";
  CHECK(FitText(code, 40) == code);
  CHECK(FitText("        # before: one object per item; reading writes", 40) ==
        "        # before: one object per item;\n        # reading writes");
}

TEST_CASE("verdict and titles are bold") {
  CHECK(
      WithBoldTitles("It copied.\nMuch.\n\n  limits\n  shm 1\n\n  clean: nothing\n") ==
      "\x1b[1mIt copied.\x1b[0m\n\x1b[1mMuch.\x1b[0m\n\n\x1b[1m  limits\x1b[0m\n  shm 1\n\n\x1b[1m  clean:\x1b[0m nothing\n");
}

}  // namespace cowprof
