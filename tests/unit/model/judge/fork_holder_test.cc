// Who held a lock at a fork, by the look near it: and threads and locks that only seem to be those.
#include "model/judge/fork_holder.h"

#include <catch2/catch.hpp>
#include <memory>
#include <utility>

#include "model/judge/hang_format.h"
#include "model/judge/hangs.h"

namespace cowprof {
namespace {

constexpr uint64_t kForked = 5'000'000'000, kTick = 10'000'000, kLock = 0x1000, kIdent = 0x7f0000000640;
constexpr ProcessId kChild = {20, kForked};
constexpr absl::Duration kSoon = absl::Milliseconds(2);

HazardThread Thread(pid_t tid, uint64_t ident, uint64_t start_ns) {
  return {.tid = tid,
          .ident = ident,
          .name = "stats-thread",
          .python = true,
          .stack = {{"/srv/train.py", "update_stats", 25}},
          .tid_inside = tid,
          .start_ns = start_ns};
}

ForkSnapshot Look(ForkHazardSeen seen, absl::Duration offset = kSoon) {
  seen.python_read = true;
  return {std::make_shared<const ForkHazardSeen>(std::move(seen)), offset};
}

HeldLock Held(pid_t tid) { return {HeldLockKind::kLock, tid, "", kLock, {"/srv/train.py", "update_stats", 25}}; }

TEST_CASE("an owner that is known by ident or tid lived at the fork") {
  const auto at = [](uint64_t start_ns) { return Look({.threads = {Thread(11, kIdent, start_ns)}}); };
  const ForkSnapshot before = at(kForked - kTick);
  REQUIRE(ThreadByIdent(before, kIdent, kChild) != nullptr);
  CHECK(ThreadByIdent(before, kIdent, kChild)->tid == 11);
  CHECK(ThreadByTid(before, 11, kChild) != nullptr);
  CHECK(ThreadByIdent(before, kIdent + 1, kChild) == nullptr);
  CHECK(ThreadByTid(before, 12, kChild) == nullptr);
  CHECK(ThreadByIdent(Look({.threads = {Thread(11, 0, kForked - kTick)}}), 0, kChild) == nullptr);
  // Later it is another thread, which got the ident of one that ended.
  for (const uint64_t start_ns : {kForked + kTick, uint64_t{0}}) {
    CHECK(ThreadByIdent(at(start_ns), kIdent, kChild) == nullptr);
    CHECK(ThreadByTid(at(start_ns), 11, kChild) == nullptr);
  }
}

TEST_CASE("of a thread and a child of one clock tick the lower number was first") {
  CHECK(BeganBefore(kChild, 19, kForked));
  CHECK_FALSE(BeganBefore(kChild, 21, kForked));
  CHECK(BeganBefore(kChild, 21, kForked - kTick));
  CHECK_FALSE(BeganBefore(kChild, 19, kForked + kTick));
  CHECK_FALSE(BeganBefore({4'194'300, kForked}, 301, kForked));  // the numbers began anew
}

TEST_CASE("a lock without an owner is held by who had it at a look close to the fork") {
  const ForkHazardSeen seen = {.threads = {Thread(11, kIdent, 1), Thread(12, kIdent + 1, 1)}, .locks = {Held(11)}};
  const ForkSnapshot look = Look(seen);
  const HazardThread* holder = HolderOfLock(look, kLock);
  REQUIRE(holder != nullptr);
  CHECK(holder->tid == 11);
  CHECK(HolderOfLock(Look(seen, absl::Milliseconds(-300)), kLock) != nullptr);
  CHECK(HolderOfLock(Look(seen), kLock + 8) == nullptr);
  CHECK(HolderOfLock(Look(seen), 0) == nullptr);
  CHECK(HolderOfLock(Look(seen, absl::Seconds(2)), kLock) == nullptr);
  CHECK(HolderOfLock(Look(seen, absl::Seconds(-2)), kLock) == nullptr);
}

TEST_CASE("a lock that was taken after the look was not held at the fork") {
  ForkHazardSeen seen = {.threads = {Thread(11, kIdent, 1), Thread(12, kIdent + 1, 1)}, .locks = {Held(11)}};
  const HazardThread* holder = &seen.threads[0];
  CHECK(GotItLater(Look(seen), holder, 12));
  CHECK_FALSE(GotItLater(Look(seen), holder, 11));
  seen.locks.clear();
  CHECK(GotItLater(Look(seen), nullptr, 12));
  CHECK_FALSE(GotItLater(Look(seen), nullptr, 13));                          // not looked at
  CHECK_FALSE(GotItLater(Look(seen, absl::Milliseconds(-1)), nullptr, 12));  // perhaps before the fork
  CHECK_FALSE(GotItLater(Look(seen, absl::Seconds(2)), nullptr, 12));
  seen.locks.resize(kMostHeldLocks);
  CHECK_FALSE(GotItLater(Look(seen), nullptr, 12));
}

TEST_CASE("the module that a thread imported at the look") {
  const ForkSnapshot look =
      Look({.threads = {Thread(11, kIdent, 1)}, .locks = {{HeldLockKind::kImport, 11, "slowmod", 0, {}}}});
  REQUIRE(ImporterAtFork(look, "slowmod") != nullptr);
  CHECK(ImporterAtFork(look, "slow") == nullptr);
  CHECK(HolderOfLock(look, 0) == nullptr);
}

std::string SentenceOf(AwaitedKind kind, absl::Duration offset) {
  WaitingThread thread;
  thread.wait = {.tid = 7, .tid_inside = 7, .endless_futex = kLock};
  thread.awaited.kind = kind;
  thread.awaited.detail = kind == AwaitedKind::kImportLock ? "slowmod" : "";
  thread.awaited.holder = HolderAtFork(Look({}, offset), Thread(11, kIdent, 1));
  const WaitingProcess process = {.id = {7, 1}, .parent = 6, .forked = true, .threads = {thread}};
  const std::vector<Hang> hangs = JudgeWaits({thread.wait}, process);
  REQUIRE(hangs.size() == 1);
  CHECK(hangs[0].by_fork);
  return HangSentence(hangs[0], "worker 7");
}

TEST_CASE("what a look near the fork shows is said as of that look") {
  const std::string begins = "worker 7 can never go on: it waits for ";
  CHECK(SentenceOf(AwaitedKind::kLock, kSoon) ==
        begins +
            "a threading.Lock that the parent's thread stats-thread held 2 ms after the fork "
            "(train.py:25 in update_stats)");
  CHECK(SentenceOf(AwaitedKind::kRLock, -kSoon) ==
        begins +
            "a threading.RLock that the parent's thread stats-thread held at the fork "
            "(train.py:25 in update_stats, 2 ms before the fork)");
  CHECK(SentenceOf(AwaitedKind::kImportLock, kSoon) ==
        begins +
            "the import of slowmod, which the parent's thread stats-thread was importing 2 ms after the fork "
            "(train.py:25 in update_stats)");
  // Of another time: its name is right, its stack is not of the fork.
  CHECK(SentenceOf(AwaitedKind::kRLock, absl::Seconds(-40)) ==
        begins + "a threading.RLock that the parent's thread stats-thread held at the fork");
}

}  // namespace
}  // namespace cowprof
