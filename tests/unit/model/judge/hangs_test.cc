// The two rules, one fact taken away at a time.
#include "model/judge/hangs.h"

#include <catch2/catch.hpp>
#include <utility>

#include "sink/report/hang_format.h"

namespace cowprof {
namespace {

ThreadWait Waiting(pid_t tid) {
  return {.tid = tid, .tid_inside = tid, .comm = "python", .cpu_ns = 5000, .switches = 3, .endless_futex = 0x1000};
}

WaitingThread ThreadOf(pid_t tid, AwaitedKind kind, OwnerIs owner = OwnerIs::kUnknown) {
  WaitingThread thread;
  thread.wait = Waiting(tid);
  thread.awaited.kind = kind;
  thread.awaited.owner = owner;
  return thread;
}

WaitingProcess ProcessOf(std::vector<WaitingThread> threads) {
  return {.id = {7, 1}, .parent = 6, .forked = true, .threads = std::move(threads)};
}

std::vector<ThreadWait> LookOf(const WaitingProcess& process) {
  std::vector<ThreadWait> look;
  for (const WaitingThread& thread : process.threads) look.push_back(thread.wait);
  return look;
}

std::vector<Hang> Judged(const WaitingProcess& process) { return JudgeWaits(LookOf(process), process); }

TEST_CASE("a lock whose owner stayed in the parent is a hang by the fork, with its holder") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kRLock, OwnerIs::kGone)});
  process.threads[0].awaited.holder = Holder{.tid = 5, .name = "stats", .stack = {}, .still_holds = true};
  const std::vector<Hang> hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].proof == HangProof::kNever);
  CHECK(hangs[0].kind == HangKind::kRLock);
  CHECK(hangs[0].by_fork);
  CHECK(hangs[0].what == "a threading.RLock that the parent's thread stats holds");
  CHECK_FALSE(hangs[0].fix.empty());
}

TEST_CASE("a read-write lock of native code keeps its writer, as a mutex keeps its owner") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kCMutex, OwnerIs::kGone)});
  process.threads[0].awaited.detail = kRwlock;
  const Hang hang = Judged(process).at(0);
  CHECK(hang.kind == HangKind::kCMutex);
  CHECK(hang.by_fork);
  CHECK(hang.what.starts_with("a read-write lock of native code whose owner, a thread of the parent at the fork, "));
}

TEST_CASE("a forkserver's workers can't be started before its threads") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kRLock, OwnerIs::kGone)});
  process.from_forkserver = true;
  const std::string fix =
      "start these threads in the worker, not in a module that the forkserver imports (set_forkserver_preload(), or "
      "the main module); or start workers by spawn";
  CHECK(Judged(process).at(0).fix == fix);
  process.threads[0] = ThreadOf(7, AwaitedKind::kOpenMp);
  process.threads[0].awaited.detail = "at::parallel_for";
  CHECK(Judged(process).at(0).fix == "call torch.set_num_threads(1) first in the worker, or " + fix);
  process.threads[0] = ThreadOf(7, AwaitedKind::kImportLock);
  CHECK(Judged(process).at(0).fix ==
        "import it before any thread is started, in a module that the forkserver imports (set_forkserver_preload(), or "
        "the main module)");
}

TEST_CASE("an import that a thread of the process itself may have in progress is not blamed on the fork") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kImportLock)});
  process.threads[0].awaited.detail = "ext";
  CHECK(Judged(process).at(0).by_fork);
  process.threads[0].awaited.may_be_here = true;
  const Hang hang = Judged(process).at(0);
  CHECK_FALSE(hang.by_fork);
  CHECK(hang.what == "the import of ext that no thread of this process will ever end; who began it is unknown");
  CHECK(hang.fix.empty());
}

