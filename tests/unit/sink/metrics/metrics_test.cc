// The text of the metrics: what each metric says of a run made by hand, and that no name can break the format.
#include "sink/metrics/metrics.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "builders.h"
#include "model/judge/findings.h"

namespace cowprof {
namespace {

const absl::Time kSampled = absl::FromUnixSeconds(1'800'000'000);  // the clock was set since the recording began

// A trainer with two DataLoader workers, which was recorded tick by tick.
class Job {
 public:
  Job() {
    run_.model.info.started = absl::FromUnixSeconds(1'700'000'000);
    run_.model.info.identity.rank = {RankSource::kTorch, 3u, 1u, 8u, "job-7"};
    run_.model.info.version = "9.9";
  }
  void Tick(Sample sample, const std::vector<Alert>& raised = {}) {
    Append(sample, raised, &run_);
    tally_.Append(sample, raised, run_.model);
  }
  std::string Text(bool recording = true) {
    return MetricsText(run_.model, Judge(run_, Detail::kTick), {kSampled, ProcessUse{1.5, 4096}, recording}, &tally_);
  }
  bool Says(const std::string& row) { return absl::StrContains(Text(), absl::StrCat("\n", row, "\n")); }
  Run& run() { return run_; }

 private:
  Run run_;
  MetricsTally tally_;
};

ProcessSample Worker(int index, uint64_t worker_id, uint64_t copies) {
  ProcessSample row = RowWithCopies(index, copies);
  row.loader = LoaderWorker{.worker_id = worker_id, .num_workers = 2, .batch = worker_id};
  row.rollup = RollupFigures{.t = absl::Seconds(1), .rss_bytes = 9000, .pss_bytes = 7000, .private_bytes = 5000};
  return row;
}

Sample TwoWorkers() {
  return {.t = absl::Seconds(2),
          .events = {Started(0, -1), Started(1, 0), Started(2, 0)},
          .processes = {RowWithCopies(0, 1), Worker(1, 0, 10), Worker(2, 1, 20)},
          .limits = {{LimitKind::kCgroupV2, "/a/b", 1000, 400},
                     {LimitKind::kCgroupV2, "/a", 2000, 500},
                     {LimitKind::kDescriptors, "RLIMIT_NOFILE", 1024, 10}}};
}

// Splits a row as a parser of the format does. False: it is malformed.
bool IsRow(absl::string_view row) {
  const size_t name = row.find_first_of("{ ");
  if (name == row.npos || name == 0) return false;
  bool quoted = false;
  size_t end = name;
  for (; end < row.size() && (quoted || row[end] != ' '); ++end) {
    if (quoted && row[end] == '\\') {
      if (++end == row.size() || !absl::StrContains("\\\"n", row[end])) return false;
    } else if (row[end] == '"') {
      quoted = !quoted;
    }
  }
  return !quoted && end + 1 < row.size() && row.substr(end + 1).find(' ') == row.npos;
}

}  // namespace

TEST_CASE("metrics: a run, its workers and its limits") {
  Job job;
  job.Tick(TwoWorkers());
  CHECK(job.Says("cowprof_build_info{job_id=\"job-7\",rank=\"3\",version=\"9.9\"} 1"));
  CHECK(job.Says("cowprof_recording{job_id=\"job-7\",rank=\"3\"} 1"));
  CHECK(job.Says("cowprof_last_sample_timestamp_seconds{job_id=\"job-7\",rank=\"3\"} 1800000000"));
  CHECK(job.Says("cowprof_workers{job_id=\"job-7\",rank=\"3\"} 2"));
  CHECK(job.Says("cowprof_worker_copied_bytes_total{job_id=\"job-7\",rank=\"3\",worker=\"0\"} 40960"));
  CHECK(job.Says("cowprof_worker_copied_bytes_total{job_id=\"job-7\",rank=\"3\",worker=\"1\"} 81920"));
  CHECK(job.Says("cowprof_limit_bytes{job_id=\"job-7\",rank=\"3\",limit=\"cgroup-v2\",level=\"0\"} 1000"));
  CHECK(job.Says("cowprof_limit_used_bytes{job_id=\"job-7\",rank=\"3\",limit=\"cgroup-v2\",level=\"1\"} 500"));
  CHECK(job.Says("cowprof_self_cpu_seconds_total{job_id=\"job-7\",rank=\"3\"} 1.5"));
  for (const char* bytes : {"limit_bytes", "limit_used_bytes"})
    CHECK_FALSE(
        absl::StrContains(job.Text(), absl::StrCat("cowprof_", bytes, "{job_id=\"job-7\",rank=\"3\",limit=\"fds\"")));
  CHECK(absl::StrContains(job.Text(false), "\ncowprof_recording{job_id=\"job-7\",rank=\"3\"} 0\n"));
}

TEST_CASE("metrics: every row is well-formed and no series comes twice") {
  Job job;
  job.Tick(TwoWorkers());
  // The workers of a second DataLoader have the same numbers.
  job.Tick({.t = absl::Seconds(3),
            .events = {Started(3, 0), Started(4, 0)},
            .processes = {Worker(1, 0, 10), Worker(2, 1, 20), Worker(3, 0, 1), Worker(4, 1, 2)}});
  std::set<std::string> series, families;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(job.Text(), '\n', absl::SkipEmpty()))) {
    if (absl::StartsWith(line, "# TYPE")) CHECK(families.insert(line).second);
    if (absl::StartsWith(line, "#")) continue;
    INFO(line);
    CHECK(IsRow(line));
    CHECK(series.insert(line.substr(0, line.rfind(' '))).second);
  }
  CHECK(job.Says("cowprof_worker_copied_bytes_total{job_id=\"job-7\",rank=\"3\",worker=\"0.1\"} 4096"));
}

TEST_CASE("metrics: a worker keeps its name when another that had the same number ends") {
  Job job;
  job.Tick(TwoWorkers());
  job.Tick({.t = absl::Seconds(3), .events = {Started(3, 0)}, .processes = {Worker(3, 0, 1)}});
  const auto copied = [&](absl::string_view worker, uint64_t pages) {
    return job.Says(absl::StrCat("cowprof_worker_copied_bytes_total{job_id=\"job-7\",rank=\"3\",worker=\"", worker,
                                 "\"} ", 4096 * pages));
  };
  CHECK((copied("0", 10) && copied("1", 20) && copied("0.1", 1)));
  job.Tick({.t = absl::Seconds(4), .events = {Exited(1, 0)}, .processes = {Worker(3, 0, 2)}});
  CHECK((copied("0.1", 2) && copied("1", 20)));
  CHECK_FALSE(absl::StrContains(job.Text(), "worker=\"0\""));
  job.Tick({.t = absl::Seconds(5), .events = {Started(4, 0)}, .processes = {Worker(4, 0, 3)}});
  CHECK((copied("0", 3) && copied("0.1", 2)));
}

TEST_CASE("metrics: a pool that replaces its workers has no more series than workers") {
  Job job;
  job.Tick({.t = absl::Seconds(1), .events = {Started(0, -1)}, .processes = {RowWithCopies(0, 0)}});
  std::set<std::string> series;
  for (int i = 0; i < 50; ++i) {
    Sample sample = {.t = absl::Seconds(2 + i), .events = {Started(i + 1, 0)}};
    if (i >= 4) sample.events.push_back(Exited(i - 3, 0));
    for (int living = std::max(i - 2, 1); living <= i + 1; ++living)
      sample.processes.push_back(RowWithCopies(living, 100 * living));
    job.Tick(sample);
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(job.Text(), '\n'))) {
      if (absl::StrContains(line, "worker=")) series.insert(line.substr(0, line.rfind(' ')));
    }
  }
  CHECK(series.size() <= 4 * 5);
}

