// What run_model.cc knows of why and where pages were copied: causes, frames, places, and which Python a process runs.
// The memory figures are the matter of growth_test.cc.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "builders.h"
#include "model/facts/run_model.h"

namespace cowprof {
namespace {

Event Process(int index, int parent, Origin origin) {
  return {.index = index,
          .what = ProcessStarted{.id = {1000 + index, 5'000'000'000u + index},
                                 .parent = parent,
                                 .space = origin == Origin::kForked ? parent : -1,
                                 .origin = origin,
                                 .command = "python train.py"}};
}
Event Exec(int index, const std::string& command) {
  return {.index = index, .what = ProcessExeced{.command = command}};
}

// A recording in the making: every Add is one tick, a second after the last.
struct Story {
  RunModel model;
  absl::Duration t;

  void Add(const std::vector<Event>& events, const std::vector<ProcessSample>& rows) {
    t += absl::Seconds(1);
    Append({.t = t, .events = events, .processes = rows}, &model);
  }
};

ProcessSample WithCauses(ProcessSample row, const CauseCounts& causes) {
  row.causes = causes;
  return row;
}
Event Python(int index, const std::string& version, const std::string& problem = "") {
  return {.index = index, .what = PythonFound{.version = version, .problem = problem}};
}

}  // namespace

TEST_CASE("workers that were there at the attach run the Python that is found in their parent later") {
  Story story;
  const auto of_parent = [](int index) {
    Event event = Process(index, 0, Origin::kFoundAtAttach);
    std::get<ProcessStarted>(event.what).space = 0;
    return event;
  };
  story.Add({Process(0, -1, Origin::kTarget), of_parent(1), Process(2, 0, Origin::kFoundAtAttach), of_parent(3)}, {});
  story.Add({Exec(1, "sh")}, {});
  story.Add({Python(0, "3.11.2")}, {});
  CHECK(story.model.processes[0].python == "3.11.2");
  CHECK(story.model.processes[1].python.empty());  // it runs another program
  CHECK(story.model.processes[2].python.empty());  // it was not forked from it
  CHECK(story.model.processes[3].python == "3.11.2");
}

TEST_CASE("causes stay known until there are newer ones, and are summed") {
  Story story;
  story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked), Process(2, 0, Origin::kForked)},
            {RowWithCopies(0, 1), WithCauses(RowWithCopies(1, 3), {1, 2}), RowWithCopies(2, 7)});
  CHECK(story.model.processes[1].causes == CauseCounts{1, 2});
  CHECK_FALSE(story.model.processes[0].causes.has_value());
  story.Add({}, {RowWithCopies(1, 4)});
  CHECK(story.model.processes[1].causes == CauseCounts{1, 2});
  story.Add({}, {WithCauses(RowWithCopies(0, 9), {9}), WithCauses(RowWithCopies(1, 5), {1, 3, 0, 0, 0, 0, 0, 0, 1})});
  const Totals workers = SumOf(story.model, false, true), all = SumOf(story.model, false, false);
  CHECK(workers.causes_known);
  CHECK(workers.causes == CauseCounts{1, 3, 0, 0, 0, 0, 0, 0, 1});
  CHECK(all.causes == CauseCounts{10, 3, 0, 0, 0, 0, 0, 0, 1});
  // One that ended counts on.
  story.Add({Exited(1, 0, absl::Seconds(9))}, {});
  CHECK(SumOf(story.model, true, true).causes == CauseCounts{});
  CHECK_FALSE(SumOf(story.model, true, true).causes_known);
  CHECK(SumOf(story.model, false, true).causes == workers.causes);
  CHECK_FALSE(SumOf({}, false, false).causes_known);
}

TEST_CASE("every cause has a name of its own") {
  std::set<std::string> names;
  for (int cause = 0; cause < kCauses; ++cause) names.insert(NameOf(static_cast<Cause>(cause)));
  CHECK(names == std::set<std::string>{"refcount", "gc_header", "allocator", "bytecode", "hash", "data", "free",
                                       "kernel", "unknown", "native_refcount", "malloc_reuse"});
}

TEST_CASE("frames and places are numbered as they come, counts replace the ones before") {
  RunModel model;
  Append({.events = {Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)},
          .new_frames = {{"a.py", "f", 1}},
          .new_copy_sites = {{Cause::kData, "x", "", "", {0}}},
          .copy_sites = {{1, 0, 5, 5, 5}},
          .cause_evidence = CauseEvidence{1, 2, 3, 4}},
         &model);
  Append({.t = absl::Seconds(1),
          .new_frames = {{"b.py", "g", 2}},
          .new_copy_sites = {{Cause::kFree, "y", "", "", {1, 0}}},
          .copy_sites = {{1, 1, 6, 2, 18}, {1, 0, 7, 7, 7}}},
         &model);
  CHECK(model.frames == std::vector<Frame>{{"a.py", "f", 1}, {"b.py", "g", 2}});
  REQUIRE(model.copy_sites.size() == 2);
  CHECK(model.copy_sites[1].type == "y");
  CHECK(model.processes[1].copy_sites ==
        absl::btree_map<int, CopySiteCount>{{0, {1, 0, 7, 7, 7}}, {1, {1, 1, 6, 2, 18}}});
  CHECK(model.processes[0].copy_sites.empty());
  CHECK(model.cause_evidence == CauseEvidence{1, 2, 3, 4});
  Append({.cause_evidence = CauseEvidence{5, 6, 7, 8}}, &model);
  CHECK(model.cause_evidence == CauseEvidence{5, 6, 7, 8});
}

