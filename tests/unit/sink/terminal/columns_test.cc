// Text in the columns of a terminal, wide characters and accents included; and the screen at every size.
#include "sink/terminal/columns.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "judged.h"
#include "random_recording.h"
#include "sink/terminal/screen.h"

namespace cowprof {

TEST_CASE("columns of text") {
  CHECK(ColumnsOf("") == 0);
  CHECK(ColumnsOf("abc") == 3);
  CHECK(ColumnsOf("é…") == 2);
  CHECK(ColumnsOf("漢字") == 4);
  CHECK(ColumnsOf("e\xcc\x81") == 1);  // e and a combining accent
  CHECK(ColumnsOf("🐄") == 2);
}

TEST_CASE("cut to columns, never through a character") {
  CHECK(CutTo("abcdef", 6) == "abcdef");
  CHECK(CutTo("abcdef", 5) == "abcd…");
  CHECK(CutTo("abcdef", 5, Keep::kEnd) == "…cdef");
  CHECK(CutTo("漢字漢字", 7) == "漢字漢…");
  CHECK(CutTo("漢字漢字", 6) == "漢字…");
  CHECK(CutTo("漢字漢字", 6, Keep::kEnd) == "…漢字");
  CHECK(CutTo("abc", 0) == "");
  CHECK(PadTo("漢", 4) == "漢  ");
  CHECK(PadLeft("漢", 4) == "  漢");
  CHECK(WrapTo("one two three", 7) == std::vector<std::string>{"one two", "three"});
  CHECK(WrapTo("averylongword x", 5) == std::vector<std::string>{"aver…", "x"});
}

TEST_CASE("the screen fits every size") {
  RandomRecording recording(GENERATE(1, 2, 3));
  Run run;
  run.model.info = recording.Info();
  run.model.info.command = "python3 訓練.py 漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字";
  for (int i = 0; i < 40; ++i) Append(recording.Next(), &run);
  const Findings findings = Judge(run, Detail::kScreen);
  for (int columns : {1, 10, 39, 40, 41, 60, 80, 120, 300}) {
    for (int rows : {1, 5, 9, 10, 11, 24, 50, 100}) {
      const std::vector<ScreenLine> lines =
          Screen(run.model, findings, {{columns, rows}, "http://127.0.0.1:8080/?token=0"});
      INFO(columns << "x" << rows);
      CHECK(lines.size() <= static_cast<size_t>(rows));
      CHECK((columns < 40 || rows < 10 ? lines.size() == 1 : lines.size() >= 8));
      for (const ScreenLine& line : lines) {
        INFO(line.text);
        CHECK(ColumnsOf(line.text) <= static_cast<size_t>(columns));
      }
    }
  }
}

TEST_CASE("many workers do not take the rows of the most important finding") {
  RunModel model;
  model.processes = {{.index = 0, .role = Role::kParent}};
  for (int index = 1; index <= 12; ++index) model.processes.push_back({.index = index, .role = Role::kWorker});
  for (const LimitKind kind : {LimitKind::kHost, LimitKind::kShm, LimitKind::kDescriptors, LimitKind::kMappings})
    model.limits.push_back({.now = {kind, "", 1000, 10}});
  Findings findings;
  findings.forecast_told.sentence = "no limit will be met.";
  findings.headline.sentence =
      "Reading Python objects duplicated 928 MiB of the trainer's memory in 12 workers; 76 % of it at train.py:36 in "
      "Reviews.__getitem__ (str).";
  const auto screen = [&](int columns, int rows) {
    std::string text;
    for (const ScreenLine& line : Screen(model, findings, {.size = {columns, rows}})) text += line.text + "\n";
    return text;
  };
  const std::string usual = screen(80, 24), small = screen(40, 10);
  INFO(usual << small);
  CHECK(absl::StrContains(usual, "Reading Python objects"));
  CHECK(absl::StrContains(usual, "Reviews.__getitem__ (str).\n"));
  CHECK(absl::StrContains(usual, " more\n"));  // workers
  CHECK(absl::StrContains(small, "Reading Python objects"));
  CHECK(absl::StrContains(small, "in 12…\n"));
  CHECK_FALSE(absl::StrContains(small, "(str)"));
}

}  // namespace cowprof
