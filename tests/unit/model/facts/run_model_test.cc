// What run_model.cc derives from hand-made samples: private and shared memory of workers that were forked,
// found, swept, exec'd, killed or never seen, and that no odd figure becomes a huge one. Every number
// here can be checked on paper: pages are of 4096 bytes.
#include "model/facts/run_model.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <random>
#include <string>

#include "builders.h"
#include "random_recording.h"

namespace cowprof {
namespace {

constexpr uint64_t kPage = 4096;

Event Process(int index, int parent, Origin origin, const std::string& command = "python train.py") {
  return {.index = index,
          .what = ProcessStarted{.id = {1000 + index, 5'000'000'000u + index},
                                 .parent = parent,
                                 .origin = origin,
                                 .comm = "python",
                                 .command = command}};
}
Event Exec(int index, const std::string& command, const std::string& comm = "python") {
  return {.index = index, .what = ProcessExeced{.comm = comm, .command = command}};
}

struct Figures {
  Count copies = 0, zero_fills = 0, anon_pages;
  uint64_t zero_upgrades = 0, file_copies = 0;
};
ProcessSample Row(int index, const Figures& figures) {
  ProcessSample row = {.index = index};
  row.counts.copies = figures.copies;
  row.counts.zero_fill_pages = figures.zero_fills;
  row.counts.zero_upgrades = figures.zero_upgrades;
  row.counts.file_copies = figures.file_copies;
  row.proc.anon_pages = figures.anon_pages;
  return row;
}
ProcessSample Swept(ProcessSample row, uint64_t private_pages, bool full) {
  row.sweep = SweepFigures{.full = full, .private_pages = private_pages};
  return row;
}
ProcessSample RolledUp(ProcessSample row, uint64_t private_bytes, uint64_t pss_bytes = 77) {
  row.rollup = RollupFigures{.rss_bytes = private_bytes, .pss_bytes = pss_bytes, .private_bytes = private_bytes};
  return row;
}

// A recording in the making: every Add is one tick, a second after the last.
struct Story {
  RunModel model;
  absl::Duration t;

  const ProcessModel& Add(const std::vector<Event>& events, const std::vector<ProcessSample>& rows) {
    t += absl::Seconds(1);
    Append({.t = t, .events = events, .processes = rows}, &model);
    return model.processes.back();
  }
};

// A target and one worker that was forked with 1000 pages of its parent's memory.
Story Forked() {
  Story story;
  story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)}, {Row(1, {.anon_pages = 1000})});
  return story;
}
// The same, but the worker was there at attach.
Story Found() {
  Story story;
  story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kFoundAtAttach)}, {Row(1, {.anon_pages = 1000})});
  return story;
}

}  // namespace

TEST_CASE("what nobody shares any more is the process's own, before a sweep says so") {
  const auto parent_after = [](RunInfo info, Losses losses, bool both_end) {
    RunModel model = {.info = std::move(info)};
    const Figures figures = {.anon_pages = 1000};
    Event worker = Process(1, 0, Origin::kForked), other = Process(2, 0, Origin::kForked);
    for (Event* event : {&worker, &other}) std::get<ProcessStarted>(event->what).space = 0;
    Append({.t = absl::Seconds(1),
            .events = {Process(0, -1, Origin::kTarget), worker, other},
            .processes = {Swept(Row(0, figures), 300, true), Row(1, figures), Row(2, figures)}},
           &model);
    CHECK(model.processes[0].still_shared_bytes == 700 * kPage);
    std::vector<Event> ends = {{.t = absl::Seconds(1.5), .index = 1, .what = ProcessExited{}}};
    if (both_end) ends.push_back({.t = absl::Seconds(1.6), .index = 2, .what = ProcessExited{}});
    Append({.t = absl::Seconds(2), .events = ends, .processes = {Row(0, figures)}, .losses = losses}, &model);
    return model.processes[0];
  };
  const RunInfo started = {.exactness = Exactness::kExact, .started_target = true};
  const ProcessModel alone = parent_after(started, {}, true);
  CHECK(alone.private_bytes == 1000 * kPage);
  CHECK(alone.peak_private_bytes == 1000 * kPage);
  CHECK(alone.still_shared_bytes == 0u);
  // Another worker lives, a fork was missed, or the target's own parent may share.
  CHECK(parent_after(started, {}, false).private_bytes == 300 * kPage);
  CHECK(parent_after(started, {.probes_skipped = 1}, true).private_bytes == 300 * kPage);
  CHECK(parent_after({.exactness = Exactness::kExact}, {}, true).private_bytes == 300 * kPage);
  CHECK(parent_after({.exactness = Exactness::kPageMap, .started_target = true}, {}, true).private_bytes ==
        300 * kPage);
}

