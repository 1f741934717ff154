// What is said where memory is well: what there is all the same.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "builders.h"
#include "judged.h"
#include "model/judge/diagnosis.h"
#include "model/judge/diagnosis_facts.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 256;  // in pages

// A parent and workers that copied `copied` MiB each and have `fresh` MiB of new memory.
Run Recorded(int workers, uint64_t copied, uint64_t fresh = 0) {
  Run run;
  run.model.info.exactness = Exactness::kExact;
  Sample first = {.events = {Started(0, -1)}}, last = {.t = absl::Seconds(3)};
  for (int index = 0; index <= workers; ++index) {
    if (index > 0) first.events.push_back(Started(index, 0));
    ProcessSample row = {.index = index, .causes = CauseCounts{}};
    row.counts.copies = row.counts.zero_fill_pages = row.counts.zero_upgrades = row.counts.file_copies = 0;
    row.proc.anon_pages = 400 * kMiB;
    first.processes.push_back(row);
    if (index > 0) {
      row.counts.copies = (*row.causes)[static_cast<int>(Cause::kData)] = copied * kMiB;
      row.counts.zero_fill_pages = fresh * kMiB;
      *row.proc.anon_pages += fresh * kMiB;
    }
    last.processes.push_back(row);
  }
  Append(first, &run);
  Append(last, &run);
  return run;
}

}  // namespace

TEST_CASE("nothing to do: a little in each of many workers is not nothing") {
  CHECK(absl::StartsWith(HeadlineOf(Recorded(20, 12)), "Nothing to do: the workers share what they should."));
  CHECK(absl::StartsWith(HeadlineOf(Recorded(40, 12)),
                         "Each worker copied little, at most 12.0 MiB, but all together 480.0 MiB."));
  CHECK(IdsOf(Recorded(40, 12)) == Ids{"clean"});
}

TEST_CASE("nothing to do: much new memory in each of several workers is not nothing") {
  const auto recorded = [](int workers, uint64_t fresh) {
    Run run = Recorded(workers, 0, fresh);
    run.estimates = {};
    return run;
  };
  const std::string each =
      "Each of 4 workers had 100.0 MiB or more of new memory of its own, 400.0 MiB together; no lasting growth of it "
      "was seen in 3.0 s.";
  CHECK(HeadlineOf(recorded(4, 100)) ==
        absl::StrCat(each, " Modules, arrays and tensors that are loaded before the fork are shared."));
  CHECK(IdsOf(recorded(4, 100)) == Ids{"clean"});
  // Less together; little in each; much in one, which has nobody to share it with; and in two of them.
  CHECK(absl::StartsWith(HeadlineOf(recorded(3, 80)), "Nothing to do: the workers share what they should. They had"));
  CHECK(
      absl::StartsWith(HeadlineOf(recorded(8, 60)), "The workers share what they should. They had at most 480.0 MiB"));
  Run some = recorded(3, 0);
  some.model.workers_peak.fresh_bytes = {{1, 600 << 20}, {2, 1 << 20}, {3, 0}};
  CHECK(absl::StartsWith(HeadlineOf(some), "The workers share what they should. They had at most 601.0 MiB"));
  some.model.workers_peak.fresh_bytes[1].second = 200 << 20;
  CHECK(absl::StartsWith(HeadlineOf(some),
                         "2 of 3 workers had 200.0 MiB or more of new memory of their own, 800.0 MiB together; "));

  const auto words = [&](Framework framework) {
    Run run = recorded(4, 100);
    for (ProcessModel& process : run.model.processes) process.framework = framework;
    return HeadlineOf(run);
  };
  CHECK(absl::EndsWith(words(Framework::kGunicorn), " before the fork (gunicorn: --preload) are shared."));
  CHECK(absl::EndsWith(words(Framework::kDataLoader), "; shuffle buffers and caches are each worker's own."));
  CHECK(words(Framework::kNative) == each);
  // What would be the same wherever it is loaded, and what may be a leak.
  Run run = recorded(4, 100);
  Findings findings = Judge(run);
  findings.forecast.unbounded_bytes_per_second = 1;
  CHECK(absl::EndsWith(NothingToDo(FactsOf(run, findings)), " can't be told from 3.0 s."));
  for (int index = 1; index <= 4; ++index) run.model.processes[index].counts.file_copies = 60 * kMiB;
  CHECK(absl::EndsWith(HeadlineOf(run),
                       ", most of it by writing to private mappings of files; no lasting growth of it "
                       "was seen in 3.0 s."));
}

