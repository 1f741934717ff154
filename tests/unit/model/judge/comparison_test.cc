// Recordings held against each other: which can't be, what counts as a change, and which side is better.
#include "model/judge/comparison.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "sink/compare/diff.h"
#include "sink/compare/junit.h"

namespace cowprof {
namespace {

constexpr double kMiB = 1 << 20;

RunFigures Recording(const std::string& path, double copied, double peak) {
  RunFigures run = {.path = path,
                    .command = "python3 train.py",
                    .complete = true,
                    .from_start = true,
                    .to_end = true,
                    .exactness = Exactness::kExact,
                    .rung = "btf-tracepoints",
                    .python = "3.13",
                    .start_method = "fork",
                    .workers = 4,
                    .batches = 300,
                    .duration = absl::Seconds(10)};
  run.figures[static_cast<size_t>(Figure::kCopied)] = copied;
  run.figures[static_cast<size_t>(Figure::kCopiedPerBatch)] = copied / 300;
  run.figures[static_cast<size_t>(Figure::kPrivatePeak)] = peak;
  return run;
}

TEST_CASE("a difference that repeats from run to run is none", "[comparison]") {
  const Comparison of = Compare({Recording("a", 500 * kMiB, 520 * kMiB)}, {Recording("b", 504 * kMiB, 540 * kMiB)});
  CHECK(of.obstacles.empty());
  CHECK(of.verdict == Change::kSame);
  CHECK(of.Find(Figure::kCopied)->verdict == Change::kSame);
  // 128 pages of each of 4 workers are two MiB, whatever the share.
  CHECK(Compare({Recording("a", 4 * kMiB, 9 * kMiB)}, {Recording("b", 5.9 * kMiB, 9 * kMiB)}).verdict == Change::kSame);
}

TEST_CASE("the peak decides, and copies where it is the same", "[comparison]") {
  const RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB);
  CHECK(Compare({a}, {Recording("b", 30 * kMiB, 50 * kMiB)}).verdict == Change::kBetter);
  CHECK(Compare({a}, {Recording("b", 510 * kMiB, 520 * kMiB)}).verdict == Change::kWorse);
  CHECK(Compare({a}, {Recording("b", 490 * kMiB, 520 * kMiB)}).verdict == Change::kBetter);
  CHECK(Compare({a}, {Recording("b", 100 * kMiB, 900 * kMiB)}).verdict == Change::kWorse);
}

TEST_CASE("memory that moved to /dev/shm saved nothing", "[comparison]") {
  RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB), b = Recording("b", 30 * kMiB, 50 * kMiB);
  a.figures[static_cast<size_t>(Figure::kShmPeak)] = 1 * kMiB;
  b.figures[static_cast<size_t>(Figure::kShmPeak)] = 400 * kMiB;
  CHECK(Compare({a}, {b}).verdict == Change::kBetter);
  b.figures[static_cast<size_t>(Figure::kShmPeak)] = 600 * kMiB;
  CHECK(Compare({a}, {b}).verdict == Change::kWorse);
  // It also counts where the workers take as much as before, or copy less.
  for (const double copied : {500 * kMiB, 100 * kMiB}) {
    RunFigures same = Recording("b", copied, 520 * kMiB);
    same.figures[static_cast<size_t>(Figure::kShmPeak)] = 600 * kMiB;
    CHECK(Compare({a}, {same}).verdict == Change::kWorse);
    // On the host's it may be another program's, which is noted.
    same.shm_of_host = true;
    CHECK(Compare({a}, {same}).verdict == (copied < 500 * kMiB ? Change::kBetter : Change::kSame));
    CHECK(Compare({a}, {same}).notes ==
          std::vector<std::string>{"/dev/shm is the host's: part of the difference may be another program's."});
    same.shm_of_host = false;
    // What was there before is not the program's.
    same.shm_at_start = 599 * kMiB;
    CHECK(Compare({a}, {same}).verdict == (copied < 500 * kMiB ? Change::kBetter : Change::kSame));
    CHECK(Compare({a}, {same}).notes ==
          std::vector<std::string>{"/dev/shm held 0 B when A began, 599.0 MiB when B did."});
  }
  a.figures[static_cast<size_t>(Figure::kShmPeak)] = 0;
  CHECK_THAT(DiffSentence({{a}, {b}, Compare({a}, {b})}), Catch::EndsWith("/dev/shm holds 600.0 MiB more."));
}

