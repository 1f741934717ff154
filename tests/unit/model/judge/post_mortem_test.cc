// Ends of processes in hand-made recordings: each cause with the evidence that proves it, and beside it the evidence
// that looks alike and must not. Host memory that runs out is tested here only: no machine that others use can show it.
#include "model/judge/post_mortem.h"

#include <signal.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "builders.h"
#include "judged.h"
#include "model/judge/diagnosis.h"

namespace cowprof {
namespace {

constexpr uint64_t kPage = 4096, kMiB = 1 << 20;
constexpr uint64_t kPagesOfMiB = kMiB / kPage;
constexpr int kBusAddressError = 2, kKernel = 0x80, kThreadKill = -6;

Event Sent(int index, int signal, int code, pid_t sender, const std::string& comm = "sh") {
  return {.index = index, .what = SignalSent{.signal = signal, .code = code, .sender = sender, .sender_comm = comm}};
}

Event Delivered(int index, int signal, int code) {
  const uint64_t address = code > 0 ? 0x7f0000005000 : 0;
  return {.index = index, .what = SignalDelivered{.signal = signal, .code = code, .address = address}};
}

Event BusError(int index, const FaultFile& file) {
  Event event = Delivered(index, SIGBUS, kBusAddressError);
  event.As<SignalDelivered>()->file = file;
  return event;
}

Event Victim(int index, const std::optional<LimitSample>& limit) {
  return {.index = index, .what = OomVictim{.limit = limit}};
}

LimitSample Cgroup(uint64_t limit_bytes) {
  return {.kind = LimitKind::kCgroupV1, .name = "/job", .limit = limit_bytes, .used = limit_bytes};
}

struct Row {
  uint64_t copies = 0, new_pages = 0, anon_pages = 0;
  Cause cause = Cause::kRefcount;
};

// A recording in the making: every Add is one tick.
struct Story {
  Run run;

  explicit Story(int workers) {
    std::vector<Event> events = {Started(0, -1)};
    for (int i = 1; i <= workers; ++i) events.push_back(Started(i, 0));
    Add(events, std::vector<Row>(workers + 1));
  }

