// procfs.cc against the real /proc: this process, children with hostile names, zombies, and processes that are gone.
// Needs no privileges; must pass on every kernel.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "child.h"
#include "posix/fd.h"
#include "source/procfs.h"

namespace cowprof {
namespace {

ProcessId IdOf(pid_t pid) {
  const auto stat = ProcFs().ReadStat(pid);
  REQUIRE(stat.ok());
  return ProcessId{pid, stat->start_ns() + 1'234'567};
}

}  // namespace

TEST_CASE("live: this process") {
  const ProcFs proc;
  const pid_t self = getpid();
  const auto stat = proc.ReadStat(self);
  REQUIRE(stat.ok());
  CHECK(stat->parent == getppid());
  CHECK(stat->state == 'R');

  const uint64_t page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const auto figures = proc.ReadFigures(IdOf(self), page_bytes);
  REQUIRE(figures.ok());
  CHECK(figures->anon_pages.value_or(0) > 0);
  CHECK(figures->virtual_pages.value_or(0) > figures->anon_pages.value_or(0));
  CHECK(figures->threads.value_or(0) >= 1);
  ProcessId other = IdOf(self);
  other.start_ns += 10'000'000;
  CHECK(absl::IsNotFound(proc.ReadFigures(other, page_bytes).status()));

  const auto rollup = proc.ReadRollup(self);
  REQUIRE(rollup.ok());
  CHECK(rollup->rss_bytes >= rollup->pss_bytes);
  CHECK(rollup->private_bytes > 0);
  CHECK(absl::StrContains(proc.ReadCommandLine(self), program_invocation_short_name));
  const std::vector<pid_t> pids = proc.ListPids();
  CHECK(std::count(pids.begin(), pids.end(), self) == 1);
  CHECK(ParseStatus(*proc.ReadFile(self, "status")).namespace_pids.back() == getpid());
}

TEST_CASE("live: maps contain an address that we know") {
  static int here;
  const auto maps = ProcFs().ReadMaps(getpid());
  REQUIRE(maps.ok());
  const uint64_t address = reinterpret_cast<uint64_t>(&here);
  const auto found = std::find_if(maps->begin(), maps->end(), [&](const Mapping& mapping) {
    return mapping.begin <= address && address < mapping.end;
  });
  REQUIRE(found != maps->end());
  CHECK(found->writable);
  CHECK_FALSE(found->shared);
  CHECK(
      std::is_sorted(maps->begin(), maps->end(), [](const Mapping& a, const Mapping& b) { return a.begin < b.begin; }));
}

// The kernel returns maps a page at a time, so one read gets about forty lines.
TEST_CASE("live: maps longer than one read are complete") {
  const size_t before = ProcFs().ReadMaps(getpid())->size();
  constexpr size_t kPages = 2000;
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  // Adjacent mappings with different permissions are never merged.
  char* const area =
      static_cast<char*>(mmap(nullptr, kPages * page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(area != MAP_FAILED);
  for (size_t page = 0; page < kPages; page += 2) {
    REQUIRE(mprotect(area + page * page_bytes, page_bytes, PROT_NONE) == 0);
  }
  const size_t after = ProcFs().ReadMaps(getpid())->size();
  munmap(area, kPages * page_bytes);
  CHECK(after >= before + kPages - 2);  // both ends may merge with existing mappings
}

TEST_CASE("live: every open descriptor counts") {
  const ProcFs proc;
  const auto before = proc.CountDescriptors(getpid());
  REQUIRE(before.ok());
  std::vector<Fd> opened;
  for (int i = 0; i < 300; ++i) opened.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const auto after = proc.CountDescriptors(getpid());
  REQUIRE(after.ok());
  CHECK(*after == *before + 300);
}

TEST_CASE("live: a hostile name") {
  Child child([] { prctl(PR_SET_NAME, ") R 1 (\n)"); });
  const auto stat = ProcFs().ReadStat(child.pid());
  REQUIRE(stat.ok());
  CHECK(stat->comm == ") R 1 (\n)");
  CHECK(stat->parent == getpid());
  const auto status = ProcFs().ReadFile(child.pid(), "status");
  REQUIRE(status.ok());
  CHECK(ParseStatus(*status).anon_bytes.value_or(0) > 0);
}

TEST_CASE("live: a zombie has no memory, a reaped process is not found") {
  const ProcFs proc;
  Child child;
  const pid_t pid = child.pid();
  const ProcessId id = IdOf(pid);
  REQUIRE(proc.ReadFigures(id, 4096)->anon_pages);

  child.Kill();
  // Its figures shrink while it exits: none are better than those.
  CHECK(absl::IsNotFound(proc.ReadFigures(id, 4096).status()));
  CHECK(proc.ReadStat(pid)->state == 'Z');
  CHECK(absl::IsNotFound(proc.ReadRollup(pid).status()));
  CHECK(absl::IsNotFound(proc.ReadMaps(pid).status()));
  CHECK(proc.ReadCommandLine(pid).empty());

  child.End();
  CHECK(absl::IsNotFound(proc.ReadFigures(id, 4096).status()));
  CHECK(absl::IsNotFound(proc.ReadStat(pid).status()));
  CHECK(absl::IsNotFound(proc.ReadMaps(pid).status()));
  CHECK(absl::IsNotFound(proc.CountDescriptors(pid).status()));
}

}  // namespace cowprof
