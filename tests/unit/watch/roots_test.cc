#include "watch/roots.h"

#include <catch2/catch.hpp>
#include <functional>

using namespace cowprof;

namespace {

constexpr uint64_t kTick = 10'000'000;

// Times follow the numbers: parents are older.
SeenProcess Python(pid_t pid, pid_t parent, bool execed) {
  return {.id = {pid, pid * kTick}, .parent = parent, .execed = execed, .python = true};
}
SeenProcess With(SeenProcess process, const std::function<void(SeenProcess*)>& change) {
  change(&process);
  return process;
}
SeenProcess Ranked(pid_t pid, pid_t parent, bool execed) {
  return With(Python(pid, parent, execed), [](SeenProcess* one) { one->ranked = true; });
}
SeenProcess Worker(pid_t pid, pid_t parent, Duty duty, StartMethod start = StartMethod::kUnknown) {
  return With(Python(pid, parent, start == StartMethod::kSpawn), [&](SeenProcess* one) {
    one->duty = duty;
    one->start = start;
  });
}

std::vector<std::pair<pid_t, Why>> Found(const std::vector<SeenProcess>& seen) {
  std::vector<std::pair<pid_t, Why>> found;
  for (const Root& root : FindRoots(seen)) found.emplace_back(root.id.pid, root.why);
  return found;
}
using Expected = std::vector<std::pair<pid_t, Why>>;

}  // namespace

TEST_CASE("roots: ranks of a launcher are roots, their workers are not") {
  CHECK(Found({Python(10, 1, true), Ranked(11, 10, true), Ranked(12, 10, true), Ranked(13, 11, false),
               Ranked(14, 11, true)}) == Expected{{11, Why::kRank}, {12, Why::kRank}});
}

TEST_CASE("roots: a launcher with a rank has those below it") {
  CHECK(Found({Ranked(10, 1, true), Ranked(11, 10, true), Ranked(12, 10, true)}) == Expected{{10, Why::kRank}});
}

TEST_CASE("roots: who keeps workers") {
  CHECK(Found({Python(10, 1, true), Worker(11, 10, Duty::kLoader)}) == Expected{{10, Why::kForks}});
  CHECK(Found({Python(10, 1, true), Python(11, 10, false), Worker(12, 11, Duty::kPool)}) ==
        Expected{{10, Why::kForks}});
  CHECK(Found({Python(9, 1, true), Python(10, 9, true), Worker(12, 10, Duty::kLoader, StartMethod::kSpawn)}) ==
        Expected{{10, Why::kForks}});
  // A forkserver keeps the workers of the program that started it.
  CHECK(Found({Python(10, 1, true), Python(11, 10, true), Worker(12, 11, Duty::kLoader, StartMethod::kForkserver)}) ==
        Expected{{10, Why::kForks}});
  // Any other forked child, such as that of a server, says nothing.
  CHECK(Found({Python(10, 1, true), Python(11, 10, false), Worker(12, 10, Duty::kTracker)}).empty());
  CHECK(Found({Worker(11, 10, Duty::kLoader)}).empty());  // its trainer has ended
}

TEST_CASE("roots: between two epochs there are no workers") {
  CHECK(Found({With(Python(10, 1, true), [](SeenProcess* one) { one->was = Why::kForks; })}) ==
        Expected{{10, Why::kForks}});
}

TEST_CASE("roots: --match finds the master, and says so even of what has a rank") {
  const auto matches = [](SeenProcess* one) { one->matches = true; };
  CHECK(Found({With(Python(10, 1, true), matches), With(Python(11, 10, false), matches)}) ==
        Expected{{10, Why::kMatch}});
  CHECK(Found({With(Ranked(10, 1, true), matches)}) == Expected{{10, Why::kMatch}});
}

TEST_CASE("roots: a parent that is younger took the pid of the real one, and a ring ends") {
  SeenProcess child = Ranked(11, 12, true);
  CHECK(Found({child, Ranked(12, 1, true)}) == Expected{{11, Why::kRank}, {12, Why::kRank}});
  SeenProcess a = Ranked(10, 11, false), b = Ranked(11, 10, false);
  a.id.start_ns = b.id.start_ns = kTick;
  CHECK(Found({a, b}).size() <= 2);
}