TEST_CASE("what others leave to a worker is neither copied nor new") {
  Story story;
  story.model.info.exactness = Exactness::kExact;
  Figures figures = {.anon_pages = 50'000};
  story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)}, {Row(0, figures), Row(1, figures)});
  figures = {.copies = 1000, .zero_fills = 2000, .anon_pages = 52'000};
  story.Add({}, {Swept(Row(1, figures), 52'000, true)});
  const WorkersPeak& peak = story.model.workers_peak;
  CHECK(peak.bytes == 52'000 * kPage);
  CHECK(peak.copied_bytes == 1000 * kPage);
  CHECK(peak.fresh_bytes == std::vector<std::pair<int, uint64_t>>{{1, 2000 * kPage}});
  CHECK(peak.left_bytes == 49'000 * kPage);
  CHECK(story.model.processes[1].still_shared_bytes == 0u);
  // What khugepaged added to its new memory is not: all that it inherited is still shared.
  Story collapsed = Forked();
  collapsed.Add({}, {Swept(Row(1, {.zero_fills = 2000, .anon_pages = 9000}), 8000, true)});
  CHECK(collapsed.model.workers_peak.left_bytes == 0);
  CHECK(collapsed.model.workers_peak.fresh_bytes[0].second == 8000 * kPage);
  // Of one that was there at the attach nobody knows what it copied before.
  Story found = Found();
  found.Add({}, {Swept(Row(1, figures), 52'000, true)});
  CHECK(found.model.workers_peak.left_bytes == 0);
}

namespace {

// A parent of 1000 pages, all its own, that forks two workers in the second sample. `kBefore`: what it copied before.
constexpr uint64_t kBefore = 40;
Event WorkerOf(int index, absl::Duration t) {
  Event worker = Process(index, 0, Origin::kForked);
  worker.t = t;
  worker.As<ProcessStarted>()->space = 0;
  return worker;
}
ProcessSample SweptAt(ProcessSample row, uint64_t private_pages, double begin, double end) {
  row.sweep = SweepFigures{.begin = absl::Seconds(begin), .end = absl::Seconds(end), .full = true};
  row.sweep->private_pages = private_pages;
  return row;
}
Story ForkedTwo() {
  Story story;
  story.model.info.exactness = Exactness::kExact;
  const Figures before = {.copies = kBefore, .anon_pages = 1000};
  story.Add({Process(0, -1, Origin::kTarget)}, {SweptAt(Row(0, before), 1000, 1.01, 1.02)});
  story.Add({WorkerOf(1, absl::Seconds(1.5)), WorkerOf(2, absl::Seconds(1.5))},
            {Row(0, before), Row(1, {.anon_pages = 1000}), Row(2, {.anon_pages = 1000})});
  return story;
}
// One more sample of the parent and its workers.
const ProcessModel& ParentAfter(Story* story, uint64_t first_copied, uint64_t second_copied, Figures parent = {},
                                std::optional<uint64_t> swept_private = {}) {
  parent.copies = Count(kBefore + *parent.copies);
  if (!parent.anon_pages) parent.anon_pages = 1000;
  ProcessSample row = Row(0, parent);
  const double t = absl::ToDoubleSeconds(story->t) + 1;
  if (swept_private) row = SweptAt(row, *swept_private, t + 0.01, t + 0.02);
  story->Add({}, {row, Row(1, {.copies = first_copied, .anon_pages = 1000}),
                  Row(2, {.copies = second_copied, .anon_pages = 1000})});
  return story->model.processes[0];
}

}  // namespace

TEST_CASE("after a fork nothing is the parent's own, until its children copy it") {
  Story story = ForkedTwo();
  CHECK(story.model.processes[0].private_bytes == 0u);
  CHECK(story.model.processes[0].still_shared_bytes == 1000 * kPage);
  CHECK(story.model.processes[0].peak_private_bytes == 1000 * kPage);
  // Its own copies and its new memory.
  CHECK(ParentAfter(&story, 0, 0, {.copies = 10, .anon_pages = 1020}).private_bytes == 30 * kPage);
  // What one has not copied, it shares.
  CHECK(ParentAfter(&story, 500, 0, {.copies = 10, .anon_pages = 1020}).private_bytes == 30 * kPage);
  // Both copy the same pages, as far as one knows.
  CHECK(ParentAfter(&story, 500, 200, {.copies = 10, .anon_pages = 1020}).private_bytes == 230 * kPage);
  // One ends: what the other has copied is the parent's.
  story.Add({{.t = story.t, .index = 2, .what = ProcessExited{}}},
            {Row(0, {.copies = kBefore + 10, .anon_pages = 1020}), Row(1, {.copies = 600, .anon_pages = 1000})});
  CHECK(story.model.processes[0].private_bytes == 630 * kPage);
}

TEST_CASE("a look at the parent shows whether its children copy the same pages") {
  Story story = ForkedTwo();
  // Each copied half, at random: a quarter was copied by both.
  CHECK(ParentAfter(&story, 500, 500, {}, 250).private_bytes == 250 * kPage);
  const uint64_t at_random = *ParentAfter(&story, 800, 800).private_bytes / kPage;
  CHECK(at_random == Approx(640).margin(10));
  // The next look is right whatever was estimated.
  CHECK(ParentAfter(&story, 800, 800, {}, 700).private_bytes == 700 * kPage);
  CHECK(*ParentAfter(&story, 1000, 1000).private_bytes / kPage == Approx(1000).margin(2));
}

TEST_CASE("what children copied between two samples is counted once, whether a look in between saw it or not") {
  const uint64_t seen = GENERATE(0, 60, 100);
  Story story = ForkedTwo();
  CHECK(ParentAfter(&story, 0, 0, {}, seen).private_bytes == seen * kPage);
  CHECK(ParentAfter(&story, 100, 100).private_bytes == 100 * kPage);
  CHECK(ParentAfter(&story, 100, 100, {}, 100).private_bytes == 100 * kPage);
  CHECK(*ParentAfter(&story, 150, 150).private_bytes / kPage == Approx(150).margin(3));
}

TEST_CASE("a look that began before the fork does not count") {
  Story story = ForkedTwo();
  ProcessSample row = SweptAt(Row(0, {.copies = kBefore, .anon_pages = 1000}), 900, 1.4, 2.9);
  const std::vector<ProcessSample> workers = {Row(1, {.anon_pages = 1000}), Row(2, {.anon_pages = 1000})};
  story.Add({}, {row, workers[0], workers[1]});
  CHECK(story.model.processes[0].private_bytes == 0u);
}

TEST_CASE("a fork that shares nothing leaves the parent its memory") {
  Story story = ForkedTwo();
  ParentAfter(&story, 0, 0, {}, 400);
  const auto own = [&] { return story.model.processes[0].private_bytes; };
  const Figures parent = {.copies = kBefore, .anon_pages = 1000}, worker = {.anon_pages = 1000};
  // vfork, and a child that has called exec when it is seen.
  story.Add({Process(3, 0, Origin::kForked)}, {Row(0, parent), Row(1, worker), Row(2, worker), Row(3, worker)});
  CHECK(own() == 400 * kPage);
  story.Add({WorkerOf(4, story.t), Exec(4, "ls")}, {Row(0, parent), Row(1, worker), Row(2, worker), Row(4, worker)});
  CHECK(own() == 400 * kPage);
  story.Add({WorkerOf(5, story.t)}, {Row(0, parent), Row(1, worker), Row(2, worker), Row(5, worker)});
  CHECK(own() == 0u);
}

TEST_CASE("a rollup of a parent is a look, too") {
  Story story = ForkedTwo();
  const Figures parent = {.copies = kBefore, .anon_pages = 1000};
  story.Add({}, {RolledUp(Row(0, parent), 300 * kPage), Row(1, {.copies = 900, .anon_pages = 1000}),
                 Row(2, {.copies = 300, .anon_pages = 1000})});
  CHECK(story.model.processes[0].private_bytes == 300 * kPage);
  // With a sweep beside it, the rest is private pages of files.
  const ProcessSample swept = SweptAt(Row(0, parent), 300, 4.01, 4.02);
  story.Add({}, {RolledUp(swept, 350 * kPage), Row(1, {.copies = 900, .anon_pages = 1000}),
                 Row(2, {.copies = 300, .anon_pages = 1000})});
  CHECK(story.model.processes[0].private_bytes == 350 * kPage);
}

TEST_CASE("a forked worker owns nothing at birth, then what it copies and what is new") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  CHECK(worker.private_bytes == 0u);
  CHECK(worker.still_shared_bytes == 1000 * kPage);
  CHECK(worker.ceiling_bytes() == 1000 * kPage);

  story.Add({}, {Row(1, {.copies = 100, .anon_pages = 1000})});
  CHECK(worker.private_bytes == 100 * kPage);
  CHECK(worker.still_shared_bytes == 900 * kPage);
  CHECK(worker.copies_per_second == 100);

  story.Add({}, {Row(1, {.copies = 100, .zero_fills = 50, .anon_pages = 1050})});
  CHECK(worker.private_bytes == 150 * kPage);
  CHECK(worker.still_shared_bytes == 900 * kPage);
  CHECK(worker.copies_per_second == 0);

  story.Add({}, {Row(1, {.copies = 1000, .zero_fills = 50, .anon_pages = 1050})});
  CHECK(worker.private_bytes == 1050 * kPage);
  CHECK(worker.still_shared_bytes == 0u);
}

TEST_CASE("what a worker did before its first sample is not taken for inherited") {
  Story story;
  const ProcessModel& worker =
      story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)},
                {Row(1, {.copies = 30, .zero_fills = 20, .anon_pages = 1026, .zero_upgrades = 5, .file_copies = 1})});
  CHECK(worker.private_bytes == (30 + 26) * kPage);
  CHECK(worker.still_shared_bytes == (1026 - 56) * kPage);
}

TEST_CASE("a copy of a page of a file is counted once, though RssAnon rises by it") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  ProcessSample row = Row(1, {.copies = 5100, .anon_pages = 6000});
  row.causes = CauseCounts{};
  (*row.causes)[static_cast<int>(Cause::kData)] = 5000;
  story.Add({}, {row});
  CHECK(worker.copies_of_files == 5000);
  CHECK(worker.private_bytes == 5100 * kPage);
  CHECK(worker.still_shared_bytes == 900 * kPage);
  // Copies of inherited memory, then the worker's end.
  story.Add({}, {Row(1, {.copies = 5600, .anon_pages = 6000})});
  CHECK(worker.private_bytes == 5600 * kPage);
  story.Add({}, {Row(1, {.copies = 5650})});
  CHECK(worker.private_bytes == 5650 * kPage);
  CHECK(worker.peak_private_bytes == 5650 * kPage);
}

TEST_CASE("freed memory lowers what is private and never below nothing") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  story.Add({}, {Row(1, {.copies = 0, .anon_pages = 900})});
  CHECK(worker.private_bytes == 0u);
  CHECK(worker.still_shared_bytes == 900 * kPage);
  story.Add({}, {Row(1, {.copies = 0, .zero_fills = 500, .anon_pages = 1500})});
  CHECK(worker.private_bytes == 500 * kPage);
  story.Add({}, {Row(1, {.copies = 0, .zero_fills = 500, .anon_pages = 0})});
  CHECK(worker.private_bytes == 0u);
  CHECK(worker.still_shared_bytes == 0u);
  CHECK(worker.peak_private_bytes == 500 * kPage);
}

TEST_CASE("a page that is copied again and again is one private page") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  story.Add({}, {Row(1, {.copies = 5000, .anon_pages = 1000})});
  CHECK(worker.private_bytes == 1000 * kPage);
  CHECK(worker.still_shared_bytes == 0u);
}

TEST_CASE("a worker found at attach is known once a full sweep has seen it") {
  Story story = Found();
  const ProcessModel& worker = story.model.processes[1];
  CHECK_FALSE(worker.private_bytes.has_value());
  CHECK_FALSE(worker.still_shared_bytes.has_value());
  CHECK_FALSE(worker.ceiling_bytes().has_value());

  story.Add({}, {Swept(Row(1, {.copies = 20, .anon_pages = 1000}), 300, /*full=*/true)});
  CHECK(worker.private_bytes == 300 * kPage);
  CHECK(worker.still_shared_bytes == 700 * kPage);

  story.Add({}, {Row(1, {.copies = 25, .anon_pages = 1010})});
  CHECK(worker.private_bytes == 315 * kPage);
  CHECK(worker.still_shared_bytes == 695 * kPage);

  // A sweep of what was touched since adds to what the full one knows.
  story.Add({}, {Swept(Row(1, {.copies = 30, .anon_pages = 1010}), 318, /*full=*/false)});
  CHECK(worker.private_bytes == 318 * kPage);
  CHECK(worker.still_shared_bytes == 692 * kPage);
}

TEST_CASE("a rollup alone gives private memory, moved by copies and by growth since") {
  Story story = Found();
  const ProcessModel& worker = story.model.processes[1];
  story.Add({}, {RolledUp(Row(1, {.copies = 5, .anon_pages = 1000}), 500 * kPage)});
  CHECK(worker.private_bytes == 500 * kPage);
  CHECK(worker.pss_bytes == 77u);
  CHECK_FALSE(worker.still_shared_bytes.has_value());
  story.Add({}, {Row(1, {.copies = 15, .anon_pages = 980})});
  CHECK(worker.private_bytes == 490 * kPage);
  CHECK(worker.pss_bytes == 77u);
  CHECK(worker.peak_private_bytes == 500 * kPage);
}

TEST_CASE("beside a sweep a rollup tells the private pages that are not anonymous") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  story.Add({}, {RolledUp(Row(1, {.copies = 100, .anon_pages = 1000}), 140 * kPage)});
  CHECK(worker.private_bytes == 140 * kPage);
  CHECK(worker.still_shared_bytes == 900 * kPage);
  story.Add({}, {Row(1, {.copies = 110, .anon_pages = 1000})});
  CHECK(worker.private_bytes == 150 * kPage);
  // One that says less than is anonymous and private can't be about other pages.
  story.Add({}, {RolledUp(Row(1, {.copies = 110, .anon_pages = 1000}), 10 * kPage)});
  CHECK(worker.private_bytes == 110 * kPage);
}