TEST_CASE("memory that moved to /dev/shm saved nothing, whatever was left there before", "[comparison]") {
  RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB), b = Recording("b", 30 * kMiB, 50 * kMiB);
  a.shm_at_start = a.shm_of_others = 500 * kMiB;
  a.figures[static_cast<size_t>(Figure::kShmPeak)] = 501 * kMiB;
  b.figures[static_cast<size_t>(Figure::kShmPeak)] = 480 * kMiB;
  CHECK(Compare({a}, {b}).verdict == Change::kWorse);
  CHECK_THAT(DiffSentence({{a}, {b}, Compare({a}, {b})}),
             Catch::StartsWith("Worse: ") &&
                 Catch::EndsWith("; beyond what was in it before, /dev/shm holds 479.0 MiB more."));
  // If it was A's own, or was removed, A may have had as much of its own at the peak.
  a.shm_of_others = 0;
  CHECK(Compare({a}, {b}).verdict == Change::kBetter);
  // What both found is in both peaks.
  b.shm_at_start = a.shm_at_start;
  b.figures[static_cast<size_t>(Figure::kShmPeak)] = 1001 * kMiB;
  CHECK(Compare({a}, {b}).verdict == Change::kWorse);
  b.shm_at_start = 0;
  // The workers of B have less by more than that.
  a.shm_of_others = 500 * kMiB;
  b.figures[static_cast<size_t>(Figure::kShmPeak)] = 100 * kMiB;
  CHECK(Compare({a}, {b}).verdict == Change::kBetter);
}

TEST_CASE("what others left in /dev/shm is what a program that cowprof started found and left there", "[comparison]") {
  Run run;
  run.model.info.limits = {{LimitKind::kShm, "/dev/shm", 1000, 500}};
  run.model.limits = {{.now = {LimitKind::kShm, "/dev/shm", 1000, 400}, .peak = 501}};
  const auto of_others = [&] { return FiguresOf("a", run, Judge(run), true).shm_of_others; };
  CHECK(of_others() == 0);
  run.model.info.started_target = true;
  CHECK(of_others() == 400);
  run.model.limits[0].now.used = 600;
  CHECK(of_others() == 500);
}

TEST_CASE("what may be the reason of a difference is a note", "[comparison]") {
  RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB), b = a;
  a.version = b.version = "0.1";
  a.kernel = "6.1", b.kernel = "6.18";
  a.cpus = 8, b.cpus = 64;
  b.path = "b";
  b.ends_known = false;
  CHECK(Compare({a}, {b}).notes ==
        std::vector<std::string>{"A ran on 8 CPUs, B on 64: thread pools and malloc arenas grow with it.",
                                 "A ran on Linux 6.1, B on 6.18.",
                                 "How some processes of b ended is unknown: one may have failed."});
  RunFigures unseen = a;
  unseen.workers_apart = {{.label = "worker 0 (7)", .private_peak = 1 << 20}, {.label = "worker 1 (8)"}};
  CHECK(Compare({a}, {unseen}).notes ==
        std::vector<std::string>{"The private memory of a worker of a was not seen: the peak may have been higher."});
}

TEST_CASE("what only a later recording of a side differs in is a note, too", "[comparison]") {
  const RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB);
  RunFigures b = Recording("b", 100 * kMiB, 520 * kMiB), other = b;
  other.path = "b2";
  other.ends_known = false;
  other.cpus = 64;
  CHECK(Compare({a}, {b, other, other}).notes ==
        std::vector<std::string>{"b ran on 0 CPUs, b2 on 64: thread pools and malloc arenas grow with it.",
                                 "How some processes of b2 ended is unknown: one may have failed."});
  CHECK(Compare({a}, {b, b}).verdict == Change::kBetter);
  other = b;
  other.path = "b2";
  other.start_method = "forkserver";
  const Comparison mixed = Compare({a}, {b, other});
  CHECK(mixed.verdict == Change::kSame);
  CHECK(mixed.notes == std::vector<std::string>{"b starts its workers by fork, b2 by forkserver: what is sent to a "
                                                "worker is its own, not a copy, so the peak decides."});
}