TEST_CASE("metrics: a worker that was not looked at yet takes no number from one that was") {
  Job job;
  job.Tick({.t = absl::Seconds(1),
            .events = {Started(0, -1), Started(1, 0), Started(2, 0)},
            .processes = {RowWithCopies(0, 0), RowWithCopies(1, 1), RowWithCopies(2, 2)}});
  const auto worker = [&](absl::string_view name) {
    return absl::StrContains(job.Text(), absl::StrCat("worker=\"", name, "\""));
  };
  CHECK((worker("0") && worker("1") && !worker("2")));
  job.Tick({.t = absl::Seconds(2), .processes = {Worker(2, 0, 2)}});
  CHECK((worker("0") && worker("0.1") && !worker("1")));
  job.Tick({.t = absl::Seconds(3), .processes = {Worker(1, 1, 1)}});
  CHECK((worker("0") && worker("1") && !worker("0.1")));
}

TEST_CASE("metrics: exits are counted by cause and never fall") {
  Job job;
  job.run().model.most_ended = 1;  // others are summed up
  job.Tick(TwoWorkers());
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"signal\"} 0"));
  job.Tick({.t = absl::Seconds(3), .events = {Exited(1, 9), Exited(2, 0)}, .processes = {Worker(1, 0, 10)}});
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"signal\"} 1"));
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"done\"} 1"));
  CHECK(job.Says("cowprof_workers{job_id=\"job-7\",rank=\"3\"} 0"));
  for (int index = 3; index < 9; ++index) {
    job.Tick({.t = absl::Seconds(index + 1),
              .events = {Started(index, 0), Exited(index, 0)},
              .processes = {Worker(index, 0, 1)}});
  }
  CHECK(job.Says("cowprof_worker_starts_total{job_id=\"job-7\",rank=\"3\"} 8"));
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"signal\"} 1"));
  CHECK(job.Says("cowprof_worker_peak_private_bytes_bucket{job_id=\"job-7\",rank=\"3\",le=\"1048576\"} 8"));
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"done\"} 7"));
}

