// What is kept of samples that could not be written: each cumulative row once, every process that came or went, and of
// the rest no more than a bounded part, where what is missing is counted.
#include "timeline/backlog.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "builders.h"
#include "model/facts/run_model.h"
#include "model/judge/run.h"

namespace cowprof {
namespace {

std::vector<Event> Notes(size_t count, absl::Duration t) {
  return std::vector<Event>(count, {.t = t, .what = Note{"interval stretched"}});
}

template <typename What>
size_t CountOf(const Sample& sample) {
  return std::count_if(sample.events.begin(), sample.events.end(), [](const Event& e) { return e.Is<What>(); });
}

}  // namespace

TEST_CASE("a sample after one that was written is passed on as it is") {
  Backlog backlog;
  Sample sample = {.t = absl::Seconds(1), .events = {Started(0, -1)}, .processes = {RowWithCopies(0, 5)}};
  sample.copy_sites = {{.index = 0, .copy_site = 1, .copies = 2}, {.index = 0, .copy_site = 1, .copies = 3}};
  for (int i = 0; i < 2; ++i) {
    backlog.Add(sample, {Alert{}});
    CHECK(backlog.sample() == sample);
    CHECK(backlog.alerts().size() == 1);
    backlog.Clear();
  }
}

TEST_CASE("of cumulative rows only the latest is kept") {
  Backlog backlog;
  Sample sample;
  for (uint64_t i = 1; i <= 10; ++i) {
    sample.copy_sites = {{.index = 1, .copy_site = 2, .copies = i},
                         {.index = 1, .copy_site = 10 + static_cast<int>(i)}};
    sample.growth = {{.index = 1, .site = 2, .pages = i}};
    sample.regions = {{.index = 1, .region = 2, .private_pages = i}, {.index = 2, .region = 2, .private_pages = i}};
    sample.grown_regions = {{.region = 2, .bytes = i}};
    sample.heads = {{.region = 2, .pages = i}};
    backlog.Add(sample, {});
  }
  const Sample& kept = backlog.sample();
  CHECK(kept.copy_sites.size() == 1 + 10);
  CHECK(std::count(kept.copy_sites.begin(), kept.copy_sites.end(), sample.copy_sites[0]) == 1);
  CHECK(kept.growth == sample.growth);
  CHECK(kept.regions == sample.regions);
  CHECK(kept.grown_regions == sample.grown_regions);
  CHECK(kept.heads == sample.heads);
  CHECK(kept.losses == Losses{});
}

TEST_CASE("living processes have their latest row, ended ones their last") {
  Backlog backlog;
  backlog.Add({.events = {Started(0, -1), Started(1, 0)}, .processes = {RowWithCopies(0, 1), RowWithCopies(1, 1)}}, {});
  backlog.Add({.events = {Exited(1)}, .processes = {RowWithCopies(0, 2), RowWithCopies(1, 2)}}, {});
  backlog.Add({.processes = {RowWithCopies(0, 3)}}, {});
  const std::vector<ProcessSample>& rows = backlog.sample().processes;
  REQUIRE(rows.size() == 2);
  CHECK(rows[0] == RowWithCopies(1, 2));
  CHECK(rows[1] == RowWithCopies(0, 3));
  CHECK(backlog.sample().events.size() == 3);
}

TEST_CASE("what is too much is dropped and counted, but no process") {
  Backlog backlog;
  const int samples = 6;
  for (int i = 0; i < samples; ++i) {
    Sample sample = {.t = absl::Seconds(i), .events = Notes(Backlog::kMostRemarks / 2, absl::Seconds(i))};
    sample.events.insert(sample.events.begin(), {Started(i, i - 1), {.index = i, .what = PythonFound{"3.12"}}});
    sample.pages.assign(Backlog::kMostRuns / 2, {.index = i, .first_page = 7, .pages = 2});
    backlog.Add(sample, {});
  }
  const Sample kept = backlog.sample();
  CHECK(CountOf<ProcessStarted>(kept) == samples);
  CHECK(CountOf<PythonFound>(kept) == samples);
  // Three halves: two of earlier samples, and that of the last one.
  CHECK(CountOf<Note>(kept) == Backlog::kMostRemarks / 2 * 3);
  CHECK(kept.events.back().t == absl::Seconds(samples - 1));
  CHECK(kept.losses.events_dropped == Backlog::kMostRemarks / 2 * (samples - 3));
  CHECK(kept.losses.pages_dropped == Backlog::kMostRuns / 2 * 2 * (samples - 3));
  RunModel model;
  Append(kept, &model);
  REQUIRE(model.processes.size() == samples);
  CHECK(model.processes.back().id.pid == 1000 + samples - 1);
  // They stay lost once the rest is written.
  backlog.Clear();
  backlog.Add({.t = absl::Seconds(9)}, {});
  CHECK(backlog.sample().losses == kept.losses);
  CHECK(backlog.sample().events.empty());
}

TEST_CASE("it is large when there are many ended processes, or rows of them, however many live") {
  Backlog backlog;
  CHECK(backlog.empty());
  Sample sample = {.events = {Started(0, -1), Started(1, 0)}};
  for (int i = 0; i < static_cast<int>(Backlog::kManyRows); ++i) {
    sample.processes.push_back(RowWithCopies(2 + i, 1));
    sample.copy_sites.push_back({.index = 1, .copy_site = i});
  }
  backlog.Add(sample, {});
  CHECK_FALSE(backlog.empty());
  CHECK_FALSE(backlog.is_large());
  backlog.Add({.events = {Exited(1)}}, {});
  CHECK(backlog.is_large());
  backlog.Clear();
  CHECK(backlog.empty());
  CHECK_FALSE(backlog.is_large());
  for (int i = 0; i < static_cast<int>(Backlog::kManyRows); ++i) sample.events.push_back(Exited(2 + i));
  sample.copy_sites.clear();
  backlog.Add(sample, {});
  CHECK(backlog.is_large());
}

TEST_CASE("of too many alerts the latest are kept, and the latest of each limit") {
  Backlog backlog;
  const Alert rare = {.t = absl::Seconds(1), .over = true, .name = "rare"};
  backlog.Add({}, {rare});
  for (size_t i = 0; i < 2 * kMostAlerts; ++i)
    backlog.Add({}, {{.t = absl::Seconds(2 + i), .over = i % 2 == 1, .name = "flapping"}});
  backlog.Add({}, {});
  REQUIRE(backlog.alerts().size() == kMostAlerts + 1);
  CHECK(backlog.alerts().front() == rare);
  CHECK(backlog.alerts().back().t == absl::Seconds(1 + 2 * kMostAlerts));
}

}  // namespace cowprof
