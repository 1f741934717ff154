// What growth.cc knows of why and where pages were copied: causes, frames, places, and which Python a process runs. The
// memory figures are the matter of growth_test.cc.
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/growth.h"

namespace cowprof {
namespace {

Event Process(int index, int parent, Origin origin) {
  Event event = {.kind = EventKind::kProcess, .index = index};
  event.id = {1000 + index, 5'000'000'000u + index};
  event.parent = parent;
  event.origin = origin;
  event.space = origin == Origin::kForked ? parent : -1;
  event.command = "python train.py";
  return event;
}
Event Exec(int index, const std::string& command) {
  Event event = {.kind = EventKind::kExec, .index = index};
  event.command = command;
  return event;
}
Event Ended(int index, int status) {
  Event event = {.t = absl::Seconds(9), .kind = EventKind::kExit, .index = index};
  event.status = status;
  return event;
}
ProcessSample Row(int index, uint64_t copies) {
  ProcessSample row = {.index = index};
  row.counts.copies = copies;
  return row;
}

// A recording in the making: every Add is one tick, a second after the last.
struct Story {
  Growth growth;
  absl::Duration t;

  void Add(const std::vector<Event>& events, const std::vector<ProcessSample>& rows) {
    t += absl::Seconds(1);
    Append({.t = t, .events = events, .processes = rows}, &growth);
  }
};

ProcessSample WithCauses(ProcessSample row, const CauseCounts& causes) {
  row.causes = causes;
  return row;
}
Event Python(int index, const std::string& version, const std::string& problem = "") {
  Event event = {.kind = EventKind::kPython, .index = index};
  event.python = version;
  event.text = problem;
  return event;
}

}  // namespace

TEST_CASE("causes stay known until there are newer ones, and are summed") {
  Story story;
  story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked), Process(2, 0, Origin::kForked)},
            {Row(0, 1), WithCauses(Row(1, 3), {1, 2}), Row(2, 7)});
  CHECK(story.growth.processes[1].causes == CauseCounts{1, 2});
  CHECK_FALSE(story.growth.processes[0].causes.has_value());
  story.Add({}, {Row(1, 4)});
  CHECK(story.growth.processes[1].causes == CauseCounts{1, 2});
  story.Add({}, {WithCauses(Row(0, 9), {9}), WithCauses(Row(1, 5), {1, 3, 0, 0, 0, 0, 0, 0, 1})});
  const Totals workers = SumOf(story.growth, false, true), all = SumOf(story.growth, false, false);
  CHECK(workers.causes_known);
  CHECK(workers.causes == CauseCounts{1, 3, 0, 0, 0, 0, 0, 0, 1});
  CHECK(all.causes == CauseCounts{10, 3, 0, 0, 0, 0, 0, 0, 1});
  // One that ended counts on.
  story.Add({Ended(1, 0)}, {});
  CHECK(SumOf(story.growth, true, true).causes == CauseCounts{});
  CHECK_FALSE(SumOf(story.growth, true, true).causes_known);
  CHECK(SumOf(story.growth, false, true).causes == workers.causes);
  CHECK_FALSE(SumOf({}, false, false).causes_known);
}

TEST_CASE("every cause has a name of its own") {
  std::set<std::string> names;
  for (int cause = 0; cause < kCauses; ++cause) names.insert(NameOf(static_cast<Cause>(cause)));
  CHECK(names == std::set<std::string>{"refcount", "gc_header", "allocator", "bytecode", "hash", "data", "free",
                                       "kernel", "unknown"});
}

