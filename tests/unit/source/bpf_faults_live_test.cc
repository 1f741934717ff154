// The probes on real processes, with tables that are too small. Needs root; otherwise says so and passes (the system
// tests always run as root).
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>

#include "child.h"
#include "skip.h"
#include "source/bpf_faults.h"

namespace cowprof {
namespace {

constexpr int kWorkers = 6;
constexpr size_t kPages = 512, kPageBytes = 4096;

void WriteEachPage(volatile char* area) {
  for (size_t page = 0; page < kPages; ++page) area[page * kPageBytes] = 1;
}

// A process that forks workers on command; each copies kPages pages, and then all wait for the end.
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
      static_cast<void>(read(go_[0], &byte, 1));  // blocks until the test closes it
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

// A process that forks one worker, of which two threads copy kStepPages pages whenever they are told.
class SteppedTarget {
 public:
  static constexpr size_t kStepPages = 64;

  SteppedTarget() {
    REQUIRE((pipe(go_) == 0 && pipe(done_) == 0));
    pid_ = fork();
    REQUIRE(pid_ >= 0);
    if (pid_ == 0) Run();
  }
  ~SteppedTarget() {
    close(go_[1]);
    waitpid(pid_, nullptr, 0);
    for (const int fd : {go_[0], done_[0], done_[1]}) close(fd);
  }
  pid_t pid() const { return pid_; }
  // The first one forks the worker.
  void Step() {
    char bytes[2] = {};
    REQUIRE(write(go_[1], bytes, 2) == 2);
    for (int i = 0; i < 2; ++i) REQUIRE(read(done_[0], bytes, 1) == 1);
  }

