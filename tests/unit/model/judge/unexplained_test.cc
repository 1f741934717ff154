// What is said of copies that no diagnosis is about, and of those that the parent or the kernel makes.
#include "model/judge/unexplained.h"

#include <signal.h>

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "builders.h"
#include "judged.h"

namespace cowprof {
namespace {

constexpr uint64_t kCopies = 25'600;  // 100 MiB

// A parent and a worker, and the line at which the worker made all of its copies; no file: no Python ran.
Run Recorded(const ByCause& parent, const ByCause& worker, const Frame& frame = {}) {
  Run run;
  Append({.events = {Started(0, -1, "python3 app.py"), Started(1, 0, "python3 app.py")},
          .processes = {RowByCause(0, parent), RowByCause(1, worker)}},
         &run);
  for (ProcessModel& process : run.model.processes) process.python = "3.11.2";
  run.model.frames = {frame};
  run.model.copy_sites = {{.cause = Cause::kFree, .frames = frame.file.empty() ? std::vector<int>{} : std::vector{0}}};
  const uint64_t copies = run.model.processes[1].counts.copies.value_or(0);
  if (copies > 0) run.model.processes[1].copy_sites[0] = {1, 0, copies, copies, copies};
  return run;
}

const Frame kLine = {.file = "/app.py", .function = "work", .line = 7};

}  // namespace

TEST_CASE("unexplained: where inherited objects were released") {
  const ByCause released = {{Cause::kFree, 20'000}, {Cause::kAllocator, 5600}};
  CHECK(
      HeadlineOf(Recorded({}, released, kLine)) ==
      "1 worker copied 100.0 MiB of inherited memory: 78 % released objects, 22 % pymalloc's bookkeeping; 100 % of it at "
      "app.py:7 in work. Releasing inherited objects gives nothing back: it copies their pages first.");
  CHECK(
      absl::EndsWith(HeadlineOf(Recorded({}, released)),
                     "; no Python code ran then, as at the interpreter's exit, where it releases all objects: a forked "
                     "process that ends with os._exit() does not."));
  // Without stacks, without Python, or where something else wrote, nobody knows that.
  Run without = Recorded({}, released);
  without.model.frames.clear();
  CHECK(absl::EndsWith(HeadlineOf(without), "22 % pymalloc's bookkeeping."));
  Run native = Recorded({}, released);
  for (ProcessModel& process : native.model.processes) process.python = "";
  CHECK(absl::EndsWith(HeadlineOf(native), "22 % pymalloc's bookkeeping."));
  CHECK(absl::EndsWith(HeadlineOf(Recorded({}, {{Cause::kHash, kCopies}})), "100 % cached hashes."));
}

TEST_CASE("copies: what was released is told beside a finding that has fewer, once") {
  const std::string reading = "Reading Python objects duplicated 40.0 MiB of the parent's memory in 1 worker";
  const ByCause copies = {{Cause::kRefcount, 10'240}, {Cause::kFree, 76'800}};
  CHECK(HeadlineOf(Recorded({}, copies)) ==
        reading +
            "; releasing objects, as at the interpreter's exit (which os._exit() skips), copied another 300.0 MiB.");
  CHECK(HeadlineOf(Recorded({}, copies, kLine)) == reading + "; releasing objects copied another 300.0 MiB.");
  Run without_stacks = Recorded({}, copies);
  without_stacks.model.frames.clear();
  CHECK(HeadlineOf(without_stacks) == reading + "; releasing objects copied another 300.0 MiB.");
  CHECK(HeadlineOf(Recorded({}, {{Cause::kRefcount, 10'240}, {Cause::kFree, 10'000}})) == reading + ".");
  const std::vector<Diagnosis> two =
      DiagnosesOf(Recorded({}, {{Cause::kRefcount, 10'240}, {Cause::kGcHeader, 12'800}, {Cause::kFree, 76'800}}));
  REQUIRE(two.size() == 2);
  CHECK(two[0].id == "cow-gc-header");
  CHECK(absl::StrContains(two[0].summary, "copied another 300.0 MiB"));
  CHECK(!absl::StrContains(two[1].summary, "another"));
}

TEST_CASE("unexplained: a bad end of the target comes first, unless it passes on what a worker did") {
  const absl::Duration t = absl::Seconds(1);
  const auto run_of = [&](const std::vector<Event>& ends, const ByCause& worker = {}) {
    Run run = Recorded({}, worker);
    Append({.t = 2 * t, .events = ends}, &run);
    return run;
  };
  const auto of = [&](const std::vector<Event>& ends) { return HeadlineOf(run_of(ends)); };
  const auto sent = [&](int index, int signal, const std::string& by = "systemd-oomd") {
    return Event{.t = t,
                 .index = index,
                 .what = SignalSent{.signal = signal, .code = SI_USER, .sender = 812, .sender_comm = by}};
  };
  CHECK(of({Exited(0, SIGSEGV, t)}) == "The parent 1000 was killed by SIGSEGV.");
  CHECK(IdsOf(run_of({Exited(0, SIGSEGV, t)})).empty());
  CHECK(of({Exited(0, 1 << 8, t)}) == "The parent 1000 ended with exit 1.");
  CHECK(of({sent(0, SIGKILL, "kubelet"), sent(1, SIGKILL, "kubelet"), Exited(1, SIGKILL, t), Exited(0, SIGKILL, t)}) ==
        "The parent 1000 was killed by SIGKILL from kubelet (pid 812), and 1 process with it.");
  CHECK(of({sent(0, SIGKILL), sent(1, SIGKILL), Exited(1, SIGKILL, t), Exited(0, SIGKILL, t)}) ==
        "systemd-oomd killed parent 1000 and 1 other as memory ran short.");
  CHECK(of({Exited(1, SIGSEGV, t), Exited(0, 1 << 8, 2 * t)}) ==
        "1 of 1 worker ended badly: worker 1001 was killed by SIGSEGV.");
  CHECK(of({Exited(1, SIGSEGV, t), Exited(0, 1 << 8, 20 * t)}) ==
        "1 of 1 worker ended badly: worker 1001 was killed by SIGSEGV. The parent 1000 ended with exit 1.");
  CHECK(of({Exited(1, SIGSEGV, t), Exited(0, SIGABRT, 2 * t)}) ==
        "1 of 1 worker ended badly: worker 1001 was killed by SIGSEGV. The parent 1000 was killed by SIGABRT.");
  // A DataLoader fails by a worker that others asked to end; near misses: the trainer asks, fails much later, or not.
  const Event term = sent(1, SIGTERM, "perl");
  Event by_trainer = term;
  by_trainer.As<SignalSent>()->sender = 1000;
  CHECK(of({term, Exited(1, SIGTERM, t), Exited(0, 1 << 8, 2 * t)}) ==
        "1 of 1 worker ended badly: worker 1001 was killed by SIGTERM from perl (pid 812).");
  CHECK(of({by_trainer, Exited(1, SIGTERM, t), Exited(0, 1 << 8, 2 * t)}) == "The parent 1000 ended with exit 1.");
  CHECK(of({term, Exited(1, SIGTERM, t), Exited(0, 1 << 8, 20 * t)}) == "The parent 1000 ended with exit 1.");
  CHECK(of({Exited(0, 1 << 8, t), term, Exited(1, SIGTERM, 2 * t)}) == "The parent 1000 ended with exit 1.");
  CHECK(absl::StartsWith(of({term, Exited(1, SIGTERM, t), Exited(0, 0, 2 * t)}), "Nothing to do: "));
  CHECK(absl::StartsWith(of({term, sent(0, SIGTERM, "perl"), Exited(1, SIGTERM, t), Exited(0, 1 << 8, 2 * t)}),
                         "Nothing to do: "));
  CHECK(absl::StartsWith(HeadlineOf(run_of({Exited(0, 1 << 8, t)}, {{Cause::kRefcount, kCopies}})),
                         "The parent 1000 ended with exit 1. Reading Python objects duplicated 100.0 MiB"));
  // It was asked to end, or said so.
  for (const std::vector<Event>& ends :
       {std::vector{Exited(0, SIGTERM, t)},
        {sent(0, SIGINT, "bash"), Exited(0, 1 << 8, 30 * t)},
        // As Slurm asks before it preempts: it saves a checkpoint first.
        {sent(0, SIGTERM, "slurmstepd"), Exited(0, 1 << 8, 90 * t)},
        // Ctrl-C reaches workers, too.
        {sent(0, SIGINT, "bash"), sent(1, SIGINT, "bash"), Exited(1, 1 << 8, t), Exited(0, SIGINT, t)},
        {Exited(0, (128 + SIGINT) << 8, t)}}) {
    CHECK(absl::StartsWith(of(ends), "Nothing to do: "));
  }
  // Not by a request long ago, nor as memory ran short, whoever else asks then.
  CHECK(of({sent(0, SIGHUP, "bash"), Exited(0, 1 << 8, 900 * t)}) == "The parent 1000 ended with exit 1.");
  CHECK(of({sent(0, SIGTERM, "earlyoom"), Exited(0, 1 << 8, 90 * t)}) == "The parent 1000 ended with exit 1.");
  CHECK(of({sent(0, SIGTERM, "earlyoom"), sent(0, SIGTERM, "torchrun"), Exited(0, 1 << 8, 5 * t)}) ==
        "earlyoom ended parent 1000 as memory ran short.");
  CHECK(of({sent(0, SIGTERM, "earlyoom"), Exited(0, (128 + SIGTERM) << 8, t)}) ==
        "earlyoom ended parent 1000 as memory ran short.");
  // What a code means is not known of other programs, unless it is a shell's word for a signal.
  const auto of_other = [&](int status) {
    Run run = run_of({Exited(0, status, t)});
    run.model.processes[0].python.clear();
    run.model.processes[0].leads = false;
    return HeadlineOf(run);
  };
  CHECK(absl::StartsWith(of_other(1 << 8), "Nothing to do: "));
  CHECK(of_other((128 + SIGSEGV) << 8) == "The target 1000 ended with exit 139.");
  Run trainer = run_of({Exited(0, SIGABRT, t)});
  trainer.model.processes[1].framework = Framework::kDataLoader;
  CHECK(HeadlineOf(trainer) == "The trainer 1000 was killed by SIGABRT.");
}

TEST_CASE("unexplained: what a process copied before it called exec is gone") {
  Run run = Recorded({}, {{Cause::kRefcount, kCopies}}, kLine);
  run.model.processes[1].role = Role::kOther;
  run.model.processes[1].execed = true;
  run.model.processes[1].comm = "python3";
  CHECK(HeadlineOf(run) ==
        "The process 1001 (python3) copied 100.0 MiB of inherited memory before it called exec, which gave that back: "
        "100 % reference counts; 100 % of it at app.py:7 in work.");
}

TEST_CASE("unexplained: what a process rewrites after each of its forks is not told") {
  Run run = Recorded({}, {{Cause::kRefcount, kCopies}});
  ProcessModel& trainer = run.model.processes[1];
  trainer.role = Role::kRank;
  trainer.leads = true;
  CHECK(absl::StrContains(HeadlineOf(run), " copied 100.0 MiB of memory that it shares with others"));
  trainer.forks = 24;
  CHECK(!absl::StrContains(HeadlineOf(run), "100.0 MiB"));
  // Programs that a program starts are all that it shares its memory with.
  trainer.forks = 0;
  trainer.execed = true;
  trainer.forks_for_exec = 75;
  CHECK(absl::StrContains(HeadlineOf(run), " copied 100.0 MiB of memory that it shares with others"));
  trainer.forks_for_exec = 76;
  CHECK(!absl::StrContains(HeadlineOf(run), "100.0 MiB"));
}

TEST_CASE("unexplained: what a program copied before it forked, nobody shared") {
  Run run = Recorded({}, {{Cause::kData, kCopies}});
  ProcessModel& trainer = run.model.processes[1];
  trainer.role = Role::kRank;
  trainer.comm = "python3";
  trainer.execed = trainer.leads = true;
  trainer.forks = 2;
  trainer.at_first_fork = {.copies = kCopies - 10'000};
  CHECK(absl::StrContains(HeadlineOf(run),
                          " (python3) copied 39.1 MiB of memory that it shares with others; the reason is unknown."));
  trainer.at_first_fork->copies += 3'000;
  CHECK(!absl::StrContains(HeadlineOf(run), "shares with others"));
  // Unless it was of files.
  trainer.copies_of_files = kCopies;
  CHECK(absl::StrContains(HeadlineOf(run), " (python3) wrote to private mappings of files "));
}

TEST_CASE("unexplained: a spawned worker copies pages of its libraries") {
  Run run = Recorded({}, {{Cause::kData, kCopies}});
  run.model.processes[1].duty.start = StartMethod::kSpawn;
  CHECK(HeadlineOf(run) ==
        "1 worker, which inherited nothing (spawn), copied 100.0 MiB, such as pages of loaded libraries: "
        "100 % writes other than reference counts.");
  // Or of a checkpoint that it maps.
  run.model.processes[1].copies_of_files = kCopies / 2;
  const std::string wrote =
      "1 worker, which inherited nothing (spawn), wrote to private mappings of files (numpy.memmap(mode=\"c\"), "
      "torch.load(mmap=True), MAP_PRIVATE, or libraries as they are loaded): ";
  CHECK(HeadlineOf(run) == wrote + "50.0 MiB of their pages became its own memory.");
  Run at_line = Recorded({}, {{Cause::kData, kCopies}}, kLine);
  at_line.model.processes[1].duty.start = StartMethod::kSpawn;
  at_line.model.processes[1].copies_of_files = kCopies;
  CHECK(HeadlineOf(at_line) ==
        wrote + "100.0 MiB of their pages became its own memory; 100 % of it at app.py:7 in work.");
  run.model.processes[1].copies_of_files = kCopies / 2 - 1;
  CHECK(absl::StrContains(HeadlineOf(run), " copied 100.0 MiB, such as pages of loaded libraries"));
}

TEST_CASE("unexplained: copies that nobody saw may be anybody's") {
  Run run = Recorded({}, {});
  run.model.losses.probes_skipped = 4096;
  CHECK(absl::StartsWith(HeadlineOf(run), "Nothing to do: "));
  run.model.losses.unattributed_copies = 1;
  CHECK(HeadlineOf(run) == "Up to 16.0 MiB were copied by processes that are not known (losses).");
  CHECK(IdsOf(run).empty());
  run.model.losses = {.threads_refused = 1};
  CHECK(absl::StartsWith(HeadlineOf(run), "Some copies were not seen: "));
}

TEST_CASE("parent: what it does with memory that it shares") {
  const auto of = [](Cause cause, double now = 100) {
    Run run = Recorded({{cause, kCopies}}, {});
    run.model.processes[0].copies_per_second = now;
    return HeadlineOf(run);
  };
  CHECK(absl::StrContains(of(Cause::kData), ": it keeps writing to memory that its worker still shares."));
  CHECK(absl::StrContains(
      of(Cause::kRefcount),
      ": it keeps reading objects that its worker still shares, which writes their reference counts."));
  CHECK(absl::StrContains(of(Cause::kFree),
                          ": it released objects that it shared with its workers, which first writes to them."));
  CHECK(absl::StrContains(
      of(Cause::kGcHeader),
      ": it runs its cycle collector, which writes to the headers of objects that its worker still shares."));
  // It has not gone on.
  CHECK(absl::StrContains(of(Cause::kData, 0), ": it wrote to memory that its worker still shared."));
  CHECK(absl::StrContains(
      of(Cause::kGcHeader, 0),
      ": it ran its cycle collector, which wrote to the headers of objects that its worker still shared."));
  // What was copied to be released takes no memory in the end.
  const Run freed = Recorded({{Cause::kFree, kCopies}}, {});
  CHECK(DiagnosesOf(freed)[0].bytes < kCopies * 4096);
  CHECK(!DiagnosesOf(freed)[0].saves);
}

TEST_CASE("cow-data: copies of GUP are told apart from writes") {
  Run run = Recorded({}, {{Cause::kKernel, kCopies}});
  CHECK(absl::StartsWith(HeadlineOf(run), "Writing to memory that the workers inherited"));
  run.model.processes[1].gup_copies = kCopies;
  CHECK(
      HeadlineOf(run) ==
      "System calls that lock, pin or prefault memory (mlockall, O_DIRECT, MADV_POPULATE_WRITE) duplicated 100.0 MiB of "
      "the parent's memory in 1 worker.");
  CHECK(DiagnosesOf(run)[0].id == "cow-data");
  CHECK(!DiagnosesOf(run)[0].saves);
  // Pages that nobody wrote are the same as the parent's.
  run.model.processes[1].verify = VerifyFigures{.pages = 100, .identical = 100};
  CHECK(DiagnosesOf(run)[0].id == "cow-data");
  run.model.processes[1].gup_copies = kCopies / 4;
  run.model.processes[1].verify.reset();
  CHECK(absl::StartsWith(HeadlineOf(run), "Writing to memory that the workers inherited"));
}

TEST_CASE("copies: ranks that a notebook forked have their launcher's memory, and are not called workers") {
  Run run = Recorded({}, {{Cause::kRefcount, kCopies}});
  run.model.frames = {{"/usr/lib/python3.11/multiprocessing/process.py", "BaseProcess._bootstrap", 314}};
  CHECK(absl::StrContains(TextOf(DiagnosesOf(run)[0]), "What the spawn start method would send"));
  ProcessModel& rank = run.model.processes[1];
  rank.role = Role::kRank;
  rank.space = 0;
  CHECK(HeadlineOf(run) == "Reading Python objects duplicated 100.0 MiB of the launcher's memory in 1 rank.");
  const Diagnosis found = DiagnosesOf(run)[0];
  CHECK(absl::StartsWith(found.advice[0], "Keep what all ranks read"));
  for (const char* words : {"worker", "spawn"}) CHECK(!absl::StrContains(TextOf(found), words));
  rank.causes = CauseCounts{};
  rank.causes->at(static_cast<int>(Cause::kData)) = kCopies;
  CHECK(absl::StartsWith(HeadlineOf(run), "Writing to memory that the ranks inherited duplicated 100.0 MiB of the "));
  // A worker of another process copied, too.
  Append({.t = absl::Seconds(1),
          .events = {Started(2, 0, "python3 app.py")},
          .processes = {RowByCause(2, {{Cause::kData, kCopies}})}},
         &run);
  run.model.processes[1].role = Role::kRank;
  CHECK(absl::StrContains(HeadlineOf(run), "Writing to memory that the workers inherited"));
}

TEST_CASE("cow-data: jemalloc does not tell what it has free") {
  Run run = Recorded({}, {{Cause::kData, kCopies}}, kLine);
  CHECK(absl::StartsWith(HeadlineOf(run), "Writing to memory that the workers inherited duplicated 100.0 MiB"));
  run.model.copy_sites[0].cause = Cause::kData;
  run.model.copy_sites[0].module = "libtorch_cpu.so";
  CHECK(!DiagnosesOf(run)[0].sketch.empty());
  run.model.regions = {{0, {.kind = RegionKind::kFile, .name = "libjemalloc.so.2 (bss)"}}};
  CHECK(absl::StartsWith(HeadlineOf(run),
                         "Writing to memory that the workers inherited, or allocating what the parent had freed "
                         "(jemalloc does not tell which), duplicated 100.0 MiB of the parent's memory in 1 worker"));
  CHECK(absl::StartsWith(DiagnosesOf(run)[0].advice[0], "Where the line above only allocates, nothing has to be done"));
  CHECK(DiagnosesOf(run)[0].sketch.empty());
}

TEST_CASE("cow-data: what Arrow and polars write may be what they allocate") {
  Run run = Recorded({}, {{Cause::kData, kCopies}}, kLine);
  run.model.copy_sites[0].cause = Cause::kData;
  // pandas imports it: that says nothing.
  run.model.regions = {{0, {.kind = RegionKind::kFile, .name = "libarrow.so.2100"}}};
  run.model.copy_sites[0].module = "_multiarray_umath.cpython-311.so";
  CHECK(absl::StartsWith(HeadlineOf(run), "Writing to memory that the workers inherited duplicated 100.0 MiB"));
  CHECK(!DiagnosesOf(run)[0].sketch.empty());
  run.model.copy_sites[0].module = "libarrow.so.2100";
  CHECK(
      absl::StartsWith(HeadlineOf(run),
                       "Writing to memory that the workers inherited, or allocating what the parent had freed (Arrow's "
                       "allocator does not tell which), duplicated 100.0 MiB"));
  CHECK(absl::StartsWith(DiagnosesOf(run)[0].advice[0], "Where the line above only allocates, nothing has to be done"));
  CHECK(DiagnosesOf(run)[0].sketch.empty());
  run.model.copy_sites[0].module = "polars.abi3.so";
  CHECK(absl::StrContains(HeadlineOf(run), "(polars' jemalloc does not tell which)"));
}

TEST_CASE("cow-data: pages of a file were never the parent's memory") {
  Run run = Recorded({}, {{Cause::kData, kCopies}}, kLine);
  run.model.copy_sites[0].cause = Cause::kData;
  run.model.copy_sites[0].module = "libtorch_cpu.so";
  run.model.processes[1].copies_of_files = kCopies;
  CHECK(HeadlineOf(run) ==
        "Writing to private mappings of files (numpy.memmap(mode=\"c\"), torch.load(mmap=True), MAP_PRIVATE) copied "
        "100.0 MiB of their pages in 1 worker; 100 % of it at app.py:7 in work.");
  CHECK(DiagnosesOf(run)[0].id == "cow-data");
  CHECK(!DiagnosesOf(run)[0].saves);
  CHECK(DiagnosesOf(run)[0].sketch.empty());
  run.model.processes[1].copies_of_files = kCopies / 4;
  CHECK(absl::StartsWith(HeadlineOf(run), "Writing to memory that the workers inherited"));
  CHECK(!DiagnosesOf(run)[0].sketch.empty());

  Run alone = Recorded({{Cause::kData, kCopies}}, {});
  alone.model.processes.pop_back();
  alone.model.processes[0].copies_of_files = 20'480;
  CHECK(absl::StrContains(HeadlineOf(alone), "The target wrote to private mappings of files"));
  CHECK(absl::StrContains(HeadlineOf(alone), "80.0 MiB of their pages became its own memory."));
}

TEST_CASE("cow-gc-header: what gc.freeze() saves is not known where workers read, too") {
  const auto saves = [](const ByCause& copies) { return *DiagnosesOf(Recorded({}, copies))[0].saves; };
  CHECK(saves({{Cause::kGcHeader, kCopies}}).low > 0);
  const Saving both = saves({{Cause::kGcHeader, kCopies}, {Cause::kRefcount, 20'000}});
  CHECK(both.low == 0);
  CHECK(both.best == 0);
  CHECK(both.high > 0);
}

}  // namespace cowprof