TEST_CASE("what each recording found in /dev/shm is taken off, not what the first one did", "[comparison]") {
  RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB), b = Recording("b", 500 * kMiB, 520 * kMiB), full = b;
  a.figures[static_cast<size_t>(Figure::kShmPeak)] = 0;
  b.figures[static_cast<size_t>(Figure::kShmPeak)] = 100 * kMiB;
  CHECK(Compare({a}, {b}).verdict == Change::kWorse);
  b.shm_at_start = 100 * kMiB;
  full.path = "full";
  full.figures[static_cast<size_t>(Figure::kShmPeak)] = full.shm_at_start = 500 * kMiB;
  CHECK(Compare({a}, {b, full}).verdict == Change::kSame);
}

TEST_CASE("copies of different start methods are not compared", "[comparison]") {
  const RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB);
  RunFigures b = Recording("b", 1 * kMiB, 520 * kMiB);
  b.start_method = "forkserver";
  const Comparison of = Compare({a}, {b});
  CHECK(of.obstacles.empty());
  REQUIRE(of.notes.size() == 1);
  CHECK(of.verdict == Change::kSame);
}

TEST_CASE("several recordings of a side spread the interval", "[comparison]") {
  const std::vector<RunFigures> a = {Recording("a1", 500 * kMiB, 500 * kMiB), Recording("a2", 560 * kMiB, 560 * kMiB)};
  const std::vector<RunFigures> b = {Recording("b1", 450 * kMiB, 450 * kMiB), Recording("b2", 510 * kMiB, 510 * kMiB)};
  const Comparison of = Compare(a, b);
  CHECK(of.verdict == Change::kSame);
  CHECK(of.Find(Figure::kPrivatePeak)->a == SideFigure{500 * kMiB, 530 * kMiB, 560 * kMiB});
  CHECK(of.Find(Figure::kPrivatePeak)->change->best == -50 * kMiB);
}

TEST_CASE("what differs between the runs forbids to compare them", "[comparison]") {
  RunFigures a = Recording("a.json", 500 * kMiB, 520 * kMiB);
  const auto obstacle = [&](const std::function<void(RunFigures*)>& change) {
    RunFigures b = Recording("b.json", 30 * kMiB, 50 * kMiB);
    change(&b);
    const Comparison of = Compare({a}, {b});
    CHECK_FALSE(of.verdict);
    CHECK_FALSE(of.prediction);
    REQUIRE(of.obstacles.size() == 1);
    return of.obstacles[0];
  };
  CHECK(obstacle([](RunFigures* b) { b->workers = 2; }) == "a.json has 4 workers, b.json 2.");
  CHECK(obstacle([](RunFigures* b) { b->python = "3.11"; }) == "a.json has Python 3.13, b.json 3.11.");
  CHECK(obstacle([](RunFigures* b) { b->batches = 200; }) == "a.json has 300 batches, b.json 200.");
  CHECK(obstacle([](RunFigures* b) { b->start_method = "none"; }) == "No worker was started in b.json.");
  CHECK_THAT(obstacle([](RunFigures* b) { b->rung = "pagemap"; }), Catch::Contains("btf-tracepoints"));
  CHECK_THAT(obstacle([](RunFigures* b) { b->exactness = Exactness::kPageMap; }), Catch::Contains("page-map"));
  CHECK_THAT(obstacle([](RunFigures* b) { b->complete = false; }), Catch::Contains("b.json has no end"));
  CHECK_THAT(obstacle([](RunFigures* b) { b->from_start = false; }), Catch::Contains("from the start"));
  CHECK_THAT(obstacle([](RunFigures* b) { b->death = "worker 7: killed by SIGKILL"; }), Catch::Contains("worker 7"));
  CHECK_THAT(obstacle([](RunFigures* b) { b->losses.events_dropped = 1; }), Catch::Contains("lost events"));
  CHECK(obstacle([](RunFigures* b) { b->losses.records_dropped = 1; }) ==
        "b.json lacks 1 sample that could not be written: its peaks may be too low.");
  CHECK_THAT(obstacle([](RunFigures* b) { b->page_bytes = 16384; }), Catch::Contains("16.0 KiB"));
  a.ranks = 2;
  CHECK(obstacle([](RunFigures* b) {
          b->ranks = 4;
          b->workers = 8;
        }) == "a.json has 2 ranks, b.json 4.");
  // A program that no launcher started is one rank, whoever has as many workers in all.
  CHECK(obstacle([](RunFigures* b) { b->ranks = 0; }) == "a.json has 2 ranks, b.json 1.");
  a.ranks = 0;
  CHECK(obstacle([](RunFigures* b) { b->ranks = 2; }) == "a.json has 1 rank, b.json 2.");
  RunFigures launched = a;
  launched.ranks = 1;
  CHECK(Compare({a}, {launched}).obstacles.empty());
}