TEST_CASE("an owner that may have ended in the process itself is missing, and not blamed on the fork") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kRLock, OwnerIs::kMissing)});
  process.threads[0].awaited.held_in_parent = true;  // by another owner
  std::vector<Hang> hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].proof == HangProof::kOwnerGone);  // by this a recording knows that it is proven
  CHECK_FALSE(hangs[0].by_fork);
  CHECK(hangs[0].fix.starts_with("if it stayed in the parent: start the workers before"));
  CHECK(hangs[0].what ==
        "a threading.RLock whose owner does not exist in this process: a thread that has ended, or one that stayed in "
        "the parent at the fork");
  // Beside a native thread that is elsewhere: it may have taken the lock when it called into Python.
  process.threads.push_back(ThreadOf(9, AwaitedKind::kUnknown));
  CHECK(Judged(process).size() == 1);  // it waits for threads of this process only
  process.threads[1].wait.endless_futex = 0;
  CHECK(Judged(process).empty());
  process.threads[0].awaited.kind = AwaitedKind::kCMutex;  // keeps its owner's number
  CHECK(Judged(process).size() == 1);
  process.threads[0].awaited.kind = AwaitedKind::kRLock;
  // Beside a thread of Python that is elsewhere.
  process.threads[1].stack = {{"a.py", "f", 3}};
  hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].proof == HangProof::kOwnerGone);
  CHECK_FALSE(hangs[0].by_fork);
  process.threads.pop_back();
  process.forked = false;
  hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].proof == HangProof::kNever);
  CHECK(hangs[0].fix.empty());
  CHECK(hangs[0].what == "a threading.RLock whose owner, a thread of this process, has ended");
}

TEST_CASE("a thread that moved between two looks hangs on nothing") {
  const WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kLock)});
  REQUIRE(Judged(process).size() == 1);
  for (const auto change : {+[](ThreadWait* t) { ++t->cpu_ns; }, +[](ThreadWait* t) { ++t->switches; },
                            +[](ThreadWait* t) { t->endless_futex += 8; }, +[](ThreadWait* t) { t->stack_pointer = 1; },
                            +[](ThreadWait* t) { t->tid = 8; }, +[](ThreadWait* t) { t->start_ns = 1; }}) {
    std::vector<ThreadWait> before = LookOf(process);
    change(&before[0]);
    CHECK(JudgeWaits(before, process).empty());
    CHECK_FALSE(CompareLooks(before, LookOf(process)).any);
  }
  CHECK(JudgeWaits({}, process).empty());
}

TEST_CASE("a thread that is elsewhere may release a lock, but not one whose owner is gone") {
  WaitingThread idle = ThreadOf(9, AwaitedKind::kUnknown);
  idle.wait.endless_futex = 0;
  CHECK(Judged(ProcessOf({ThreadOf(7, AwaitedKind::kLock), idle})).empty());
  const std::vector<Hang> hangs = Judged(ProcessOf({ThreadOf(7, AwaitedKind::kRLock, OwnerIs::kGone), idle}));
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].proof == HangProof::kOwnerGone);
}

TEST_CASE("a thread that appeared or ended between the looks spoils the first rule") {
  const WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kLock)});
  CHECK(JudgeWaits({Waiting(7), Waiting(8)}, process).empty());
  CHECK(
      JudgeWaits({Waiting(7)}, ProcessOf({ThreadOf(7, AwaitedKind::kLock), ThreadOf(8, AwaitedKind::kLock)})).empty());
}

TEST_CASE("a stopped process is not a hang") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kLock)});
  process.threads[0].wait.stopped = true;
  CHECK(Judged(process).empty());
}