TEST_CASE("a sweep corrects the drift of a forked worker, even one of the touched regions only") {
  const bool full = GENERATE(false, true);
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  // Copied 100, and gave 100 of its own copies back: live figures can't tell which pages went.
  story.Add({}, {Row(1, {.copies = 100, .anon_pages = 900})});
  CHECK(worker.private_bytes == 100 * kPage);
  story.Add({}, {Swept(Row(1, {.copies = 100, .anon_pages = 900}), 0, full)});
  CHECK(worker.private_bytes == 0u);
  CHECK(worker.still_shared_bytes == 900 * kPage);
  story.Add({}, {Row(1, {.copies = 103, .anon_pages = 900})});
  CHECK(worker.private_bytes == 3 * kPage);
}

TEST_CASE("a sweep corrects what was counted only as far as nothing around it explains the difference") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  ProcessSample row = SweptAt(Row(1, {.copies = 100, .zero_fills = 20, .anon_pages = 1010}), 150, 2.4, 2.6);
  SweepFigures& sweep = *row.sweep;
  const auto pages_at_2s = [&] {
    story.Add({}, {row});
    return *worker.private_bytes / kPage;
  };
  SECTION("copies after the counters were read") {
    sweep.later_write_protect_faults = 60;
    CHECK(pages_at_2s() == 110);
    story.Add({}, {Row(1, {.copies = 200, .zero_fills = 20, .anon_pages = 1010})});
    CHECK(worker.private_bytes == 210 * kPage);
  }
  SECTION("too few copies and new pages after them") {
    sweep.later_write_protect_faults = 10;
    sweep.later_new_pages = 5;
    CHECK(pages_at_2s() == 135);
  }
  SECTION("it began before they were read, and missed what came since") {
    sweep.begin = absl::Seconds(1.1);
    sweep.later_write_protect_faults = 0;
    sweep.private_pages = 0;
    CHECK(pages_at_2s() == 110);
    CHECK(worker.still_shared_bytes == 900 * kPage);
  }
  SECTION("it saw what was freed before they were read") {
    sweep.begin = absl::Seconds(1.1);
    sweep.later_write_protect_faults = 0;
    sweep.private_pages = 115;  // 1000 + 20 pages became 1010
    CHECK(pages_at_2s() == 110);
  }
  SECTION("it missed what was freed after they were read") {
    sweep.later_write_protect_faults = 0;
    sweep.anonymous_pages = 1000;
    sweep.private_pages = 95;
    CHECK(pages_at_2s() == 105);
  }
  SECTION("figures that no machine has") {
    sweep.private_pages = sweep.later_write_protect_faults.emplace(UINT64_MAX);
    sweep.later_new_pages = sweep.anonymous_pages = UINT64_MAX;
    CHECK(pages_at_2s() == 110);
  }
  SECTION("nobody knows: as much as in the same time before") {
    sweep.private_pages = 300;  // 0.6 s of 120 pages a second
    CHECK(pages_at_2s() == 228);
  }
}