TEST_CASE("metrics: what is asked to end did not die, and a helper is no worker, however many have ended before") {
  Job job;
  job.run().model.most_ended = 1;
  job.Tick(TwoWorkers());
  for (int index = 3; index < 9; ++index) {
    const bool helper = index % 2 == 0;
    Sample sample = {.t = absl::Seconds(index), .events = {Started(index, 0)}, .processes = {RowWithCopies(index, 1)}};
    if (helper) sample.events.push_back({.index = index, .what = DutyFound{.duty = Duty::kManager}});
    sample.events.push_back(Exited(index, helper ? SIGKILL : SIGTERM, sample.t));
    job.Tick(sample);
  }
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"done\"} 3"));
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"signal\"} 0"));
}

TEST_CASE("metrics: what ended by itself while its cgroup ran out of memory was not killed") {
  Job job;
  job.Tick(TwoWorkers());
  job.Tick({.t = absl::Seconds(3),
            .events = {{.t = absl::Seconds(3), .index = 1, .what = OomVictim{}}, Exited(1, 0)},
            .processes = {Worker(1, 0, 10)}});
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"done\"} 1"));
  CHECK(job.Says("cowprof_worker_exits_total{job_id=\"job-7\",rank=\"3\",cause=\"oom\"} 0"));
}

TEST_CASE("metrics: sums over workers do not fall when one turns out to be none") {
  Job job;
  Sample sample = TwoWorkers();
  sample.processes = {RowWithCopies(0, 1), RowByCause(1, {{Cause::kData, 10}}), RowByCause(2, {{Cause::kData, 20}})};
  for (ProcessSample& row : sample.processes) row.counts.zero_fill_pages = 5;
  job.Tick(std::move(sample));
  const auto check = [&](int living) {
    CHECK(job.Says(absl::StrCat("cowprof_workers{job_id=\"job-7\",rank=\"3\"} ", living)));
    CHECK(job.Says("cowprof_worker_starts_total{job_id=\"job-7\",rank=\"3\"} 2"));
    CHECK(job.Says("cowprof_copied_bytes_total{job_id=\"job-7\",rank=\"3\",cause=\"data\"} 122880"));
    CHECK(job.Says("cowprof_new_bytes_total{job_id=\"job-7\",rank=\"3\"} 40960"));
  };
  check(2);
  job.Tick({.t = absl::Seconds(3), .events = {{.index = 1, .what = DutyFound{.duty = Duty::kManager}}}});
  check(1);
}

TEST_CASE("metrics: a copy of which another cause is found later is counted once") {
  Job job;
  Sample sample = TwoWorkers();
  sample.processes = {RowWithCopies(0, 1), RowByCause(1, {{Cause::kData, 10}}), RowByCause(2, {})};
  job.Tick(std::move(sample));
  CHECK(job.Says("cowprof_copied_bytes_total{job_id=\"job-7\",rank=\"3\",cause=\"data\"} 40960"));
  job.Tick({.t = absl::Seconds(3), .processes = {RowByCause(1, {{Cause::kData, 4}, {Cause::kRefcount, 8}})}});
  CHECK(job.Says("cowprof_copied_bytes_total{job_id=\"job-7\",rank=\"3\",cause=\"data\"} 40960"));
  CHECK(job.Says("cowprof_copied_bytes_total{job_id=\"job-7\",rank=\"3\",cause=\"refcount\"} 8192"));
  // What is copied next is of the cause that rises, not of the one that was found late.
  job.Tick({.t = absl::Seconds(4),
            .processes = {RowByCause(1, {{Cause::kData, 4}, {Cause::kRefcount, 8}, {Cause::kHash, 5}})}});
  CHECK(job.Says("cowprof_copied_bytes_total{job_id=\"job-7\",rank=\"3\",cause=\"refcount\"} 8192"));
  CHECK(job.Says("cowprof_copied_bytes_total{job_id=\"job-7\",rank=\"3\",cause=\"hash\"} 20480"));
  // Two of data become refcount's while 8 are copied: those are shared as the causes rise, 6 to 4.
  job.Tick({.t = absl::Seconds(5),
            .processes = {RowByCause(1, {{Cause::kData, 2}, {Cause::kRefcount, 14}, {Cause::kHash, 9}})}});
  CHECK(job.Says("cowprof_copied_bytes_total{job_id=\"job-7\",rank=\"3\",cause=\"refcount\"} 24576"));
  CHECK(job.Says("cowprof_copied_bytes_total{job_id=\"job-7\",rank=\"3\",cause=\"hash\"} 36864"));
}

