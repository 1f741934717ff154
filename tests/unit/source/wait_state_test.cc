// Texts of /proc/PID/task/TID as recorded, and as nobody would write them.
#include "source/wait_state.h"

#include <catch2/catch.hpp>
#include <string>

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

}  // namespace
}  // namespace cowprof