TEST_CASE("frames and places are numbered as they come, counts replace the ones before") {
  Growth growth;
  Append({.events = {Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)},
          .new_frames = {{"a.py", "f", 1}},
          .new_places = {{Cause::kData, "x", "", "", {0}}},
          .places = {{1, 0, 5, 5, 5}},
          .cause_evidence = CauseEvidence{1, 2, 3, 4}},
         &growth);
  Append({.t = absl::Seconds(1),
          .new_frames = {{"b.py", "g", 2}},
          .new_places = {{Cause::kFree, "y", "", "", {1, 0}}},
          .places = {{1, 1, 6, 2, 18}, {1, 0, 7, 7, 7}}},
         &growth);
  CHECK(growth.frames == std::vector<Frame>{{"a.py", "f", 1}, {"b.py", "g", 2}});
  REQUIRE(growth.places.size() == 2);
  CHECK(growth.places[1].type == "y");
  CHECK(growth.processes[1].places == std::map<int, PlaceCount>{{0, {1, 0, 7, 7, 7}}, {1, {1, 1, 6, 2, 18}}});
  CHECK(growth.processes[0].places.empty());
  CHECK(growth.cause_evidence == CauseEvidence{1, 2, 3, 4});
  Append({.cause_evidence = CauseEvidence{5, 6, 7, 8}}, &growth);
  CHECK(growth.cause_evidence == CauseEvidence{5, 6, 7, 8});
}

TEST_CASE("counts of places and processes that are not known are left out, those of ended ones are not") {
  Growth growth;
  Append({.events = {Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)}, .new_places = {{}}}, &growth);
  Append({.events = {Ended(1, 0)}}, &growth);
  Append({.places = {{-1, 0, 1, 1, 1}, {2, 0, 1, 1, 1}, {0, -1, 1, 1, 1}, {0, 1, 1, 1, 1}, {1, 0, 8, 8, 8}}}, &growth);
  CHECK(growth.processes.size() == 2);
  CHECK(growth.processes[0].places.empty());
  // A hole that an index out of order left.
  Append({.events = {Process(9, 0, Origin::kForked)}}, &growth);
  Append({.places = {{2, 0, 1, 1, 1}}, .new_regions = {{}}, .regions = {{2, 0, 1}, {0, 1, 1}, {0, 0, 7}}}, &growth);
  REQUIRE(growth.processes.size() == 3);
  CHECK(growth.processes[2].places.empty());
  CHECK(growth.processes[2].regions.empty());
  REQUIRE(growth.processes[0].regions.size() == 1);
  CHECK(growth.processes[0].regions.at(0).private_pages == 7);
  CHECK(growth.processes[1].places.size() == 1);
}

TEST_CASE("a forked process runs its parent's Python, until it runs another program") {
  Growth growth;
  Append({.events = {Process(0, -1, Origin::kTarget), Python(0, "3.11.2")}}, &growth);
  Append({.events = {Process(1, 0, Origin::kForked), Process(2, 0, Origin::kFoundAtAttach),
                     Process(3, 0, Origin::kForked)}},
         &growth);
  CHECK(growth.processes[0].python == "3.11.2");
  CHECK(growth.processes[1].python == "3.11.2");
  CHECK(growth.processes[2].python.empty());
  Append({.events = {Exec(1, "sleep 9"), Exec(3, "python3.13 x.py"), Python(3, "3.13.0", "a free-threaded build")}},
         &growth);
  CHECK(growth.processes[1].python.empty());
  CHECK(growth.processes[3].python == "3.13.0");
  CHECK(growth.processes[3].python_problem == "a free-threaded build");
  CHECK(growth.processes[0].python_problem.empty());
  // What it runs after that has no Python, and so no problem with one.
  Append({.events = {Exec(3, "sleep 9")}}, &growth);
  CHECK(growth.processes[3].python.empty());
  CHECK(growth.processes[3].python_problem.empty());
  Append({.events = {Python(7, "3.9.1"), Python(-1, "3.9.1")}}, &growth);
  CHECK(growth.processes.size() == 4);
}

TEST_CASE("why its Python can't be read holds for what a process forks, too") {
  Growth growth;
  Append({.events = {Process(0, -1, Origin::kTarget), Python(0, "3.13.0", "a free-threaded build")}}, &growth);
  Append({.events = {Process(1, 0, Origin::kForked)}}, &growth);
  CHECK(growth.processes[1].python == "3.13.0");
  CHECK(growth.processes[1].python_problem == "a free-threaded build");
}

}  // namespace cowprof
