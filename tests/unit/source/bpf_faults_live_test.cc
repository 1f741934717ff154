// The probes themselves, on real processes, where a table has less room than there is to count. Needs root; says so and
// passes otherwise (the system tests can't be without it).
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <optional>
#include <string>

#include "skip.h"
#include "source/bpf_faults.h"

namespace cowprof {
namespace {

constexpr int kWorkers = 6;
constexpr size_t kPages = 512, kPageBytes = 4096;

void WriteEachPage(volatile char* area) {
  for (size_t page = 0; page < kPages; ++page) area[page * kPageBytes] = 1;
}

// A process that forks workers when it is told; each copies kPages pages, and then all wait for the end.
class Target {
 public:
  Target() {
    REQUIRE((pipe(go_) == 0 && pipe(done_) == 0));
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) Run();
  }
  ~Target() {
    close(go_[1]);
    waitpid(pid_, nullptr, 0);
    for (const int fd : {go_[0], done_[0], done_[1]}) close(fd);
  }
  pid_t pid() const { return pid_; }
  void CopyAll() {
    REQUIRE(write(go_[1], "g", 1) == 1);
    char done;
    for (int i = 0; i < kWorkers; ++i) REQUIRE(read(done_[0], &done, 1) == 1);
  }

 private:
  [[noreturn]] void Run() {
    close(go_[1]);
    void* area = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    madvise(area, kPages * kPageBytes, MADV_NOHUGEPAGE);
    WriteEachPage(static_cast<char*>(area));
    char byte;
    if (read(go_[0], &byte, 1) != 1) _exit(1);
    for (int i = 0; i < kWorkers; ++i) {
      if (fork() != 0) continue;
      WriteEachPage(static_cast<char*>(area));
      if (write(done_[1], "d", 1) != 1) _exit(1);
      static_cast<void>(read(go_[0], &byte, 1));  // until the test closes it
      execl("/bin/true", "true", nullptr);
      _exit(1);
    }
    while (wait(nullptr) > 0) {
    }
    _exit(0);
  }
  int go_[2], done_[2];
  pid_t pid_;
};

// What is counted of a target whose workers copy all; absent where the probes can't be loaded. `ended`: and what is
// once all have ended.
std::optional<Pull> CopyAllWith(const BpfOptions& options, Pull* ended = nullptr) {
  auto faults = LoadBpfFaults(options);
  if (Lacks("probes", faults.ok(), std::string(faults.status().message()))) return std::nullopt;
  auto target = std::make_unique<Target>();
  REQUIRE((*faults)->Follow(target->pid()).ok());
  target->CopyAll();
  absl::StatusOr<Pull> pull = (*faults)->PullCounts();
  REQUIRE(pull.ok());
  target.reset();
  if (ended != nullptr) *ended = (*faults)->PullCounts().value();
  return *std::move(pull);
}

}  // namespace

TEST_CASE("a full table of causes costs the cause of a copy, never its count") {
  const uint32_t room = GENERATE(2u, 4u, 0u);
  const std::optional<Pull> pull = CopyAllWith({.max_cause_rows = room});
  if (!pull) return;
  uint64_t counted = 0, with_cause = 0;
  int workers = 0;
  for (const FollowedProcess& process : pull->processes) {
    counted += process.counts.copies.value_or(0);
    if (process.origin != Origin::kForked) continue;
    ++workers;
    CHECK(*process.counts.copies >= kPages);
    CHECK(*process.counts.copies <= kPages + 50);
  }
  for (const CauseRow& row : pull->causes) with_cause += row.copies;
  CHECK(workers == kWorkers);
  CHECK(counted == with_cause + pull->losses.unclassified_copies);
  CHECK((pull->losses.unclassified_copies > 0) == (room != 0));
}

TEST_CASE("a full table of processes costs whose copies they are, never how many: the overflow row has them") {
  const std::optional<Pull> all = CopyAllWith({});
  const std::optional<Pull> few = CopyAllWith({.max_processes = 4});  // the target, the overflow row, and two workers
  if (!all || !few) return;
  const auto copies_of = [](const Pull& pull) {
    uint64_t copies = pull.losses.unattributed_copies;
    for (const FollowedProcess& process : pull.processes) copies += process.counts.copies.value_or(0);
    return copies;
  };
  CHECK(all->losses.processes_dropped == 0);
  CHECK(few->losses.processes_dropped > 0);
  CHECK(few->processes.size() + few->losses.processes_dropped == 1 + kWorkers);
  CHECK(few->losses.unattributed_copies >= kPages * few->losses.processes_dropped);
  CHECK(copies_of(*few) >= kPages * kWorkers);
  CHECK(copies_of(*few) <= kPages * kWorkers + 50 * (1 + kWorkers));
}

TEST_CASE("the perf event counts the same, and says nothing of what it can't tell") {
  const std::optional<Pull> pull = CopyAllWith({.copies = "perf-event", .faults = "perf-event", .signals = false});
  if (!pull) return;
  for (const FollowedProcess& process : pull->processes) {
    if (process.origin != Origin::kForked) continue;
    CHECK(*process.counts.copies >= kPages);
    CHECK(*process.counts.copies <= kPages + 50);
    CHECK(*process.counts.faults >= kPages);
    CHECK_FALSE(process.counts.write_protect_faults);
    CHECK_FALSE(process.counts.reuses());
    CHECK_FALSE(process.counts.file_copies);
    CHECK(process.counts.zero_fills());
  }
}

// As on kernels that preempt tracepoints: whatever the first copy of a program has done, the second does not do again.
TEST_CASE("probes that are loaded twice count and tell everything once") {
  const std::string rung = GENERATE("btf-tracepoints", "perf-event");
  const uint32_t most_processes = GENERATE(0u, 4u);
  Pull ended;
  const std::optional<Pull> pull =
      CopyAllWith({.copies = rung, .faults = rung, .max_processes = most_processes, .preemptible = true}, &ended);
  if (!pull) return;
  const size_t rows = most_processes == 0 ? 1 + kWorkers : 3;
  CHECK(pull->processes.size() == rows);
  CHECK(pull->losses.processes_dropped == 1 + kWorkers - rows);
  CHECK(ended.losses.probes_skipped == 0);
  uint64_t copies = pull->losses.unattributed_copies;
  for (const FollowedProcess& process : pull->processes) {
    copies += process.counts.copies.value_or(0);
    const auto execs = std::count_if(ended.events.begin(), ended.events.end(), [&](const SeenEvent& seen) {
      return seen.event.kind == EventKind::kExec && seen.process == process.id;
    });
    CHECK(execs == (process.origin == Origin::kForked ? 1 : 0));
  }
  CHECK(copies >= kPages * kWorkers);
  CHECK(copies <= kPages * kWorkers + 50 * (1 + kWorkers));
}

// As under a lockdown to confidentiality: the verifier must not meet the reads that are refused there.
TEST_CASE("the probes load without reads of kernel memory, and count the same") {
  const std::optional<Pull> pull = CopyAllWith({.kernel_reads = false});
  if (!pull) return;
  for (const FollowedProcess& process : pull->processes) {
    if (process.origin == Origin::kForked) CHECK(*process.counts.copies >= kPages);
  }
}

}  // namespace cowprof
