// Texts of /proc/PID/task/TID as recorded, and as nobody would write them.
#include "source/wait_state.h"

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "fixture_tree.h"

namespace cowprof {
namespace {

// A child of CPython 3.11 in PyThread_acquire_lock_timed(), Linux 6.18.
constexpr char kRecorded[] = "202 0x56294f7814a0 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc41701440 0x7fc9e3ea3f16\n";

TEST_CASE("a wait of CPython for a lock is read from the text of its system call") {
  const auto state = ParseSyscall(kRecorded);
  REQUIRE(state);
  CHECK(state->number == 202);
  CHECK(state->stack_pointer == 0x7ffc41701440);
  CHECK(state->instruction == 0x7fc9e3ea3f16);
  const auto futex = EndlessFutexWait(*state);
  REQUIRE(futex);
  CHECK(futex->address == 0x56294f7814a0);
  CHECK(futex->is_private);
}

TEST_CASE("what is not a futex wait without timeout is none") {
  const auto waits = [](const std::string& text) {
    const auto state = ParseSyscall(text);
    REQUIRE(state);
    return EndlessFutexWait(*state).has_value();
  };
  const std::string rest = " 0x0 0xffffffff 0x7ffc41701440 0x7fc9e3ea3f16";
  CHECK(waits("202 0x1000 0x80 0x2 0x0" + rest));                   // FUTEX_WAIT_PRIVATE
  CHECK(waits("202 0x1000 0xdead00000080 0x2 0x0" + rest));         // the kernel reads 32 bits of the operation
  CHECK_FALSE(waits("202 0x1000 0x80 0x2 0x7ffc41701000" + rest));  // with a timeout
  CHECK_FALSE(waits("202 0x1000 0x81 0x2 0x0" + rest));             // FUTEX_WAKE_PRIVATE
  CHECK_FALSE(waits("202 0x1000 0x8b 0x2 0x0" + rest));             // FUTEX_WAIT_REQUEUE_PI
  CHECK_FALSE(waits("0 0x1000 0x80 0x2 0x0" + rest));               // read(2)
  CHECK_FALSE(EndlessFutexWait({.number = -1}));
  CHECK_FALSE(EndlessFutexWait(*ParseSyscall("202 0x1000 0x9 0x0 0x0" + rest))->is_private);
}

TEST_CASE("hostile or cut texts of system calls are rejected") {
  for (const char* text : {"", "running", "running\n", "202", "202 0x1", "-1", "-1 0x1", "202 1 2 3 4 5 6 7 8",
                           "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7", "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8 0x9",
                           "202 0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x11111111111111111", "99999999999999999999 0x1 0x2",
                           "202 0x 0x2 0x3 0x4 0x5 0x6 0x7 0x8"}) {
    CAPTURE(text);
    CHECK_FALSE(ParseSyscall(text));
  }
  const auto fault = ParseSyscall("-1 0x7ffc0 0x5600\n");
  REQUIRE(fault);
  CHECK(fault->stack_pointer == 0x7ffc0);
}

TEST_CASE("switches, caught signals and the innermost pid are read from a task's status") {
  const TaskStatus status = ParseTaskStatus(
      "Name:\tpython3\nNSpid:\t4711\t12\nSigCgt:\t0000000000000002\nvoluntary_ctxt_switches:\t40\n"
      "nonvoluntary_ctxt_switches:\t2\n");
  CHECK(status.switches == 42);
  CHECK(status.caught == 2);
  CHECK(status.tid_inside == 12);
  CHECK(ParseTaskStatus("NSpid:\n:\n\nSigCgt: x").tid_inside == 0);
}

TEST_CASE("only handlers that may release something count") {
  constexpr uint64_t kInt = 1 << 1, kSegv = 1 << 10, kChild = 1 << 16, kTerm = 1 << 14;
  CHECK_FALSE(MayBeTold(0, true));
  CHECK_FALSE(MayBeTold(kInt | kSegv, true));
  CHECK(MayBeTold(kInt | kTerm, false));
  CHECK(MayBeTold(kChild, true));
  CHECK_FALSE(MayBeTold(kChild, false));
}

std::string Task(pid_t tid, const std::string& file) { return absl::StrCat("/7/task/", tid, "/", file); }

TEST_CASE("a process hangs if a thread in uninterruptible sleep has not run between two looks") {
  FixtureTree tree;
  const auto write = [&](pid_t tid, const std::string& state, int ran, unsigned flags = 0) {
    tree.Write(Task(tid, "stat"),
               absl::StrCat(tid, " (x) ", state, " 1 1 1 0 -1 ", flags, " 0 0 0 0 0 0 0 0 20 0 1 0 5 8 1 2\n"));
    tree.Write(Task(tid, "status"), absl::StrCat("voluntary_ctxt_switches:\t", ran, "\n"));
  };
  LockCheck check;
  const auto look = [&] {
    LockCheck::Result result;
    do {
      result = check.Step(ProcFs(tree.root()), 7);
    } while (result == LockCheck::Result::kUnfinished);
    return result;
  };
  write(7, "S", 3);
  write(8, "S", 3);
  CHECK(look() == LockCheck::Result::kFree);
  write(8, "D", 4);
  CHECK(look() == LockCheck::Result::kAgain);
  SECTION("it has not") { CHECK(look() == LockCheck::Result::kHangs); }
  SECTION("it sleeps again") {
    write(8, "D", 5);
    CHECK(look() == LockCheck::Result::kFree);
  }
  SECTION("another one sleeps") {
    write(7, "D", 4);
    write(8, "R", 4);
    CHECK(look() == LockCheck::Result::kFree);
  }
  SECTION("it has ended, with all others") {
    std::filesystem::remove_all(tree.root() + "/7");
    CHECK(look() == LockCheck::Result::kFree);
  }
  write(7, "S", 9);
  write(8, "D", 9, 0x00200000);
  CHECK(look() == LockCheck::Result::kFree);  // a thread of the kernel has no such lock
}

TEST_CASE("the lock of a process with one thread, or of the kernel, is checked by one file") {
  FixtureTree tree;
  const auto look = [&](const std::string& state, int threads, unsigned flags = 0) {
    tree.Write("/7/stat",
               absl::StrCat("7 (x) ", state, " 1 7 7 0 -1 ", flags, " 0 0 0 0 1 1 0 0 20 0 ", threads, " 0 5 4096 1"));
    LockCheck check;
    return check.Step(ProcFs(tree.root()), 7);
  };
  CHECK(look("S", 1) == LockCheck::Result::kFree);
  CHECK(look("D", 1) == LockCheck::Result::kFree);  // that thread has ended
  CHECK(look("I", 1, 0x00200000) == LockCheck::Result::kKernel);
  tree.Write(Task(7, "stat"), "7 (x) D 1 7 7 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 5 4096 1");
  tree.Write(Task(7, "status"), "voluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t1\n");
  CHECK(look("D", 1) == LockCheck::Result::kAgain);
  CHECK(look("S", 2) == LockCheck::Result::kUnfinished);  // the others may hang
}

TEST_CASE("a glance reads whether each thread waits, and whether it has run since") {
  FixtureTree tree;
  const std::string rest = " 0x2 0x0 0x0 0xffffffff 0x7ffc00 0x7fc9\n";
  tree.Write(Task(7, "syscall"), "7 0x1 0x1 0xffffffff 0x0 0x0 0x0 0x7ffc00 0x7fc9\n");  // poll(2)
  tree.Write(Task(8, "syscall"), "202 0x1000 0x80" + rest);
  tree.Write(Task(8, "schedstat"), "5000 10 3\n");
  tree.Write(Task(9, "syscall"), "202 0x2000 0x0" + rest);
  tree.Write(Task(9, "schedstat"), "0 0 0\n");  // without CONFIG_SCHED_INFO
  tree.Write(Task(9, "status"), "voluntary_ctxt_switches:\t4\nnonvoluntary_ctxt_switches:\t1\n");
  const ProcFs proc(tree.root());
  const auto glance = GlanceAtThreads(proc, 7);
  REQUIRE(glance.ok());
  REQUIRE(glance->size() == 3);
  CHECK((*glance)[0] == ThreadGlance{.tid = 7});
  CHECK((*glance)[1] ==
        ThreadGlance{.tid = 8, .futex = 0x1000, .is_private = true, .stack_pointer = 0x7ffc00, .ran = "5000 10 3\n"});
  CHECK((*glance)[2] == ThreadGlance{.tid = 9, .futex = 0x2000, .stack_pointer = 0x7ffc00, .ran = "5"});
  CHECK(*GlanceAtThreads(proc, 7) == *glance);
  tree.Write(Task(8, "schedstat"), "5001 10 4\n");
  CHECK_FALSE((*GlanceAtThreads(proc, 7))[1] == (*glance)[1]);
  CHECK(absl::IsNotFound(GlanceAtThreads(proc, 8).status()));
}

}  // namespace
}  // namespace cowprof