TEST_CASE("metrics: a label's value can hold anything") {
  CHECK(EscapeLabel("a\"b\\c\nd") == "a\\\"b\\\\c\\nd");
  CHECK(EscapeLabel("\xff\xc3") == "\\\\xff\\\\xc3");
  CHECK(EscapeLabel(absl::string_view("a\0b", 3)) == "a\\\\x00b");
  CHECK(EscapeLabel("größe \xe2\x80\xae") == "größe \xe2\x80\xae");
  for (const std::string& evil : {std::string("x\"} 1\ncowprof_recording 7\n"), std::string("\\"), std::string("\n"),
                                  std::string("\\\""), std::string("\xed\xa0\x80"), std::string(70'000, '"')}) {
    Job job;
    job.run().model.info.identity.labels["job_id"] = evil;
    job.Tick(TwoWorkers());
    for (absl::string_view line : absl::StrSplit(job.Text(), '\n', absl::SkipEmpty()))
      CHECK((absl::StartsWith(line, "# ") || (absl::StartsWith(line, "cowprof_") && IsRow(line))));
    CHECK_FALSE(job.Says("cowprof_recording 7"));
  }
}

TEST_CASE("metrics: at most 10 series a worker, and a bound for many") {
  const auto series_with = [](int workers) {
    Job job;
    Sample sample = {.t = absl::Seconds(1), .events = {Started(0, -1)}, .processes = {RowWithCopies(0, 0)}};
    for (int i = 1; i <= workers; ++i) {
      sample.events.push_back(Started(i, 0));
      sample.processes.push_back(Worker(i, i - 1, 1));
    }
    job.Tick(std::move(sample));
    const std::string text = job.Text();
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(series_with(11) - series_with(10) <= 10);
  CHECK(series_with(10) - series_with(9) > 0);
  CHECK(series_with(kMostWorkersListed + 9) == series_with(kMostWorkersListed));
}

TEST_CASE("metrics: alerts are counted from 0 as they are raised, however many the run keeps") {
  Job job;
  job.Tick({.t = absl::Seconds(1), .limits = {{LimitKind::kShm, "/dev/shm", 1000, 400}}});
  for (const char* of : {"limit=\"shm\",rule=\"eta\"", "limit=\"shm\",rule=\"ratio\"", "rule=\"hang\""})
    CHECK(job.Says(absl::StrCat("cowprof_alerts_total{job_id=\"job-7\",rank=\"3\",", of, "} 0")));
  const Alert raised = {.kind = LimitKind::kShm, .name = "/dev/shm"}, hang = {.rule = AlertRule::kHang};
  Alert over = raised;
  over.over = true;
  job.Tick(TwoWorkers());
  for (size_t i = 0; i < kMostAlerts; ++i) job.Tick({.t = absl::Seconds(3)}, {raised, over});
  job.Tick({.t = absl::Seconds(4)}, {hang});
  CHECK(job.run().alerts.size() == kMostAlerts);
  CHECK(job.Says("cowprof_alerts_total{job_id=\"job-7\",rank=\"3\",limit=\"shm\",rule=\"ratio\"} 1000"));
  CHECK(job.Says("cowprof_alerts_total{job_id=\"job-7\",rank=\"3\",rule=\"hang\"} 1"));
}

TEST_CASE("metrics: nothing is said of what is not known") {
  MetricsTally tally;
  const std::string text = MetricsText(RunModel(), Findings(), RecorderState(), &tally);
  for (const char* name : {"copied_bytes_total", "shm_used", "limit_eta", "plateau", "ceiling", "self_"})
    CHECK_FALSE(absl::StrContains(text, name));
  CHECK(absl::StrContains(text, "\ncowprof_recording 1\n"));
}

}  // namespace cowprof