TEST_CASE("what goes to swap and comes back is as private as it was") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  const auto tick = [&](uint64_t copies, uint64_t in_memory, uint64_t swapped, std::optional<uint64_t> found = {}) {
    ProcessSample row = Row(1, {.copies = copies, .zero_fills = 50, .anon_pages = in_memory});
    row.proc.swap_pages = swapped;
    if (found) row = SweptAt(row, *found, absl::ToDoubleSeconds(story.t) + 0.9, absl::ToDoubleSeconds(story.t) + 0.95);
    if (found) row.sweep->swapped_pages = swapped;
    story.Add({}, {row});
    return std::pair(*worker.private_bytes / kPage, *worker.still_shared_bytes / kPage);
  };
  CHECK(tick(100, 1050, 0) == std::pair(uint64_t{150}, uint64_t{900}));
  CHECK(tick(100, 150, 900) == std::pair(uint64_t{150}, uint64_t{900}));
  CHECK(tick(100, 130, 920, 130) == std::pair(uint64_t{150}, uint64_t{900}));
  CHECK(tick(120, 1050, 0) == std::pair(uint64_t{170}, uint64_t{880}));  // read by all, and 20 copied
  CHECK(worker.peak_private_bytes == 170 * kPage);
  // The page map knows better: some came back by a write.
  CHECK(tick(120, 1050, 0, 400) == std::pair(uint64_t{400}, uint64_t{650}));
}

