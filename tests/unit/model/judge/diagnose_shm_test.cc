// The diagnoses of shared memory and of descriptors, each on a recording in which it was planted, and on its near
// misses.
#include <signal.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "judged.h"
#include "model/judge/diagnosis.h"
#include "model/judge/diagnosis_facts.h"

namespace cowprof {
namespace {

constexpr uint64_t kMiB = 1 << 20, kDevice = 40;

Event Process(int index) {
  return {.index = index,
          .what = ProcessStarted{.id = {100 + index, 7},
                                 .parent = index == 0 ? -1 : 0,
                                 .origin = index == 0 ? Origin::kTarget : Origin::kForked,
                                 .command = "python train.py"}};
}

LimitSample Mount(uint64_t used_mib, uint64_t limit_mib = 64) {
  return {LimitKind::kShm, "/dev/shm", limit_mib * kMiB, used_mib * kMiB};
}

// A target and a worker, pids 100 and 101, of which nothing else is known.
Sample Tree(std::vector<LimitSample> limits) {
  return {.events = {Process(0), Process(1)}, .processes = {{.index = 0}, {.index = 1}}, .limits = std::move(limits)};
}

Run Of(const std::vector<Sample>& samples) {
  Run run;
  for (const Sample& sample : samples) Append(sample, &run);
  return run;
}

ShmSegment Torch(uint64_t inode, uint64_t mib, pid_t creator = 101) {
  return {.name = absl::StrCat("torch_", creator, "_1_", inode),
          .kind = SegmentKind::kTorch,
          .device = kDevice,
          .inode = inode,
          .bytes = mib * kMiB,
          .length_bytes = mib * kMiB,
          .deleted = true,
          .creator = creator,
          .opened_by = {creator}};
}

ShmSample Look(std::vector<ShmSegment> segments) {
  ShmSample sample = {.mount = "/dev/shm", .device = kDevice, .capacity_bytes = 64 * kMiB, .whole = true};
  for (const ShmSegment& segment : segments) sample.used_bytes += segment.bytes;
  sample.segments = std::move(segments);
  return sample;
}

ShmSegment Left(const std::string& name, uint64_t mib, uint64_t looks) {
  return {.name = name,
          .kind = SegmentKind::kMultiprocessing,
          .device = kDevice,
          .inode = 9,
          .bytes = mib * kMiB,
          .length_bytes = mib * kMiB,
          .looks_unowned = looks};
}

Event Bus(std::optional<FaultFile> file) {
  return {.index = 1, .what = SignalDelivered{.signal = SIGBUS, .code = BUS_ADRERR, .file = file}};
}

}  // namespace

TEST_CASE("how full it was decides, at the limit that held then") {
  CHECK(IdsOf(Of({Tree({Mount(51)})})).empty());
  CHECK(IdsOf(Of({Tree({Mount(52)})})) == Ids{"shm-near-full"});
  CHECK(IdsOf(Of({Tree({Mount(63)})})) == Ids{"shm-near-full"});
  CHECK(IdsOf(Of({Tree({Mount(64)})})) == Ids{"shm-full"});
  // It was full, and then it was given back or made larger.
  CHECK(IdsOf(Of({Tree({Mount(64)}), {.t = absl::Seconds(1), .limits = {Mount(3)}}})) == Ids{"shm-full"});
  CHECK(IdsOf(Of({Tree({Mount(64)}), {.t = absl::Seconds(1), .limits = {Mount(64, 256)}}})) == Ids{"shm-full"});
  CHECK(IdsOf(Of({Tree({Mount(64, 256)}), {.t = absl::Seconds(1), .limits = {Mount(9, 64)}}})).empty());
  CHECK(IdsOf(Of({Tree({{LimitKind::kShm, "/dev/shm", std::nullopt, 64 * kMiB}})})).empty());
}

TEST_CASE("files can run out before bytes") {
  const Run run = Of({Tree({Mount(1), {LimitKind::kShmInodes, "/dev/shm", 1000, 995}})});
  CHECK(IdsOf(run) == Ids{"shm-full"});
  CHECK(absl::StrContains(DiagnosesOf(run)[0].summary, "inodes"));
  // A size keeps the number of inodes.
  CHECK(DiagnosesOf(run)[0].advice[0] == "Allow more files: mount -o remount,nr_inodes=2048 /dev/shm.");
}

TEST_CASE("a file that no process uses may be removed after the run, if all could be looked at") {
  ShmSegment file = Left("vllm_offload_7.mmap", 50, 1);
  file.kind = SegmentKind::kFile;
  const auto first = [&](uint64_t looks, bool ended, uint64_t unreadable) {
    Sample full = Tree({Mount(64)}), last = {.t = absl::Seconds(1)};
    full.shm = Look({file, Torch(1, 14)});
    full.shm->unreadable = unreadable;
    ShmSegment now = file;
    now.looks_unowned = looks;
    last.shm = Look({now});
    if (ended) last.events = {{.index = 0, .what = ProcessExited{.status = 1 << 8}}};
    return DiagnosesOf(Of({full, last}))[0];
  };
  const auto advice = [&](uint64_t unreadable) { return first(2, true, unreadable).advice[0]; };
  CHECK(advice(0) ==
        "Remove vllm_offload_7.mmap from /dev/shm if nobody needs it: 50.0 MiB, which no process had open or mapped "
        "when cowprof looked.");
  CHECK(absl::StartsWith(advice(1), "Make it larger: "));
  // One look says little, and a run that goes on may open it again.
  CHECK(absl::StartsWith(first(1, true, 0).advice[0], "Make it larger: "));
  CHECK(absl::StartsWith(first(2, false, 0).advice[0], "Make it larger: "));
  CHECK(absl::StrContains(TextOf(first(2, false, 0)),
                          "50.0 MiB, which no process had open or mapped when cowprof looked"));
  file.opened_by = {4711};
  CHECK(absl::StartsWith(advice(0), "Make it larger: "));
}

TEST_CASE("files that lie there on purpose are not near full, unless it fills further") {
  ShmSegment file = Left("train.npy", 54, 2);
  file.kind = SegmentKind::kFile;
  const auto ids = [&](uint64_t before_mib, SegmentKind kind) {
    Sample sample = Tree({Mount(54)});
    file.kind = kind;
    file.mapped_by = {101};
    sample.shm = Look({file});
    Run run = Of({sample});
    run.model.info.limits = {Mount(before_mib)};
    return IdsOf(run);
  };
  CHECK(ids(54, SegmentKind::kFile).empty());
  CHECK(ids(50, SegmentKind::kFile) == Ids{"shm-near-full"});
  CHECK(ids(54, SegmentKind::kTorch) == Ids{"shm-near-full"});
}

TEST_CASE("the room to ask for is more than what there is") {
  Sample sample = Tree({Mount(20'000, 32'768)});
  const FaultFile in_shm = {
      .name = "torch_101_1_0", .file_bytes = 8192, .offset = 4096, .in_memory = true, .on_dev_shm = true};
  sample.events = {Process(0), Process(1), Bus(in_shm)};
  sample.events.push_back({.index = 1, .what = ProcessExited{.status = SIGBUS}});
  const std::vector<Diagnosis> found = DiagnosesOf(Of({sample}));
  REQUIRE(!found.empty());
  INFO(TextOf(found[0]));
  CHECK(absl::StrContains(TextOf(found[0]), "--shm-size=65536m"));
}

TEST_CASE("a write that failed says that it was full, whatever the samples saw") {
  const FaultFile in_shm = {
      .name = "torch_101_1_0", .file_bytes = 8192, .offset = 4096, .in_memory = true, .device = kDevice};
  const auto ids = [](uint64_t used_mib, std::optional<FaultFile> file) {
    Sample sample = Tree({Mount(used_mib)});
    sample.events.push_back(Bus(file));
    sample.shm = Look({Torch(1, 3)});
    return IdsOf(Of({sample}));
  };
  CHECK(ids(40, in_shm) == Ids{"shm-full"});
  FaultFile last_page = in_shm;  // beyond the length of the file, in a page of it
  last_page.file_bytes = 4097;
  last_page.offset = 8191;
  CHECK(ids(40, last_page) == Ids{"shm-full"});
  FaultFile truncated = in_shm, on_disk = in_shm, memfd = in_shm;
  truncated.offset = 8192;
  on_disk.in_memory = false;
  memfd.device = 1;
  CHECK(ids(40, truncated).empty());
  CHECK(ids(40, on_disk).empty());
  CHECK(ids(40, memfd).empty());
}

TEST_CASE("a bus error in an unknown file is one of shared memory only while that is full") {
  const auto run = [](uint64_t used_mib, absl::Duration later, int code = BUS_ADRERR) {
    Event bus = Bus(std::nullopt);
    bus.t = later;
    bus.As<SignalDelivered>()->code = code;
    return Of({Tree({Mount(used_mib)}), {.t = later, .events = {bus}, .limits = {Mount(9)}}});
  };
  const auto first = [&](uint64_t used_mib, absl::Duration later, int code = BUS_ADRERR) {
    return DiagnosesOf(run(used_mib, later, code)).front();
  };
  CHECK(IdsOf(run(40, absl::Seconds(1))).empty());
  const Diagnosis near = first(60, absl::Seconds(1));
  CHECK(near.id == "shm-near-full");
  CHECK(near.evidence[0] == "worker 101 got SIGBUS, in which file is not known: it may have been full then");
  CHECK(first(64, absl::Seconds(1)).evidence[0] == "worker 101 got SIGBUS writing to shared memory");
  CHECK_FALSE(absl::StrContains(TextOf(first(64, absl::Seconds(9))), "got SIGBUS"));
  CHECK_FALSE(absl::StrContains(TextOf(first(60, absl::Seconds(1), /*code=*/0)), "got SIGBUS"));  // of kill(2)
}

TEST_CASE("a full /dev/shm says what torch does only where there is a DataLoader") {
  Sample sample = Tree({Mount(64)});
  CHECK_FALSE(absl::StrContains(DiagnosesOf(Of({sample}))[0].summary, "torch"));
  sample.processes[1].framework = Framework::kDataLoader;
  CHECK(absl::StrContains(DiagnosesOf(Of({sample}))[0].summary, "torch"));
}

TEST_CASE("by whom, and what would fit") {
  Sample sample = Tree({Mount(60)});
  std::vector<ShmSegment> segments;
  for (uint64_t i = 0; i < 6; ++i) segments.push_back(Torch(i + 1, 9, i < 3 ? 101 : 100));
  ShmSegment array = Left("features.npy", 6, 0);
  array.kind = SegmentKind::kFile;
  segments.push_back(array);
  sample.shm = Look(segments);
  const std::vector<Diagnosis> found = DiagnosesOf(Of({sample, {.t = absl::Seconds(1), .shm = Look({})}}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].pids == std::vector<pid_t>{100, 101});
  const std::string text = TextOf(found[0]);
  INFO(text);
  for (const char* part :
       {"6 segments of 9.0 MiB from 2 processes, 3 each", "54.0 MiB in flight or still in use; capacity 64.0 MiB",
        "torch: 54.0 MiB in 6 segments", "features.npy, 6.0 MiB",
        "64.0 MiB minus 6.0 MiB for other things holds 6 tensors of 9.0 MiB", "--shm-size=128m", "num_workers=0"}) {
    INFO(part);
    CHECK(absl::StrContains(text, part));
  }
}

TEST_CASE("near full by the forecast, from half full on") {
  const uint64_t used_mib = GENERATE(20, 40);
  const Run run = Of({Tree({Mount(used_mib)})});
  Findings findings = Judge(run, Detail::kTick);
  const Facts facts = FactsOf(run, findings);
  findings.forecast.limits = {{.now = Mount(used_mib), .outlook = Outlook::kTight}};
  CHECK(ShmNearFull(facts).id.empty());
  findings.forecast.limits[0].outlook = Outlook::kWillExceed;
  CHECK(ShmNearFull(facts).id == (used_mib == 40 ? "shm-near-full" : ""));
  findings.forecast.limits[0].now.kind = LimitKind::kHost;
  CHECK(ShmNearFull(facts).id.empty());
}

// A recording may be anybody's. tests/fuzz/regressions/timeline/shm-that-no-size-doubles.json
TEST_CASE("the room to ask for is twice what was used, and never beyond a count") {
  const auto [used_bytes, size] = GENERATE(table<uint64_t, std::string>({
      {60 * kMiB, "--shm-size=128m"},
      {64 * kMiB, "--shm-size=128m"},
      {65 * kMiB, "--shm-size=256m"},
      {uint64_t{1} << 62, "--shm-size=8796093022208m"},
      {~uint64_t{0}, "no room for a larger one"},
  }));
  LimitSample full = Mount(0);
  full.used = used_bytes;
  full.limit = used_bytes;
  const std::vector<Diagnosis> found = DiagnosesOf(Of({Tree({full})}));
  REQUIRE(found.size() == 1);
  INFO(TextOf(found[0]));
  CHECK(absl::StrContains(TextOf(found[0]), size));
}

TEST_CASE("the host's own /dev/shm has no option of Docker") {
  Run run = Of({Tree({Mount(64)})});
  CHECK(absl::StartsWith(DiagnosesOf(run)[0].advice[0], "Make it larger: docker run --shm-size=128m (or --ipc=host"));
  const auto offers = [&](const char* id) {
    return absl::c_any_of(Judge(run).remedies, [id](const Remedy& remedy) { return remedy.id == id; });
  };
  CHECK(offers("ipc-host"));
  run.model.info.shm_of_host = true;
  CHECK(DiagnosesOf(run)[0].advice[0] == "Make it larger: on the host itself mount -o remount,size=128m /dev/shm.");
  CHECK(offers("shm-size"));
  CHECK_FALSE(offers("ipc-host"));
}

TEST_CASE("no more room is asked for than limits of memory leave") {
  const auto advice = [](uint64_t limit_mib, uint64_t used_mib, LimitKind kind = LimitKind::kCgroupV2) {
    const LimitSample memory = {kind, "/job", limit_mib * kMiB, used_mib * kMiB};
    return absl::StrJoin(DiagnosesOf(Of({Tree({Mount(32'768, 32'768), memory})}))[0].advice, " ");
  };
  CHECK(absl::StrContains(advice(100'000, 40'000), "--shm-size=65536m"));
  CHECK(absl::StrContains(advice(100'000, 40'000), "What is in it counts against the memory limit, too."));
  CHECK(absl::StrContains(advice(64'000, 40'000), "--shm-size=56768m"));
  CHECK_FALSE(absl::StrContains(advice(64'000, 40'000, LimitKind::kHost), "the memory limit"));
  CHECK_FALSE(absl::StrContains(advice(40'100, 40'100), "shm-size"));
  CHECK(absl::StrContains(advice(40'100, 40'100), "Memory has no room for a larger one: keep less in it"));
  // Others fill it, from outside of the cgroup. What a container has of its own counts against its limit.
  CHECK(absl::StrContains(advice(50'000, 8'000), "--shm-size=42000m"));
  CHECK(absl::StrContains(advice(50'000, 8'000), "remount,size=65536m"));
  CHECK(absl::StartsWith(advice(30'000, 8'000),
                         "Make it larger: on the host itself mount -o remount,size=65536m /dev/shm. Or keep less in"));
}

TEST_CASE("names that were removed while in use, and never where it was full") {
  ShmSegment lost = Left("psm_a", 8, 0);
  lost.deleted = lost.lost_name = true;
  lost.mapped_by = {100};
  Sample sample = Tree({Mount(8)});
  sample.shm = Look({lost});
  // It is told even when the segment itself is gone since.
  Run run = Of({sample, {.t = absl::Seconds(1), .shm = Look({})}});
  REQUIRE(IdsOf(run) == Ids{"shm-unlinked"});
  CHECK(DiagnosesOf(run)[0].pids == std::vector<pid_t>{100});
  CHECK(absl::StrContains(TextOf(DiagnosesOf(run)[0]), "psm_a"));
  sample.limits = {Mount(64)};
  CHECK(IdsOf(Of({sample})) == Ids{"shm-full"});
}

TEST_CASE("left behind: seen twice, and enough of it to matter") {
  const auto run = [](const ShmSegment& segment, uint64_t capacity_mib = 64) {
    Sample sample = Tree({Mount(1, capacity_mib)});
    sample.shm = Look({segment});
    sample.shm->capacity_bytes = capacity_mib * kMiB;
    return Of({sample});
  };
  const auto ids = [&](const ShmSegment& segment, uint64_t capacity_mib = 64) {
    return IdsOf(run(segment, capacity_mib));
  };
  CHECK(DiagnosesOf(run(Left("psm_a", 8, 2)))[0].saves == Saving{8 * kMiB, 8 * kMiB, 8 * kMiB});
  CHECK(ids(Left("psm_a", 8, 2)) == Ids{"shm-leaked"});
  CHECK(ids(Left("psm_a", 8, 1)).empty());
  CHECK(ids(Left("psm_a", 3, 2)).empty());
  CHECK(ids(Left("psm_a", 8, 2), 16'384).empty());
  ShmSegment owned = Left("psm_a", 8, 2), file = Left("a.npy", 8, 2);
  owned.mapped_by = {4711};
  file.kind = SegmentKind::kFile;
  CHECK(ids(owned).empty());
  CHECK(ids(file).empty());
}

TEST_CASE("left behind: a later look at the recorded processes only does not hide it") {
  Sample sample = Tree({Mount(8)});
  sample.shm = Look({Left("psm_a", 8, 2)});
  const auto ids = [&](std::vector<ShmSegment> later) {
    Sample quick = {.t = absl::Seconds(1), .shm = Look(std::move(later))};
    quick.shm->whole = false;
    return IdsOf(Of({sample, quick}));
  };
  CHECK(ids({Left("psm_a", 8, 2)}) == Ids{"shm-leaked"});
  CHECK(ids({}).empty());
  CHECK(ids({Left("psm_b", 8, 2)}).empty());  // the inode of one that is gone
  ShmSegment owned = Left("psm_a", 8, 2);
  owned.mapped_by = {101};
  CHECK(ids({owned}).empty());
  sample.shm->whole = false;  // nobody ever looked at all processes
  CHECK(ids({Left("psm_a", 8, 2)}).empty());
}

TEST_CASE("descriptors: near their limit in any process where they rose, or by the forecast") {
  const auto model = [](uint64_t of_target, uint64_t of_worker, uint64_t before = 5) {
    Sample first = Tree({{LimitKind::kDescriptors, "RLIMIT_NOFILE", 1000, of_target}});
    for (ProcessSample& process : first.processes) process.proc.descriptors = before;
    Sample sample = {.t = absl::Seconds(1), .processes = first.processes};
    sample.processes[0].proc.descriptors = of_target;
    sample.processes[1].proc.descriptors = of_worker;
    Sample later = {.t = absl::Seconds(2), .processes = first.processes};
    for (ProcessSample& process : later.processes) process.proc.descriptors = 5;
    for (Sample* one : {&first, &sample, &later}) {
      for (ProcessSample& process : one->processes) process.proc.anon_pages = 1;
    }
    ShmSegment held = Torch(1, 0);
    held.opened_by = {101};
    sample.shm = Look({held});
    return Of({first, sample, later});
  };
  CHECK(IdsOf(model(400, 400)).empty());
  CHECK(IdsOf(model(799, 799)).empty());
  CHECK(IdsOf(model(800, 10)) == Ids{"fd-exhaustion"});
  const Run worker = model(10, 900);
  REQUIRE(IdsOf(worker) == Ids{"fd-exhaustion"});
  CHECK(DiagnosesOf(worker)[0].pids == std::vector<pid_t>{101});
  CHECK(absl::StrContains(TextOf(DiagnosesOf(worker)[0]), "at least 1 of them are torch tensors"));
  CHECK(absl::StrContains(DiagnosesOf(worker)[0].advice.back(), "as many mappings (up to vm.max_map_count)"));
  CHECK(absl::StrContains(DiagnosesOf(worker)[0].summary, "The worker 101 used up to 90 % of its file descriptors: "));
  // It has a limit of its own, and nobody knows which.
  CHECK(IdsOf(model(10, 3000)).empty());
  CHECK(DiagnosesOf(model(900, 3000))[0].pids == std::vector<pid_t>{100});
  // As many all the time are well, unless there is next to no room.
  CHECK(IdsOf(model(850, 10, 850)).empty());
  CHECK(IdsOf(model(850, 10, 840)).empty());
  CHECK(IdsOf(model(850, 10, 820)) == Ids{"fd-exhaustion"});
  CHECK(IdsOf(model(960, 10, 960)) == Ids{"fd-exhaustion"});
  // Nor is what a server opens as it starts, and keeps.
  const auto opened_at = [](int second) {
    std::vector<Sample> samples = {Tree({{LimitKind::kDescriptors, "RLIMIT_NOFILE", 1000, 5}})};
    for (int t = 1; t <= 20; ++t) {
      samples.push_back({.t = absl::Seconds(t), .processes = {{.index = 0}}});
      samples.back().processes[0].proc.anon_pages = 1;
      samples.back().processes[0].proc.descriptors = t < second ? 5 : 850;
    }
    return IdsOf(Of(samples));
  };
  CHECK(opened_at(2).empty());
  CHECK(opened_at(15) == Ids{"fd-exhaustion"});
  // A worker with a limit of its own is gone: the row is the target's again, which has another.
  Sample began = Tree({{LimitKind::kDescriptors, "RLIMIT_NOFILE", 1000, 5}}), rose = {.t = absl::Seconds(9)};
  for (ProcessSample& process : began.processes) process.proc.anon_pages = process.proc.descriptors = 5;
  rose.processes = began.processes;
  rose.processes[1].proc.descriptors = 240;
  rose.limits = {{LimitKind::kDescriptors, "RLIMIT_NOFILE", 256, 240}};
  Sample ended = {.t = absl::Seconds(10), .processes = {began.processes[0]}};
  ended.events = {{.index = 1, .what = ProcessExited{}}};
  ended.limits = began.limits;
  const Run gone = Of({began, rose, ended});
  REQUIRE(IdsOf(gone) == Ids{"fd-exhaustion"});
  CHECK(DiagnosesOf(gone)[0].evidence[0] == "240 of 256 descriptors open (RLIMIT_NOFILE)");
  rose.limits.clear();
  CHECK(IdsOf(Of({began, rose, ended})).empty());
  const Run climbing = model(300, 10);
  Findings findings = Judge(climbing, Detail::kTick);
  const Facts facts = FactsOf(climbing, findings);
  CHECK(FdExhaustion(facts).id.empty());
  findings.forecast.limits = {{.now = climbing.model.limits[0].now, .outlook = Outlook::kWillExceed}};
  CHECK(FdExhaustion(facts).id == "fd-exhaustion");
}

}  // namespace cowprof