TEST_CASE("nothing to do: what matters of the memory is told beside a bad end, too") {
  const auto of = [](Run run) {
    Append({.t = absl::Seconds(4), .events = {Exited(0, SIGSEGV, absl::Seconds(4))}}, &run);
    run.estimates = {};
    CHECK(IdsOf(run).empty());
    return HeadlineOf(run);
  };
  const std::string end = "The parent 1000 was killed by SIGSEGV.";
  CHECK(of(Recorded(2, 1)) == end);
  CHECK(absl::StartsWith(of(Recorded(4, 0, 100)),
                         end + " Each of 4 workers had 100.0 MiB or more of new memory of its own, 400.0 MiB"));
  CHECK(of(Recorded(40, 12)) == end + " Each worker copied little, at most 12.0 MiB, but all together 480.0 MiB.");
}

TEST_CASE("own memory that is far more than what was copied comes first") {
  CHECK(absl::StartsWith(HeadlineOf(Recorded(4, 30, 100)), "Writing to memory that the workers inherited"));
  CHECK(absl::StartsWith(HeadlineOf(Recorded(4, 30, 200)), "Each of 4 workers had 200.0 MiB or more of new memory"));
  CHECK(absl::StrContains(HeadlineOf(Recorded(4, 30, 200)), " Writing to memory that the workers inherited"));
  CHECK(IdsOf(Recorded(4, 30, 200)) == Ids{"cow-data"});
  // Copies of several causes count together.
  Run run = Recorded(4, 60, 200);
  for (int index = 1; index <= 4; ++index) {
    CauseCounts& causes = *run.model.processes[index].causes;
    causes[static_cast<int>(Cause::kData)] = 31 * kMiB;
    causes[static_cast<int>(Cause::kRefcount)] = 29 * kMiB;
  }
  CauseCounts& at_peak = run.model.workers_peak.copies;
  at_peak[static_cast<int>(Cause::kData)] = 4 * 31 * kMiB;
  at_peak[static_cast<int>(Cause::kRefcount)] = 4 * 29 * kMiB;
  REQUIRE(IdsOf(run) == Ids{"cow-data", "cow-refcount"});
  CHECK(4 * DiagnosesOf(run)[0].bytes < uint64_t{800} << 20);
  CHECK(absl::StartsWith(HeadlineOf(run), "Writing to memory that the workers inherited"));
}

TEST_CASE("nothing to do: of what workers had before the attach, only what they still had at the peak is theirs") {
  Run run = Recorded(4, 0, 100);
  run.estimates = {};
  for (int index = 1; index <= 4; ++index) {
    run.model.processes[index].duty.start = StartMethod::kSpawn;
    run.model.processes[index].before_attach_bytes = 150 << 20;
  }
  // The first has freed all of it.
  run.model.workers_peak.before_attach_of = {{2, 50 << 20}, {3, 50 << 20}, {4, 100 << 20}};
  run.model.workers_peak.before_attach_bytes = 200 << 20;
  CHECK(absl::StartsWith(HeadlineOf(run),
                         "Each of 4 workers had 100.0 MiB or more of new memory of its own, 600.0 MiB together, "
                         "200.0 MiB of it before cowprof attached; "));
}

TEST_CASE("nothing to do: spawned workers inherit nothing") {
  const auto of = [](int workers, uint64_t fresh, StartMethod start) {
    Run run = Recorded(workers, 0, fresh);
    run.estimates = {};
    for (ProcessModel& process : run.model.processes) process.duty.start = start;
    return HeadlineOf(run);
  };
  CHECK(of(2, 5, StartMethod::kLoky) == "Nothing to do: the workers inherit nothing (loky), and hold little.");
  CHECK(
      absl::StartsWith(of(1, 600, StartMethod::kSpawn), "The workers inherit nothing (spawn). They had at most 600.0"));
  CHECK(absl::EndsWith(of(4, 100, StartMethod::kSpawn),
                       " 3.0 s. They share nothing (spawn) but what is mapped from a file or put into shared memory."));
  // A forkserver's workers share what it imported.
  CHECK(of(2, 5, StartMethod::kForkserver) == "Nothing to do: the workers share what they should.");
  CHECK(
      absl::StrContains(of(4, 100, StartMethod::kForkserver), "(forkserver: by set_forkserver_preload()) are shared"));
}

