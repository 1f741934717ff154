// Figures of a recording: what is not known of one worker is not known of its rank.
#include "model/judge/run_figures.h"

#include <catch2/catch.hpp>

#include "builders.h"

namespace cowprof {

TEST_CASE("a rank has the private memory of its workers only if that of each is known") {
  // The launcher 0, its ranks 1 and 2, and their workers.
  Sample start = {.t = absl::Seconds(1)};
  for (const int parent : {-1, 0, 0, 1, 2, 2}) {
    const int index = static_cast<int>(start.processes.size());
    start.events.push_back(Started(index, parent));
    start.processes.push_back(RowWithCopies(index, 0));
  }
  for (const uint64_t rank : {0, 1}) {
    start.events.push_back(
        {.index = static_cast<int>(rank) + 1, .what = RankFound{{.source = RankSource::kTorch, .rank = rank}}});
  }
  Run run;
  Append(start, &run);
  Append({.t = absl::Seconds(2), .events = {{.index = 1, .what = DutyFound{.configured = 4u}}}}, &run);
  run.model.processes[3].peak_private_bytes = 30 << 20;
  run.model.processes[4].peak_private_bytes = 40 << 20;
  run.model.processes[5].peak_private_bytes = std::nullopt;
  const RunFigures figures = FiguresOf("run.json", run, Judge(run), /*complete=*/true);
  CHECK(figures.ranks == 2);
  CHECK(figures.workers == 8);  // 4 of each
  REQUIRE(figures.ranks_apart.size() == 2);
  CHECK(figures.ranks_apart[0].private_peak == 30 << 20);
  CHECK(figures.ranks_apart[1].private_peak == std::nullopt);
}

TEST_CASE("of workers that are summed up, the most that one has is known, if it is known of each") {
  const bool all_known = GENERATE(true, false);
  Run run;
  run.model.most_ended = 4;
  Sample start = {.t = absl::Seconds(1), .events = {Started(0, -1)}}, end = {.t = absl::Seconds(2)};
  for (int index = 1; index <= 9; ++index) {
    start.events.push_back(Started(index, 0));
    end.events.push_back(Exited(index, 0, end.t));
    start.processes.push_back(all_known || index > 1 ? RowWithCopies(index, 256 * index)
                                                     : ProcessSample{.index = index});
  }
  Append(start, &run);
  Append(end, &run);
  Append({.t = absl::Seconds(3)}, &run);  // until then all are listed
  const RunFigures figures = FiguresOf("run.json", run, Judge(run), /*complete=*/true);
  CHECK(figures.workers_summed_up == 5);
  REQUIRE(figures.workers_apart.size() == 5);
  CHECK(figures.workers_apart.back().label == "one of 5 ended workers");
  CHECK(figures.workers_apart.back().copied == (all_known ? Count(5 << 20) : std::nullopt));
  CHECK(figures.workers_apart.back().private_peak == (all_known ? Count(5 << 20) : std::nullopt));
  CHECK(figures.SawAllPrivate() == all_known);
}

TEST_CASE("the private memory of a rank is what its workers had at one time, not the sum of their peaks") {
  Run run;
  const auto append = [&](int t, std::vector<Event> events, const std::map<int, uint64_t>& mib_of) {
    Sample sample = {.t = absl::Seconds(t), .events = std::move(events)};
    for (const auto& [index, mib] : mib_of) {
      sample.processes.push_back(RowWithCopies(index, 0));
      sample.processes.back().proc.anon_pages = 100'000 + (mib << 8);
    }
    Append(sample, &run);
  };
  // The launcher 0, its rank 1, and the workers of that.
  append(1,
         {Started(0, -1),
          Started(1, 0),
          {.index = 1, .what = RankFound{{.source = RankSource::kTorch, .rank = 3u}}},
          Started(2, 1),
          Started(3, 1)},
         {{2, 0}, {3, 0}});
  append(2, {}, {{2, 500}, {3, 100}});
  append(3, {}, {{2, 100}, {3, 500}});
  const RunFigures figures = FiguresOf("run.json", run, Judge(run), /*complete=*/true);
  REQUIRE(figures.ranks_apart.size() == 1);
  CHECK(figures.ranks_apart[0].label == "rank 3");
  CHECK(figures.ranks_apart[0].private_peak == 600 << 20);
  CHECK(figures.Get(Figure::kPrivatePeak) == 600 << 20);
  REQUIRE(figures.workers_apart.size() == 2);
  CHECK(figures.workers_apart[1].private_peak == 500 << 20);
}

}  // namespace cowprof