TEST_CASE("the last batches of each worker may not have been seen", "[comparison]") {
  const RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB);
  RunFigures b = a;
  b.batches = 293;
  CHECK(Compare({a}, {b}).obstacles.empty());
  b.batches = 291;
  CHECK_FALSE(Compare({a}, {b}).obstacles.empty());
  b.unseen_batches = 3;
  CHECK(Compare({a}, {b}).obstacles.empty());
  b.batches = 280;
  CHECK_FALSE(Compare({a}, {b}).obstacles.empty());
}

TEST_CASE("what is copied per batch is known from above", "[comparison]") {
  RunFigures a = Recording("a", 300 * kMiB, 520 * kMiB), b = Recording("b", 300 * kMiB, 520 * kMiB);
  b.batches = 250;
  b.figures[static_cast<size_t>(Figure::kCopiedPerBatch)] = 300 * kMiB / 250;
  b.unseen_batches = 100;
  CHECK(*b.Least(Figure::kCopiedPerBatch) == Approx(300 * kMiB / 350));
  CHECK(*b.Least(Figure::kCopied) == *b.Get(Figure::kCopied));
  const Comparison about = Compare({a}, {b});
  const FigureChange& row = *about.Find(Figure::kCopiedPerBatch);
  CHECK(row.verdict == Change::kSame);
  CHECK(row.change->low == Approx(300 * kMiB / 350 - kMiB));
  CHECK(row.b->mean == Approx(300 * kMiB / 250));
  b.unseen_batches = 10;
  CHECK(Compare({a}, {b}).Find(Figure::kCopiedPerBatch)->verdict == Change::kWorse);
  // How many batches of an epoch were not seen is not known once the next has begun.
  b.several_epochs = true;
  CHECK(*b.Least(Figure::kCopiedPerBatch) == 0);
  CHECK_FALSE(Compare({a}, {b}).Find(Figure::kCopiedPerBatch)->verdict);
}

TEST_CASE("without batches, runs that were seen to their end did the same work", "[comparison]") {
  RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB), b = a;
  a.batches = b.batches = std::nullopt;
  b.duration = absl::Seconds(20);
  CHECK(Compare({a}, {b}).obstacles.empty());
  b.to_end = false;
  CHECK_FALSE(Compare({a}, {b}).obstacles.empty());
  b.duration = absl::Seconds(10.5);
  CHECK(Compare({a}, {b}).obstacles.empty());
}

TEST_CASE("lines are matched by function, and only certain changes are called so", "[comparison]") {
  RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB), b = Recording("b", 30 * kMiB, 50 * kMiB);
  const PartName item = {"train.py", "__getitem__", ""}, other = {"train.py", "collate", ""};
  a.lines[item] = {.bytes = 400 << 20, .uncertainty = 10 * kMiB, .numbers = {12}};
  a.lines[other] = {.bytes = 9 << 20, .uncertainty = 4 * kMiB, .numbers = {30}};
  b.lines[item] = {.bytes = 20 << 20, .uncertainty = 1 * kMiB, .numbers = {14}};
  b.lines[other] = {.bytes = 12 << 20, .uncertainty = 4 * kMiB, .numbers = {32}};
  const Comparison of = Compare({a}, {b});
  REQUIRE(of.lines.size() == 2);
  CHECK(of.lines[0].name == item);
  CHECK(of.lines[0].certain());
  CHECK(of.lines[0].numbers_a == std::vector<int>{12});
  CHECK_FALSE(of.lines[1].certain());
}

