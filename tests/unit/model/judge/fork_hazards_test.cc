// fork-hazard: what it says of a parent's threads, and parents of which it says nothing.
#include "model/judge/fork_hazards.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_join.h"
#include "builders.h"
#include "judged.h"
#include "sink/report/fork_hazard_format.h"
#include "timeline/json_fork_hazards.h"

namespace cowprof {
namespace {

HazardThread Python(pid_t tid, const std::string& name, std::vector<Frame> stack = {{"/srv/train.py", "loop", 25}}) {
  return {.tid = tid, .ident = 0x7f0000000000u + tid, .name = name, .python = true, .stack = std::move(stack)};
}
HazardThread Native(pid_t tid, const std::string& module) {
  return {.tid = tid, .ident = 0x7f0000000000u + tid, .name = "python3", .module = module};
}
HazardThread Feeder(pid_t tid) {
  return Python(tid, "QueueFeederThread", {{"/usr/lib/python3.11/multiprocessing/queues.py", "Queue._feed", 231}});
}
HazardThread PinMemory(pid_t tid) {
  return Python(tid, "Thread-1 (_pin_memory_loop)",
                {{"/usr/lib/python3.11/queue.py", "Queue.get", 171},
                 {"/usr/lib/python3/dist-packages/torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop", 49}});
}
HeldLock Held(pid_t tid, HeldLockKind kind = HeldLockKind::kLock) {
  return {.kind = kind, .tid = tid, .module = "", .object = 0x7f01, .where = {"/srv/train.py", "update_stats", 25}};
}
ForkHazardSeen Seen(std::vector<HazardThread> threads, std::vector<HeldLock> locks = {}) {
  return {.child = 1,
          .delay = absl::Milliseconds(2),
          .forker = 1000,
          .threads = std::move(threads),
          .locks = std::move(locks),
          .python_read = true};
}

Event ForkedChild(int index) {
  Event event = Started(index, 0);
  event.As<ProcessStarted>()->space = 0;
  return event;
}

// The target forks once, and is looked at.
Run Forking(const ForkHazardSeen& seen, bool execs = false) {
  Run run;
  Sample sample = {.t = absl::Seconds(1),
                   .events = {Started(0, -1), ForkedChild(1), {.t = absl::Seconds(1), .index = 0, .what = seen}},
                   .processes = {RowWithCopies(0, 0), RowWithCopies(1, 0)}};
  if (execs) sample.events.push_back({.t = absl::Seconds(1), .index = 1, .what = ProcessExeced{}});
  Append(sample, &run);
  return run;
}
std::vector<HazardKind> KindsOf(const ForkHazardSeen& seen) {
  std::vector<HazardKind> kinds;
  for (const Hazard& hazard : HazardsOf(seen)) kinds.push_back(hazard.kind);
  return kinds;
}
Diagnosis HazardIn(const Run& run) {
  for (const Diagnosis& diagnosis : DiagnosesOf(run)) {
    if (diagnosis.id == "fork-hazard") return diagnosis;
  }
  return {};
}

TEST_CASE("a thread of multiprocessing's own takes no lock of the program, wherever Python is installed",
          "[fork_hazard]") {
  for (const std::string library : {"/usr/lib/python3.11/", "/usr/lib64/python3.9/", "/opt/conda/lib/python3.13t/"}) {
    const Frame threading = {library + "threading.py", "Thread._bootstrap", 930};
    const Frame feed = {library + "multiprocessing/queues.py", "Queue._feed", 231};
    CHECK(RunsOnlyHelperCode({feed, threading}));
    CHECK(RunsOnlyHelperCode({{library + "socket.py", "accept", 292},
                              {library + "multiprocessing/resource_sharer.py", "_ResourceSharer._serve", 138},
                              threading}));
    CHECK_FALSE(RunsOnlyHelperCode({{"/srv/train.py", "Item.__getstate__", 7}, feed, threading}));  // pickles an item
    CHECK_FALSE(RunsOnlyHelperCode({threading}));
  }
  CHECK(RunsOnlyHelperCode({{"/venv/lib/python3.11/site-packages/multiprocess/queues.py", "Queue._feed", 231}}));
  CHECK_FALSE(RunsOnlyHelperCode({{"/srv/lib/python-jobs/multiprocessing/queues.py", "_feed", 231}}));
  CHECK_FALSE(RunsOnlyHelperCode({}));
}

TEST_CASE("fork-hazard names the thread that held a lock, and when that was seen", "[fork_hazard]") {
  const Run run = Forking(Seen({Python(1001, "stats-thread")}, {Held(1001)}));
  REQUIRE(IdsOf(run) == Ids{"fork-hazard"});
  const Diagnosis found = HazardIn(run);
  CHECK(found.summary ==
        "The parent 1000 forked a process; 2 ms after a fork it had a threading.Lock held by its thread stats-thread "
        "(train.py:25 in update_stats): if a lock is held at a fork, a child that takes it waits for ever.");
  CHECK(found.pids == std::vector<pid_t>{1000});
  CHECK(absl::StrContains(TextOf(found), "os.register_at_fork"));
  CHECK(absl::StrContains(found.advice.back(), "spawn or forkserver"));
  // What happened stays first, and the report has one line of it.
  CHECK(HeadlineOf(run) == "Nothing to do: the workers share what they should. " + found.summary);
  CHECK(Judge(run).headline.diagnosis == "fork-hazard");
  CHECK(absl::StrContains(TextOf(found), " copied by all workers"));
  CHECK_FALSE(absl::StrContains(ReportTextOf(run, true), "os.register_at_fork"));
}

TEST_CASE("fork-hazard: why a parent ended is not in what its forks may do to children", "[fork_hazard]") {
  const auto ended = [](int index) {
    Run run = Forking(Seen({Python(1001, "stats-thread")}, {Held(1001)}));
    for (ProcessModel& process : run.model.processes) process.python = "3.11.2";
    Append({.t = absl::Seconds(2), .events = {Exited(index, 1 << 8, absl::Seconds(2))}}, &run);
    return Judge(run).headline;
  };
  CHECK(ended(0).sentence == "The parent 1000 ended with exit 1.");
  CHECK(ended(0).diagnosis == "unknown");
  CHECK(absl::StartsWith(ended(1).sentence, "1 of 1 worker ended badly: "));
  CHECK(absl::EndsWith(ended(1).sentence, "a child that takes it waits for ever."));
}

TEST_CASE("fork-hazard: a thread whose file is not known is named without a place", "[fork_hazard]") {
  const ForkHazardSeen seen = Seen({Python(1001, "stats-thread", {{"", "loop", 0}})});
  CHECK(HazardsOf(seen)[0].what == "1 other Python thread: stats-thread");
  CHECK(ThreadLines(seen)[0] == "Python thread stats-thread (1001)");
}

TEST_CASE("fork-hazard: an OpenMP team, with the cure of what is loaded", "[fork_hazard]") {
  ForkHazardSeen seen = Seen({Native(1001, "libgomp.so.1"), Native(1002, "libgomp.so.1")});
  const Diagnosis found = HazardIn(Forking(seen));
  CHECK(absl::StrContains(found.summary, "an OpenMP team of 2 threads beside the one that leads it (libgomp.so.1)"));
  CHECK(absl::StrContains(found.advice[0], "OMP_NUM_THREADS=1"));
  seen.libraries = {"libtorch_cpu.so", "libgomp.so.1"};
  CHECK(absl::StrContains(HazardIn(Forking(seen)).advice[0], "torch.set_num_threads(1)"));
  CHECK(PoolsOf(seen) == std::vector<std::string>{"openmp"});
}

TEST_CASE("fork-hazard: torch's DataLoader cures its workers itself", "[fork_hazard]") {
  ForkHazardSeen seen = Seen({Native(1001, "libgomp.so.1")});
  seen.cuda = true;  // of the trainer's own model
  Run run = Forking(seen);
  Append({.t = absl::Seconds(2),
          .events = {{.t = absl::Seconds(2), .index = 1, .what = DutyFound{.duty = Duty::kLoader}}},
          .processes = {RowWithCopies(0, 0), RowWithCopies(1, 0)}},
         &run);
  CHECK(IdsOf(run) == Ids{"clean"});
  // What a worker raises, such as "Cannot re-initialize CUDA in forked subprocess", ends the trainer.
  Run failed = run;
  failed.model.processes[0].python = "3.11.2";
  Append({.t = absl::Seconds(3), .events = {Exited(0, 1 << 8, absl::Seconds(3))}}, &failed);
  CHECK(IdsOf(failed) == Ids{"fork-hazard"});
  CHECK(absl::StrContains(HazardIn(failed).summary, "it had CUDA open: CUDA can't be used in a forked child."));
  CHECK(absl::EndsWith(HeadlineOf(failed), " 1000 ended with exit 1."));
  Append({.t = absl::Seconds(3), .events = {ForkedChild(2)}, .processes = {RowWithCopies(0, 0), RowWithCopies(2, 0)}},
         &run);
  CHECK(IdsOf(run) == Ids{"fork-hazard"});  // another child, which is none of its workers
}

TEST_CASE("fork-hazard: an import, CUDA, OpenCV's pool, threads that merely exist", "[fork_hazard]") {
  ForkHazardSeen seen = Seen({Python(1001, "lazy")}, {Held(1001, HeldLockKind::kImport)});
  seen.locks[0].module = "slowmod";
  CHECK(KindsOf(seen) == std::vector<HazardKind>{HazardKind::kImport, HazardKind::kThreads});
  CHECK(absl::StrContains(HazardIn(Forking(seen)).summary, "an import of slowmod in progress in its thread lazy"));
  seen = Seen({Native(1001, "libcuda.so.1")});
  CHECK(KindsOf(seen).empty());
  seen.cuda = true;
  CHECK(KindsOf(seen) == std::vector<HazardKind>{HazardKind::kCuda});
  CHECK(KindsOf(Seen({Native(1001, "libopencv_core.so.406")})) == std::vector<HazardKind>{HazardKind::kOpenCv});
  CHECK(KindsOf(Seen({Native(1001, "cv2.abi3.so")})) == std::vector<HazardKind>{HazardKind::kOpenCv});
  CHECK(
      absl::StrContains(HazardIn(Forking(Seen({Native(1001, "_polars_runtime.abi3.so")}))).summary,
                        "1 thread of polars: as polars itself warns, a forked child that uses it may wait for ever."));
  CHECK(absl::StrContains(
      HazardIn(Forking(Seen({Native(1001, "cygrpc.cpython-311-x86_64-linux-gnu.so")}))).summary,
      "1 thread of gRPC: by its documentation gRPC can be forked only with GRPC_ENABLE_FORK_SUPPORT=true and "
      "GRPC_POLL_STRATEGY=poll; without them a forked child that uses it may wait for ever."));
  CHECK(absl::StrContains(HazardIn(Forking(Seen({Native(1001, "lance.abi3.so")}))).summary,
                          "1 thread of Lance: Lance does not support fork, by its own documentation; a forked child"));
  CHECK(HazardsOf(Seen({Native(1001, "lance.abi3.so")})).at(0).what == "1 thread of Lance");
  CHECK(HazardsOf(Seen({Native(1001, "_lancedb.abi3.so")})).at(0).what == "1 thread of Lance");
  CHECK(KindsOf(Seen({Native(1001, "libjax_common.so")})) == std::vector<HazardKind>{HazardKind::kNative});
  const Diagnosis mild = HazardIn(Forking(Seen({Python(1001, "metrics")})));
  CHECK(absl::StrContains(mild.summary, "1 other Python thread: metrics (train.py:25 in loop)"));
  CHECK(mild.confidence < 0.5);
}

TEST_CASE("fork-hazard: a thread with an event loop takes the clients that hand it work along", "[fork_hazard]") {
  const Frame forever = {"/usr/lib/python3.11/asyncio/base_events.py", "BaseEventLoop.run_forever", 607};
  const Diagnosis found = HazardIn(Forking(Seen({Python(1001, "fsspecIO", {forever})})));
  CHECK(absl::EndsWith(
      found.summary,
      ": a child that waits for the work of such a thread, or for a lock that it holds at a fork, may wait for ever."));
  CHECK(found.advice.at(1) ==
        "In the child, make anew the clients and file systems whose event loop such a thread runs.");
  // Neither a thread without a loop nor one of the program's own that is called so.
  CHECK_FALSE(absl::StrContains(TextOf(HazardIn(Forking(Seen({Python(1001, "metrics")})))), "anew the clients"));
  const Frame own = {"/srv/loop.py", "run_forever", 7};
  CHECK_FALSE(absl::StrContains(TextOf(HazardIn(Forking(Seen({Python(1001, "own", {own})})))), "anew the clients"));
}

TEST_CASE("fork-hazard: a server's workers can't be spawned", "[fork_hazard]") {
  Run run = Forking(Seen({Python(1001, "stats-thread")}, {Held(1001)}));
  for (ProcessModel& process : run.model.processes) process.framework = Framework::kGunicorn;
  CHECK(absl::StrContains(HazardIn(run).advice.back(), "gunicorn's post_fork"));
  CHECK_FALSE(absl::StrContains(TextOf(HazardIn(run)), "spawn"));
  // A worker that has a Pool of its own.
  run.model.processes[1].framework = Framework::kPool;
  CHECK(absl::StrContains(HazardIn(run).advice.back(), "spawn or forkserver"));
}

TEST_CASE("fork-hazard: a forkserver has the threads of what it imports", "[fork_hazard]") {
  const Frame main = {"/usr/lib/python3.14/multiprocessing/forkserver.py", "main", 258};
  CHECK(IsForkserver({{"/usr/lib/python3.14/selectors.py", "EpollSelector.select", 452}, main}));
  CHECK_FALSE(IsForkserver({{main.file, "_serve_one", 350}, main}));  // a worker that forks
  CHECK_FALSE(IsForkserver({{"/srv/forkserver.py", "main", 7}}));

  Event fork = Started(2, 1);
  fork.As<ProcessStarted>()->space = 1;
  Run run;
  Append({.t = absl::Seconds(1),
          .events = {Started(0, -1),
                     ForkedChild(1),
                     {.index = 1, .what = ProcessExeced{}},
                     {.index = 1, .what = DutyFound{.duty = Duty::kForkserver}},
                     fork,
                     {.t = absl::Seconds(1), .index = 1, .what = Seen({Python(1005, "stats-thread")})}},
          .processes = {RowWithCopies(0, 0), RowWithCopies(1, 0), RowWithCopies(2, 0)}},
         &run);
  CHECK(HazardIn(run).pids == std::vector<pid_t>{1001});
  CHECK(HazardIn(run).advice == std::vector<std::string>{InsteadOfPreloading()});
}

TEST_CASE("no fork-hazard by what every program has", "[fork_hazard]") {
  CHECK(IdsOf(Forking(Seen({}))) == Ids{"clean"});
  CHECK(IdsOf(Forking(Seen({Feeder(1001)}))) == Ids{"clean"});
  CHECK(IdsOf(Forking(Seen({PinMemory(1001), Feeder(1002)}, {Held(1001)}))) == Ids{"clean"});
  CHECK(IdsOf(Forking(Seen({Native(1001, "libopenblasp-r0.3.21.so"), Native(1002, "")}))) == Ids{"clean"});
  CHECK(IdsOf(Forking(Seen({Native(1001, "libomp.so.5"), Native(1002, "libtbb.so.12")}))) == Ids{"clean"});
  CHECK(PoolsOf(Seen({Native(1, "libopenblas.so.0"), Native(2, "libomp.so.5"), Native(3, "libtbb.so.12")})) ==
        std::vector<std::string>{"openblas", "openmp", "tbb"});
  // A lock of the thread that forked is its child's, too.
  CHECK(IdsOf(Forking(Seen({Feeder(1001)}, {Held(1000)}))) == Ids{"clean"});
}

TEST_CASE("no fork-hazard where nothing was forked but commands", "[fork_hazard]") {
  const ForkHazardSeen seen = Seen({Python(1001, "stats-thread")}, {Held(1001)});
  CHECK(HazardIn(Forking(seen, /*execs=*/true)).id.empty());
  Run run;
  Append({.t = absl::Seconds(1),
          .events = {Started(0, -1), {.t = absl::Seconds(1), .index = 0, .what = seen}},
          .processes = {RowWithCopies(0, 0)}},
         &run);
  CHECK(IdsOf(run) == Ids{"clean"});
  CHECK(ReportJsonOf(run)["fork_hazards"].size() == 1);
}

TEST_CASE("fork-hazard keeps the look that found a lock, and never hides what happened", "[fork_hazard]") {
  Run run = Forking(Seen({Python(1001, "stats-thread")}, {Held(1001)}));
  ForkHazardSeen later = Seen({Python(1001, "stats-thread"), Python(1002, "other")});
  later.child = 2;
  Append({.t = absl::Seconds(2),
          .events = {ForkedChild(2), {.t = absl::Seconds(2), .index = 0, .what = later}, Exited(1, 9)},
          .processes = {RowWithCopies(0, 0), RowWithCopies(1, 0), RowWithCopies(2, 0)}},
         &run);
  CHECK(absl::StrContains(HazardIn(run).summary, "forked 2 processes; 2 ms after a fork it had a threading.Lock"));
  CHECK(IdsOf(run) == Ids{"fork-hazard"});  // a worker ended badly: nothing is clean
  CHECK(absl::StartsWith(HeadlineOf(run), "1 of 2 workers ended badly"));
  CHECK(Judge(run).headline.diagnosis == "fork-hazard");
  CHECK(run.model.fork_hazards.at(0).last == later);
}

TEST_CASE("before a fork, in words", "[fork_hazard]") {
  CHECK(BeforeForkText(ForkHazardSeen{}, "") == "  a fork now: there is no other thread that would stay behind\n");
  ForkHazardSeen seen = Seen({Feeder(1001), Native(1002, "libopenblas.so.0")});
  CHECK(
      BeforeForkText(seen, "") ==
      "  a fork now: 2 other threads would stay behind\n"
      "      Python thread QueueFeederThread (1001) at queues.py:231 in Queue._feed; multiprocessing or torch started "
      "it for itself\n"
      "      1 native thread of libopenblas.so.0, which starts them again in a child\n"
      "      pools: openblas\n"
      "      nothing is known of them that would hang a child\n");
  const std::string unread = BeforeForkText(Seen({Native(1002, "python3.14t")}), "", /*unread=*/true);
  CHECK(absl::EndsWith(unread,
                       "      unknown: which of them are Python's, and whether they hold its locks: this build's can't "
                       "be read\n"));
  CHECK_FALSE(absl::StrContains(unread, "nothing is known"));
  seen.threads.push_back(Native(1003, "libgomp.so.1"));
  const std::string text = BeforeForkText(seen, "spawn and forkserver would send about 1.2 GiB to each worker");
  CHECK(absl::StrContains(text, "      may hang: an OpenMP team of 1 thread beside the one that leads it"));
  CHECK(absl::StrContains(text, "take no threads along: spawn and forkserver would send about 1.2 GiB"));
}

TEST_CASE("a look survives its file, and a file its bounds", "[fork_hazard]") {
  const ForkHazardSeen seen = Seen({Python(1001, "stats-thread"), Native(1002, "libgomp.so.1")}, {Held(1001)});
  Json json;
  EncodeForkHazard(seen, &json);
  CHECK(DecodeForkHazard(json) == seen);
  for (int i = 0; i < 1000; ++i) {
    json["threads"].push_back(json["threads"][0]);
    json["threads"][0]["stack"].push_back(json["threads"][0]["stack"][0]);
    json["locks"].push_back(json["locks"][0]);
    json["libraries"].push_back("libgomp.so.1");
  }
  const ForkHazardSeen bounded = DecodeForkHazard(json);
  CHECK(bounded.threads.size() == kMostHazardThreads);
  CHECK(bounded.threads[0].stack.size() == kMostHazardFrames);
  CHECK(bounded.locks.size() == kMostHeldLocks);
  CHECK(bounded.libraries.size() <= 32);
  const Json hostile = {{"threads", {1, nullptr, {{"tid", "x"}, {"stack", {7}}, {"ident", -1}}}},
                        {"locks", {{{"kind", "no such"}, {"where", 3}}, 5}},
                        {"libraries", "x"},
                        {"delay", "soon"},
                        {"child", 1e300}};
  const ForkHazardSeen read = DecodeForkHazard(hostile);
  CHECK(read.child == -1);
  CHECK(HazardsOf(read).empty());
}

}  // namespace
}  // namespace cowprof