TEST_CASE("nothing to do: of a recording without an end the first sentence says so") {
  const auto cut_off = [](const Run& run) {
    Findings findings = Judge(run);
    TellThatItHasNoEnd(run.model, &findings);
    CHECK(absl::StartsWith(findings.verdict, findings.headline.sentence));
    CHECK(findings.diagnoses[0].summary == findings.headline.sentence);
    return findings.headline.sentence;
  };
  CHECK(absl::StartsWith(
      cut_off(Recorded(2, 1)),
      "Nothing to do in the first 3.0 s (the recording still runs, or was cut off): the workers share"));
  CHECK(absl::StartsWith(cut_off(Recorded(40, 12)),
                         "In the first 3.0 s (the recording still runs, or was cut off): Each worker copied"));
  CHECK(cut_off(Recorded(2, 100)) == HeadlineOf(Recorded(2, 100)));  // what it blames stands
  // The OOM killer ends a recorder in the container with it (memory.oom.group).
  Run full = Recorded(2, 1);
  full.model.limits = {{.now = {LimitKind::kCgroupV2, "/kubepods/a", 1000, 970}}};
  CHECK(absl::StartsWith(cut_off(full),
                         "In the first 3.0 s (the recording still runs, or was cut off, perhaps by the "
                         "OOM killer: the target's cgroup was 97 % full): the workers share"));
  full.model.limits[0].now.used = 800;
  CHECK(
      absl::StartsWith(cut_off(full), "Nothing to do in the first 3.0 s (the recording still runs, or was cut off): "));
}

TEST_CASE("nothing to do: what wrote to files that it maps privately is said") {
  Run run = Recorded(2, 0, 50);
  const auto says = [&] {
    return absl::StrContains(HeadlineOf(run), ", most of it by writing to private mappings of files;");
  };
  CHECK(!says());
  for (const int index : {1, 2}) run.model.processes[index].counts.file_copies = 30 * kMiB;
  CHECK(says());
}

TEST_CASE("nothing to do: not beside a limit that will be met") {
  Run run = Recorded(2, 0);
  const auto add = [&](int t, uint64_t host_mib) {
    Sample sample = {.t = absl::Seconds(t)};
    for (const ProcessModel& process : run.model.processes) {
      ProcessSample row = {.index = process.index, .counts = process.counts, .causes = process.causes};
      row.proc = process.proc;
      sample.processes.push_back(row);
    }
    sample.limits = {{LimitKind::kHost, "MemTotal+SwapTotal", uint64_t{16} << 30, host_mib << 20}};
    Append(sample, &run);
  };
  for (int t = 4; t < 24; ++t) add(t, 4000);
  CHECK(absl::StartsWith(HeadlineOf(run), "Nothing to do: the workers share what they should."));
  for (int t = 24; t < 60; ++t) add(t, 4000 + 100 * (t - 23));
  INFO(HeadlineOf(run));
  CHECK(absl::StartsWith(HeadlineOf(run), "The host's memory (16.0 GiB) will be full in about "));
  CHECK(absl::StrContains(HeadlineOf(run), " MiB/s. The workers share what they should."));
}

TEST_CASE("nothing to do: a ramp of seconds in /dev/shm is not the first sentence") {
  const Run run = Recorded(2, 0);
  Findings findings = Judge(run);
  const auto says = [&](LimitKind kind, uint64_t used_mib) {
    const LimitSample now = {kind, "/job", 64 << 20, used_mib << 20};
    findings.forecast.limits = {{.now = now, .eta = absl::Seconds(12), .per_second = 4 << 20}};
    findings.forecast.first_limit = 0;
    return NothingToDo(FactsOf(run, findings));
  };
  const std::string of_workers = "The workers share what they should.";  // the forecast has the rest
  CHECK(says(LimitKind::kShm, 13) == of_workers);
  CHECK(says(LimitKind::kDescriptors, 13) == of_workers);
  CHECK(says(LimitKind::kShm, 40) ==
        "Shared memory (/dev/shm) (64.0 MiB) will be full in about 12 s at 4.0 MiB/s. " + of_workers);
  CHECK(absl::StrContains(says(LimitKind::kCgroupV2, 13), " will be full in about 12 s"));
}