TEST_CASE("counts of places and processes that are not known are left out, those of ended ones are not") {
  RunModel model;
  Append({.events = {Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)}, .new_copy_sites = {{}}}, &model);
  Append({.events = {Exited(1, 0, absl::Seconds(9))}}, &model);
  Append({.copy_sites = {{-1, 0, 1, 1, 1}, {2, 0, 1, 1, 1}, {0, -1, 1, 1, 1}, {0, 1, 1, 1, 1}, {1, 0, 8, 8, 8}}},
         &model);
  CHECK(model.processes.size() == 2);
  CHECK(model.processes[0].copy_sites.empty());
  // A hole that an index out of order left.
  Append({.events = {Process(9, 0, Origin::kForked)}}, &model);
  Append({.copy_sites = {{2, 0, 1, 1, 1}}, .new_regions = {{}}, .regions = {{2, 0, 1}, {0, 1, 1}, {0, 0, 7}}}, &model);
  REQUIRE(model.processes.size() == 3);
  CHECK(model.processes[2].copy_sites.empty());
  CHECK(model.processes[2].regions.empty());
  REQUIRE(model.processes[0].regions.size() == 1);
  CHECK(model.processes[0].regions.at(0).private_pages == 7);
  CHECK(model.processes[1].copy_sites.size() == 1);
}

TEST_CASE("copied pages of a region count as far as it has grown") {
  RunModel model;
  Append({.events = {Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)},
          .new_regions = {{0, {RegionKind::kHeap, "[heap]", 10 * 4096, 20 * 4096}}}},
         &model);
  Append({.pages = {{1, Cause::kRefcount, 15, 10}}}, &model);
  CHECK(model.processes[1].copied_pages[0] == 5);
  Append({.pages = {{1, Cause::kRefcount, 25, 20}}, .grown_regions = {{0, 30 * 4096}, {1, 4096}, {-1, 4096}}}, &model);
  CHECK(model.processes[1].copied_pages[0] == 5 + 15);
}

TEST_CASE("pages of a region are not lost to smaller ones that lay there before") {
  RunModel model;
  const auto region = [](int index, uint64_t first, uint64_t end) {
    return NumberedRegion{index, {RegionKind::kMmap, "", first * 4096, end * 4096}};
  };
  Append({.events = {Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)},
          .new_regions = {region(0, 12, 14), region(0, 40, 42), region(1, 13, 14)}},
         &model);
  Append({.pages = {{1, Cause::kRefcount, 15, 10}}, .new_regions = {region(0, 10, 30), region(0, 30, 35)}}, &model);
  CHECK(model.processes[1].copied_pages[3] == 10);
  Append({.pages = {{1, Cause::kRefcount, 43, 2}}, .grown_regions = {{4, 20 * 4096}}}, &model);
  CHECK(model.processes[1].copied_pages[4] == 2);
  CHECK(model.regions_by_start.size() == 3);  // the third is of another address space
}

TEST_CASE("copied pages count for the regions that are there again, not for one that took their place for a while") {
  RunModel model;
  const auto region = [](RegionKind kind, uint64_t first, uint64_t end) {
    return NumberedRegion{0, {kind, "", first * 4096, end * 4096}};
  };
  Append({.events = {Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)},
          .new_regions = {region(RegionKind::kPymallocArena, 10, 20), region(RegionKind::kPymallocArena, 20, 30)}},
         &model);
  Append({.pages = {{1, Cause::kRefcount, 18, 4}}, .new_regions = {region(RegionKind::kMmap, 10, 30)}}, &model);
  CHECK(model.processes[1].copied_pages[2] == 4);
  Append({.pages = {{1, Cause::kRefcount, 15, 10}}, .grown_regions = {{0, 10 * 4096}, {1, 10 * 4096}}}, &model);
  CHECK(model.processes[1].copied_pages[0] == 5);
  CHECK(model.processes[1].copied_pages[1] == 5);
  CHECK(model.processes[1].copied_pages[2] == 4);
}

TEST_CASE("a forked process runs its parent's Python, until it runs another program") {
  RunModel model;
  Append({.events = {Process(0, -1, Origin::kTarget), Python(0, "3.11.2")}}, &model);
  Append({.events = {Process(1, 0, Origin::kForked), Process(2, 0, Origin::kFoundAtAttach),
                     Process(3, 0, Origin::kForked)}},
         &model);
  CHECK(model.processes[0].python == "3.11.2");
  CHECK(model.processes[1].python == "3.11.2");
  CHECK(model.processes[2].python.empty());
  Append({.events = {Exec(1, "sleep 9"), Exec(3, "python3.13 x.py"), Python(3, "3.13.0", "a free-threaded build")}},
         &model);
  CHECK(model.processes[1].python.empty());
  CHECK(model.processes[3].python == "3.13.0");
  CHECK(model.processes[3].python_problem == "a free-threaded build");
  CHECK(model.processes[0].python_problem.empty());
  // What it runs after that has no Python, and so no problem with one.
  Append({.events = {Exec(3, "sleep 9")}}, &model);
  CHECK(model.processes[3].python.empty());
  CHECK(model.processes[3].python_problem.empty());
  Append({.events = {Python(7, "3.9.1"), Python(-1, "3.9.1")}}, &model);
  CHECK(model.processes.size() == 4);
}

TEST_CASE("why its Python can't be read holds for what a process forks, too") {
  RunModel model;
  Append({.events = {Process(0, -1, Origin::kTarget), Python(0, "3.13.0", "a free-threaded build")}}, &model);
  Append({.events = {Process(1, 0, Origin::kForked)}}, &model);
  CHECK(model.processes[1].python == "3.13.0");
  CHECK(model.processes[1].python_problem == "a free-threaded build");
}

}  // namespace cowprof
