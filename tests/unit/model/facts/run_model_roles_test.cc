// How run_model.cc names processes by their part in the tree, decodes exits, and sums up; and, on seeded
// random recordings, that it is total: no figure wraps around, no unknown index is followed. The memory
// figures are the matter of growth_test.cc.
#include <signal.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "builders.h"
#include "model/facts/roles.h"
#include "model/facts/run_model.h"
#include "random_recording.h"

namespace cowprof {
namespace {

constexpr char kTrain[] = "python train.py";
constexpr char kForkserver[] = "python -c from multiprocessing.forkserver import main; main(5, 6, ['__main__'], **{})";
constexpr char kSpawned[] =
    "python -c from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5, pipe_handle=7) "
    "--multiprocessing-fork";
constexpr char kTracker[] = "python -c from multiprocessing.resource_tracker import main;main(4)";
constexpr char kTrackerOfCopy[] = "python -c from multiprocess.resource_tracker import main;main(4)";
constexpr char kForkserverOfCopy[] = "python -c from multiprocess.forkserver import main; main(5, 6, [], **{})";

Event Process(int index, int parent, Origin origin, const std::string& command, const char* comm = "python") {
  return {.index = index,
          .what = ProcessStarted{
              .id = {100 + index % 1000, 1}, .parent = parent, .origin = origin, .comm = comm, .command = command}};
}
Event Target() { return Process(0, -1, Origin::kTarget, kTrain); }
Event Fork(int index, int parent, const std::string& command) {
  return Process(index, parent, Origin::kForked, command);
}
Event Found(int index, int parent, const std::string& command) {
  return Process(index, parent, Origin::kFoundAtAttach, command);
}
Event Exec(int index, const std::string& command) {
  return {.index = index, .what = ProcessExeced{.comm = "python", .command = command}};
}
ProcessSample Row(int index, uint64_t copies, uint64_t write_protect_faults) {
  ProcessSample row = {.index = index};
  row.counts = {
      .write_protect_faults = write_protect_faults, .copies = copies, .zero_upgrades = 0, .zero_fill_pages = 0};
  row.proc.anon_pages = 100;
  return row;
}

std::vector<std::string> RolesOf(const std::vector<Event>& events) {
  RunModel model;
  Append({.events = events}, &model);
  std::vector<std::string> roles;
  for (const ProcessModel& process : model.processes) roles.push_back(NameOf(process.role));
  return roles;
}

using Roles = std::vector<std::string>;

// Everything that is derived stays below what random figures of 40 bits can add up to.
void CheckNoHugeFigure(const RunModel& model) {
  constexpr uint64_t kMost = uint64_t{1} << 60;
  for (const ProcessModel& process : model.processes) {
    for (const Count& figure : {process.private_bytes, process.peak_private_bytes, process.pss_bytes,
                                process.still_shared_bytes, process.ceiling_bytes(), process.counts.reuses()}) {
      REQUIRE(figure.value_or(0) < kMost);
    }
    REQUIRE(process.peak_private_bytes.value_or(0) >= process.private_bytes.value_or(0));
    REQUIRE(std::isfinite(process.copies_per_second));
    REQUIRE(process.copies_per_second >= 0);
  }
  for (const bool living : {false, true}) {
    const Totals totals = SumOf(model, living, /*workers_only=*/false);
    REQUIRE(totals.private_bytes < kMost);
    REQUIRE(totals.still_shared_bytes < kMost);
    REQUIRE(totals.reuses < kMost);
  }
}

}  // namespace

TEST_CASE("workers of the start method fork") {
  CHECK(RolesOf({Target(), Fork(1, 0, kTrain), Fork(2, 1, kTrain)}) == Roles{"parent", "worker", "worker"});
}

TEST_CASE("a process that called exec is no worker") {
  CHECK(RolesOf({Target(), Fork(1, 0, kTrain), Exec(1, "nvidia-smi")}) == Roles{"parent", "other"});
  CHECK(RolesOf({Target(), Found(1, 0, "nvidia-smi")}) == Roles{"parent", "other"});
}

TEST_CASE("the same command at attach is a worker") {
  CHECK(RolesOf({Target(), Found(1, 0, kTrain)}) == Roles{"parent", "worker"});
  CHECK(RolesOf({Target(), Found(1, -1, kTrain)}) == Roles{"parent", "other"});
  CHECK(RolesOf({Target(), Found(1, 99, kTrain)}) == Roles{"parent", "other"});
}

TEST_CASE("workers of the start method spawn") {
  CHECK(RolesOf({Target(), Fork(1, 0, kTrain), Exec(1, kSpawned)}) == Roles{"parent", "worker"});
  CHECK(RolesOf({Target(), Found(1, 0, kSpawned)}) == Roles{"parent", "worker"});
}

TEST_CASE("the forkserver, its workers, and what these fork") {
  CHECK(RolesOf({Target(), Fork(1, 0, kTrain), Exec(1, kForkserver), Fork(2, 1, kForkserver),
                 Fork(3, 2, kForkserver)}) == Roles{"parent", "forkserver", "worker", "worker"});
  CHECK(RolesOf({Target(), Found(1, 0, kForkserver), Found(2, 1, kForkserver)}) ==
        Roles{"parent", "forkserver", "worker"});
  CHECK(RolesOf({Target(), Fork(1, 0, kTrain), Exec(1, kForkserverOfCopy), Fork(2, 1, kForkserverOfCopy)}) ==
        Roles{"parent", "forkserver", "worker"});
  // A worker may start a forkserver of its own.
  CHECK(RolesOf({Target(), Found(1, 0, kForkserver), Fork(2, 1, kForkserver), Fork(3, 2, kForkserver),
                 Exec(3, kForkserver), Fork(4, 3, kForkserver)}) ==
        Roles{"parent", "forkserver", "worker", "forkserver", "worker"});
}

TEST_CASE("a worker found at attach is one by its memory, whatever it calls itself") {
  Event titled = Found(1, 0, "gunicorn: worker [app]");
  titled.As<ProcessStarted>()->space = 0;
  CHECK(RolesOf({Target(), titled}) == Roles{"parent", "worker"});
  CHECK(RolesOf({Target(), titled, Exec(1, "nvidia-smi")}) == Roles{"parent", "other"});
  CHECK(RolesOf({Target(), Found(1, 0, "gunicorn: worker [app]")}) == Roles{"parent", "other"});
}

TEST_CASE("trackers and torch's manager are helpers") {
  CHECK(RolesOf({Target(), Fork(1, 0, kTrain), Exec(1, kTracker)}) == Roles{"parent", "helper"});
  CHECK(RolesOf({Target(), Fork(1, 0, kTrain), Exec(1, kTrackerOfCopy)}) == Roles{"parent", "helper"});
  CHECK(RolesOf({Target(), Found(1, 0, "python -c from multiprocessing.semaphore_tracker import main;main(3)")}) ==
        Roles{"parent", "helper"});
  CHECK(RolesOf({Target(), Process(1, 0, Origin::kFoundAtAttach, "torch_shm_manager", "torch_shm_manag")}) ==
        Roles{"parent", "helper"});
}

TEST_CASE("the target stays the parent whatever it executes") {
  CHECK(RolesOf({Target(), Exec(0, kForkserver)}) == Roles{"parent"});
}

// ---- By what a process is ----

namespace {

Event ForkOf(int index, int parent, const std::string& command, double t = 0) {
  Event event = Fork(index, parent, command);
  event.t = absl::Seconds(t);
  event.As<ProcessStarted>()->space = parent;
  return event;
}
Event ExecOf(int index, const std::string& executable, const std::string& command = "python train.py") {
  return {.index = index, .what = ProcessExeced{.comm = "x", .command = command, .executable = executable}};
}
Event DutyOf(int index, Duty duty, StartMethod start = StartMethod::kUnknown, Count number = {}) {
  return {.index = index, .what = DutyFound{.start = start, .duty = duty, .number = number}};
}
Event RankIs(int index, uint64_t rank, RankSource source = RankSource::kTorch) {
  return {.index = index,
          .what = RankFound{{.source = source, .rank = rank, .local_rank = rank, .world_size = 2, .job_id = "j"}}};
}
Event TargetOf(const std::string& executable) {
  Event target = Target();
  target.As<ProcessStarted>()->executable = executable;
  return target;
}
constexpr char kPython[] = "/usr/bin/python3.11", kBash[] = "/usr/bin/bash";

}  // namespace

TEST_CASE("subshells are helpers, and so are shells in between") {
  CHECK(RolesOf({TargetOf(kBash), ForkOf(1, 0, "bash"), ForkOf(2, 0, "bash"), ExecOf(2, kPython), ForkOf(3, 2, kTrain),
                 ForkOf(4, 0, "bash"), ExecOf(4, "/bin/dash"), ForkOf(5, 4, "sh")}) ==
        Roles{"parent", "helper", "other", "worker", "helper", "helper"});
  // Another program that forks shares its data with its children: redis, postgres.
  CHECK(RolesOf({TargetOf("/usr/bin/redis-server"), ForkOf(1, 0, "redis")}) == Roles{"parent", "worker"});
  CHECK(RolesOf({TargetOf("/opt/rebash/mybash"), ForkOf(1, 0, "mybash")}) == Roles{"parent", "worker"});
}

TEST_CASE("a program that ended before it could be looked at") {
  const auto exec = [](int index, const char* comm) {
    return Event{.index = index, .what = ProcessExeced{.comm = comm, .command = "", .executable = ""}};
  };
  CHECK(RolesOf({TargetOf(kBash), ForkOf(1, 0, "bash"), exec(1, "bash"), ForkOf(2, 1, "")}) ==
        Roles{"parent", "helper", "helper"});
  CHECK(RolesOf({TargetOf(kBash), ForkOf(1, 0, "bash"), exec(1, "my-script"), ForkOf(2, 1, "")}) ==
        Roles{"parent", "other", "other"});
}

TEST_CASE("a child runs what its parent ran when it forked it") {
  // A shim: its shell forks subshells, in one sample with what it becomes, and its Python forks a worker.
  CHECK(RolesOf({TargetOf(kBash), ForkOf(1, 0, "bash"), ForkOf(2, 1, "bash"), ExecOf(0, kPython), ForkOf(3, 0, kTrain),
                 Exited(1), Exited(2)}) == Roles{"parent", "helper", "helper", "worker"});
  // Known by name only, since it has called exec again. (vfork gives no memory, but the same program.)
  Event shim = ExecOf(0, "bash", "");
  Event vforked = Fork(2, 0, "bash");
  CHECK(RolesOf({Target(), shim, ForkOf(1, 0, "bash"), vforked, ExecOf(0, kPython), ForkOf(3, 0, kTrain)}) ==
        Roles{"parent", "helper", "helper", "worker"});
  // A program that nothing but the name is known of.
  CHECK(RolesOf({Target(), ExecOf(0, "env", ""), ForkOf(1, 0, "env"), ExecOf(0, kPython), ForkOf(2, 0, kTrain)}) ==
        Roles{"parent", "other", "worker"});
  // In later samples, too.
  RunModel model;
  Append({.events = {TargetOf(kBash), ForkOf(1, 0, "bash")}}, &model);
  Append({.t = absl::Seconds(1), .events = {ExecOf(0, kPython)}}, &model);
  Append({.t = absl::Seconds(2), .events = {ForkOf(2, 0, kTrain, 2)}}, &model);
  CHECK(model.processes[1].role == Role::kHelper);
  CHECK(model.processes[2].role == Role::kWorker);
  // The subshell that lives on has not the memory of Python.
  CHECK(model.processes[1].space == 1);
  CHECK(model.processes[2].space == 0);
}

TEST_CASE("ranks are the outermost programs with their rank") {
  // A shell starts two trainers, each forks workers; one of these sets a variable of its own that does not give a rank.
  CHECK(RolesOf({TargetOf(kBash), ForkOf(1, 0, "bash"), ExecOf(1, kPython), RankIs(1, 0), ForkOf(2, 0, "bash"),
                 ExecOf(2, kPython), RankIs(2, 1), ForkOf(3, 1, kTrain), RankIs(3, 0), ForkOf(4, 2, kTrain)}) ==
        Roles{"parent", "rank", "rank", "worker", "worker"});
  // Through a wrapper script that has the rank, too.
  CHECK(RolesOf({TargetOf(kPython), ForkOf(1, 0, "x"), ExecOf(1, kBash), RankIs(1, 0), ForkOf(2, 1, "x"),
                 ExecOf(2, kPython), RankIs(2, 0)}) == Roles{"parent", "helper", "rank"});
  // torchrun in a step of Slurm: its own number is Slurm's.
  CHECK(RolesOf({TargetOf(kPython), RankIs(0, 0, RankSource::kSlurm), ForkOf(1, 0, "x"), ExecOf(1, kPython),
                 RankIs(1, 0)}) == Roles{"parent", "rank"});
  // Forked, and set in os.environ.
  CHECK(RolesOf({TargetOf(kPython), ForkOf(1, 0, kTrain), RankIs(1, 1), ForkOf(2, 1, kTrain)}) ==
        Roles{"parent", "rank", "worker"});
}

TEST_CASE("a process that inherits the variables of a rank is not one") {
  // The target is a rank itself: its workers, and programs that it runs, have its rank.
  CHECK(RolesOf({TargetOf(kPython), RankIs(0, 1), ForkOf(1, 0, kTrain), RankIs(1, 1), ForkOf(2, 0, kTrain),
                 ExecOf(2, "/usr/bin/nvidia-smi"), RankIs(2, 1)}) == Roles{"parent", "worker", "other"});
  // A DataLoader's worker is one whatever its environment says.
  CHECK(RolesOf({TargetOf(kPython), ForkOf(1, 0, kTrain), RankIs(1, 1), DutyOf(1, Duty::kLoader)}) ==
        Roles{"parent", "worker"});
}

TEST_CASE("roles by frames, whatever the command line says") {
  const auto found = [](int index, int parent) {
    Event event = Found(index, parent, "my server");
    event.As<ProcessStarted>()->executable = kPython;
    return event;
  };
  CHECK(RolesOf({TargetOf(kPython), found(1, 0)}) == Roles{"parent", "other"});
  CHECK(RolesOf({TargetOf(kPython), found(1, 0), DutyOf(1, Duty::kLoader, StartMethod::kSpawn)}) ==
        Roles{"parent", "worker"});
  CHECK(RolesOf({TargetOf(kPython), found(1, 0), DutyOf(1, Duty::kPool, StartMethod::kLoky)}) ==
        Roles{"parent", "pool"});
  CHECK(RolesOf({TargetOf(kPython), found(1, 0), DutyOf(1, Duty::kTracker)}) == Roles{"parent", "helper"});
  CHECK(RolesOf({TargetOf(kPython), found(1, 0), DutyOf(1, Duty::kForkserver), ForkOf(2, 1, "my worker"),
                 DutyOf(2, Duty::kUnknown, StartMethod::kForkserver)}) == Roles{"parent", "forkserver", "worker"});
  CHECK(RolesOf({TargetOf(kPython), ForkOf(1, 0, kTrain), DutyOf(1, Duty::kManager)}) == Roles{"parent", "helper"});
  // Words in an argument.
  CHECK(RolesOf({TargetOf(kPython), ForkOf(1, 0, kTrain), ExecOf(1, kPython, "python x.py multiprocessing.forkserver"),
                 ForkOf(2, 0, kTrain), ExecOf(2, kPython, "python x.py multiprocessing.resource_tracker")}) ==
        Roles{"parent", "other", "other"});
  // A forked child that runs Python once more shares nothing.
  CHECK(RolesOf({TargetOf(kPython), ForkOf(1, 0, kTrain), ExecOf(1, kPython)}) == Roles{"parent", "other"});
}

TEST_CASE("the frames of a forked process do not say how its parent was started") {
  RunModel model;
  Append({.events = {TargetOf(kPython), ForkOf(1, 0, kTrain), ExecOf(1, kPython, kSpawned), ForkOf(2, 1, kTrain),
                     DutyOf(1, Duty::kUnknown, StartMethod::kSpawn), DutyOf(2, Duty::kLoader, StartMethod::kSpawn)}},
         &model);
  CHECK(model.processes[1].duty.start == StartMethod::kSpawn);
  CHECK(model.processes[2].duty.start == StartMethod::kUnknown);
  CHECK(model.processes[2].duty.duty == Duty::kLoader);
}

TEST_CASE("a rank counts as a worker if it has the launcher's memory and no workers") {
  RunModel model;
  Append({.events = {TargetOf(kPython), ForkOf(1, 0, kTrain), RankIs(1, 0), ForkOf(2, 0, kTrain), RankIs(2, 1),
                     ForkOf(3, 2, kTrain), ForkOf(4, 0, kTrain), ExecOf(4, kPython), RankIs(4, 2)}},
         &model);
  CHECK(model.processes[1].is_worker());
  CHECK_FALSE(model.processes[2].is_worker());
  CHECK(model.processes[3].is_worker());
  CHECK_FALSE(model.processes[4].is_worker());  // it shares nothing with the launcher
  CHECK(LabelOf(model.processes[0], model) == "launcher");
  CHECK(LabelOf(model.processes[1], model) == "rank 0");
  CHECK(LabelOf(model.processes[3], model) == "worker of rank 1");
  CHECK(JobOf(model).world_size == 2u);
  CHECK(JobOf(model).job_id == "j");
}

// Lightning's own launcher: the target sets variables, runs itself once more for each other rank, and trains. Both have
// a DataLoader. `first_host`: its ranks have numbers; otherwise only local ones.
namespace {

Event LightningIs(int index, uint64_t local_rank, bool first_host, Count world_size = 4u) {
  return {.index = index,
          .what = RankFound{{.source = RankSource::kLightning,
                             .rank = first_host ? Count(local_rank) : std::nullopt,
                             .local_rank = local_rank,
                             .world_size = world_size,
                             .job_id = ""}}};
}
std::vector<Event> Lightning(bool first_host) {
  return {TargetOf(kPython),
          LightningIs(0, 0, first_host),
          ForkOf(1, 0, kTrain),
          ExecOf(1, kPython),
          LightningIs(1, 1, first_host),
          ForkOf(2, 0, kTrain),
          ForkOf(3, 1, kTrain),
          ForkOf(4, 0, kTrain),
          ExecOf(4, "/usr/bin/nvidia-smi"),
          LightningIs(4, 0, first_host)};
}

}  // namespace

TEST_CASE("the first rank of Lightning's own launcher is a rank, and starts the others") {
  const bool first_host = GENERATE(true, false);
  RunModel model;
  Append({.events = Lightning(first_host)}, &model);
  Append({.t = absl::Seconds(1)}, &model);
  CHECK(model.processes[0].role == Role::kParent);
  CHECK(model.processes[1].role == Role::kRank);
  CHECK(model.processes[2].role == Role::kWorker);
  CHECK(model.processes[4].role == Role::kOther);
  const std::string noun = first_host ? "rank " : "local rank ";
  CHECK(LabelOf(model.processes[0], model) == noun + "0");
  CHECK(LabelOf(model.processes[1], model) == noun + "1");
  CHECK(LabelOf(model.processes[2], model) == "worker of " + noun + "0");
  CHECK(LabelOf(model.processes[3], model) == "worker of " + noun + "1");
  CHECK(SlotsOf(model).ranks == 2);
  CHECK(SlotsOf(model).most_of_rank == 1);
  CHECK(LaunchersOf(model) == std::set<int>{0});
  CHECK(JobOf(model).world_size == 4u);
  // At the end of the training.
  Append({.t = absl::Seconds(2), .events = {LightningIs(1, 1, first_host, {}), LightningIs(0, 0, first_host, {})}},
         &model);
  CHECK(JobOf(model).world_size == 4u);
  Append({.t = absl::Seconds(3), .events = {Exited(1)}}, &model);
  Append({.t = absl::Seconds(4)}, &model);
  CHECK(LabelOf(model.processes[0], model) == noun + "0");
}

TEST_CASE("a target that starts ranks and does not train is a launcher, even with workers of its own") {
  // Of torch.multiprocessing.spawn, in an environment that names a rank: the processes set their own.
  RunModel spawned;
  Append({.events = {TargetOf(kPython), LightningIs(0, 0, true), ForkOf(1, 0, kTrain), DutyOf(1, Duty::kTrainer),
                     ForkOf(2, 0, kTrain), DutyOf(2, Duty::kTrainer), LightningIs(2, 1, true), ForkOf(3, 0, kTrain),
                     DutyOf(3, Duty::kPool)}},
         &spawned);
  CHECK(LabelOf(spawned.processes[0], spawned) == "launcher");
  CHECK(LabelOf(spawned.processes[3], spawned) == "worker");
  CHECK(SlotsOf(spawned).ranks == 2);
  // torchrun in a task that has a rank.
  RunModel torchrun;
  Append({.events = {TargetOf(kPython), RankIs(0, 0, RankSource::kSlurm), ForkOf(1, 0, "x"), ExecOf(1, kPython),
                     RankIs(1, 0), ForkOf(2, 0, "x"), ExecOf(2, kPython), RankIs(2, 1)}},
         &torchrun);
  CHECK(LabelOf(torchrun.processes[0], torchrun) == "launcher");
  CHECK(SlotsOf(torchrun).ranks == 2);
  // Lightning on one GPU starts nothing.
  RunModel alone;
  Append({.events = {TargetOf(kPython), LightningIs(0, 0, true, 1u), ForkOf(1, 0, kTrain)}}, &alone);
  CHECK(LabelOf(alone.processes[0], alone) == "parent");
  CHECK(LabelOf(alone.processes[1], alone) == "worker");
}

TEST_CASE("torch.multiprocessing.spawn numbers its ranks") {
  RunModel model;
  Append({.events = {TargetOf(kPython), ForkOf(1, 0, kTrain), ExecOf(1, kPython, kSpawned),
                     DutyOf(1, Duty::kTrainer, StartMethod::kSpawn, 1), ForkOf(2, 1, kTrain)}},
         &model);
  CHECK(model.processes[1].role == Role::kRank);
  CHECK(RankOf(model.processes[1], model) == nullptr);
  CHECK(LocalRankOf(model.processes[1], model) == 1u);
  CHECK(LocalRankOf(model.processes[2], model) == 1u);
  CHECK(LabelOf(model.processes[2], model) == "worker of rank 1");
}

TEST_CASE("a rank is inherited, and taken away") {
  RunModel model;
  model.info.identity.rank = {
      .source = RankSource::kTorch, .rank = 3u, .local_rank = 1u, .world_size = 8u, .job_id = ""};
  Append({.events = {TargetOf(kPython), ForkOf(1, 0, kTrain), ForkOf(2, 0, kTrain), ExecOf(2, kPython),
                     Event{.index = 2, .what = RankFound{}}}},
         &model);
  REQUIRE(RankOf(model.processes[1], model) != nullptr);
  CHECK(RankOf(model.processes[1], model)->rank == 3u);
  CHECK(RankOf(model.processes[2], model) == nullptr);
  CHECK(model.processes[1].role == Role::kWorker);
}

// ---- Generations, batches ----

namespace {

std::vector<int> GenerationsOf(const RunModel& model) {
  std::vector<int> generations;
  for (const ProcessModel& process : model.processes) generations.push_back(process.generation);
  return generations;
}
ProcessSample LoaderRow(int index, uint64_t worker_id, Count batch = {}, uint64_t num_workers = 2) {
  ProcessSample row = {.index = index};
  row.loader = LoaderWorker{.worker_id = worker_id, .num_workers = num_workers, .batch = batch};
  return row;
}

}  // namespace

TEST_CASE("an epoch's workers are a generation, even if several epochs pass between two samples") {
  RunModel model;
  Append({.t = absl::Seconds(1),
          .events = {TargetOf(kPython), ForkOf(1, 0, kTrain, 0.1), ForkOf(2, 0, kTrain, 0.1),
                     Exited(1, 0, absl::Seconds(0.3)), Exited(2, 0, absl::Seconds(0.4)), ForkOf(3, 0, kTrain, 0.5),
                     ForkOf(4, 0, kTrain, 0.5)}},
         &model);
  Append({.t = absl::Seconds(2), .events = {Exited(3, 0, absl::Seconds(1.5)), ForkOf(5, 0, kTrain, 1.6)}}, &model);
  CHECK(GenerationsOf(model) == std::vector<int>{-1, 0, 0, 1, 1, 1});  // worker 4 lives: 5 replaces 3
}

TEST_CASE("generations: a child that runs another program is of none") {
  RunModel model;
  Append({.events = {TargetOf(kPython), ForkOf(1, 0, kTrain)}}, &model);
  Append({.t = absl::Seconds(1), .events = {ExecOf(1, "/usr/bin/ls")}}, &model);
  Append({.t = absl::Seconds(2), .events = {ForkOf(2, 0, kTrain, 2)}}, &model);
  CHECK(GenerationsOf(model) == std::vector<int>{-1, -1, 0});
}

TEST_CASE("a child whose exec failed is a helper, and of no generation") {
  RunModel model;
  Append({.t = absl::Seconds(1), .events = {Target()}}, &model);
  model.processes[0].python = "3.8.10";
  const auto role_of = [&](int status, absl::Duration lived, Count copies, Duty duty = Duty::kUnknown) {
    const int index = model.announced;
    Event fork = Fork(index, 0, kTrain);
    std::get<ProcessStarted>(fork.what).space = 0;
    fork.t = model.t + absl::Seconds(1);
    const Event end = {.t = fork.t + lived, .index = index, .what = ProcessExited{.status = status}};
    Sample sample = {.t = end.t, .events = {fork, end}, .processes = {Row(index, 0, 0)}};
    sample.processes[0].counts.copies = copies;
    if (duty != Duty::kUnknown) sample.events.push_back({.t = fork.t, .index = index, .what = DutyFound{.duty = duty}});
    Append(sample, &model);
    return model.processes[index].role;
  };
  const absl::Duration at_once = absl::Milliseconds(5);
  CHECK(role_of(255 << 8, at_once, 20) == Role::kHelper);
  CHECK(model.processes[1].generation == -1);
  CHECK(role_of(255 << 8, at_once, 60) == Role::kHelper);  // an older CPython's may take more than was measured
  CHECK(role_of(1 << 8, at_once, 20) == Role::kWorker);
  CHECK(role_of(SIGKILL, at_once, 20) == Role::kWorker);
  CHECK(role_of(255 << 8, absl::Seconds(3), 20) == Role::kWorker);
  CHECK(role_of(255 << 8, at_once, 100) == Role::kWorker);
  CHECK(role_of(255 << 8, at_once, std::nullopt) == Role::kWorker);
  CHECK(role_of(255 << 8, at_once, 20, Duty::kPool) == Role::kPool);
  model.processes[0].python.clear();  // not of Python
  CHECK(role_of(255 << 8, at_once, 20) == Role::kWorker);
}

TEST_CASE("workers that all end at once are no failed execs") {
  RunModel model;
  Sample sample = {.t = absl::Seconds(1), .events = {Target()}, .processes = {Row(0, 0, 0)}};
  for (int index = 1; index <= 4; ++index) {
    sample.events.push_back(Fork(index, 0, kTrain));
    std::get<ProcessStarted>(sample.events.back().what).space = 0;
    sample.events.push_back(Exited(index, 255 << 8, absl::Milliseconds(50)));
    sample.processes.push_back(Row(index, 20, 20));
  }
  const bool one_lives = GENERATE(false, true);
  if (one_lives) sample.events.pop_back();
  Append({.events = {Target()}}, &model);
  model.processes[0].python = "3.11.2";
  sample.events.erase(sample.events.begin());
  Append(sample, &model);
  const int failed = one_lives ? -1 : 0;
  CHECK(GenerationsOf(model) == std::vector<int>{-1, failed, failed, failed, 0});
  CHECK(model.processes[1].is_worker() == !one_lives);
  CHECK(SumOf(model, /*living_only=*/false, /*workers_only=*/true).processes == (one_lives ? 1 : 4));
}

TEST_CASE("generations: workers of a DataLoader with the same number are of two") {
  const bool last_is_first = GENERATE(false, true);
  RunModel model;
  Append({.events = {TargetOf(kPython), ForkOf(1, 0, kTrain), ForkOf(2, 0, kTrain)},
          .processes = {LoaderRow(1, 0), LoaderRow(2, 1)}},
         &model);
  // The next iterator starts its workers before the first one is gone.
  Append({.t = absl::Seconds(1), .events = {ForkOf(3, 0, kTrain, 1), ForkOf(4, 0, kTrain, 1)}}, &model);
  CHECK(GenerationsOf(model) == std::vector<int>{-1, 0, 0, 0, 0});
  const ProcessSample three = LoaderRow(3, 0), four = LoaderRow(4, 1);
  Append({.t = absl::Seconds(2), .processes = {last_is_first ? four : three}}, &model);
  Append({.t = absl::Seconds(3), .processes = {last_is_first ? three : four}}, &model);
  CHECK(GenerationsOf(model) == std::vector<int>{-1, 0, 0, 1, 1});
}

TEST_CASE("batches that a worker was seen to have begun") {
  RunModel model;
  const auto see = [&](uint64_t batch) {
    Append({.t = model.t + absl::Seconds(1), .processes = {LoaderRow(1, 1, batch)}}, &model);
    return model.processes[1].batches;
  };
  Append({.events = {TargetOf(kPython), ForkOf(1, 0, kTrain)}, .processes = {LoaderRow(1, 1)}}, &model);
  CHECK_FALSE(model.processes[1].batches.has_value());
  CHECK(see(1) == 1u);
  CHECK(see(9) == 5u);
  CHECK(see(9) == 5u);
  CHECK(see(3) == 7u);              // the next epoch
  CHECK_FALSE(see(4).has_value());  // dealt to whoever is free
  CHECK_FALSE(see(5).has_value());
}

TEST_CASE("slots: workers at a time, of each rank") {
  RunModel model;
  std::vector<Event> events = {TargetOf(kBash)};
  for (int rank = 1; rank <= 2; ++rank) {
    events.push_back(ForkOf(rank, 0, "bash"));
    events.push_back(ExecOf(rank, kPython));
    events.push_back(RankIs(rank, rank - 1));
  }
  for (int index = 3; index <= 10; ++index) {  // two of each rank, twice
    const double start = index <= 6 ? 0 : 2;
    events.push_back(ForkOf(index, 1 + index % 2, kTrain, start));
    events.push_back(Exited(index, 0, absl::Seconds(start + 2)));
  }
  Append({.t = absl::Seconds(5), .events = events, .processes = {LoaderRow(3, 0, {}, 4)}}, &model);
  const Slots slots = SlotsOf(model);
  CHECK(slots.ranks == 2);
  CHECK(slots.configured == 4u);
  CHECK(slots.least_of_rank == 2);
  CHECK(slots.most_of_rank == 2);
  // Both end, and torchrun starts them anew.
  events = {Exited(1, 1, absl::Seconds(6)), Exited(2, 9, absl::Seconds(6))};
  for (int rank = 11; rank <= 12; ++rank) {
    events.push_back(ForkOf(rank, 0, "bash", 7));
    events.push_back(ExecOf(rank, kPython));
    events.push_back(RankIs(rank, rank - 11));
  }
  Append({.t = absl::Seconds(8), .events = events}, &model);
  CHECK(SlotsOf(model).ranks == 2);
}

TEST_CASE("slots: a rank that failed before it forked workers, and was started anew") {
  RunModel model;
  const auto start = [&](int first, double t) {
    std::vector<Event> events;
    for (int rank = first; rank < first + 2; ++rank) {
      events.push_back(ForkOf(rank, 0, "bash", t));
      events.push_back(ExecOf(rank, kPython));
      events.push_back(RankIs(rank, rank - first));
    }
    Append({.t = absl::Seconds(t), .events = events}, &model);
  };
  Append({.events = {TargetOf(kBash)}}, &model);
  start(1, 1);
  Append({.t = absl::Seconds(2), .events = {Exited(1, 1, absl::Seconds(2)), Exited(2, 9, absl::Seconds(2))}}, &model);
  start(3, 3);
  std::vector<Event> workers;
  for (int index = 5; index <= 8; ++index) workers.push_back(ForkOf(index, 3 + index % 2, kTrain, 4));
  Append({.t = absl::Seconds(5), .events = workers, .processes = {LoaderRow(5, 0, {}, 2)}}, &model);
  CHECK(SlotsOf(model).ranks == 2);
  CHECK(SlotsOf(model).most_of_rank == 2);
  CHECK(SlotsOf(model).least_of_rank == 2);
}

TEST_CASE("slots: those that a pool is to have") {
  RunModel model;
  Append({.events = {TargetOf(kPython), ForkOf(1, 0, kTrain), DutyOf(1, Duty::kPool)}}, &model);
  CHECK_FALSE(SlotsOf(model).configured);
  Append({.events = {{.index = 0, .what = DutyFound{.configured = 8u}}}}, &model);
  CHECK(SlotsOf(model).configured == 8u);
}

TEST_CASE("labels have the words of sentences") {
  RunModel model;
  model.processes = {{.index = 0}, {.index = 1, .parent = 0, .role = Role::kPool}, {.index = 2, .parent = 0}};
  model.processes[2].role = Role::kOther;
  CHECK(LabelOf(model.processes[1], model) == "worker");
  CHECK(LabelOf(model.processes[2], model) == "process");
}

TEST_CASE("exits as wait(2) codes them") {
  CHECK(ExitOf(0).code == 0);
  CHECK_FALSE(ExitOf(0).signaled);
  CHECK(ExitOf(3 << 8).code == 3);
  CHECK(ExitOf(255 << 8).code == 255);
  CHECK(ExitOf(255 << 8).signal == 0);
  CHECK(ExitOf(SIGKILL).signaled);
  CHECK(ExitOf(SIGKILL).signal == SIGKILL);
  CHECK(ExitOf(SIGKILL).code == 137);
  CHECK(ExitOf(SIGBUS | 0x80).signal == SIGBUS);  // with a core
  CHECK(ExitOf(SIGBUS | 0x80).code == 128 + SIGBUS);
  CHECK(SignalName(SIGKILL) == "SIGKILL");
  CHECK(SignalName(SIGBUS) == "SIGBUS");
  for (const int odd : {-1, 0, 999}) CHECK(SignalName(odd) == "signal " + std::to_string(odd));
}

TEST_CASE("names as the contract spells them") {
  CHECK(std::string(NameOf(LimitKind::kShm)) == "shm");
  CHECK(std::string(NameOf(LimitKind::kCgroupV1)) == "cgroup-v1");
  CHECK(std::string(NameOf(LimitKind::kCgroupV2)) == "cgroup-v2");
  CHECK(std::string(NameOf(LimitKind::kDescriptors)) == "fds");
  CHECK(std::string(NameOf(Exactness::kExact)) == "exact");
  CHECK(std::string(NameOf(Exactness::kUpperBound)) == "upper-bound");
  CHECK(std::string(NameOf(Exactness::kUnavailable)) == "unavailable");
}

TEST_CASE("totals over the living, the ended and the workers") {
  RunModel model;
  Append({.t = absl::Seconds(1),
          .events = {Target(), Fork(1, 0, kTrain), Fork(2, 0, kTrain), Found(3, 0, "sh")},
          .processes = {Row(0, 1, 9), Row(1, 0, 0), Row(2, 0, 0), Row(3, 1000, 1001)}},
         &model);
  Append({.t = absl::Seconds(3),
          .events = {Exited(1, 0, absl::Seconds(3))},
          .processes = {Row(0, 5, 9), Row(1, 10, 21), Row(2, 40, 41), Row(3, 1000, 1001)}},
         &model);
  const Totals all = SumOf(model, false, false);
  CHECK(all.processes == 4);
  CHECK(all.copies == 1055);
  CHECK(all.reuses == 4 + 11 + 1 + 1);
  CHECK(all.copies_known);
  const Totals workers = SumOf(model, false, true);
  CHECK(workers.processes == 2);
  CHECK(workers.copies == 50);
  CHECK(workers.private_bytes == 50 * 4096);
  CHECK(workers.still_shared_bytes == 150 * 4096);
  const Totals living = SumOf(model, true, true);
  CHECK(living.processes == 1);
  CHECK(living.copies == 40);
  CHECK(living.copies_per_second == 20);
  CHECK(living.still_shared_bytes == 60 * 4096);
}

TEST_CASE("reuses are what copied nothing, and never less than none") {
  CHECK(FaultCounts{.write_protect_faults = 10, .copies = 4, .zero_upgrades = 1}.reuses() == 5u);
  CHECK(FaultCounts{.write_protect_faults = 3, .copies = 4, .zero_upgrades = 1}.reuses() == 0u);
  CHECK_FALSE(FaultCounts{.write_protect_faults = 3, .copies = 4}.reuses().has_value());
  CHECK_FALSE(FaultCounts{.copies = 4, .zero_upgrades = 1}.reuses().has_value());
}

TEST_CASE("limits keep their order, their peak, and the last value once they are gone") {
  RunModel model;
  const LimitSample shm = {LimitKind::kShm, "/dev/shm", 100, 30}, memory = {LimitKind::kHost, "m", {}, 7};
  Append({.limits = {shm, memory}}, &model);
  Append({.limits = {memory, {LimitKind::kShm, "/dev/shm", 100, 90}}}, &model);
  Append({.limits = {{LimitKind::kShm, "/dev/shm", 200, 40}}, .losses = {.unreadable = 2}}, &model);
  Append({.losses = {.unreadable = 2}}, &model);
  REQUIRE(model.limits.size() == 2);
  CHECK(model.limits[0].now.used == 40);
  CHECK(model.limits[0].now.limit == 200u);
  CHECK(model.limits[0].now.ratio() == 0.2);
  CHECK(model.limits[0].peak == 90);
  CHECK(model.limits[1].now == memory);
  CHECK_FALSE(model.limits[1].now.ratio().has_value());
  CHECK(model.losses.unreadable == 2);
  CHECK_FALSE(LimitSample{.limit = 0, .used = 3}.ratio().has_value());
}

TEST_CASE("what is said of an index that was never announced is left out") {
  RunModel model;
  constexpr int kMost = std::numeric_limits<int>::max(), kLeast = std::numeric_limits<int>::min();
  for (const int index : {-1, 1'000'000'000, kMost, kLeast}) {
    Append({.events = {Fork(index, 0, kTrain)}}, &model);
  }
  for (const int index : {-1, 0, 1, kMost, kLeast}) {
    Append({.events = {Exec(index, "x"), Exited(index, 9, absl::Seconds(3))}, .processes = {Row(index, 1, 1)}}, &model);
  }
  CHECK(model.processes.size() == 2);  // no more places than were announced
  for (const ProcessModel& process : model.processes) CHECK(process.command.empty());
}

TEST_CASE("processes that are announced in another order than that of their indexes") {
  RunModel model;
  Append({.events = {Fork(2, 1, kTrain), Target(), Fork(1, 0, kTrain)}, .processes = {Row(1, 10, 10), Row(2, 20, 20)}},
         &model);
  REQUIRE(model.processes.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(model.processes[i].index == i);
    CHECK(model.processes[i].id.pid == 100 + i);
    CHECK(model.processes[i].command == kTrain);
  }
  CHECK(model.processes[2].counts.copies == 20u);
  CHECK(model.processes[2].role == Role::kWorker);
}

TEST_CASE("no random recording makes a figure wrap around") {
  const unsigned seed = GENERATE(range(1u, 41u));
  INFO("seed " << seed);
  RandomRecording recording(seed);
  RunModel model;
  for (int i = 0; i < 60; ++i) {
    Append(recording.Next(), &model);
    CheckNoHugeFigure(model);
  }
  CHECK(model.samples == 60);
}

}  // namespace cowprof