TEST_CASE("lines that one recording could not see are neither gone nor new", "[comparison]") {
  RunFigures a = Recording("a.json", 500 * kMiB, 520 * kMiB), b = Recording("b.json", 900 * kMiB, 920 * kMiB);
  a.lines[{"train.py", "__getitem__", ""}] = {.bytes = 400 << 20, .numbers = {12}};
  a.types[{"", "str", ""}] = {.bytes = 400 << 20};
  CHECK(Compare({a}, {b}).lines.size() == 1);  // b copies, and none of it there
  const auto compare = [](const RunFigures& one, const RunFigures& other) {
    const Comparison of = Compare({one}, {other});
    CHECK(of.lines.empty());
    CHECK(of.types.empty());
    CHECK(of.verdict);
    REQUIRE(of.notes.size() == 1);
    return of.notes[0];
  };
  b.without = {"stacks"};
  const std::string note =
      "Lines and types are not compared: those of b.json are not known: it was recorded with --without stacks.";
  CHECK(compare(a, b) == note);
  CHECK(compare(b, a) == note);
  b.without = {};
  b.python_problem = "it is no CPython";
  CHECK_THAT(compare(a, b), Catch::EndsWith("b.json are not known: Python was not read: it is no CPython."));
  b.python_problem = "";
  b.exactness = Exactness::kPageMap;
  const Comparison by_map = Compare({a}, {b});  // has types
  CHECK(by_map.lines.empty());
  CHECK(by_map.types.size() == 1);
  CHECK(by_map.notes ==
        std::vector<std::string>{"Lines are not compared: those of b.json are not known: the page map has no stacks."});
  b.exactness = a.exactness;
  b.python_problem = "it is no CPython";
  RunFigures fixed = b;
  fixed.figures[static_cast<size_t>(Figure::kCopied)] = 0;
  CHECK(Compare({a}, {fixed}).lines.size() == 1);  // it copies nothing: what A's lines copied is gone
  CHECK(Compare({a}, {fixed}).notes.empty());
  a.lines.clear();
  a.python_problem = b.python_problem;
  CHECK(Compare({a}, {b}).notes.empty());
}

TEST_CASE("the prediction is that of the remedy that shows", "[comparison]") {
  RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB), b = Recording("b", 100 * kMiB, 120 * kMiB);
  a.remedies = {{.id = "serialise", .saves = Estimate{300 * kMiB, 380 * kMiB, 410 * kMiB}},
                {.id = "gc-freeze", .saves = Estimate{80 * kMiB, 95 * kMiB, 100 * kMiB}},
                {.id = "spawn", .saves = Estimate{-100 * kMiB, 0, 200 * kMiB}}};
  a.causes[static_cast<int>(Cause::kRefcount)] = 100'000;
  a.causes[static_cast<int>(Cause::kGcHeader)] = 25'000;
  b.causes = a.causes;
  CHECK_FALSE(Compare({a}, {b}).prediction);  // nothing shows that B has any of them
  b.causes[static_cast<int>(Cause::kRefcount)] = 20'000;
  const auto prediction = [&] { return Compare({a}, {b}).prediction; };
  REQUIRE(prediction());
  CHECK(prediction()->remedy == "serialise");
  CHECK(prediction()->measured == 400 * kMiB);
  CHECK(prediction()->holds());
  b.causes[static_cast<int>(Cause::kRefcount)] = 100'000;
  b.causes[static_cast<int>(Cause::kGcHeader)] = 100;
  CHECK(prediction()->remedy == "gc-freeze");
  CHECK_FALSE(prediction()->holds());
  b.causes[static_cast<int>(Cause::kRefcount)] = 100;
  CHECK(prediction()->remedy == "serialise");
  for (const char* method : {"forkserver", "spawn"}) {
    b.start_method = method;
    CHECK(prediction()->remedy == "spawn");
  }
  a.remedies.clear();
  CHECK_FALSE(prediction());
}

TEST_CASE("a side without a figure leaves it unknown, never the same", "[comparison]") {
  RunFigures a = Recording("a", 1, 1), b = Recording("b", 1, 1);
  b.figures = {};
  const Diff diff = {{a}, {b}, Compare({a}, {b})};
  CHECK_FALSE(diff.comparison.verdict);
  CHECK(DiffSentence(diff) == "Unknown: neither the workers' memory nor their copies are known on both sides.");
  b = Recording("b", 1, 1);
  b.figures[static_cast<size_t>(Figure::kPrivatePeak)] = std::nullopt;
  CHECK(Compare({a}, {b}).verdict == Change::kSame);
  b.start_method = "spawn";
  const Diff other = {{a}, {b}, Compare({a}, {b})};
  CHECK_FALSE(other.comparison.verdict);
  CHECK_THAT(DiffSentence(other), Catch::EndsWith("copies of different start methods can't be compared."));
}