TEST_CASE("nothing to do: shared memory without a name that workers keep") {
  Run run = Recorded(2, 0);
  const std::string well = "Nothing to do: the workers share what they should.";
  const auto of = [&](uint64_t added, uint64_t kept) {
    for (const int index : {1, 2}) {
      run.model.processes[index].counts.shm_pages = added * kMiB;
      run.model.processes[index].proc.shmem_pages = kept * kMiB;
    }
    return HeadlineOf(run);
  };
  CHECK(absl::StartsWith(of(50, 50),
                         well + " The workers added 100.0 MiB of shared memory that has no name in /dev/shm ("));
  CHECK(absl::StartsWith(of(500, 50), well + " The workers added 100.0 MiB "));
  CHECK(of(500, 5) == well);  // as the batches of a DataLoader
  CHECK(of(5, 500) == well);  // others added it
  // One worker after the other: there were never more than 50 MiB.
  run.model.processes[1].ended = run.model.processes[2].started = absl::Seconds(1);
  CHECK(of(50, 50) == well);
  CHECK(absl::StartsWith(of(70, 70), well + " The workers added 70.0 MiB "));
  run.model.processes[2].started = absl::ZeroDuration();
  CHECK(absl::StartsWith(of(50, 50), well + " The workers added 100.0 MiB "));
  run.model.info.limits = {{LimitKind::kShm, "/dev/shm", uint64_t{1} << 30, 10 << 20}};
  run.model.limits = {{.now = run.model.info.limits[0], .rise = 90 << 20}};
  CHECK(of(50, 50) == well);  // it is in /dev/shm
}

TEST_CASE("nothing to do: not while shared memory grows") {
  Run run = Recorded(2, 0);
  const auto add = [&](int from, int to, int index, double unnamed_mib, double shm_mib) {
    for (int t = from; t < to; ++t) {
      Sample sample = {.t = absl::Seconds(t)};
      for (const ProcessModel& process : run.model.processes) {
        ProcessSample row = {.index = process.index, .counts = process.counts, .causes = process.causes};
        row.proc = process.proc;
        if (row.index == index) {
          row.counts.shm_pages = static_cast<uint64_t>(t * unnamed_mib * kMiB);
          row.proc.shmem_pages = static_cast<uint64_t>(t * (unnamed_mib + shm_mib) * kMiB);
        }
        sample.processes.push_back(row);
      }
      const auto bytes = [&](double mib) { return static_cast<uint64_t>(t * mib * (1 << 20)); };
      sample.limits = {{LimitKind::kShm, "/dev/shm", uint64_t{16} << 30, bytes(shm_mib)},
                       {LimitKind::kHost, "MemTotal", uint64_t{64} << 30, bytes(shm_mib + unnamed_mib)}};
      Append(sample, &run);
    }
  };
  SECTION("of a worker, without a name") {
    add(4, 34, 1, 5, 0);
    INFO(HeadlineOf(run));
    CHECK(absl::StartsWith(HeadlineOf(run), "Each worker copied little. The workers added 165.0 MiB of shared memory"));
    CHECK(absl::StrContains(HeadlineOf(run), "; it still grows, by 5.0 MiB per second."));
    const Forecast told = Judge(run).forecast_told;
    CHECK(absl::StartsWith(told.sentence, "shared memory grows by 5.0 MiB/s; how far is not known"));
    CHECK(told.outlook == Outlook::kUnknown);
  }
  SECTION("of the parent, without a name") {
    add(4, 34, 0, 5, 0);
    CHECK(absl::StrContains(HeadlineOf(run), "All processes together added 165.0 MiB of shared memory"));
  }
  SECTION("it has come to its end") {
    add(4, 14, 1, 8, 0);
    for (int t = 14; t < 60; ++t) {
      Sample same = {.t = absl::Seconds(t)};
      for (const ProcessModel& process : run.model.processes) {
        ProcessSample row = {.index = process.index, .counts = process.counts, .causes = process.causes};
        row.proc = process.proc;
        same.processes.push_back(row);
      }
      Append(same, &run);
    }
    INFO(HeadlineOf(run));
    CHECK(absl::StartsWith(HeadlineOf(run),
                           "Nothing to do: the workers share what they should. The workers added 104.0 MiB"));
    CHECK_FALSE(absl::StrContains(HeadlineOf(run), "grows"));
  }
  SECTION("what others give back in /dev/shm is none") {
    const auto shm = [](uint64_t mib) {
      return LimitSample{LimitKind::kShm, "/dev/shm", uint64_t{16} << 30, mib << 20};
    };
    run.model.info.limits = {shm(1000)};
    const bool before = GENERATE(false, true);
    for (int t = 4; t < 44; ++t) {
      const int used = !before ? (t < 8 ? 1200 : 1200 - 25 * (t - 8)) : t < 6 ? 800 : 200 + std::min(t - 6, 20) * 10;
      Sample sample = {.t = absl::Seconds(t), .limits = {shm(used)}};
      for (const ProcessModel& process : run.model.processes) {
        ProcessSample row = {.index = process.index, .counts = process.counts, .causes = process.causes};
        row.proc = process.proc;
        const int filled = before ? std::clamp(t - 6, 0, 20) * 10 : 200;
        if (row.index == 1) row.counts.shm_pages = row.proc.shmem_pages = filled * kMiB;  // has a name there
        sample.processes.push_back(row);
      }
      Append(sample, &run);
    }
    CHECK(ForecastOf(run).unnamed_bytes_per_second == 0);
    CHECK(absl::StartsWith(HeadlineOf(run), "Nothing to do: the workers share what they should."));
  }
  SECTION("in /dev/shm, by batches that the parent keeps") {
    add(4, 34, 0, 0, 5);
    INFO(HeadlineOf(run));
    CHECK(absl::StrContains(HeadlineOf(run),
                            "Each worker copied little. Shared memory (/dev/shm) keeps growing, by 5.0 MiB per "
                            "second: 165.0 MiB in use."));
    run.model.shm = ShmSample{
        .segments = {{.bytes = 90 << 20, .mapped_by = {1000}}, {.bytes = 75 << 20, .mapped_by = {1000, 1001}}}};
    CHECK(absl::StrContains(HeadlineOf(run), "165.0 MiB in use; the parent (1000) alone holds most of it."));
    CHECK(absl::StrContains(Judge(run).forecast_told.sentence, "no end in sight (shared memory)"));
  }
}

