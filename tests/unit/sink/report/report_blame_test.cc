// The parts of the report that say who did it: keys and figures of each table against what was planted, rows that are
// left out, and the words beside them. The whole reports are in report_test.cc.
#include "sink/report/report_blame.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "builders.h"
#include "judged.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

// One worker: 20,000 copies, 15,000 by reference counts of str, 4,000 without a type, 1,000 of nothing that is known.
Run Recording(uint64_t each = 1) {
  ProcessSample row = {.index = 1, .causes = CauseCounts{15'000, 0, 0, 0, 0, 4000, 0, 0, 1000}};
  row.counts.copies = 20'000;
  const auto count = [&](int copy_site, uint64_t copies) {
    return CopySiteCount{1, copy_site, copies, copies / each, copies * each};
  };
  Run run;
  Append({.events = {Started(0, -1), Started(1, 0)},
          .processes = {row},
          .new_frames = {{"coco.py", "get", 41}, {"train.py", "main", 9}},
          .new_copy_sites = {{Cause::kRefcount, "str", "libpython3.11.so", "PyList_GetItem", {0, 1}},
                             {Cause::kData, "", "libc.so.6", "memcpy", {1}},
                             {Cause::kUnknown, "", "", "", {}},
                             {Cause::kHash, "never", "n.so", "n", {}}},
          .copy_sites = {count(0, 15'000), count(1, 4000), count(2, 1000), count(3, 0)}},
         &run);
  return run;
}

std::string BlameTextOf(const Run& run) {
  const Findings findings = Judge(run);
  return absl::StrCat(BlameText(run.model, findings), FindingsText(findings));
}

}  // namespace

TEST_CASE("report of blame: causes, or null each") {
  const Json known = CausesJson({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, true), unknown = CausesJson({1}, false);
  CHECK(known.dump() ==
        R"({"refcount":1,"gc_header":2,"allocator":3,"bytecode":4,"hash":5,"data":6,"free":7,"kernel":8,)"
        R"("unknown":9,"native_refcount":10,"malloc_reuse":11})");
  REQUIRE(unknown.size() == kCauses);
  for (const Json& cause : unknown) CHECK(cause.is_null());
}

TEST_CASE("report of blame: rows have a name, bytes, a share and their causes; those without a name are left out") {
  const Run run = Recording();
  const BlameTables tables = TablesOf(run.model, {.workers_only = true});
  CHECK(TypesJson(tables, 4096, 9).dump() ==
        R"([{"type":"str","copies":15000,"bytes":61440000,"share":0.75,"by_cause":{"refcount":15000}}])");
  CHECK(LinesJson(tables, 4096, 9).dump() ==
        R"([{"file":"coco.py","function":"get","line":41,"via":null,"copies":15000,"bytes":61440000,"share":0.75,)"
        R"("by_cause":{"refcount":15000}},{"file":"train.py","function":"main","line":9,"via":null,"copies":4000,)"
        R"("bytes":16384000,"share":0.2,"by_cause":{"data":4000}}])");
  CHECK(NativeJson(tables, 4096, 9).dump() ==
        R"([{"module":"libpython3.11.so","symbol":"PyList_GetItem","copies":15000,"bytes":61440000,"share":0.75,)"
        R"("by_cause":{"refcount":15000}},{"module":"libc.so.6","symbol":"memcpy","copies":4000,"bytes":16384000,)"
        R"("share":0.2,"by_cause":{"data":4000}}])");
  CHECK(LinesJson(tables, 4096, 1).size() == 1);
  CHECK(LinesJson(tables, 4096, 0).empty());
}

TEST_CASE("report of blame: what is sampled is said to be estimated, with how good it is") {
  const Run run = Recording(10);
  const Json row = TypesJson(TablesOf(run.model, {.workers_only = true}), 4096, 9)[0];
  CHECK(row["estimated"] == true);
  CHECK(row["share_uncertainty"].get<double>() == Approx(1.96 * std::sqrt(0.75 * 0.25 / 2000)));
  CHECK_FALSE(TypesJson(TablesOf(Recording().model, {}), 4096, 9)[0].contains("estimated"));
  CHECK(absl::StrContains(BlameTextOf(run), "estimated from 2,000 samples"));
  CHECK(absl::StrContains(BlameTextOf(run), "75.0 % ± 1.9"));
}

TEST_CASE("report of blame: in words") {
  const std::string text = BlameTextOf(Recording());
  INFO(text);
  CHECK(absl::StrContains(text,
                          "   75.0 %    58.6 MiB  refcount\n   20.0 %    15.6 MiB  data\n"
                          "    5.0 %     3.9 MiB  unknown\n"));
  CHECK(absl::StrContains(text, "58.6 MiB  str\n"));
  CHECK(absl::StrContains(text, "58.6 MiB  coco.py:41  get\n"));
  CHECK_FALSE(absl::StrContains(text, "never"));
  CHECK_FALSE(absl::StrContains(text, "estimated"));
  CHECK(absl::StrContains(text, "  cow-refcount: "));
  CHECK(absl::StrContains(text, "  cow-data: "));
  for (absl::string_view line : absl::StrSplit(text, '\n')) CHECK(line.size() <= 110);
}

TEST_CASE("report of blame: after a death the code is that of what took the memory") {
  Findings findings;
  findings.diagnoses = {
      {.id = "oom-cgroup", .harm = Harm::kDeath, .summary = "Killed.", .advice = {"Keep less."}},
      {.id = "cow-refcount",
       .harm = Harm::kMemory,
       .summary = "Copied.",
       .advice = {"Pack."},
       .sketch = "# before\nitems\n\n# after\npacked\n"},
      {.id = "cow-data", .harm = Harm::kMemory, .summary = "Written.", .advice = {"Read."}, .sketch = "# another\n"}};
  CHECK(RemedyText(findings) == "\n  what to do (the code is below the tables)\n    > Keep less.\n");
  CHECK(FindingsText(findings) ==
        "\n  oom-cgroup: Killed.\n\n  cow-refcount: Copied.\n    > Pack.\n"
        "\n        # before\n        items\n\n        # after\n        packed\n\n  cow-data: Written.\n    > Read.\n");
  findings.diagnoses[0].harm = Harm::kMemory;
  CHECK(RemedyText(findings) == "\n  what to do\n    > Keep less.\n");
  CHECK_FALSE(absl::StrContains(FindingsText(findings), "# before"));
}

TEST_CASE("report of blame: nothing is said where causes are not known") {
  CHECK(BlameTextOf({}).empty());
  Run run = Recording();
  run.model.processes[1].causes.reset();
  CHECK(BlameTextOf(run).empty());
  CHECK(DiagnosesJson(DiagnosesOf(run)).empty());
  CHECK(DiagnosesJson(DiagnosesOf(run)).is_array());
}

TEST_CASE("report of blame: names of the target's choosing are printable in words and whole in JSON") {
  Run run = Recording();
  run.model.copy_sites[0].type = "\x1b[2Jstr\n";
  run.model.frames[0] = {"c\x07.py", "\xff", 1};
  const std::string text = BlameTextOf(run);
  for (const char* raw : {"\x1b", "\x07", "\xff"}) CHECK_FALSE(absl::StrContains(text, raw));
  CHECK(absl::StrContains(text, "\\x1b[2Jstr\\x0a"));
  CHECK(TypesJson(TablesOf(run.model, {}), 4096, 9)[0]["type"] == "\x1b[2Jstr\n");
}

}  // namespace cowprof