TEST_CASE("where nothing is freed, private memory is exact at each sample, wherever sweeps fall among copies") {
  std::mt19937 random(GENERATE(range(0u, 100u)));
  const auto up_to = [&](uint64_t most) { return std::uniform_int_distribution<uint64_t>(0, most)(random); };
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  uint64_t copies = 0, fresh = 0;
  const auto run = [&] {
    copies += std::min(up_to(1) * up_to(200), 1000 - copies);
    fresh += up_to(1) * up_to(100);
  };
  std::optional<std::pair<double, uint64_t>> sweeping;  // since when, and what was private then
  for (int i = 0; i < 20; ++i) {
    const uint64_t then = copies + fresh;
    ProcessSample row = Row(1, {.copies = copies, .zero_fills = fresh, .anon_pages = 1000 + fresh});
    const double t = absl::ToDoubleSeconds(story.t) + 1;
    if (!sweeping && up_to(2) == 0) sweeping = {t + 0.1, then};
    run();
    if (sweeping && up_to(1) == 0) {
      const auto [begin, least] = *std::exchange(sweeping, std::nullopt);
      row = SweptAt(row, least + up_to(copies + fresh - least), begin, t + 0.6);
      run();
      row.sweep->later_write_protect_faults = copies - *row.counts.copies + up_to(50);
      row.sweep->later_new_pages = fresh - *row.counts.zero_fill_pages;
      row.sweep->anonymous_pages = 1000 + fresh;
    }
    story.Add({}, {row});
    CHECK(*worker.private_bytes / kPage == then);
  }
}