TEST_CASE("nothing to do: who attached to a worker is told what to attach to") {
  Run run = Recorded(0, 20);
  run.model.processes[0].duty.duty = Duty::kLoader;
  CHECK(absl::StartsWith(HeadlineOf(run),
                         "The target is itself a worker of a DataLoader: attach to the process that started it "
                         "(`ps -o ppid= -p 1000`) to see all workers"));
  CHECK(ForecastOf(run).next_worker_bytes == 0);
  run.model.processes[0].counts.copies = (*run.model.processes[0].causes)[static_cast<int>(Cause::kData)] = 90 * kMiB;
  INFO(HeadlineOf(run));
  CHECK(absl::StartsWith(HeadlineOf(run), "The target is itself a worker of a DataLoader: "));
  CHECK(absl::StrContains(HeadlineOf(run), " It copied 90.0 MiB of memory that it shares with others."));
}

TEST_CASE("nothing to do: not beside processes that are no workers and hold much") {
  Run run = Recorded(4, 0);
  run.estimates = {};
  for (const int index : {1, 2, 3, 4}) run.model.processes[index].role = Role::kOther;
  const auto holding = [&](uint64_t mib) {
    for (const int index : {1, 2, 3, 4}) run.model.processes[index].peak_private_bytes = mib << 20;
    return HeadlineOf(run);
  };
  const std::string none = " worker was forked, and no lasting growth of any process was seen in 3.0 s.";
  CHECK(holding(60) == absl::StrCat("Nothing to do: no", none));
  CHECK(holding(300) == absl::StrCat("No", none,
                                     " 4 processes that the target started had at most 1.2 GiB of private memory "
                                     "together, which they do not share."));
  CHECK(IdsOf(run) == Ids{"clean"});
  run.model.processes[4].role = Role::kHelper;
  run.model.processes[3].peak_private_bytes = 10 << 20;  // noise
  CHECK(absl::StartsWith(HeadlineOf(run), absl::StrCat("No", none, " 2 processes that the target started had ")));
  // One after the other.
  run.model.processes[1].ended = run.model.processes[2].started = absl::Seconds(1);
  CHECK(HeadlineOf(run) ==
        absl::StrCat("No", none, " 1 process that the target started had at most 300.0 MiB of private memory."));
  for (const int index : {1, 2}) run.model.processes[index].peak_private_bytes = 200 << 20;
  CHECK(HeadlineOf(run) == absl::StrCat("Nothing to do: no", none));
}