  Story& Add(std::vector<Event> events, const std::vector<Row>& rows = {}) {
    Sample sample = {.t = run.model.t + absl::Seconds(1), .events = std::move(events)};
    for (Event& event : sample.events) event.t = sample.t;
    for (size_t i = 0; i < rows.size(); ++i) {
      ProcessSample row = {.index = static_cast<int>(i), .causes = CauseCounts{}};
      (*row.causes)[static_cast<int>(rows[i].cause)] = rows[i].copies;
      row.counts.copies = rows[i].copies;
      row.counts.zero_fill_pages = rows[i].new_pages;
      row.counts.zero_upgrades = 0;
      if (rows[i].anon_pages > 0) row.proc.anon_pages = rows[i].anon_pages;
      sample.processes.push_back(row);
    }
    Append(sample, &run);
    return *this;
  }
};

PostMortem Of(const Story& story, int index) { return PostMortemOf(story.run.model.processes[index], story.run.model); }
std::string TextOf(const PostMortem& found) {
  return absl::StrCat(found.text, "\n", absl::StrJoin(found.evidence, "\n"));
}

std::vector<std::string> IdsOf(const Story& story) {
  std::vector<std::string> ids;
  for (const Diagnosis& diagnosis : DiagnosesOf(story.run)) ids.push_back(diagnosis.id);
  return ids;
}

Diagnosis First(const Story& story) { return DiagnosesOf(story.run).front(); }

// A worker that dies of a bus error at a file.
Story BusErrorAt(const FaultFile& file) {
  Story story(1);
  story.Add({BusError(1, file), Exited(1, SIGBUS)}, {{}, {}});
  return story;
}

const FaultFile kInside = {.name = "array.npy", .file_bytes = 10'000, .offset = 12'287, .device = 5, .inode = 6};

}  // namespace

TEST_CASE("post-mortem: exits") {
  Story story(4);
  CHECK(Of(story, 1).text == "running");
  story.run.model.processes[2].python = "3.11.2";
  story.Add({Exited(1, 0), Exited(2, 3 << 8), Exited(3, SIGTERM), Exited(4, 1 << 8), Exited(0, 1 << 8)});
  CHECK(Of(story, 1).text == "exit 0");
  CHECK(Of(story, 2).text == "exited unexpectedly with code 3");
  CHECK(Of(story, 4).text == "exit 1");  // as of a shell's subshell
  CHECK(Of(story, 3).text == "killed by SIGTERM");
  CHECK(Of(story, 0).text == "exit 1");  // the program's own business
  for (int index = 0; index < 4; ++index) CHECK(Of(story, index).cause.empty());
}

TEST_CASE("post-mortem: workers that their server replaces have not failed") {
  Story story(4);
  for (int index = 1; index <= 4; ++index) story.run.model.processes[index].python = "3.11.2";
  story.run.model.processes[1].framework = story.run.model.processes[2].framework = Framework::kCelery;
  story.run.model.processes[3].comm = "uwsgi";
  story.Add({Exited(1, 155 << 8), Exited(2, 1 << 8), Exited(3, 30 << 8), Exited(4, 155 << 8)});
  CHECK(!Of(story, 1).badly);
  CHECK(Of(story, 2).badly);
  CHECK(!Of(story, 3).badly);
  CHECK(Of(story, 4).badly);
}

TEST_CASE("post-mortem: who sent the signal") {
  Story story(6);
  story.Add({Sent(6, SIGKILL, 0, 0), Exited(6, SIGKILL), Sent(1, SIGKILL, 0, 4242), Sent(1, SIGKILL, 0, 1000),
             Exited(1, SIGKILL),  // the first one kills
             Sent(2, SIGTERM, 0, 1000), Exited(2, SIGTERM), Sent(3, SIGTERM, 0, 1003), Exited(3, SIGTERM),
             Sent(4, SIGKILL, 0, 1005), Exited(4, SIGKILL), Sent(5, SIGKILL, kKernel, 77), Exited(5, SIGKILL)});
  CHECK(Of(story, 1).text == "killed by SIGKILL from sh (pid 4242)");
  CHECK(Of(story, 6).text == "killed by SIGKILL from sh outside this container");
  CHECK(Of(story, 2).text == "killed by SIGTERM from its parent");
  CHECK(Of(story, 3).text == "killed by SIGTERM from itself");
  CHECK(Of(story, 4).text == "killed by SIGKILL from worker 1005");
  CHECK(Of(story, 5).text == "killed by SIGKILL");
  CHECK(Of(story, 5).evidence == std::vector<std::string>{"SIGKILL came from the kernel"});
  CHECK(IdsOf(story).empty());
}

TEST_CASE("post-mortem: a command that the program ran is named, not only numbered") {
  Story story(3);
  story.Add({Started(4, 0), Started(5, 0)});
  story.Add({Event{.index = 4, .what = ProcessExeced{.comm = "perl", .command = "perl -e kill"}},
             Event{.index = 5, .what = ProcessExeced{.comm = "sh", .command = "sh -c kill"}}});
  REQUIRE(story.run.model.processes[4].role == Role::kOther);
  REQUIRE(story.run.model.processes[5].role == Role::kHelper);
  story.Add({Sent(1, SIGKILL, SI_USER, 1004, "perl"), Exited(1, SIGKILL), Sent(2, SIGKILL, SI_USER, 1004, ""),
             Exited(2, SIGKILL), Sent(3, SIGKILL, SI_USER, 1005, "sh"), Exited(3, SIGKILL)});
  CHECK(Of(story, 1).text == "killed by SIGKILL from perl (pid 1004)");
  CHECK(Of(story, 2).text == "killed by SIGKILL from process 1004");
  CHECK(Of(story, 3).text == "killed by SIGKILL from sh (pid 1005)");
}

TEST_CASE("post-mortem: the kernel kills a process as its parent ends") {
  const auto bound = [](int index, int signal = SIGKILL) {
    Event event = Sent(index, signal, SI_USER, 1001, "python3");
    event.As<SignalSent>()->sender_exiting = true;
    return event;
  };
  const std::string how = "as its parent python3 (pid 1001) ended (PR_SET_PDEATHSIG)";
  Story story(1);
  story.Add({Started(2, 1), Started(3, 1), Started(4, 1)});
  story.Add({Exited(1, 1 << 8), bound(2), Exited(2, SIGKILL), bound(3, SIGTERM), Sent(3, SIGTERM, kThreadKill, 1003),
             Exited(3, SIGTERM), Sent(4, SIGKILL, SI_USER, 1001, "python3"), Exited(4, SIGKILL)});
  CHECK(Of(story, 2).text == "killed by SIGKILL, " + how);
  CHECK(Of(story, 2).evidence == std::vector<std::string>{"the kernel sent SIGKILL " + how});
  CHECK(!Of(story, 2).badly);
  CHECK(Of(story, 3).text == "killed by SIGTERM, " + how);  // a handler raised it again
  CHECK(Of(story, 4).text == "killed by SIGKILL from its parent");
  // The parent lives on.
  Story thread(1);
  thread.Add({Started(2, 1)});
  thread.Add({bound(2), Exited(2, SIGKILL)});
  CHECK(Of(thread, 2).text ==
        "killed by SIGKILL, as the thread of python3 (pid 1001) that started it ended (PR_SET_PDEATHSIG)");
}

TEST_CASE("post-mortem: a program kills the workers that a forkserver forked for it") {
  Story story(2);
  const std::string server = "python -c from multiprocessing.forkserver import main; main(8)";
  story.Add({Event{.index = 1, .what = ProcessExeced{.comm = "python", .command = server}}});
  story.Add({Started(3, 1), Started(4, 1), Started(5, 3), Started(6, 2)});
  REQUIRE(story.run.model.processes[1].role == Role::kForkserver);
  std::vector<Event> events;
  for (const auto& [index, sender] : {std::pair{3, 1000}, {4, 4242}, {5, 1001}, {6, 1000}}) {
    events.push_back(Sent(index, SIGKILL, 0, sender));
    events.push_back(Exited(index, SIGKILL));
  }
  story.Add(events);
  CHECK(Of(story, 3).text == "killed by SIGKILL from parent 1000");
  CHECK(!Of(story, 3).badly);
  CHECK(Of(story, 4).badly);
  CHECK(Of(story, 5).badly);  // a forkserver ends nothing that its workers forked
  CHECK(Of(story, 6).badly);  // forked by a worker, not by a forkserver
}

TEST_CASE("post-mortem: OOM killers in user space end processes badly, by whatever signal") {
  Story story(4);
  story.Add({Sent(1, SIGTERM, 0, 812, "earlyoom"), Exited(1, SIGTERM), Sent(2, SIGKILL, 0, 0, "systemd-oomd"),
             Exited(2, SIGKILL), Sent(3, SIGTERM, 0, 812, "slurmstepd"), Exited(3, SIGTERM),
             // It had asked this one to end, which somebody else killed.
             Sent(4, SIGTERM, 0, 812, "earlyoom"), Sent(4, SIGKILL, 0, 1000, "python3"), Exited(4, SIGKILL)});
  CHECK(Of(story, 1).text == "killed by SIGTERM from earlyoom (pid 812) as memory ran short");
  CHECK(Of(story, 1).badly);
  CHECK(Of(story, 2).text == "killed by SIGKILL from systemd-oomd outside this container as memory ran short");
  CHECK(Of(story, 2).badly);
  CHECK(Of(story, 3).text == "killed by SIGTERM from slurmstepd (pid 812)");  // as at scancel or the limit of time
  CHECK(!Of(story, 3).badly);
  CHECK(Of(story, 4).text == "killed by SIGKILL from its parent");
  CHECK(!Of(story, 4).badly);
  CHECK(Of(story, 4).cause.empty());
  CHECK(HeadlineOf(story.run) == "earlyoom and systemd-oomd killed worker 1001 and 1 other as memory ran short.");
}

TEST_CASE("post-mortem: an OOM killer in user space asks first, and a handler may exit with any code") {
  Story story(3);
  story.run.model.processes[1].python = "3.11.2";
  const auto asked = [](int index) { return Sent(index, SIGTERM, 0, 812, "earlyoom"); };
  story.Add({asked(1), Exited(1, 1 << 8), asked(2), Exited(2), asked(3), Sent(3, SIGTERM, 0, 1000), Exited(3)});
  CHECK(Of(story, 2).text == "exit 0 after SIGTERM from earlyoom (pid 812) as memory ran short");
  CHECK(Of(story, 3).text == "exit 0");  // its parent asked it as well
  CHECK(!Of(story, 3).badly);
  CHECK(Of(story, 1).text ==
        "exited unexpectedly with code 1 after SIGTERM from earlyoom (pid 812) as memory ran short");
  CHECK(HeadlineOf(story.run) == "earlyoom ended worker 1001 and 1 other as memory ran short.");
}

TEST_CASE("post-mortem: who had grown as an OOM killer in user space chose") {
  Story story(2);
  story.Add({}, {{0, 0, 30'000}, {0, 0, 30'000}, {0, 0, 30'000}});
  const uint64_t grown = 100 * kPagesOfMiB;
  story.Add({Sent(1, SIGKILL, 0, 812, "systemd-oomd"), Exited(1, SIGKILL)},
            {{0, 0, 30'000}, {9, 0, 0}, {0, grown, 30'000 + grown}});
  story.Add({}, {{0, 50 * grown, 30'000 + 50 * grown}, {}, {0, grown, 30'000 + grown}});
  CHECK(Of(story, 1).cause == "oom-host");
  CHECK(Of(story, 1).evidence[0] == "SIGKILL came from systemd-oomd (pid 812)");
  CHECK(absl::StrContains(TextOf(Of(story, 1)), "worker 1002 had grown most, by 100.0 MiB"));
  CHECK(First(story).summary == "systemd-oomd killed worker 1001 as memory ran short.");
  CHECK(First(story).pids == std::vector<pid_t>{1001});
  CHECK(absl::StrContains(First(story).advice[0], "new memory"));
  CHECK(First(story).advice.back() ==
        "Find what else is large on this host. Why systemd-oomd acted is in its log: journalctl -t systemd-oomd.");
  for (const std::string& line : First(story).evidence) CHECK_FALSE(absl::StrContains(line, "OOM killer"));
}

TEST_CASE("post-mortem: uvicorn's supervisor kills by SIGKILL only what does not answer") {
  const std::string supervisor = "/usr/bin/python3 /usr/local/bin/uvicorn app:app --workers 4";
  const auto killed = [](const std::string& command, const std::vector<Event>& signals, bool target_ends = false) {
    Story story(1);
    story.run.model.processes[0].command = command;
    std::vector<Event> events = signals;
    events.push_back(Exited(1, SIGKILL));
    if (target_ends) events.push_back(Exited(0));
    story.Add(events);
    return Of(story, 1);
  };
  const Event kill = Sent(1, SIGKILL, 0, 1000);
  for (const std::string& command : {supervisor, std::string("python -m uvicorn --workers=2 app:app")}) {
    const PostMortem found = killed(command, {kill});
    CHECK(found.text == "killed by SIGKILL from its parent (uvicorn's health check, not the OOM killer)");
    CHECK(found.badly);
    CHECK(absl::StrContains(found.evidence[1], "--timeout-worker-healthcheck"));
  }
  CHECK(killed(supervisor, {Sent(1, SIGKILL, 0, 4242)}).text == "killed by SIGKILL from sh (pid 4242)");
  const auto silent = [](const PostMortem& found) {
    return found.text == "killed by SIGKILL from its parent" && !found.badly;
  };
  CHECK(silent(killed(supervisor, {Sent(1, SIGTERM, 0, 1000), kill})));
  CHECK(silent(killed(supervisor, {kill}, /*target_ends=*/true)));
  // The application's own children, and other parents, which may kill for any reason.
  for (const char* command :
       {"python -m uvicorn app:app", "python -m uvicorn app:app --workers 1", "python train.py --workers 4",
        "gunicorn app:app -k uvicorn.workers.UvicornWorker --workers 4", "gunicorn --chdir /srv/uvicorn --workers 4"})
    CHECK(silent(killed(command, {kill})));
}

TEST_CASE("post-mortem: gunicorn's timeout is neither the OOM killer nor the end of a server") {
  Story story(6);
  for (int index = 1; index <= 6; ++index) {
    story.run.model.processes[index].python = "3.11.2";
    story.run.model.processes[index].framework = Framework::kGunicorn;
  }
  story.run.model.processes[5].framework = Framework::kPool;
  const Event by_itself = Sent(6, SIGABRT, kThreadKill, 1006);
  story.Add({Sent(1, SIGABRT, 0, 1000), Sent(1, SIGKILL, 0, 1000), Exited(1, SIGKILL),
             // Too slow when the server ended.
             Sent(2, SIGTERM, 0, 1000), Sent(2, SIGKILL, 0, 1000), Exited(2, SIGKILL),
             // It could handle SIGABRT; a class of workers that does not.
             Sent(3, SIGABRT, 0, 1000), Exited(3, 1 << 8), Sent(4, SIGABRT, 0, 1000), Exited(4, SIGABRT),
             Sent(5, SIGABRT, 0, 1000), Sent(5, SIGKILL, 0, 1000), Exited(5, SIGKILL), by_itself, Exited(6, SIGABRT)});
  CHECK(Of(story, 1).text == "killed by SIGKILL from its parent (gunicorn's timeout, not the OOM killer)");
  CHECK(Of(story, 1).badly);
  CHECK(Of(story, 2).text == "killed by SIGKILL from its parent");
  CHECK(!Of(story, 2).badly);
  CHECK(Of(story, 3).text == "exited unexpectedly with code 1 after SIGABRT from its parent (gunicorn's timeout)");
  CHECK(Of(story, 4).text == "killed by SIGABRT from its parent (gunicorn's timeout)");
  CHECK(Of(story, 5).text == "killed by SIGKILL from its parent");
  CHECK(!Of(story, 5).badly);
  CHECK(Of(story, 6).text == "killed by SIGABRT from itself");
}

TEST_CASE("post-mortem: gunicorn's timeout, of a worker whose own frames don't name gunicorn") {
  const auto killed = [](std::optional<Framework> of_master, bool execed = false) {
    Story story(1);
    story.run.model.processes[0].framework = of_master;
    story.run.model.processes[1].python = "3.11.2";
    if (execed) story.Add({Event{.index = 1, .what = ProcessExeced{.comm = "ffmpeg", .command = "ffmpeg"}}});
    story.Add({Sent(1, SIGABRT, 0, 1000), Sent(1, SIGKILL, 0, 1000), Exited(1, SIGKILL)});
    return Of(story, 1);
  };
  CHECK(killed(Framework::kGunicorn).text ==
        "killed by SIGKILL from its parent (gunicorn's timeout, not the OOM killer)");
  CHECK(killed(Framework::kGunicorn).badly);
  for (const PostMortem& other :
       {killed(Framework::kCelery), killed(std::nullopt), killed(Framework::kGunicorn, /*execed=*/true)}) {
    CHECK(other.text == "killed by SIGKILL from its parent");
    CHECK(!other.badly);
  }
}

TEST_CASE("post-mortem: the OOM killer in a cgroup, and what it took") {
  Story story(1);
  story.Add({}, {{0, 0, 30'000}, {0, 0, 30'000}});
  story.Add({}, {{0, 0, 30'000}, {10 * kPagesOfMiB, 0, 30'000}});
  story.Add({Sent(1, SIGKILL, kKernel, 1001), Victim(1, Cgroup(256 * kMiB))},
            {{0, 0, 30'000}, {40 * kPagesOfMiB, 0, 100}});  // most of it is gone from /proc already
  story.Add({Exited(1, SIGKILL)}, {{}, {40 * kPagesOfMiB}});
  const PostMortem found = Of(story, 1);
  CHECK(found.cause == "oom-cgroup");
  CHECK(found.text == "killed by SIGKILL: the OOM killer, limit of cgroup /job");
  CHECK(absl::StrContains(TextOf(found), "cgroup /job used 256.0 MiB of 256.0 MiB"));
  CHECK(absl::StrContains(TextOf(found), "worker 1001 held 40.0 MiB of private memory"));
  CHECK(absl::StrContains(TextOf(found), "it had itself grown most, by 40.0 MiB"));
  CHECK(First(story).id == "oom-cgroup");
  CHECK(First(story).pids == std::vector<pid_t>{1001});
  CHECK(absl::StrContains(First(story).advice[0], "columns"));
}

TEST_CASE("post-mortem: the advice against copies is for their cause") {
  const auto first_advice = [](Cause cause, uint64_t mib = 40) {
    Story story(1);
    const auto copied = [cause](uint64_t pages, uint64_t anon) { return Row{pages, 0, anon, cause}; };
    story.Add({}, {{0, 0, 30'000}, copied(0, 30'000)});
    story.Add({}, {{0, 0, 30'000}, copied(mib / 2 * kPagesOfMiB, 30'000)});
    story.Add({Victim(1, Cgroup(mib * kMiB)), Exited(1, SIGKILL)}, {{0, 0, 30'000}, copied(mib * kPagesOfMiB, 0)});
    return First(story).advice[0];
  };
  const std::string copies = "Most of the growth is copies of what the parent holds";
  for (const Cause cause : {Cause::kRefcount, Cause::kHash})
    CHECK(absl::StartsWith(first_advice(cause), copies + ": keep that in columns"));
  CHECK(absl::EndsWith(first_advice(Cause::kRefcount), " The findings on copies say which."));
  CHECK(absl::StartsWith(first_advice(Cause::kGcHeader), copies + ". Call gc.collect() and then gc.freeze() in the"));
  for (const Cause cause : {Cause::kData, Cause::kKernel})
    CHECK(absl::StartsWith(first_advice(cause), copies + ". If one result serves all workers, write to shared memory"));
  CHECK(absl::StartsWith(first_advice(Cause::kNativeRefcount), copies + ". Keep one tensor for all items"));
  CHECK(first_advice(Cause::kMallocReuse) == copies + ". The findings on copies say why.");
  // No finding is about these.
  CHECK(first_advice(Cause::kFree) == copies + ".");
  CHECK(first_advice(Cause::kUnknown) == copies + ".");
  CHECK(first_advice(Cause::kGcHeader, 12) == copies + ".");
  CHECK(absl::EndsWith(first_advice(Cause::kRefcount, 12), " instead of objects."));
}

TEST_CASE("post-mortem: new memory that was freed again does not count as growth") {
  Story story(1);
  const uint64_t copied = 40 * kPagesOfMiB;
  story.Add({}, {{0, 0, 30'000}, {0, 0, 30'000}});
  // It decodes images: 400 MiB came and went.
  story.Add({}, {{0, 0, 30'000}, {copied, 10 * copied, 30'000}});
  story.Add({Victim(1, Cgroup(256 * kMiB)), Exited(1, SIGKILL)}, {{0, 0, 30'000}, {copied, 10 * copied, 0}});
  CHECK(absl::StrContains(First(story).advice[0], "Most of the growth is copies of what the parent holds"));
}

TEST_CASE("post-mortem: the grower is another than the victim, as of that moment") {
  Story story(2);
  story.Add({}, {{0, 0, 30'000}, {0, 0, 30'000}, {0, 0, 30'000}});
  const uint64_t grown = 100 * kPagesOfMiB;
  story.Add({Victim(1, Cgroup(256 * kMiB)), Exited(1, SIGKILL)},
            {{0, 0, 30'000}, {9, 0, 0}, {0, grown, 30'000 + grown}});
  // What grows later is not to blame.
  story.Add({}, {{0, 50 * grown, 30'000 + 50 * grown}, {}, {0, grown, 30'000 + grown}});
  CHECK(absl::StrContains(TextOf(Of(story, 1)), "worker 1002 had grown most, by 100.0 MiB"));
  CHECK(absl::StrContains(TextOf(Of(story, 1)), "the 2 workers together had grown by 100.0 MiB"));
  CHECK(absl::StrContains(First(story).advice[0], "new memory"));
}

TEST_CASE("post-mortem: copied pages of files are not the parent's memory") {
  Story story(1);
  const uint64_t of_files = 100 * kPagesOfMiB;
  story.Add({}, {{0, 0, 30'000}, {0, 0, 30'000}});
  story.Add({}, {{0, 0, 30'000}, {of_files, 0, 30'000 + of_files, Cause::kData}});
  story.Add({Victim(1, Cgroup(256 * kMiB)), Exited(1, SIGKILL)}, {{0, 0, 30'000}, {of_files, 0, 0, Cause::kData}});
  CHECK(absl::StrContains(TextOf(Of(story, 1)), "it had itself grown most, by 100.0 MiB"));
  CHECK(absl::StrContains(TextOf(Of(story, 1)), "copied 0 B of shared pages and was given 100.0 MiB of new memory"));
  CHECK(absl::StrContains(First(story).advice[0], "mode=\"r\""));
}

TEST_CASE("post-mortem: the advice tells memory that kept rising from what was pickled or loaded") {
  // 200 MiB of new memory: all in one second, or 5 MiB a second.
  const auto story_of = [](bool steady) {
    Story story(1);
    const auto row = [](uint64_t mib) { return Row{0, mib * kPagesOfMiB, 30'000 + mib * kPagesOfMiB}; };
    for (int i = 0; i <= 40; ++i) story.Add({}, {{0, 0, 30'000}, row(steady ? 5 * i : i == 0 ? 0 : 200)});
    story.Add({Victim(1, Cgroup(256 * kMiB)), Exited(1, SIGKILL)}, {{0, 0, 30'000}, row(200)});
    return story;
  };
  const Story at_once = story_of(false);
  CHECK(absl::StartsWith(First(at_once).advice[0],
                         "Most of the growth is new memory, which was not seen to rise steadily: what each worker "
                         "loads or buffers, times the number of workers."));
  const Story steady = story_of(true);
  CHECK(First(steady).advice[0] ==
        "Most of the growth is new memory that kept rising: look for a cache or a list that only grows.");
  // Received in tasks; what was touched first at a start may be imports, as long as no stacks say.
  Story sent = at_once;
  sent.run.model.frames = {{"/usr/lib/python3.11/multiprocessing/queues.py", "SimpleQueue.get", 367}};
  sent.run.model.growth_sites = {{{0}}};
  sent.run.model.processes[1].growth[0].pages = 200 * kPagesOfMiB;
  CHECK(absl::StrContains(First(sent).advice[0], "that the worker received through a queue or pipe: limit how much"));
  sent.run.model.processes[1].framework = Framework::kPool;
  CHECK(absl::StrContains(First(sent).advice[0], "arguments that were pickled and sent to the worker"));
  sent.run.model.frames = {{"/usr/lib/python3.11/multiprocessing/spawn.py", "_main", 126}};
  CHECK(absl::StrContains(First(sent).advice[0], "was pickled to the worker as it was started"));
  sent.run.model.processes[1].role = Role::kOther;  // it may have received results
  CHECK(absl::StrContains(First(sent).advice[0], "which was not seen to rise steadily: data that it loads"));
  Story spawned = at_once;
  spawned.run.model.processes[1].duty.start = StartMethod::kSpawn;
  CHECK(absl::StrContains(First(spawned).advice[0], "which was not seen to rise steadily"));
}

TEST_CASE("post-mortem: what the parent read before it forked is no growth") {
  Story story(0);
  story.Add({}, {{0, 500'000, 500'000}});
  story.Add({Started(1, 0)}, {{0, 600'000, 600'000}, {0, 0, 600'000}});
  story.Add({Victim(0, Cgroup(4096 * kMiB)), Exited(0, SIGKILL)}, {{0, 600'000, 600'000}, {5000, 0, 600'000}});
  CHECK(absl::StrContains(TextOf(Of(story, 0)), "worker 1001 had grown most"));
  story = Story(0);
  story.Add({}, {{0, 100'000, 100'000}});
  story.Add({Victim(0, Cgroup(4096 * kMiB)), Exited(0, SIGKILL)}, {{0, 600'000, 0}});
  CHECK(absl::StrContains(TextOf(Of(story, 0)), "it had itself grown most, by 1.9 GiB"));
}

TEST_CASE("post-mortem: most of what met the limit belongs to others") {
  Story story(1);
  story.Add({}, {{0, 0, 1000}, {0, 0, 1000}});
  story.Add({Victim(1, Cgroup(1024 * kMiB)), Exited(1, SIGKILL)}, {{0, 0, 1000}, {100, 0, 0}});
  CHECK(absl::StrContains(TextOf(Of(story, 1)), "most belongs to others"));
  CHECK(Of(story, 1).cause == "oom-cgroup");
}

TEST_CASE("post-mortem: what met the limit was shared memory, or nobody knows what") {
  const auto advice = [](uint64_t shm_mib, pid_t holder = 1001, SegmentKind kind = SegmentKind::kTorch) {
    Story story(1);
    story.run.model.processes[0].framework = story.run.model.processes[1].framework = Framework::kDataLoader;
    const ShmSegment segment = {.kind = kind, .bytes = shm_mib * kMiB, .mapped_by = {holder}};
    Append({.t = absl::Seconds(2),
            .limits = {{LimitKind::kShm, "/dev/shm", 4096 * kMiB, shm_mib * kMiB}},
            .shm = ShmSample{.mount = "/dev/shm", .used_bytes = shm_mib * kMiB, .segments = {segment}}},
           &story.run.model);
    story.Add({}, {{0, 0, 1000}, {0, 0, 1000}});
    story.Add({Victim(1, Cgroup(1024 * kMiB)), Exited(1, SIGKILL)}, {{0, 0, 1000}, {0, 20 * kPagesOfMiB, 0}});
    story.run.model.processes[0].private_bytes = 0;
    return First(story).advice;
  };
  CHECK(
      advice(700)[0] ==
      "Shared memory (/dev/shm) of the recorded processes held up to 700.0 MiB of 1.0 GiB in use: keep less in it, by "
      "fewer workers, a smaller prefetch_factor or batch_size.");
  CHECK(absl::StrContains(advice(100)[0], "explain less than half"));
  CHECK(absl::StrContains(advice(700, 1001, SegmentKind::kFile)[0], "of the recorded processes held"));
  // Whose it is, is not known where the last look was too early; others may use the same /dev/shm.
  CHECK(advice(700, 4242)[0] ==
        "Shared memory (/dev/shm) held up to 700.0 MiB of 1.0 GiB in use. If that was this job's, keep less in it.");
  CHECK(absl::StrContains(advice(2000)[0], "explain less than half"));  // it was not all of this cgroup
  for (const std::string& line : advice(100)) CHECK_FALSE(absl::StrContains(line, "growth"));
}

TEST_CASE("post-mortem: what grew last was outside, as the alert said") {
  const LimitSample limit = Cgroup(1024 * kMiB);
  const auto first = [&](int index, const char* cause, absl::Duration before, bool over) {
    Story story(1);
    story.Add({}, {{0, 0, 1000}, {0, 0, 1000}});
    story.Add({Victim(1, limit), Exited(1, SIGKILL)}, {{0, 0, 1000}, {0, 600 * kPagesOfMiB, 0}});
    Alert alert = {.t = story.run.model.t - before, .kind = limit.kind, .name = limit.name, .used = 900 * kMiB};
    alert.index = 1;  // an earlier one
    story.run.alerts.push_back(alert);
    alert.index = index;
    alert.cause = cause;
    alert.over = over;
    story.run.alerts.push_back(alert);
    return First(story);
  };
  const char* const outside =
      "What grew last was outside the recorded processes: find what else counts against this limit.";
  const Diagnosis found = first(-1, "", absl::Milliseconds(500), false);
  REQUIRE(found.id == "oom-cgroup");
  CHECK(found.advice[0] == outside);
  CHECK(absl::StrContains(found.evidence.back(), "with 900.0 MiB in use, what grew was outside"));
  CHECK(first(-1, "", absl::Minutes(2), false).advice[0] != outside);
  CHECK(first(-1, "", absl::Milliseconds(500), true).advice[0] != outside);
  CHECK(first(-1, "shm", absl::Milliseconds(500), false).advice[0] != outside);
  CHECK(first(1, "new-memory", absl::Milliseconds(500), false).advice[0] != outside);
}

TEST_CASE("post-mortem: the host runs out of memory") {
  Story story(1);
  story.Add({}, {{0, 0, 1000}, {0, 0, 1000}});
  story.Add({Victim(1, LimitSample{.kind = LimitKind::kHost}), Exited(1, SIGKILL)}, {{0, 0, 1000}, {5000, 0, 0}});
  CHECK(Of(story, 1).cause == "oom-host");
  CHECK(Of(story, 1).text == "killed by SIGKILL: the OOM killer, the host's memory");
  CHECK(IdsOf(story) == Ids{"oom-host", "cow-refcount"});
  CHECK_FALSE(absl::StrContains(TextOf(First(story)), ".wslconfig"));
  story.run.model.info.kernel = "6.6.87.2-microsoft-standard-WSL2";
  CHECK(absl::StrContains(TextOf(First(story)), "The host is WSL2's virtual machine"));
}

TEST_CASE("post-mortem: no OOM kill is assumed where none was seen") {
  Story story(2);
  LimitSample full = Cgroup(256 * kMiB);
  full.failures = 99;
  full.kills = 1;
  Append({.t = absl::Seconds(2), .limits = {full}}, &story.run.model);
  // Another process of the cgroup was taken, and this one was killed by a person at the same time.
  story.Add({Victim(2, full), Exited(2, SIGKILL), Sent(1, SIGKILL, 0, 4242), Exited(1, SIGKILL)});
  CHECK(Of(story, 1).cause.empty());
  CHECK(First(story).pids == std::vector<pid_t>{story.run.model.processes[2].id.pid});
  // A victim may end by itself before the signal comes.
  Story exited(1);
  exited.Add({Victim(1, full), Exited(1, 0)});
  CHECK(Of(exited, 1).text == "exit 0");
  CHECK(IdsOf(exited) == Ids{"clean"});
  CHECK_FALSE(exited.run.model.processes[1].oom_victim);
  // A recording of an older cowprof: which limit it was is not known.
  Story old(1);
  old.Add({Victim(1, std::nullopt), Exited(1, SIGKILL)});
  CHECK(Of(old, 1).text == "killed by SIGKILL: the OOM killer");
  CHECK(Of(old, 1).cause.empty());
  CHECK(IdsOf(old).empty());  // not "clean"
}

// The kernel marks what is dying already instead of killing another process.
TEST_CASE("post-mortem: what another process has killed is not a victim of the OOM killer") {
  Story killed(1);
  killed.Add({Sent(1, SIGKILL, 0, 4242), Victim(1, Cgroup(256 * kMiB)), Exited(1, SIGKILL)});
  CHECK(Of(killed, 1).text == "killed by SIGKILL from sh (pid 4242)");
  CHECK_FALSE(killed.run.model.processes[1].oom);
  Story twice(1);  // the kernel kills it as well
  twice.Add(
      {Sent(1, SIGKILL, 0, 4242), Sent(1, SIGKILL, kKernel, 1001), Victim(1, Cgroup(256 * kMiB)), Exited(1, SIGKILL)});
  CHECK(Of(twice, 1).cause == "oom-cgroup");
}

TEST_CASE("post-mortem: a bus error beyond the end of a file, and within it") {
  // 10,000 bytes are three pages: the last one may be touched as a whole.
  FaultFile file = kInside;
  CHECK(absl::StrContains(Of(BusErrorAt(file), 1).text, "the disk of array.npy was full, or it failed"));
  file.offset = 12'288;
  CHECK(absl::StrContains(Of(BusErrorAt(file), 1).text, "array.npy was truncated while it was mapped"));
  CHECK(Of(BusErrorAt(file), 1).cause == "sigbus-file");
  CHECK(absl::StrContains(TextOf(Of(BusErrorAt(file), 1)), "is byte 12,288 of array.npy, which is 10,000 bytes long"));
  file.in_memory = file.on_dev_shm = true;
  file.capacity_bytes = 64 * kMiB;
  CHECK(Of(BusErrorAt(file), 1).cause == "sigbus-file");
  CHECK(IdsOf(BusErrorAt(file)) == Ids{"sigbus-file"});
}

TEST_CASE("post-mortem: a bus error in shared memory without room") {
  FaultFile file = kInside;
  file.in_memory = file.on_dev_shm = true;
  file.capacity_bytes = 64 * kMiB;
  CHECK(Of(BusErrorAt(file), 1).cause == "shm-full");
  CHECK(Of(BusErrorAt(file), 1).text == "killed by SIGBUS: /dev/shm (64.0 MiB) is full");
  CHECK(IdsOf(BusErrorAt(file)) == Ids{"shm-full"});
  Story full = BusErrorAt(file);
  CHECK(absl::StartsWith(First(full).advice[0], "Make it larger: docker run --shm-size="));
  CHECK(First(full).advice[1] == "Keep less in it.");
  const LimitSample shm = {LimitKind::kShm, "/dev/shm", 64 * kMiB, 60 * kMiB};
  Append({.t = absl::Seconds(9), .limits = {shm, Cgroup(60 * kMiB)}}, &full.run.model);
  CHECK(First(full).advice[0] == "Memory has no room for a larger one: keep less in it.");
  file.on_dev_shm = false;
  CHECK(Of(BusErrorAt(file), 1).cause == "sigbus-file");
  CHECK(absl::StrContains(Of(BusErrorAt(file), 1).text, "the tmpfs of array.npy (64.0 MiB) is full"));
  file.capacity_bytes.reset();  // a memfd: it has no bound to meet
  CHECK(Of(BusErrorAt(file), 1).cause.empty());
}

TEST_CASE("post-mortem: bus errors that say nothing of files") {
  Story story(3);
  story.Add({Delivered(1, SIGBUS, kBusAddressError), Exited(1, SIGBUS), Delivered(2, SIGBUS, BUS_MCEERR_AR),
             Exited(2, SIGBUS), Sent(3, SIGBUS, 0, 4242), Delivered(3, SIGBUS, 0), Exited(3, SIGBUS)});
  CHECK(Of(story, 1).text == "killed by SIGBUS");
  CHECK(Of(story, 2).text == "killed by SIGBUS: a hardware memory error");
  CHECK(Of(story, 3).text == "killed by SIGBUS from sh (pid 4242)");
  CHECK(IdsOf(story).empty());
}

TEST_CASE("post-mortem: a handler raises the signal again") {
  FaultFile file = kInside;
  file.offset = 1 << 20;
  Story story(2);
  story.Add({BusError(1, file), Sent(1, SIGBUS, kThreadKill, 1001), Delivered(1, SIGBUS, kThreadKill),
             Exited(1, SIGBUS),
             // This one survived its own, and was killed with the same signal by somebody else.
             BusError(2, file), Sent(2, SIGBUS, 0, 4242), Delivered(2, SIGBUS, 0), Exited(2, SIGBUS)});
  CHECK(Of(story, 1).cause == "sigbus-file");
  CHECK(Of(story, 2).cause.empty());
  CHECK(Of(story, 2).text == "killed by SIGBUS from sh (pid 4242)");
}

TEST_CASE("post-mortem: who sent a signal that a handler raised again") {
  const auto died = [](std::vector<Event> events, int signal = SIGTERM) {
    Story story(2);
    events.push_back(Exited(1, signal));
    story.Add(std::move(events));
    return Of(story, 1).text;
  };
  const Event by_perl = Sent(1, SIGTERM, SI_USER, 4242, "perl"), by_parent = Sent(1, SIGTERM, SI_USER, 1000),
              again = Sent(1, SIGTERM, kThreadKill, 1001);
  CHECK(died({by_perl, again}) == "killed by SIGTERM from perl (pid 4242)");
  CHECK(died({by_perl, again, again}) == "killed by SIGTERM from perl (pid 4242)");
  CHECK(died({by_parent, again}) == "killed by SIGTERM from its parent");
  CHECK(died({by_perl, again, by_parent}) == "killed by SIGTERM from its parent");
  CHECK(died({Sent(1, SIGTERM, SI_USER, 1002), again}) == "killed by SIGTERM from worker 1002");
  CHECK(died({Sent(1, SIGINT, kKernel, 77), Sent(1, SIGINT, SI_USER, 1001)}, SIGINT) == "killed by SIGINT");  // Ctrl-C
  CHECK(died({Sent(1, SIGABRT, SI_USER, 1000), Delivered(1, SIGABRT, SI_USER), Sent(1, SIGABRT, kThreadKill, 1001),
              Delivered(1, SIGABRT, kThreadKill)},
             SIGABRT) == "killed by SIGABRT from its parent");
  // Near misses: another signal; it had survived that one, and now raises its own fault again.
  CHECK(died({Sent(1, SIGINT, SI_USER, 4242), again}) == "killed by SIGTERM from itself");
  Event fault = Delivered(1, SIGSEGV, 1);
  fault.As<SignalDelivered>()->module = "libfast.so";
  CHECK(died({Sent(1, SIGSEGV, SI_USER, 4242), Delivered(1, SIGSEGV, SI_USER), fault,
              Sent(1, SIGSEGV, kThreadKill, 1001), Delivered(1, SIGSEGV, kThreadKill)},
             SIGSEGV) == "killed by SIGSEGV in libfast.so");
  Story later(1);
  later.Add({by_perl});
  later.run.model.t += absl::Minutes(11);
  later.Add({again, Exited(1, SIGTERM)});
  CHECK(Of(later, 1).text == "killed by SIGTERM from itself");
}

TEST_CASE("post-mortem: a fault that no one is told to have sent is not the signal that came before") {
  Event crash = Delivered(1, SIGSEGV, 1);
  crash.As<SignalDelivered>()->module = "libfast.so";
  Story story(1);
  story.Add({Sent(1, SIGSEGV, 0, 4242), Delivered(1, SIGSEGV, 0), crash, Exited(1, SIGSEGV)});
  CHECK(Of(story, 1).text == "killed by SIGSEGV in libfast.so");
  CHECK_FALSE(Of(story, 1).sent);
}

TEST_CASE("post-mortem: a crash with its native code and its line of Python") {
  Event crash = Delivered(1, SIGSEGV, 1);
  auto* where = crash.As<SignalDelivered>();
  where->address = 0x10;
  where->module = "libfast.so";
  where->symbol = "decode";
  where->frame = Frame{"/data/load\x1b.py", "Load.item", 12};
  Event abort = Delivered(2, SIGABRT, kThreadKill);
  abort.As<SignalDelivered>()->module = "libc.so.6";
  Story story(2);
  story.Add({crash, Exited(1, SIGSEGV), Sent(2, SIGABRT, kThreadKill, 1002), abort, Exited(2, SIGABRT)});
  CHECK(Of(story, 1).text == "killed by SIGSEGV in decode (libfast.so) at /data/load\\x1b.py:12 in Load.item");
  CHECK(Of(story, 1).evidence == std::vector<std::string>{"it touched address 0x10", "native code: decode (libfast.so)",
                                                          "Python: /data/load\\x1b.py:12 in Load.item"});
  CHECK(Of(story, 2).text == "killed by SIGABRT in libc.so.6");
  CHECK(IdsOf(story).empty());
}

TEST_CASE("post-mortem: CPU time is used up only if the kernel says so") {
  const auto died = [](std::vector<Event> events, int signal) {
    Story story(1);
    events.push_back(Exited(1, signal));
    story.Add(std::move(events));
    return Of(story, 1).text;
  };
  const std::string by_limit = ": it used up its CPU time (RLIMIT_CPU, ulimit -t)";
  const Event soft = Sent(1, SIGXCPU, SI_KERNEL, 1001), hard = Sent(1, SIGKILL, SI_KERNEL, 1001);
  CHECK(died({soft}, SIGXCPU) == "killed by SIGXCPU" + by_limit);
  CHECK(died({soft, hard}, SIGKILL) == "killed by SIGKILL" + by_limit);
  // Near misses: kill(1) sent it; the limit was reached, but somebody else killed it; the kernel killed it for
  // another reason.
  CHECK_FALSE(absl::StrContains(died({Sent(1, SIGXCPU, 0, 77)}, SIGXCPU), "CPU time"));
  CHECK_FALSE(absl::StrContains(died({soft, Sent(1, SIGKILL, 0, 77)}, SIGKILL), "CPU time"));
  CHECK_FALSE(absl::StrContains(died({soft, Sent(1, SIGKILL, SI_KERNEL, 77)}, SIGKILL), "CPU time"));
  CHECK_FALSE(absl::StrContains(died({hard}, SIGKILL), "CPU time"));
  // The soft limit equals the hard one, or SIGXCPU is ignored.
  Event used_up = hard;
  used_up.As<SignalSent>()->cpu_limit_seconds = 2;
  CHECK(died({used_up}, SIGKILL) == "killed by SIGKILL" + by_limit);
  Story story(1);
  story.Add({used_up, Exited(1, SIGKILL)});
  CHECK(Of(story, 1).evidence ==
        std::vector<std::string>{"at 2.0 s the kernel sent SIGKILL: the hard limit of 2 s was reached"});
}

TEST_CASE("post-mortem: the limit of a file's size, unless another process sent the signal") {
  Story story(2);
  story.Add({Sent(1, SIGXFSZ, kKernel, 1001), Exited(1, SIGXFSZ), Sent(2, SIGXFSZ, SI_USER, 4242), Exited(2, SIGXFSZ)});
  CHECK(Of(story, 1).text ==
        "killed by SIGXFSZ: a file that it wrote reached the limit of its size (RLIMIT_FSIZE, ulimit -f)");
  CHECK(Of(story, 1).evidence == std::vector<std::string>{"SIGXFSZ came from the kernel"});
  CHECK(Of(story, 2).text == "killed by SIGXFSZ from sh (pid 4242)");
}

TEST_CASE("post-mortem: every cgroup whose limit killed is named, each once") {
  Story story(3);
  story.Add({}, {{0, 0, 30'000}, {0, 0, 30'000}, {0, 0, 30'000}, {0, 0, 30'000}});
  LimitSample other = Cgroup(512 * kMiB);
  other.name = "/other";
  story.Add({Sent(1, SIGKILL, kKernel, 1001), Victim(1, Cgroup(256 * kMiB)), Sent(2, SIGKILL, kKernel, 1002),
             Victim(2, other), Sent(3, SIGKILL, kKernel, 1003), Victim(3, Cgroup(256 * kMiB))},
            {{0, 0, 30'000}, {40 * kPagesOfMiB, 0, 100}, {40 * kPagesOfMiB, 0, 100}, {40 * kPagesOfMiB, 0, 100}});
  story.Add({Exited(1, SIGKILL), Exited(2, SIGKILL), Exited(3, SIGKILL)});
  CHECK(First(story).summary ==
        "The kernel's OOM killer killed worker 1001 and 2 others: cgroup /job hit its limit of 256.0 MiB, cgroup "
        "/other hit its limit of 512.0 MiB.");
}

TEST_CASE("post-mortem: many deaths are one finding") {
  FaultFile file = kInside;
  file.in_memory = file.on_dev_shm = true;
  Story story(9);
  std::vector<Event> events;
  for (int index = 1; index <= 9; ++index) {
    events.push_back(BusError(index, file));
    events.push_back(Exited(index, SIGBUS));
  }
  story.Add(events);
  REQUIRE(IdsOf(story) == Ids{"shm-full"});
  CHECK(First(story).pids.size() == 9);
  CHECK(absl::StrContains(First(story).summary, "worker 1001 and 8 others"));
  const std::vector<std::string> evidence = First(story).evidence;
  CHECK(std::count(evidence.begin(), evidence.end(), "and 6 more") == 1);
}

}  // namespace cowprof