TEST_CASE("a handler of a signal may release a lock, but not one whose owner is gone") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kLock)});
  std::vector<Hang> suspects;
  CHECK(JudgeWaits(LookOf(process), process, &suspects).size() == 1);
  CHECK(suspects.empty());
  process.may_be_told = true;
  CHECK(JudgeWaits(LookOf(process), process, &suspects).empty());
  REQUIRE(suspects.size() == 1);
  CHECK_FALSE(suspects[0].by_fork);
  suspects[0].stack = {{"/srv/x.py", "f", 31}};
  suspects[0].waited = absl::Minutes(23);
  CHECK(SuspectsText(suspects) ==
        "Not proven, but suspicious: process 7 waits at x.py:31 in f for a threading.Lock, for at most 23 min 00 s. "
        "Nothing but a handler of a signal could release it: all threads of the process wait, without timeout.\n");
  suspects.clear();
  process.threads[0].awaited.owner = OwnerIs::kGone;
  CHECK(JudgeWaits(LookOf(process), process, &suspects).size() == 1);
  CHECK(suspects.empty());
  process.threads[0] = ThreadOf(7, AwaitedKind::kNotification);  // the usual way to wait for SIGTERM
  process.threads[0].awaited.in_parent = true;
  CHECK(JudgeWaits(LookOf(process), process, &suspects).empty());
  CHECK(suspects.empty());
}

TEST_CASE("locks of living threads are a deadlock, and not by the fork") {
  const std::vector<Hang> hangs = Judged(ProcessOf({ThreadOf(7, AwaitedKind::kRLock, OwnerIs::kAnotherThread),
                                                    ThreadOf(8, AwaitedKind::kRLock, OwnerIs::kAnotherThread)}));
  REQUIRE(hangs.size() == 2);
  CHECK(hangs[0].kind == HangKind::kDeadlock);
  CHECK_FALSE(hangs[0].by_fork);
}

TEST_CASE("a lock whose owner is unknown is not blamed on the fork") {
  const std::vector<Hang> hangs = Judged(ProcessOf({ThreadOf(7, AwaitedKind::kLock)}));
  REQUIRE(hangs.size() == 1);
  CHECK_FALSE(hangs[0].by_fork);
  CHECK(hangs[0].fix.empty());
}

TEST_CASE("OpenMP's team is missing only where one thread of a forked process waits for it") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kOpenMp)});
  CHECK(Judged(process).size() == 1);
  process.may_be_told = true;  // torch 2 catches SIGHUP; no handler brings back a team
  CHECK(Judged(process).size() == 1);
  process.forked = false;
  CHECK(Judged(process).empty());
  CHECK(Judged(ProcessOf({ThreadOf(7, AwaitedKind::kOpenMp), ThreadOf(8, AwaitedKind::kOpenMp)})).empty());
  // An idle member of a team of two, beside a main thread that waits for something else.
  CHECK(Judged(ProcessOf({ThreadOf(7, AwaitedKind::kUnknown), ThreadOf(8, AwaitedKind::kOpenMp)})).empty());
}

TEST_CASE("a lock that is locked at the same address in the parent may be another one") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kLock)});
  process.threads[0].awaited.in_parent = process.threads[0].awaited.held_in_parent = true;
  const std::vector<Hang> hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK_FALSE(hangs[0].by_fork);
  CHECK(hangs[0].what ==
        "a threading.Lock that no thread of this process will ever release; one at the same address is locked in the "
        "parent, too: perhaps the same one, held at the fork");
  CHECK(hangs[0].fix.starts_with("if it is the parent's: start the workers before"));
}

TEST_CASE("a wait in a library whose threads stayed in the parent is a hang of the only thread") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kLibrary)});
  process.threads[0].awaited.detail = "polars.abi3.so";
  process.threads[0].awaited.left_behind = 16;
  const std::vector<Hang> hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].kind == HangKind::kUnknown);
  CHECK(hangs[0].proof == HangProof::kNever);
  CHECK(hangs[0].by_fork);
  CHECK(
      hangs[0].what ==
      "something in polars.abi3.so that only another thread of this process could do, and there is none: 16 threads of "
      "that library stayed in the parent at the fork");
  CHECK(hangs[0].fix ==
        "start the workers before the parent first uses polars.abi3.so, or start workers by spawn or forkserver");
  process.may_be_told = true;
  CHECK(Judged(process).empty());
  process.may_be_told = false;
  process.forked = false;
  CHECK(Judged(process).empty());
  process.forked = true;
  process.threads.push_back(ThreadOf(8, AwaitedKind::kUnknown));  // which may be the library's own
  CHECK(Judged(process).empty());
}