TEST_CASE("nothing to do: a target that puts itself into the background") {
  const std::string rest = " The workers share what they should.";
  const auto of = [](int status, const std::vector<Event>& more, absl::Duration t = absl::Seconds(4)) {
    Run run = Recorded(2, 0);
    Sample sample = {.t = t, .events = {Exited(0, status, t)}};
    sample.events.insert(sample.events.end(), more.begin(), more.end());
    Append(sample, &run);
    return HeadlineOf(run);
  };
  CHECK(of(0, {}) ==
        absl::StrCat("The target ended after 4.0 s, and the recording with it, but 2 processes that it started were "
                     "still running: `cowprof --attach 1001` records what follows.",
                     rest));
  CHECK(
      absl::StrContains(of(0, {Exited(1, 0, absl::Seconds(4))}), " but 1 process that it started was still running: "));
  const std::string well = absl::StrCat("Nothing to do: the", rest.substr(4));
  CHECK(of(0, {Exited(1, 0, absl::Seconds(4)), Exited(2, 0, absl::Seconds(4))}) == well);
  CHECK(!absl::StrContains(of(9, {}), "still running"));
  CHECK(of(0, {}, absl::Seconds(100)) == well);  // not at once: what is left may end, too
}

TEST_CASE("diagnosis: of several workers, those that copied are counted") {
  Run run = Recorded(3, 0);
  ProcessSample row = {.index = 2, .causes = CauseCounts{}};
  row.counts.copies = (*row.causes)[static_cast<int>(Cause::kData)] = 80 * kMiB;
  row.counts.zero_fill_pages = row.counts.zero_upgrades = 0;
  Append({.t = absl::Seconds(4), .processes = {row}}, &run);
  CHECK(absl::StrContains(HeadlineOf(run), " of the parent's memory in 1 of 3 workers"));
}

TEST_CASE("nothing to do: ranks that each hold their data are told so, where it may be the same") {
  constexpr uint64_t kGiB = 1024 * kMiB;
  Run run = Recorded(4, 0);
  for (const int index : {1, 2}) {
    ProcessModel& rank = run.model.processes[index];
    rank.role = Role::kRank;
    rank.space = index;
    rank.proc.anon_pages = 3 * kGiB;
  }
  PickleLook look = {.root = "train_loader"};
  look.held = PickleSize{.low = uint64_t{1} << 31, .best = uint64_t{1} << 31};
  run.model.start_methods = SeenStartMethods{.index = 1, .look = look};
  const auto says = [&] { return absl::StrContains(HeadlineOf(run), "Each of 2 ranks has memory of its own"); };
  INFO(HeadlineOf(run));
  CHECK(absl::StartsWith(HeadlineOf(run), "The workers share what they should."));
  CHECK(absl::StrContains(
      HeadlineOf(run),
      ", and what one of them gives its workers takes about 2.0 GiB of it: if the other ranks hold the same, one file "
      "that all map (numpy.memmap, Arrow) would hold it once."));
  run.model.processes[3].proc.file_pages = 2 * kGiB;  // it is mapped
  CHECK(!says());
  run.model.processes[3].proc.file_pages = 0;
  run.model.processes[2].proc.anon_pages = kGiB;  // another one does not hold as much
  CHECK(!says());
  run.model.processes[2].proc.anon_pages = 3 * kGiB;
  CHECK(says());
  run.model.processes[2].space = 0;  // forked, it shares its launcher's
  CHECK(!says());
  run.model.processes[2].space = 2;
  run.model.start_methods->look.held->best = uint64_t{1} << 29;
  CHECK(absl::StartsWith(HeadlineOf(run), "Nothing to do: the workers share"));
}

}  // namespace cowprof