TEST_CASE("exec ends all sharing: a new image owns everything it has") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  story.Add({}, {RolledUp(Swept(Row(1, {.copies = 100, .anon_pages = 1000}), 100, true), 300 * kPage)});
  CHECK(worker.role == Role::kWorker);
  story.Add({Exec(1, "ls -l", "ls")}, {Row(1, {.copies = 100, .zero_fills = 40, .anon_pages = 40})});
  CHECK(worker.execed);
  CHECK(worker.comm == "ls");
  CHECK(worker.command == "ls -l");
  CHECK(worker.role == Role::kOther);
  CHECK(worker.private_bytes == 40 * kPage);
  CHECK(worker.still_shared_bytes == 0u);
  CHECK_FALSE(worker.pss_bytes.has_value());  // it was of the old image
  CHECK_FALSE(worker.rollup.has_value());
  CHECK_FALSE(worker.sweep.has_value());
  story.Add({}, {Row(1, {.copies = 100, .zero_fills = 60, .anon_pages = 60})});
  CHECK(worker.private_bytes == 60 * kPage);
  CHECK(worker.still_shared_bytes == 0u);
}

TEST_CASE("a worker that ended unseen in /proc still has its counts") {
  Story story;
  const ProcessModel& worker =
      story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked), Exited(1, 0, absl::Seconds(9))},
                {Row(1, {.copies = 40, .zero_fills = 7})});
  CHECK(worker.private_bytes == 47 * kPage);
  CHECK(worker.peak_private_bytes == 47 * kPage);
  CHECK_FALSE(worker.still_shared_bytes.has_value());
  CHECK_FALSE(worker.ceiling_bytes().has_value());
  CHECK(worker.ended == absl::Seconds(9));
  REQUIRE(worker.exit.has_value());
}