TEST_CASE("a notification is missed only if its object may be the parent's") {
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kNotification)});
  CHECK(Judged(process).empty());  // such as a server that waits until it is killed
  process.threads[0].awaited.in_parent = true;
  const std::vector<Hang> hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK_FALSE(hangs[0].by_fork);  // both may have made one after the fork
  CHECK(hangs[0].what.find("the object may be the parent's") != std::string::npos);
  process.may_be_told = true;
  CHECK(Judged(process).empty());
}

TEST_CASE(
    "a result of a Future that no thread of the process sets is a hang, by the fork if one stayed in the parent") {
  const std::string lib = "/usr/lib/python3.11/";
  WaitingProcess process = ProcessOf({ThreadOf(7, AwaitedKind::kNotification)});
  process.threads[0].stack = {{lib + "threading.py", "Condition.wait", 320},
                              {lib + "concurrent/futures/_base.py", "Future.result", 451},
                              {"/srv/train.py", "load", 9}};
  std::vector<Hang> hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].what == "the result of a Future that no thread of this process will ever set");
  CHECK_FALSE(hangs[0].by_fork);
  CHECK(hangs[0].fix.empty());
  process.threads[0].awaited.in_parent = true;
  CHECK(Judged(process).at(0).what.ends_with("; the object may be the parent's, whose threads don't exist here"));
  CHECK(Judged(process).at(0).fix.starts_with("if it is the parent's: "));
  process.threads[0].awaited.in_parent = false;
  process.set_futures = {"fsspecIO"};
  hangs = Judged(process);
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].by_fork);
  CHECK(hangs[0].what ==
        "the result of a Future that no thread of this process will ever set; a thread that sets such results, "
        "fsspecIO, stayed in the parent at the fork");
  CHECK(hangs[0].fix.ends_with(", or start workers by spawn or forkserver"));
  process.set_futures = {"asyncio_0", "fsspecIO"};
  CHECK(Judged(process).at(0).what.ends_with(
      "; the threads that set such results (asyncio_0, fsspecIO) stayed in the parent at the fork"));
  // A loop that waits for itself, but not one below which multiprocessing forked.
  process.threads[0].stack.push_back({lib + "asyncio/base_events.py", "BaseEventLoop.run_forever", 607});
  CHECK_FALSE(Judged(process).at(0).by_fork);
  process.threads[0].stack.insert(process.threads[0].stack.end() - 1,
                                  {lib + "multiprocessing/popen_fork.py", "Popen._launch", 73});
  CHECK(Judged(process).at(0).by_fork);
  process.threads[0].stack.resize(3);
  // Another thread of Python may be meant to set it, one of multiprocessing's own is not.
  process.threads.push_back(ThreadOf(9, AwaitedKind::kLock));
  process.threads[1].awaited.kind = AwaitedKind::kJoin;
  process.threads[1].stack = {{"/srv/train.py", "serve", 3}};
  CHECK(Judged(process).empty());
  process.threads[1].stack = {{lib + "multiprocessing/queues.py", "Queue._feed", 231}};
  CHECK(Judged(process).size() == 1);
  process.may_be_told = true;
  CHECK(Judged(process).empty());
}

TEST_CASE("idle threads of a pool are not named beside the thread that hangs") {
  const std::vector<Hang> hangs =
      Judged(ProcessOf({ThreadOf(7, AwaitedKind::kRLock, OwnerIs::kGone), ThreadOf(8, AwaitedKind::kUnknown),
                        ThreadOf(9, AwaitedKind::kJoin)}));
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].tid == 7);
}

}  // namespace
}  // namespace cowprof
