// Who is said to fill a limit, and what is counted of those that ended.
#include "model/judge/top_contributor.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

constexpr uint64_t kMb = 1 << 20, kPagesOfMb = kMb / 4096;
constexpr absl::Duration kLastTick = absl::Seconds(10);

ProcessModel Worker(int index, uint64_t private_mb, uint64_t copied_mb = 0) {
  ProcessModel worker = {.index = index, .parent = 0, .origin = Origin::kForked, .role = Role::kWorker};
  worker.private_bytes = private_mb * kMb;
  worker.counts.copies = copied_mb * kPagesOfMb;
  worker.causes = CauseCounts{copied_mb * kPagesOfMb};
  return worker;
}

TopContributor TopContributorAmong(std::vector<ProcessModel> processes, double gained_mb) {
  RunModel model;
  model.processes = std::move(processes);
  return TopContributorOf(LimitKind::kCgroupV1, gained_mb * kMb, {{}, kLastTick}, model);
}

}  // namespace

TEST_CASE("the process that gained most, and with what") {
  const TopContributor top_contributor = TopContributorAmong({Worker(1, 30), Worker(2, 90, 80), Worker(3, 20)}, 140);
  CHECK(top_contributor.index == 2);
  CHECK(top_contributor.cause == "refcount");
  CHECK(top_contributor.copied_bytes == 80 * kMb);
  CHECK(top_contributor.gained_bytes == 140 * kMb);
  CHECK(top_contributor.leaving_bytes == 0);
}

TEST_CASE("copied pages of files are new to the process, and keep their cause") {
  ProcessModel worker = Worker(1, 100, 90);
  worker.copies_of_files = 80 * kPagesOfMb;
  TopContributor top_contributor = TopContributorAmong({worker}, 100);
  CHECK(top_contributor.cause == "refcount");
  CHECK(top_contributor.copied_bytes == 10 * kMb);
  CHECK(top_contributor.gained_bytes == 100 * kMb);
  worker.copies_of_files = 40 * kPagesOfMb;
  worker.private_bytes = 200 * kMb;
  top_contributor = TopContributorAmong({worker}, 200);
  CHECK(top_contributor.cause == "new-memory");
  CHECK(top_contributor.copied_bytes == 50 * kMb);
}

TEST_CASE("memory that was new long ago does not count when private_bytes catches up") {
  RunModel model;
  model.processes = {Worker(1, 20)};
  model.processes[0].first_anon_pages = 1 * kPagesOfMb;
  model.processes[0].proc.anon_pages = 21 * kPagesOfMb;
  HeldByAll before = HeldBy(model);
  before.processes[0].private_bytes = 0;
  const auto found = [&] { return TopContributorOf(LimitKind::kCgroupV1, 40 * kMb, {before, kLastTick}, model); };
  CHECK(found().index == -1);
  CHECK(found().gained_bytes == 0);
  model.processes[0].private_bytes = 55 * kMb;
  model.processes[0].proc.anon_pages = 56 * kPagesOfMb;
  CHECK(found().index == 1);
  CHECK(found().gained_bytes == 35 * kMb);
  before.processes.clear();  // it was forked since
  CHECK(found().gained_bytes == 55 * kMb);
}

TEST_CASE("what a limit gained mostly from elsewhere has no grower") {
  const TopContributor top_contributor = TopContributorAmong({Worker(1, 30, 20)}, 200);
  CHECK(top_contributor.index == -1);
  CHECK(top_contributor.cause == "");
  CHECK(top_contributor.copied_bytes == 20 * kMb);
}

TEST_CASE("shared memory that shows no fault is a gain, of whoever made the largest segments") {
  const HeldByAll before = {.shm_bytes = 100 * kMb};
  RunModel model;
  model.processes = {Worker(1, 30)};
  model.processes[0].id = {1001, 7};
  model.limits = {{.now = {.kind = LimitKind::kShm, .name = "/dev/shm", .limit = 4096 * kMb, .used = 300 * kMb}}};
  const auto top = [&](LimitKind kind) { return TopContributorOf(kind, 240.0 * kMb, {before, kLastTick}, model); };
  CHECK(top(LimitKind::kCgroupV2).cause == "shm");
  CHECK(top(LimitKind::kCgroupV2).index == -1);
  CHECK(top(LimitKind::kCgroupV2).gained_bytes == 230 * kMb);
  model.shm = ShmSample{.segments = {{.bytes = 200 * kMb, .creator = 1001}}};
  CHECK(top(LimitKind::kHost).index == 1);
  // What faults show is not counted twice.
  model.processes[0].origin = Origin::kForked;
  model.processes[0].counts.shm_pages = 200 * kPagesOfMb;
  CHECK(top(LimitKind::kHost).gained_bytes == 230 * kMb);
  CHECK(top(LimitKind::kHost).cause == "shm");
  // New memory is more.
  model.limits[0].now.used = 110 * kMb;
  model.processes[0].counts.shm_pages = 0;
  model.processes[0].private_bytes = 150 * kMb;
  CHECK(top(LimitKind::kHost).cause == "new-memory");
}