TEST_CASE("a worker that was unseen at first is based on its fork once it is seen") {
  Story story;
  const ProcessModel& worker =
      story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, Origin::kForked)}, {Row(1, {.copies = 4})});
  CHECK(worker.private_bytes == 4 * kPage);
  story.Add({}, {Row(1, {.copies = 10, .zero_fills = 2, .anon_pages = 502})});
  CHECK(worker.private_bytes == 12 * kPage);
  CHECK(worker.still_shared_bytes == 490 * kPage);
}

TEST_CASE("a worker that comes and goes keeps its last figures") {
  Story story = Forked();
  const ProcessModel& worker = story.model.processes[1];
  story.Add({}, {Row(1, {.copies = 100, .anon_pages = 1000})});
  story.Add({Exited(1, SIGKILL, absl::Seconds(9))}, {Row(1, {.copies = 160})});
  CHECK(worker.counts.copies == 160u);
  CHECK(worker.proc.anon_pages == 1000u);
  CHECK(worker.private_bytes == 160 * kPage);
  CHECK(worker.copies_per_second == 0);
  CHECK(worker.ended == absl::Seconds(9));
  story.Add({}, {});
  CHECK(worker.private_bytes == 160 * kPage);
  CHECK(story.model.samples == 4);
  CHECK(story.model.t == absl::Seconds(4));
}