 private:
  [[noreturn]] void Run() {
    close(go_[1]);
    auto* area = static_cast<volatile char*>(
        mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    madvise(const_cast<char*>(area), kPages * kPageBytes, MADV_NOHUGEPAGE);
    WriteEachPage(area);
    pollfd told = {go_[0], POLLIN, 0};
    poll(&told, 1, -1);
    if (fork() == 0) {
      std::atomic<size_t> next = 0;
      const auto work = [&] {
        for (char byte; read(go_[0], &byte, 1) == 1;) {
          const size_t first = next.fetch_add(kStepPages);
          for (size_t page = first; page < first + kStepPages; ++page) area[page * kPageBytes] = 2;
          if (write(done_[1], "d", 1) != 1) break;
        }
      };
      std::thread other(work);
      work();
      other.join();
      _exit(0);
    }
    wait(nullptr);
    _exit(0);
  }
  int go_[2], done_[2];
  pid_t pid_;
};

bool IsReadable(int fd, int within_ms = 0) {
  pollfd waited = {fd, POLLIN, 0};
  return poll(&waited, 1, within_ms) == 1;
}

int deaths[2];  // a pipe: a byte after each

// In a target, as a handler: forks a worker, which dies at once.
void LoseWorker(int how) {
  const pid_t worker = fork();
  if (worker == 0) {
    const int fatal = how == SIGUSR1 ? SIGKILL : SIGSEGV;
    signal(fatal, SIG_DFL);  // Catch has a handler
    raise(fatal);
    _exit(1);
  }
  waitpid(worker, nullptr, 0);
  static_cast<void>(!write(deaths[1], "x", 1));
}

// One tick of a source.
struct Counted {
  TreeLook look;
  Pull pull;
  const FaultCounts& of(const FollowedProcess& process) const { return pull.counts.at(process.serial); }
};

class NoReader : public PageReader {
  std::shared_ptr<const std::vector<AddressRange>> RangesOf(uint32_t, absl::Duration) override { return nullptr; }
  std::optional<std::vector<ExplainedPage>> Explain(uint32_t, const std::vector<uint64_t>&, absl::Duration) override {
    return std::nullopt;
  }
};

Counted PullFrom(FaultSource& faults) {
  absl::StatusOr<TreeLook> look = faults.LookAtTree(/*last=*/false);
  REQUIRE(look.ok());
  NoReader reader;
  absl::StatusOr<Pull> pull = faults.PullCounts({.reader = reader});
  REQUIRE(pull.ok());
  return {*std::move(look), *std::move(pull)};
}

// What is counted of a target whose workers copy all; absent where the probes can't be loaded. `ended`: and what is
// once all have ended. `end_first`: nothing is read before.
std::optional<Counted> CopyAllWith(const BpfOptions& options, Counted* ended = nullptr, bool end_first = false) {
  auto faults = LoadBpfFaults(options);
  if (Lacks("probes", faults.ok(), std::string(faults.status().message()))) return std::nullopt;
  auto target = std::make_unique<Target>();
  REQUIRE((*faults)->Follow(target->pid()).ok());
  target->CopyAll();
  if (end_first) target.reset();
  Counted counted = PullFrom(**faults);
  target.reset();
  if (ended != nullptr) *ended = PullFrom(**faults);
  return counted;
}

}  // namespace

TEST_CASE("a full table of causes loses the cause of a copy, never its count") {
  const uint32_t room = GENERATE(2u, 4u, 0u);
  const double copy_ns = GENERATE(2e3, 15e3);  // memory is read at the user's address, in the direct map
  const std::optional<Counted> counted =
      CopyAllWith({.max_cause_rows = room, .bare_copy_ns = [copy_ns] { return copy_ns; }});
  if (!counted) return;
  uint64_t copies = 0, with_cause = 0;
  int workers = 0;
  for (const FollowedProcess& process : counted->look.processes) {
    copies += counted->of(process).copies.value_or(0);
    if (process.origin != Origin::kForked) continue;
    ++workers;
    CHECK(*counted->of(process).copies >= kPages);
    CHECK(*counted->of(process).copies <= kPages + 50);
  }
  for (const CauseRow& row : counted->pull.causes) with_cause += row.copies;
  CHECK(workers == kWorkers);
  CHECK(counted->pull.most_mappings > 0);
  CHECK(copies == with_cause + counted->pull.losses.unclassified_copies);
  CHECK((counted->pull.losses.unclassified_copies > 0) == (room != 0));
}

TEST_CASE("a full table of processes costs whose copies they are, never how many: the overflow row has them") {
  const std::optional<Counted> all = CopyAllWith({});
  const std::optional<Counted> few =
      CopyAllWith({.max_processes = 4});  // the target, the overflow row, and two workers
  if (!all || !few) return;
  const auto copies_of = [](const Counted& counted) {
    uint64_t copies = counted.pull.losses.unattributed_copies;
    for (const FollowedProcess& process : counted.look.processes) copies += counted.of(process).copies.value_or(0);
    return copies;
  };
  CHECK(all->pull.losses.processes_dropped == 0);
  CHECK(few->pull.losses.processes_dropped > 0);
  CHECK(few->look.processes.size() + few->pull.losses.processes_dropped == 1 + kWorkers);
  CHECK(few->pull.losses.unattributed_copies >= kPages * few->pull.losses.processes_dropped);
  CHECK(copies_of(*few) >= kPages * kWorkers);
  CHECK(copies_of(*few) <= kPages * kWorkers + 50 * (1 + kWorkers));
}

TEST_CASE("a full table of processes keeps what those in the overflow row copied before they ended") {
  const std::optional<Counted> few = CopyAllWith({.max_processes = 4}, nullptr, /*end_first=*/true);
  if (!few) return;
  CHECK(few->pull.losses.processes_dropped > 0);
  CHECK(few->pull.losses.unattributed_copies >= kPages * few->pull.losses.processes_dropped);
}

TEST_CASE("a full table of regions is told by the look that has the copies, and costs no copy") {
  const std::optional<Counted> counted = CopyAllWith({.max_regions = 4});
  if (!counted) return;
  CHECK(counted->pull.losses.regions_dropped > 0);
  for (const FollowedProcess& process : counted->look.processes) {
    if (process.origin == Origin::kForked) CHECK(*counted->of(process).copies >= kPages);
  }
}

TEST_CASE("the perf event counts the same, and says nothing of what it can't tell") {
  const std::optional<Counted> counted =
      CopyAllWith({.copies = "perf-event", .faults = "perf-event", .signals = false});
  if (!counted) return;
  for (const FollowedProcess& process : counted->look.processes) {
    if (process.origin != Origin::kForked) continue;
    CHECK(*counted->of(process).copies >= kPages);
    CHECK(*counted->of(process).copies <= kPages + 50);
    CHECK(*counted->of(process).faults >= kPages);
    CHECK_FALSE(counted->of(process).write_protect_faults);
    CHECK_FALSE(counted->of(process).reuses());
    CHECK_FALSE(counted->of(process).file_copies);
    CHECK(counted->of(process).zero_fills());
  }
}

// While nobody is forked, only the followed processes' threads are walked.
TEST_CASE("what each thread copied is there at every look") {
  auto faults = LoadBpfFaults({});
  if (Lacks("probes", faults.ok(), std::string(faults.status().message()))) return;
  SteppedTarget target;
  REQUIRE((*faults)->Follow(target.pid()).ok());
  for (size_t steps = 1; steps <= 4; ++steps) {
    target.Step();
    const Counted counted = PullFrom(**faults);
    REQUIRE(counted.look.processes.size() == 2);
    const uint64_t copies = *counted.of(counted.look.processes[1]).copies,
                   planted = 2 * steps * SteppedTarget::kStepPages;
    CHECK(copies >= planted);
    CHECK(copies <= planted + 50);
  }
}

// As on kernels that preempt tracepoints: the second instance of a program repeats nothing that the first one did.
TEST_CASE("probes that are loaded twice count and report everything once") {
  const std::string rung = GENERATE("btf-tracepoints", "perf-event");
  const uint32_t most_processes = GENERATE(0u, 4u);
  Counted ended;
  const std::optional<Counted> counted =
      CopyAllWith({.copies = rung, .faults = rung, .max_processes = most_processes, .preemptible = true}, &ended);
  if (!counted) return;
  const size_t rows = most_processes == 0 ? 1 + kWorkers : 3;
  CHECK(counted->look.processes.size() == rows);
  CHECK(counted->pull.losses.processes_dropped == 1 + kWorkers - rows);
  CHECK(ended.pull.losses.probes_skipped == 0);
  uint64_t copies = counted->pull.losses.unattributed_copies;
  for (const FollowedProcess& process : counted->look.processes) {
    copies += counted->of(process).copies.value_or(0);
    const auto execs = std::count_if(ended.look.events.begin(), ended.look.events.end(), [&](const SeenEvent& seen) {
      return seen.event.Is<ProcessExeced>() && seen.process == process.id;
    });
    CHECK(execs == (process.origin == Origin::kForked ? 1 : 0));
  }
  CHECK(copies >= kPages * kWorkers);
  CHECK(copies <= kPages * kWorkers + 50 * (1 + kWorkers));
}

TEST_CASE("a kill of what was forked may wait for its tick; that of the target, and a crash, may not") {
  auto faults = LoadBpfFaults({});
  if (Lacks("probes", faults.ok(), std::string(faults.status().message()))) return;
  REQUIRE(pipe(deaths) == 0);
  Child target([] {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    for (const int how : {SIGUSR1, SIGUSR2}) signal(how, LoseWorker);
  });
  REQUIRE((*faults)->Follow(target.pid()).ok());
  const int patient = (*faults)->wake_fd(), urgent = (*faults)->urgent_wake_fd();
  const auto look = [&] {
    PullFrom(**faults);
    REQUIRE((*faults)->PullCopySites().ok());  // or the table seems to be half full
    CHECK_FALSE(IsReadable(patient));
    CHECK_FALSE(IsReadable(urgent));
  };
  const auto lose_worker = [&](int how) {
    kill(target.pid(), how);
    char byte;
    REQUIRE(read(deaths[0], &byte, 1) == 1);
  };
  constexpr int kLong = 10'000;  // ms
  look();
  lose_worker(SIGUSR1);
  CHECK(IsReadable(patient, kLong));
  CHECK_FALSE(IsReadable(urgent));
  look();
  lose_worker(SIGUSR2);
  CHECK(IsReadable(urgent, kLong));
  look();
  target.Kill();
  CHECK(IsReadable(urgent, kLong));
  for (const int fd : deaths) close(fd);
}

// As under lockdown=confidentiality: the programs must not contain the reads that are refused there.
TEST_CASE("the probes load without reads of kernel memory, and count the same") {
  const std::optional<Counted> counted = CopyAllWith({.kernel_reads = false});
  if (!counted) return;
  for (const FollowedProcess& process : counted->look.processes) {
    if (process.origin == Origin::kForked) CHECK(*counted->of(process).copies >= kPages);
  }
}

}  // namespace cowprof
