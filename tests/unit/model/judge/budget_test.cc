// Bounds: how they are written, which are broken, and which can't be decided.
#include "model/judge/budget.h"

#include <catch2/catch.hpp>

#include "cli/budget_options.h"
#include "sink/compare/check_format.h"

namespace cowprof {
namespace {

constexpr double kMiB = 1 << 20;

RunFigures Recording(double copied) {
  RunFigures run = {.path = "run.json",
                    .complete = true,
                    .from_start = true,
                    .to_end = true,
                    .exactness = Exactness::kExact,
                    .rung = "btf-tracepoints",
                    .start_method = "fork",
                    .workers = 2,
                    .batches = 300,
                    .workers_apart = {{"worker 0 (7)", 5 << 20, 6 << 20}, {"worker 1 (8)", 9 << 20, 10 << 20}}};
  run.figures[static_cast<size_t>(Figure::kCopied)] = copied;
  run.diagnoses = {{.id = "cow-refcount",
                    .summary = "Reading copies.",
                    .culprit = Culprit{.frame = {"a.py", "f", 3}, .share = 0.79}}};
  return run;
}

Bound Copied(const std::string& text, BoundScope scope = BoundScope::kAll) {
  absl::StatusOr<Bound> bound = ParseBound(text, "");
  REQUIRE(bound.ok());
  bound->scope = scope;
  bound->text = text;
  return *bound;
}

BoundOutcome OutcomeOf(const RunFigures& run, const Budget& budget,
                       const std::map<std::string, RunFigures>& baselines = {}) {
  return Check(run, budget, baselines).outcome;
}

TEST_CASE("a size needs its unit", "[budget]") {
  CHECK(ParseSize("20MiB") == 20 * kMiB);
  CHECK(ParseSize(" 1.5 GB") == 1.5e9);
  CHECK(ParseSize("0B") == 0);
  for (const char* text : {"20", "", "MiB", "-1MiB", "1e3MiB", "20 mib", "20MiBB", "nanB", "1..5GB"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseSize(text));
  }
  CHECK_THAT(std::string(ParseBound("20", "").status().message()), Catch::Contains("has no unit"));
}

TEST_CASE("a share names its baseline", "[budget]") {
  CHECK(ParseBound("105%:a.json", "")->most == Approx(1.05));
  CHECK(ParseBound("+5%:a.json", "")->most == Approx(1.05));
  CHECK(ParseBound("105%", "b.json")->baseline == "b.json");
  for (const char* text : {"105%", "x%:a", "105%a.json", "%:a", "105%:", "nan%:a", "-5%:a"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseBound(text, "").ok());
  }
}

TEST_CASE("all broken bounds are named, with the line", "[budget]") {
  const Budget budget = {.bounds = {Copied("20MiB"), Copied("100MiB"), Copied("8MiB", BoundScope::kWorker)},
                         .forbidden = {"cow-refcount", "oom-cgroup"}};
  const CheckResult check = Check(Recording(30 * kMiB), budget, {});
  CHECK(check.outcome == BoundOutcome::kBroken);
  REQUIRE(check.results.size() == 5);
  CHECK(check.results[0].sentence == "20MiB: copied is 30.0 MiB, 10.0 MiB more than the 20.0 MiB allowed");
  CHECK(check.results[0].culprit->frame.line == 3);
  CHECK_THAT(check.results[1].sentence, Catch::Contains("copied of worker 1 (8) is 9.0 MiB"));
  CHECK_THAT(check.results[2].sentence, Catch::Contains("cow-refcount: Reading copies."));
  CHECK(check.results[3].outcome == BoundOutcome::kKept);
  CHECK(CheckSentence(check) == "Broken: 3 of 5 bounds.");
}

TEST_CASE("a broken bound names the line of what it bounds, and its share", "[budget]") {
  const auto broken = [](std::vector<Diagnosis> diagnoses, Figure figure) {
    RunFigures run = Recording(30 * kMiB);
    run.diagnoses = std::move(diagnoses);
    run.figures[static_cast<size_t>(figure)] = 30 * kMiB;
    Bound bound = Copied("20MiB");
    bound.figure = figure;
    return Check(run, {.bounds = {bound}}, {});
  };
  const auto line = [&](std::vector<Diagnosis> diagnoses, Figure figure) {
    const CheckResult check = broken(std::move(diagnoses), figure);
    REQUIRE(check.outcome == BoundOutcome::kBroken);
    return check.results[0].culprit ? check.results[0].culprit->frame.line : 0;
  };
  const auto at = [](const char* id, int number) {
    return Diagnosis{.id = id, .bytes = 16 << 20, .culprit = Culprit{.frame = {"a.py", "f", number}, .share = 0.06}};
  };
  const Diagnosis copies = at("cow-refcount", 3), growth = at("new-memory-growth", 5),
                  trainer = at("trainer-growth", 7), pickled = {.id = "pickled-arguments"},
                  before = at("before-attach", 3);
  CHECK(line({growth, copies}, Figure::kCopied) == 3);
  CHECK(line({growth, copies}, Figure::kCopiedPerBatch) == 3);
  CHECK(line({growth}, Figure::kCopied) == 0);
  CHECK(line({growth, copies}, Figure::kPrivatePeak) == 5);
  CHECK(line({copies, growth}, Figure::kPrivatePeak) == 3);
  Diagnosis small = copies;
  small.bytes = 14 << 20;  // most is memory that no finding is about, such as a model that each worker loads
  CHECK(line({small}, Figure::kPrivatePeak) == 0);
  CHECK(line({small}, Figure::kCopied) == 3);
  CHECK(line({pickled, copies}, Figure::kPrivatePeak) == 0);
  CHECK(line({trainer, copies}, Figure::kPrivatePeak) == 0);
  CHECK(line({before, copies}, Figure::kPrivatePeak) == 0);
  CHECK(line({copies, growth}, Figure::kShmPeak) == 0);
  const std::string text = CheckText(Recording(30 * kMiB), broken({copies}, Figure::kCopied));
  CHECK_THAT(text, Catch::Contains("\n             cow-refcount (about 6 % at a.py:3 in f)\n"));
  CHECK_THAT(CheckGithub(broken({copies}, Figure::kCopied)),
             Catch::Contains("::error file=a.py,line=3::cowprof: 20MiB: copied is 30.0 MiB, ") &&
                 Catch::Contains("; cow-refcount (about 6 %25 at a.py:3 in f)"));
}

TEST_CASE("a recording that missed a part can break a bound, and keep none", "[budget]") {
  const Budget budget = {.bounds = {Copied("20MiB")}};
  for (const std::function<void(RunFigures*)>& damage : {
           +[](RunFigures* run) { run->complete = false; },
           +[](RunFigures* run) { run->from_start = false; },
           +[](RunFigures* run) { run->death = "worker 7: killed by SIGKILL"; },
           +[](RunFigures* run) { run->losses.events_dropped = 1; },
           +[](RunFigures* run) { run->start_method = "none"; },
       }) {
    RunFigures low = Recording(10 * kMiB), high = Recording(30 * kMiB);
    damage(&low);
    damage(&high);
    CHECK(OutcomeOf(low, budget) == BoundOutcome::kUndecided);
    CHECK(OutcomeOf(high, budget) == BoundOutcome::kBroken);
    CHECK(OutcomeOf(low, {.forbidden = {"oom-cgroup"}}) == BoundOutcome::kUndecided);
  }
}

TEST_CASE("a figure that is known from above keeps a bound, and breaks it only if it is above it for certain",
          "[budget]") {
  RunFigures run = Recording(300 * kMiB);
  run.figures[static_cast<size_t>(Figure::kCopiedPerBatch)] = kMiB;
  run.unseen_batches = 300;
  const auto outcome = [&](const std::string& text, const std::map<std::string, RunFigures>& baselines = {}) {
    Bound bound = Copied(text);
    bound.figure = Figure::kCopiedPerBatch;
    return Check(run, {.bounds = {bound}}, baselines);
  };
  CHECK(outcome("1MiB").outcome == BoundOutcome::kKept);
  CHECK(outcome("0.4MiB").outcome == BoundOutcome::kBroken);
  const CheckResult between = outcome("0.6MiB");
  CHECK(between.outcome == BoundOutcome::kUndecided);
  CHECK(
      between.results[0].sentence ==
      "0.6MiB: can't be decided: copied-per-batch is at most 1.0 MiB, and 614.4 KiB is allowed; not every batch was seen");
  // A share of a baseline: of what that has for certain.
  CHECK(outcome("105%:b", {{"b", run}}).outcome == BoundOutcome::kUndecided);
  CHECK(outcome("201%:b", {{"b", run}}).outcome == BoundOutcome::kKept);
  run.unseen_batches = 0;
  CHECK(outcome("105%:b", {{"b", run}}).outcome == BoundOutcome::kKept);
  CHECK(outcome("0.9MiB").results[0].sentence ==
        "0.9MiB: copied-per-batch is 1.0 MiB, 102.4 KiB more than the 921.6 KiB allowed");
}

TEST_CASE("where copies are missed no absolute bound on copies is kept", "[budget]") {
  RunFigures run = Recording(10 * kMiB);
  run.exactness = GENERATE(Exactness::kPageMap, Exactness::kSampled);
  for (const BoundScope scope : {BoundScope::kAll, BoundScope::kWorker}) {
    CHECK(OutcomeOf(run, {.bounds = {Copied("20MiB", scope)}}) == BoundOutcome::kUndecided);
    CHECK(OutcomeOf(run, {.bounds = {Copied("1MiB", scope)}}) == BoundOutcome::kBroken);
  }
  Bound own = Copied("20MiB", BoundScope::kWorker);
  own.figure = Figure::kPrivatePeak;
  CHECK(OutcomeOf(run, {.bounds = {own}}) == BoundOutcome::kKept);
  CHECK(OutcomeOf(run, {.bounds = {Copied("105%:base")}}, {{"base", run}}) == BoundOutcome::kKept);
  run.exactness = Exactness::kPageMap;
  CHECK(Check(run, {.bounds = {Copied("20MiB")}}, {}).results[0].sentence ==
        "20MiB: can't be decided: copied is 10.0 MiB of 20.0 MiB allowed, but the page map misses copies; count them "
        "exactly, or give a share of a baseline that was counted the same way");
}

TEST_CASE("where other faults may count as copies no absolute bound on copies is broken", "[budget]") {
  RunFigures run = Recording(10 * kMiB);
  run.exactness = Exactness::kUpperBound;
  run.rung = "perf-event";
  run.figures[static_cast<size_t>(Figure::kCopiedPerBatch)] = 2 * kMiB;
  for (const BoundScope scope : {BoundScope::kAll, BoundScope::kWorker}) {
    CHECK(OutcomeOf(run, {.bounds = {Copied("20MiB", scope)}}) == BoundOutcome::kKept);
    CHECK(OutcomeOf(run, {.bounds = {Copied("1MiB", scope)}}) == BoundOutcome::kUndecided);
  }
  Bound per_batch = Copied("1MiB"), own = Copied("1MiB", BoundScope::kWorker);
  per_batch.figure = Figure::kCopiedPerBatch;
  own.figure = Figure::kPrivatePeak;
  CHECK(OutcomeOf(run, {.bounds = {per_batch}}) == BoundOutcome::kUndecided);
  CHECK(OutcomeOf(run, {.bounds = {own}}) == BoundOutcome::kBroken);
  RunFigures base = run;
  base.figures[static_cast<size_t>(Figure::kCopied)] = 5 * kMiB;
  CHECK(OutcomeOf(run, {.bounds = {Copied("105%:base")}}, {{"base", base}}) == BoundOutcome::kBroken);
  CHECK(OutcomeOf(run, {.bounds = {Copied("105%:base")}}, {{"base", run}}) == BoundOutcome::kKept);
  CHECK(Check(run, {.bounds = {Copied("20MiB")}}, {}).results[0].sentence ==
        "20MiB: copied is at most 10.0 MiB of 20.0 MiB allowed");
  CHECK(Check(run, {.bounds = {Copied("1MiB")}}, {}).results[0].sentence ==
        "1MiB: can't be decided: copied is at most 10.0 MiB, and 1.0 MiB is allowed; other faults may be among these "
        "copies; count them exactly, or give a share of a baseline that was counted the same way");
}

TEST_CASE("a diagnosis that the recording could not show is not said to be missing", "[budget]") {
  const auto outcome = [](const std::string& id, const std::function<void(RunFigures*)>& change) {
    RunFigures run = Recording(30 * kMiB);
    run.diagnoses = {{.id = "clean"}};
    run.causes[static_cast<int>(Cause::kData)] = 30 << 8;
    run.figures[static_cast<size_t>(Figure::kPrivatePeak)] = 31 * kMiB;
    change(&run);
    return Check(run, {.forbidden = {id}}, {}).results[0];
  };
  const auto unseen = [&](const std::string& id, const std::function<void(RunFigures*)>& change) {
    CAPTURE(id);
    CHECK(outcome(id, [](RunFigures* run) {
            run->shm_seen = true;
            run->limits = {{.now = {LimitKind::kDescriptors, "files", 1024, 7}}};
          }).outcome == BoundOutcome::kKept);
    const BoundResult result = outcome(id, change);
    CHECK(result.outcome == BoundOutcome::kUndecided);
    return result.sentence;
  };
  CHECK(unseen("cow-refcount", [](RunFigures* run) { run->causes = {}; }) ==
        "--no-diagnosis cow-refcount: can't be decided: why the workers copied 30.0 MiB is unknown");
  CHECK_THAT(unseen("cow-data", [](RunFigures* run) { run->exactness = Exactness::kPageMap; }),
             Catch::Contains("the page map misses copies"));
  CHECK_THAT(unseen("parent-unshare", [](RunFigures* run) { run->figures = {}; }), Catch::Contains("not counted"));
  CHECK_THAT(unseen("fork-hang", [](RunFigures* run) { run->without = {"hangs"}; }),
             Catch::Contains("--without hangs"));
  CHECK_THAT(unseen("gc-disabled", [](RunFigures* run) { run->without = {"causes"}; }), Catch::Contains("causes"));
  CHECK_THAT(unseen("pickle-failure", [](RunFigures* run) { run->python_problem = "no right to"; }),
             Catch::Contains("no right to"));
  CHECK_THAT(unseen("pickled-arguments", [](RunFigures* run) { run->without = {"stacks"}; }),
             Catch::Contains("stacks"));
  CHECK_THAT(unseen("new-memory-growth", [](RunFigures* run) { run->figures[2].reset(); }), Catch::Contains("private"));
  CHECK_THAT(unseen("oom-cgroup", [](RunFigures* run) { run->ends_known = false; }), Catch::Contains("ended"));
  CHECK_THAT(unseen("shm-leaked", [](RunFigures*) {}), Catch::Contains("/dev/shm"));
  CHECK_THAT(unseen("fd-exhaustion", [](RunFigures*) {}), Catch::Contains("descriptors"));
  // Too little to be a finding, whatever its cause.
  CHECK(outcome("cow-refcount", [](RunFigures* run) {
          run->figures[0] = 7 * kMiB;
          run->causes = {};
        }).outcome == BoundOutcome::kKept);
  CHECK(outcome("fork-hang", [](RunFigures* run) { run->without = {"stacks"}; }).outcome == BoundOutcome::kKept);
}

TEST_CASE("an unknown figure keeps no bound", "[budget]") {
  RunFigures run = Recording(1);
  run.figures = {};
  run.workers_apart[0].copied = std::nullopt;
  CHECK(OutcomeOf(run, {.bounds = {Copied("20MiB")}}) == BoundOutcome::kUndecided);
  CHECK(OutcomeOf(run, {.bounds = {Copied("20MiB", BoundScope::kWorker)}}) == BoundOutcome::kUndecided);
  CHECK(OutcomeOf(run, {.bounds = {Copied("1MiB", BoundScope::kWorker)}}) == BoundOutcome::kBroken);
  CHECK(OutcomeOf(run, {.bounds = {Copied("20MiB", BoundScope::kRank)}}) == BoundOutcome::kUndecided);
  CHECK(OutcomeOf(run, {.limits = {{"shm", {LimitKind::kShm}, 0.5}}}) == BoundOutcome::kUndecided);
}

TEST_CASE("a limit that no longer applies at the end was met all the same", "[budget]") {
  RunFigures run = Recording(1);
  run.limits = {{.now = {LimitKind::kAddressSpace, "worker", std::nullopt, 7}, .peak = 99, .peak_ratio = 0.99}};
  const Budget budget = {.limits = {{"address-space", {LimitKind::kAddressSpace}, 0.9}}};
  const CheckResult check = Check(run, budget, {});
  CHECK(check.outcome == BoundOutcome::kBroken);
  CHECK(check.results[0].sentence ==
        "--max-limit address-space: 99.0 % of address space (RLIMIT_AS) was used, 90.0 % is allowed");
  run.limits[0].peak_ratio = 0.5;
  CHECK(OutcomeOf(run, budget) == BoundOutcome::kKept);
  run.limits[0].peak_ratio = 0;
  CHECK(OutcomeOf(run, budget) == BoundOutcome::kUndecided);
}

TEST_CASE("what no sample saw of a worker keeps no bound on the private memory of all", "[budget]") {
  const auto bound = [](const std::string& text) {
    Bound of_private = Copied(text);
    of_private.figure = Figure::kPrivatePeak;
    return Budget{.bounds = {of_private}};
  };
  RunFigures seen = Recording(10 * kMiB);
  seen.figures[static_cast<size_t>(Figure::kPrivatePeak)] = 15 * kMiB;
  RunFigures unseen = seen;
  unseen.workers_apart[1].private_peak = std::nullopt;
  CHECK(OutcomeOf(seen, bound("20MiB")) == BoundOutcome::kKept);
  CHECK(OutcomeOf(unseen, bound("10MiB")) == BoundOutcome::kBroken);
  CHECK(OutcomeOf(unseen, {.bounds = {Copied("20MiB")}}) == BoundOutcome::kKept);
  const CheckResult check = Check(unseen, bound("20MiB"), {});
  CHECK(check.outcome == BoundOutcome::kUndecided);
  CHECK(check.results[0].sentence == "20MiB: can't be decided: the private memory of a worker was not seen");
  CHECK(OutcomeOf(seen, bound("105%:base"), {{"base", seen}}) == BoundOutcome::kKept);
  CHECK(Check(seen, bound("105%:base"), {{"base", unseen}}).results[0].sentence ==
        "105%:base: can't be decided: in run.json, the private memory of a worker was not seen");
}

TEST_CASE("workers that are known as a sum only keep no bound on each rank", "[budget]") {
  RunFigures run = Recording(10 * kMiB);
  run.ranks_apart = {{.label = "rank 0", .copied = 5 << 20, .private_peak = 6 << 20}};
  const Budget kept = {.bounds = {Copied("20MiB", BoundScope::kRank)}};
  CHECK(OutcomeOf(run, kept) == BoundOutcome::kKept);
  run.workers_summed_up = 24'600;
  CHECK(Check(run, kept, {}).results[0].sentence ==
        "20MiB: can't be decided: the ranks of 24,600 ended workers are not known");
  CHECK(OutcomeOf(run, {.bounds = {Copied("1MiB", BoundScope::kRank)}}) == BoundOutcome::kBroken);
  CHECK(OutcomeOf(run, {.bounds = {Copied("20MiB", BoundScope::kWorker)}}) == BoundOutcome::kKept);
  CHECK(OutcomeOf(run, {.bounds = {Copied("20MiB")}}) == BoundOutcome::kKept);
}

TEST_CASE("a baseline that can't be compared decides nothing", "[budget]") {
  const Budget budget = {.bounds = {Copied("105%:base")}};
  RunFigures base = Recording(20 * kMiB);
  CHECK(OutcomeOf(Recording(20.5 * kMiB), budget, {{"base", base}}) == BoundOutcome::kKept);
  CHECK(OutcomeOf(Recording(21.5 * kMiB), budget, {{"base", base}}) == BoundOutcome::kBroken);
  base.workers = 8;
  CHECK(OutcomeOf(Recording(21.5 * kMiB), budget, {{"base", base}}) == BoundOutcome::kUndecided);
}

TEST_CASE("a budget file is read, and a wrong key is named with the nearest one", "[budget]") {
  Budget budget;
  CHECK(ParseBudget(R"({"schema": "cowprof.budget/1", "baseline": "base.json", "copied": "105%", "private": "1 GiB",
                        "per_worker": {"copied": "20 MiB"}, "limits": {"cgroup": "90%", "shm": 0.5},
                        "no_diagnosis": ["oom-cgroup"]})",
                    "ci/cowprof.budget.json", &budget) == "");
  REQUIRE(budget.bounds.size() == 3);
  CHECK(budget.bounds[0].baseline == "ci/base.json");
  CHECK(budget.limits.size() == 2);
  const auto baseline = [](const std::string& bound) {
    Budget one;
    CHECK(ParseBudget(R"({"baseline": "base.json", "copied": ")" + bound + "\"}", "ci/b.json", &one) == "");
    return one.bounds.at(0).baseline;
  };
  CHECK(baseline("105%:other.json") == "ci/other.json");
  CHECK(baseline("105%:ci/base.json") == "ci/ci/base.json");
  CHECK(baseline("105%:/mnt/other.json") == "/mnt/other.json");
  CHECK(baseline("20 MiB") == "");
  const auto wrong = [](const std::string& text) {
    Budget ignored;
    return ParseBudget(text, "b.json", &ignored);
  };
  CHECK(wrong(R"({"copid": "1MiB"})") == "b.json: there is no key 'copid'; did you mean 'copied'?");
  CHECK_THAT(wrong(R"({"per_worker": {"shm": "1MiB"}})"), Catch::Contains("there is no key 'shm'"));
  CHECK_THAT(wrong(R"({"no_diagnosis": ["oom"]})"), Catch::Contains("did you mean 'oom-host'"));
  CHECK_THAT(wrong(R"({"copied": "secret"})"), !Catch::Contains("secret"));
  for (const char* text : {"", "[]", "{", "{\"copied\": 20}", "{\"limits\": []}", "{\"limits\": {\"cgroup\": 2}}",
                           "{\"per_rank\": 1}", "{\"schema\": \"cowprof.budget/2\"}", "{\"baseline\": 1}"}) {
    CAPTURE(text);
    CHECK(wrong(text) != "");
  }
}

}  // namespace
}  // namespace cowprof
