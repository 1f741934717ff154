#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "builders.h"
#include "judged.h"
#include "live_and_replay.h"

namespace cowprof {
namespace {

Hang HangOf(int index) {
  return {.pid = 1000 + index,
          .tid = 1000 + index,
          .parent = 1000,
          .waited = absl::Seconds(2),
          .kind = HangKind::kRLock,
          .by_fork = true,
          .what = "a threading.RLock that the parent's thread stats holds",
          .stack = {{"/usr/lib/python3.11/threading.py", "Condition.wait", 320}, {"/srv/train.py", "load_batch", 31}},
          .native = "libc.so.6: sem_wait",
          .holder = Holder{1005, "stats", {{"/srv/train.py", "update_stats", 25}}, true},
          .fix = "start the workers before the threads that take this lock",
          .victims = {{1000, 1000, "Pool.join()", {{"/srv/train.py", "main", 60}}}}};
}
Event Seen(int index, std::vector<Hang> hangs, absl::Duration t) {
  return {.t = t, .index = index, .what = HangsSeen{std::move(hangs)}};
}

Sample First(int workers = 1) {
  Sample sample = {.t = absl::Seconds(1), .events = {Started(0, -1)}, .processes = {RowWithCopies(0, 0)}};
  for (int index = 1; index <= workers; ++index) {
    sample.events.push_back(Started(index, 0));
    sample.processes.push_back(RowWithCopies(index, 0));
  }
  return sample;
}
Run Recorded(std::vector<Event> events, int workers = 1) {
  Run run;
  Append(First(workers), &run);
  Append({.t = absl::Seconds(4), .events = std::move(events)}, &run);
  return run;
}

TEST_CASE("fork-hang says who waits for what, since when, by which rule, and who waits for it", "[hangs]") {
  const Run run = Recorded({Seen(1, {HangOf(1)}, absl::Seconds(4))});
  REQUIRE(IdsOf(run) == Ids{"fork-hang"});
  const Diagnosis found = DiagnosesOf(run)[0];
  CHECK(found.summary ==
        "Worker 1001 can never go on: at train.py:31 in load_batch it waits for a threading.RLock that the parent's "
        "thread stats holds (train.py:25 in update_stats).");
  CHECK(found.pids == std::vector<pid_t>{1001});
  const std::string text = TextOf(found);
  for (const char* part : {"found at 4.0 s of the recording; it began to wait at 2.0 s at the earliest",
                           "without timeout", "threading.py:320 in Condition.wait, called by train.py:31 in load_batch",
                           "libc.so.6: sem_wait", "the parent's thread 1005 (stats) held it when it was found",
                           "meanwhile process 1000 waits for Pool.join() at /srv/train.py:60 in main",
                           "Start the workers before the threads that take this lock."}) {
    INFO(part << " in\n" << text);
    CHECK(text.find(part) != std::string::npos);
  }
  const auto json = ReportJsonOf(run);
  REQUIRE(json["hangs"].size() == 1);
  CHECK(json["hangs"][0]["waits_since_seconds"] == 2.0);
  CHECK(json["headline"]["diagnosis"] == "fork-hang");
}

TEST_CASE("fork-hang names the program's line, not one of the standard library in /usr/lib64", "[hangs]") {
  Hang hang = HangOf(1);
  hang.stack = {{"/usr/lib64/python3.9/threading.py", "Condition.wait", 312},
                {"/srv/lib/python-jobs/train.py", "load_batch", 31}};
  CHECK(absl::StartsWith(DiagnosesOf(Recorded({Seen(1, {hang}, absl::Seconds(4))}))[0].summary,
                         "Worker 1001 can never go on: at train.py:31 in load_batch it waits for "));
}

TEST_CASE("a hang goes on until the process ends, and is still the diagnosis then", "[hangs]") {
  Run run = Recorded({Seen(1, {HangOf(1)}, absl::Seconds(4))});
  // Who waits for it was found later; the same wait was two seconds old at the first look.
  Hang again = HangOf(1);
  again.waited = absl::Seconds(5);
  Append({.t = absl::Seconds(7), .events = {Seen(1, {again}, absl::Seconds(7))}}, &run);
  CHECK(ReportJsonOf(run)["hangs"][0]["waits_since_seconds"] == 5.0);
  Append({.t = absl::Seconds(20), .events = {Exited(1, 9, absl::Seconds(10))}}, &run);
  CHECK(ReportJsonOf(run)["hangs"][0]["waits_since_seconds"] == 8.0);
  CHECK(DiagnosesOf(run)[0].summary.find("could never go on: at train.py:31 in load_batch it waited for") !=
        std::string::npos);
}

TEST_CASE("a process that went on after all did not hang", "[hangs]") {
  Run run = Recorded({Seen(1, {HangOf(1)}, absl::Seconds(4))});
  Append({.t = absl::Seconds(6), .events = {Seen(1, {}, absl::Seconds(6))}}, &run);
  CHECK(IdsOf(run) != Ids{"fork-hang"});
  CHECK(ReportJsonOf(run)["hangs"].empty());
}

TEST_CASE("several that hang are one diagnosis", "[hangs]") {
  const Run run =
      Recorded({Seen(1, {HangOf(1)}, absl::Seconds(4)), Seen(3, {HangOf(3)}, absl::Seconds(4))}, /*workers=*/3);
  REQUIRE(IdsOf(run) == Ids{"fork-hang"});
  const Diagnosis found = DiagnosesOf(run)[0];
  CHECK(found.pids == std::vector<pid_t>{1001, 1003});
  CHECK(found.summary.find("1 more process can never go on.") != std::string::npos);
  CHECK(found.advice.size() == 1);
}

TEST_CASE("what hangs in a server's worker is made after the fork: its workers can't be spawned", "[hangs]") {
  Hang hang = HangOf(1);
  const std::string lock = "Start the workers before the threads that take this lock.";
  hang.fix += "; or start workers by spawn or forkserver";
  const auto advice = [&](Framework framework, const std::string& comm = "python3", int hung = 1) {
    Run run = Recorded({}, 1);
    Append({.t = absl::Seconds(5), .events = {Started(2, 1)}, .processes = {RowWithCopies(2, 0)}}, &run);
    for (ProcessModel& process : run.model.processes) {
      process.framework = framework;
      process.comm = comm;
    }
    Append({.t = absl::Seconds(6), .events = {Seen(hung, {hang}, absl::Seconds(6))}}, &run);
    return DiagnosesOf(run)[0].advice;
  };
  const std::string spawn =
      "Start the workers before the threads that take this lock; or start workers by spawn or forkserver.";
  CHECK(advice(Framework::kPool) == std::vector<std::string>{spawn});
  CHECK(
      advice(Framework::kGunicorn) ==
      std::vector<std::string>{lock,
                               "Start threads, and make clients and loggers, after the fork: in gunicorn's post_fork, "
                               "or without --preload."});
  CHECK(absl::StrContains(advice(Framework::kCelery).at(1), "worker_process_init"));
  CHECK(absl::StrContains(advice(Framework::kFork, "uwsgi").at(1), "@postfork"));
  // A process that a worker forked itself has the server's frames, too.
  CHECK(advice(Framework::kGunicorn, "gunicorn", 2) == std::vector<std::string>{spawn});
  CHECK(advice(Framework::kFork, "uwsgi", 2) == std::vector<std::string>{spawn});
  hang.kind = HangKind::kDeadlock;
  hang.fix = "take the locks in the same order everywhere";
  CHECK(advice(Framework::kGunicorn) == std::vector<std::string>{"Take the locks in the same order everywhere."});
}

TEST_CASE("a hang is one alert, over when it goes on or ends, and a replay says the same", "[hangs]") {
  LiveAndReplay both({.page_bytes = 4096});
  both.Tick(First(2));
  both.Tick({.t = absl::Seconds(4), .events = {Seen(1, {HangOf(1)}, absl::Seconds(4))}});
  both.Tick({.t = absl::Seconds(5), .events = {Seen(1, {HangOf(1)}, absl::Seconds(5))}});
  both.Check();
  REQUIRE(both.run.alerts.size() == 1);
  const Alert& alert = both.run.alerts[0];
  CHECK(alert.kind_name() == std::string("hang"));
  CHECK(alert.name == "worker 1001");
  CHECK(alert.cause == "rlock");
  CHECK(alert.text.starts_with("worker 1001 can never go on: at train.py:31"));
  CHECK(alert.advice == HangOf(1).fix);
  both.Tick({.t = absl::Seconds(6), .events = {Seen(1, {}, absl::Seconds(6)), Seen(2, {HangOf(2)}, absl::Seconds(6))}});
  both.Tick({.t = absl::Seconds(7), .events = {Exited(2, 9, absl::Seconds(7)), Exited(1, 9, absl::Seconds(7))}});
  both.Check();
  REQUIRE(both.run.alerts.size() == 4);
  CHECK(both.run.alerts[1].text == "worker 1001 went on after all");
  CHECK_FALSE(both.run.alerts[2].over);
  CHECK(both.run.alerts[3].text == "worker 1002 has ended");
}

TEST_CASE("the alert of a hang is over at the end of a process that is summed up at once", "[hangs]") {
  AlertWatch watch{AlertSettings()};
  const Run run = Recorded({});
  const Sample hangs = {.t = absl::Seconds(4), .events = {Seen(1, {HangOf(1)}, absl::Seconds(4))}};
  REQUIRE(watch.Judge(hangs, run.model, {}).size() == 1);
  const Sample ends = {.t = absl::Seconds(5), .events = {Exited(1, 15, absl::Seconds(5))}};
  const std::vector<Alert> alerts = watch.Judge(ends, RunModel(), {});  // which has no row of it
  REQUIRE(alerts.size() == 1);
  CHECK(alerts[0].over);
  CHECK(alerts[0].name == "worker 1001");
  CHECK(alerts[0].text == "worker 1001 has ended");
}

TEST_CASE("no alert of hangs if they are off", "[hangs]") {
  AlertSettings settings;
  settings.hangs = false;
  AlertWatch watch(settings);
  const Run run = Recorded({});
  const Sample sample = {.t = absl::Seconds(4), .events = {Seen(1, {HangOf(1)}, absl::Seconds(4))}};
  CHECK(watch.Judge(sample, run.model, {}).empty());
}

}  // namespace
}  // namespace cowprof