TEST_CASE("a recycled pid is another process") {
  Story story = Forked();
  story.Add({Exited(1, 0, absl::Seconds(9))}, {Row(1, {.copies = 70})});
  Event again = Process(2, 0, Origin::kForked);
  again.As<ProcessStarted>()->id = {1001, 8'000'000'000};
  const ProcessModel& second = story.Add({again}, {Row(2, {.anon_pages = 10})});
  CHECK(second.id.pid == story.model.processes[1].id.pid);
  CHECK(second.counts.copies == 0u);
  CHECK(second.private_bytes == 0u);
  CHECK_FALSE(second.ended.has_value());
  CHECK(story.model.processes[1].counts.copies == 70u);
  CHECK(story.model.processes[1].ended.has_value());
}

TEST_CASE("absent counts stay absent") {
  const Origin origin = GENERATE(Origin::kForked, Origin::kFoundAtAttach);
  Story story;
  ProcessSample row = {.index = 1};
  row.proc.anon_pages = 1000;
  const ProcessModel& worker = story.Add({Process(0, -1, Origin::kTarget), Process(1, 0, origin)}, {row});
  CHECK_FALSE(worker.counts.copies.has_value());
  CHECK_FALSE(worker.counts.reuses().has_value());
  CHECK_FALSE(worker.private_bytes.has_value());
  CHECK_FALSE(worker.peak_private_bytes.has_value());
  CHECK_FALSE(worker.still_shared_bytes.has_value());
  CHECK_FALSE(worker.pss_bytes.has_value());
  CHECK(worker.copies_per_second == 0);
  CHECK_FALSE(SumOf(story.model, false, false).copies_known);
  CHECK(SumOf(story.model, false, false).copies == 0);
}

TEST_CASE("counters that fall never underflow") {
  Story story = GENERATE(true, false) ? Forked() : Found();
  const ProcessModel& worker = story.model.processes[1];
  const Figures many = {.copies = 500, .anon_pages = 1000};
  const bool rollup = GENERATE(false, true);
  story.Add({}, {rollup ? RolledUp(Row(1, many), 600 * kPage) : Swept(Row(1, many), 600, true)});
  story.Add({}, {Row(1, {.copies = 20, .anon_pages = 1000})});
  CHECK(worker.private_bytes.value_or(0) <= 1000 * kPage);
  CHECK(worker.copies_per_second == 0);
  story.Add({}, {Row(1, {.copies = {}, .anon_pages = 10})});
  CHECK(worker.private_bytes.value_or(0) <= 1000 * kPage);
  CHECK(worker.peak_private_bytes.value_or(0) <= 1000 * kPage);
}

}  // namespace cowprof