TEST_CASE("what others put into a /dev/shm that is not the target's alone does not hide a leak") {
  HeldByAll before = {.processes = {{.index = 1, .private_bytes = 0, .shm_pages = 0}},
                      .shm_bytes = 100 * kMb,
                      .segments = {{1001, 90 * kMb}}};
  RunModel model;
  model.processes = {Worker(1, 400)};
  model.processes[0].id = {1001, 7};
  model.limits = {{.now = {.kind = LimitKind::kShm, .name = "/dev/shm", .used = 900 * kMb}}};
  model.shm = ShmSample{.segments = {{.bytes = 100 * kMb, .creator = 1001}}};
  const auto top = [&](LimitKind kind, double gained_mb) {
    return TopContributorOf(kind, gained_mb * kMb, {before, kLastTick}, model);
  };
  const TopContributor of_cgroup = top(LimitKind::kCgroupV2, 400);
  CHECK(of_cgroup.index == 1);
  CHECK(of_cgroup.cause == "new-memory");
  CHECK(of_cgroup.gained_bytes == 400 * kMb);
  // The host has both. The worker's segments are large, but not what grew.
  CHECK(top(LimitKind::kHost, 1200).cause == "shm");
  CHECK(top(LimitKind::kHost, 1200).index == -1);
  model.shm->segments[0].bytes = 600 * kMb;
  CHECK(top(LimitKind::kHost, 1200).index == 1);
  model.shm->segments.push_back({.bytes = 700 * kMb, .creator = 4242});  // of a process that is not recorded
  CHECK(top(LimitKind::kHost, 1200).index == -1);
}

TEST_CASE("descriptors, address space and mappings: the process that the limit is about") {
  RunModel model;
  model.processes = {Worker(0, 0), Worker(1, 0), Worker(2, 0)};
  for (ProcessModel& process : model.processes) {
    process.proc.descriptors = 4 + 400 * process.index;
    process.proc.virtual_pages = 100 - process.index;
    process.mappings = 300 + 5000 * (process.index % 2);
  }
  model.limits = {{.now = {.kind = LimitKind::kDescriptors, .limit = 1024, .used = 410}},
                  {.now = {.kind = LimitKind::kAddressSpace, .limit = 1 << 20, .used = 99 * 4096}},
                  {.now = {.kind = LimitKind::kMappings, .limit = 65530, .used = 5300}}};
  const auto top = [&](LimitKind kind) { return TopContributorOf(kind, 400, {{}, kLastTick}, model); };
  CHECK(top(LimitKind::kDescriptors).index == 1);
  CHECK(top(LimitKind::kDescriptors).cause == "descriptors");
  CHECK(top(LimitKind::kAddressSpace).index == 1);
  CHECK(top(LimitKind::kAddressSpace).cause == "new-memory");
  CHECK(top(LimitKind::kMappings).index == 1);
  CHECK(top(LimitKind::kMappings).cause == "mappings");
  CHECK(top(LimitKind::kCommit).index == -1);
  model.processes[1].ended = kLastTick;
  CHECK(top(LimitKind::kDescriptors).index == 2);
  CHECK(top(LimitKind::kAddressSpace).index == 0);
  model.limits.clear();
  CHECK(top(LimitKind::kDescriptors).index == 0);
}

// The collector moves an end between the last pull and its tick to that tick.
TEST_CASE("memory of those that ended since the last tick is leaving, earlier ones' is gone") {
  const auto ended = [](int index, absl::Duration at) {
    ProcessModel worker = Worker(index, 50, 10);
    worker.ended = at;
    return worker;
  };
  const TopContributor top_contributor =
      TopContributorAmong({Worker(1, 20), ended(2, kLastTick - absl::Milliseconds(1)), ended(3, kLastTick),
                           ended(4, kLastTick + absl::Milliseconds(1))},
                          70);
  CHECK(top_contributor.leaving_bytes == 100 * kMb);
  CHECK(top_contributor.gained_bytes == 20 * kMb);
  CHECK(top_contributor.index == 1);
}

}  // namespace cowprof