TEST_CASE("the page of two recordings says what diff says of them, and of the two swapped", "[comparison]") {
  RunFigures a = Recording("a.json", 500 * kMiB, 520 * kMiB), b = Recording("b.json", 30 * kMiB, 50 * kMiB);
  a.remedies = {{.id = "serialise", .saves = Estimate{300 * kMiB, 380 * kMiB, 410 * kMiB}}};
  a.causes[static_cast<int>(Cause::kRefcount)] = 120'000;
  b.causes[static_cast<int>(Cause::kRefcount)] = 5'000;
  b.command = "python3 fixed.py";
  b.without = {"stacks"};
  const Diff diff = {{a}, {b}, Compare({a}, {b})}, back = {{b}, {a}, Compare({b}, {a})};
  const auto both = ComparisonsJson(diff);
  REQUIRE(both.size() == 2);
  CHECK(both[0]["sentence"] == DiffSentence(diff));
  CHECK(both[1]["sentence"] == DiffSentence(back));
  CHECK(both[0]["verdict"] == "better");
  CHECK(both[1]["verdict"] == "worse");
  CHECK(both[0]["notes"] == diff.comparison.notes);
  CHECK(both[0]["prediction"].get<std::string>().starts_with("Predicted (serialise): "));
  CHECK(both[1]["prediction"].is_null());
  CHECK(both[0]["figures"].size() == DiffJson(diff)["figures"].size());
  CHECK(both[0]["figures"][0]["label"] == "copied by the workers");
  CHECK(both[0]["sees_lines"].dump() == R"({"a":true,"b":false})");
  CHECK(both[1]["sees_lines"].dump() == R"({"a":false,"b":true})");
  CHECK_THAT(DiffText(diff), Catch::Contains("  A  " + both[0]["a"][0].get<std::string>() + "\n"));

  b.death = "worker 7: killed by SIGKILL";
  const auto failed = ComparisonsJson({{a}, {b}, Compare({a}, {b})})[0];
  CHECK(failed["sentence"] == "Can't be compared: In b.json, a process did not end well: worker 7: killed by SIGKILL.");
  CHECK(failed["verdict"].is_null());
  CHECK(failed["figures"][0]["verdict"].is_null());
  CHECK(failed["sees_lines"]["a"] == false);
}

TEST_CASE("an output stays what it is, whatever a name holds", "[comparison]") {
  RunFigures a = Recording("a", 500 * kMiB, 520 * kMiB), b = Recording("<b>|`x`\n::error::", 900 * kMiB, 920 * kMiB);
  b.lines[{"/tmp/a,b:c%.py", "f\n::warning::<script>", "]]>\x01"}] = {.bytes = 300 << 20, .numbers = {3}};
  const Diff diff = {{a}, {b}, Compare({a}, {b})};
  CHECK(DiffGithub(diff).starts_with("::error file=/tmp/a%2Cb%3Ac%25.py,line=3::cowprof: Worse"));
  CHECK(std::string(DiffGithub(diff)).find("\n::warning") == std::string::npos);
  CHECK_THAT(DiffMarkdown(diff), Catch::StartsWith("<!-- cowprof diff -->\n") && !Catch::Contains("<script>"));
  CHECK(Annotation("error", "a\x1b[2J\n\xff.py", 3, "50 %\n\x1b]0;x") ==
        "::error file=a\\x1b[2J\\x0a\\xff.py,line=3::50 %25\\x0a\\x1b]0;x\n");
  b.lines[{"/tmp/http://a.b/", "www.c.d", "e@f.g"}] = {.bytes = 200 << 20, .numbers = {4}};
  CHECK_THAT(DiffMarkdown({{a}, {b}, Compare({a}, {b})}),
             Catch::Contains("http\\://a.b") && Catch::Contains("www\\.c.d") && !Catch::Contains("e@f"));
  const std::string junit = DiffJunit(diff);
  CHECK_THAT(junit, Catch::Contains("failures=\"1\"") && !Catch::Contains("<script>") && !Catch::Contains("\x01"));
  const JunitCase named = {.name = "\xef\xbf\xbe, \xef\xbf\xbf, \xef\xbf\xbd"};
  CHECK_THAT(JunitXml("s", {named}, absl::ZeroDuration()), Catch::Contains("name=\"?, ?, \xef\xbf\xbd\""));
}

}  // namespace
}  // namespace cowprof
