// A seeded stream of samples like a busy host's: workers come and go; figures are absent, large, unchanged or
// decreasing; events of every kind; places of copies. Consecutive samples are consistent (an index is announced before
// its rows, a frame before the place on it), so that a timeline must return exactly the same.
#ifndef COWPROF_TESTS_UNIT_RANDOM_RECORDING_H_
#define COWPROF_TESTS_UNIT_RANDOM_RECORDING_H_

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "model/facts/sample.h"

namespace cowprof {

class RandomRecording {
 public:
  explicit RandomRecording(unsigned seed) : random_(seed) {}

  Sample Next() {
    Sample sample = {.t = t_ += Micros(1, 5'000'000)};
    if (next_index_ == 0) Start(&sample);
    while (next_index_ < 40 && Chance(0.3)) Start(&sample);
    for (auto& [index, process] : living_) Change(index, &process, &sample);
    AddSideEvents(&sample);
    while (living_.size() > 1 && Chance(0.2)) End(&sample);
    for (const auto& [index, process] : rows_) sample.processes.push_back(process);
    rows_.clear();
    AddCopySites(&sample);
    AddRegions(&sample);
    AddHeads(&sample);
    AddPages(&sample);
    ChangeLimits(&sample);
    sample.losses = losses_;
    AddShm(&sample);
    return sample;
  }

  RunInfo Info() {
    RunInfo info = {.version = "0.1.0",
                    .started = absl::FromUnixMicros(1'700'000'000'123'456),
                    .kernel = "6.18.0",
                    .page_bytes = 4096,
                    .cpus = 2,
                    .copy_ns = 612.625,
                    .interval = absl::Milliseconds(250),
                    .rung = "btf-tracepoints",
                    .exactness = Exactness::kUpperBound,
                    .target = {4711, 123'456'789'012'345},
                    .command = "python3 train.py --note=\"\xc3\xa9\"",
                    .started_target = true};
    info.rejected = {{"fentry", "not \"allowed\"", "none"}, {"pagemap", "", ""}};
    info.without = {"hangs", "stacks"};
    info.identity = {.host = "node-7",
                     .boot_id = "0c9b2a4e",
                     .rank = {RankSource::kSlurm, 1, {}, 8, "4711"},
                     .labels = {{"run", "a=b"}, {"x", ""}}};
    info.limits = {{LimitKind::kShm, "/dev/shm", 67'108'864, 12}, {LimitKind::kHost, "Mem", {}, 9}};
    info.shm_of_host = true;
    return info;
  }

  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }
  // Any order of magnitude below 2^`bits` is equally likely.
  uint64_t Number(int bits = 40) {
    return random_() & ((uint64_t{1} << std::uniform_int_distribution<>(0, bits)(random_)) - 1);
  }
  int Int(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }

 private:
  absl::Duration Micros(int low, int high) { return absl::Microseconds(Int(low, high)); }
  template <typename Enum>
  Enum Any() {
    return kAll<Enum>[Int(0, kCountOf<Enum> - 1)];
  }
  Count MaybeNumber(int bits = 40) { return Chance(0.15) ? std::nullopt : Count(Number(bits)); }
  std::string Name() {
    const std::vector<std::string> names = {"python", "", "a b", "\"q\"\\", "t\ta\nb", "\xe2\x82\xac"};
    return names[Int(0, names.size() - 1)];
  }

  void Start(Sample* sample) {
    const int index = next_index_++;
    const absl::Duration t = sample->t - Micros(0, 900);
    ProcessStarted started = {.id = {Int(1, 4'194'304), random_() >> 4}};
    if (index > 0) started.parent = Int(0, index - 1);
    started.origin = index == 0 ? Origin::kTarget : Chance(0.3) ? Origin::kFoundAtAttach : Origin::kForked;
    if (started.origin == Origin::kForked && Chance(0.8)) started.space = started.parent;
    if (started.origin == Origin::kForked && started.space < 0) started.vforked = Chance(0.5);
    started.comm = Name();
    started.command = Name();
    started.executable = Name();
    sample->events.push_back({.t = t, .index = index, .what = started});
    living_[index] = {.index = index};
  }

  void Change(int index, ProcessSample* process, Sample* sample) {
    if (Chance(0.6)) {
      FaultCounts& counts = process->counts;
      for (Count* count :
           {&counts.faults, &counts.kernel_faults, &counts.write_protect_faults, &counts.copies, &counts.kernel_copies,
            &counts.zero_upgrades, &counts.zero_fill_pages, &counts.file_copies, &counts.shm_pages, &counts.swap_ins}) {
        *count = MaybeNumber();
      }
      ProcFigures& proc = process->proc;
      for (Count* count : {&proc.anon_pages, &proc.file_pages, &proc.shmem_pages, &proc.swap_pages, &proc.virtual_pages,
                           &proc.cpu_ms, &proc.descriptors, &proc.threads}) {
        *count = MaybeNumber();
      }
    }
    if (Chance(0.5)) {
      CauseCounts causes;
      for (uint64_t& copies : causes) copies = Number();
      process->causes = causes;
    }
    if (Chance(0.2)) process->collector_on = Chance(0.3) ? std::nullopt : std::optional<bool>(Chance(0.5));
    if (Chance(0.2)) process->persistent = Chance(0.3) ? std::nullopt : std::optional<bool>(Chance(0.5));
    if (Chance(0.2)) process->gup_copies = MaybeNumber();
    if (Chance(0.2)) process->mappings = MaybeNumber();
    if (Chance(0.2)) process->loader = Chance(0.3) ? std::nullopt : std::optional(AnyLoader());
    if (process->persistent) process->framework = kAll<Framework>[process->index % kCountOf<Framework>];
    ProcessSample row = *process;
    if (Chance(0.3)) {
      row.rollup = RollupFigures{sample->t, Number(), Number(), Number(), Number(), Number(), Micros(0, 90'000)};
    }
    if (Chance(0.3)) {
      row.sweep = SweepFigures{sample->t - Micros(0, 99),
                               sample->t,
                               Chance(0.5),
                               Number(),
                               Number(),
                               Number(),
                               Number(),
                               Number(),
                               Number(),
                               Number(),
                               Number(),
                               Micros(0, 90'000),
                               MaybeNumber(),
                               MaybeNumber(),
                               MaybeNumber()};
    }
    if (Chance(0.1)) row.verify = VerifyFigures{Number(), Number(), Number(), Number(), Number(), Number()};
    rows_[index] = row;
  }

  LoaderWorker AnyLoader() { return {.worker_id = Number(3), .num_workers = Number(4), .batch = MaybeNumber()}; }

  // The last row of a process has its counts, but nothing from /proc.
  void End(Sample* sample) {
    auto process = living_.begin();
    std::advance(process, Int(0, living_.size() - 1));
    sample->events.push_back(
        {.t = sample->t, .index = process->first, .what = ProcessExited{.status = Int(0, 0xffff)}});
    rows_[process->first].proc = {};
    living_.erase(process);
  }

  void AddSideEvents(Sample* sample) {
    const int index = living_.begin()->first;
    const ProcessExeced execed = {.comm = Name(), .command = Name(), .executable = Name()};
    const SignalSent sent = {.signal = Int(1, 64),
                             .code = Int(-6, 128),
                             .sender = Int(0, 4'194'304),
                             .sender_comm = Name(),
                             .cpu_limit_seconds = Number(),
                             .sender_exiting = Chance(0.5)};
    SignalDelivered delivered = {
        .signal = 7, .code = Int(-6, 128), .address = random_(), .module = Name(), .symbol = Name()};
    if (Chance(0.5)) delivered.frame = Frame{Name(), Name(), Int(0, 99)};
    if (Chance(0.5)) {
      delivered.file = FaultFile{Name(), Number(), Number(), Chance(0.5), Number(), Number(), Chance(0.5)};
      delivered.file->capacity_bytes = MaybeNumber();
    }
    const Note note = {.text = Name()};
    OomVictim victim;
    if (Chance(0.8)) victim.limit = LimitSample{Any<LimitKind>(), Name(), MaybeNumber(), Number()};
    const PythonFound python = {.version = Name(), .problem = Name()};
    const DutyFound duty = {
        .start = Any<StartMethod>(), .duty = Any<Duty>(), .number = MaybeNumber(), .configured = MaybeNumber()};
    const RankFound rank = {
        {Any<RankSource>(), MaybeNumber(19), MaybeNumber(19), MaybeNumber(19), Chance(0.5) ? "" : "job 1"}};
    const auto add = [&](int whose, auto what) {
      if (Chance(0.15)) sample->events.push_back({.t = sample->t, .index = whose, .what = std::move(what)});
    };
    add(index, execed);
    add(index, sent);
    add(index, delivered);
    add(-1, note);
    add(index, victim);
    add(index, python);
    add(index, duty);
    add(index, rank);
    AddStartMethods(index, sample);
    AddForkHazards(index, sample);
  }

  // Leaves the random numbers of the rest as they were before there were start methods and hangs.
  void AddStartMethods(int index, Sample* sample) {
    const auto before = random_;
    PickleLook look = {.root = Name(),
                       .expression = Name(),
                       .python = Name(),
                       .failures_left_out = Number(),
                       .refused = Number(),
                       .objects = Number(),
                       .object_array = Name(),
                       .object_array_items = Number(),
                       .capped = Chance(0.5),
                       .walks_agree = Chance(0.5),
                       .bytes = {Number(), Number(), MaybeNumber()},
                       .took = absl::Milliseconds(Int(0, 99))};
    if (Chance(0.5)) {
      look.failures.push_back(
          {Name(), Name(), Any<PickleReason>(), Name(), Name(), Number(), Chance(0.5), Chance(0.5)});
      look.unknowns.push_back({Name(), Name(), Name(), Number()});
      look.items = PickleItems{.path = Name(),
                               .type = Name(),
                               .count = Number(),
                               .sampled = Number(),
                               .mix = {.numbers = Number(), .texts = Number(), .text_bytes = Number()},
                               .classes = Number()};
    }
    if (look.capped) look.of_loader = look.walks_agree;
    if (Chance(0.3)) sample->events.push_back({.t = sample->t, .index = index, .what = StartMethodsSeen{look}});
    if (Chance(0.3)) {
      const StartFailed failed = {.type = Name(),
                                  .message = Name(),
                                  .package = Name(),
                                  .method = Name(),
                                  .raised_in = Name(),
                                  .path = Name(),
                                  .look = look};
      sample->events.push_back({.t = sample->t, .index = index, .what = failed});
      sample->events.push_back(
          {.t = sample->t, .index = index, .what = LastErrorSeen{Name(), Name(), /*importing_main=*/Chance(0.5)}});
    }
    AddHangs(index, sample);
    random_ = before;
  }

  // The same.
  void AddForkHazards(int index, Sample* sample) {
    const auto before = random_;
    ForkHazardSeen seen = {.child = Int(-1, 5),
                           .delay = Micros(0, 90'000),
                           .forker = Int(0, 4'194'304),
                           .threads_left_out = Number(),
                           .libraries = {Name(), "libgomp.so.1"},
                           .cuda = Chance(0.5),
                           .python_read = Chance(0.5),
                           .took = Micros(0, 90'000)};
    for (int left = Int(0, 4); left > 0; --left) {
      seen.threads.push_back({.tid = Int(1, 9),
                              .ident = random_(),
                              .name = Name(),
                              .python = Chance(0.5),
                              .module = Chance(0.3) ? "libgomp.so.1" : Name(),
                              .stack = {{Name(), Name(), Int(0, 99)}},
                              .frames_left_out = Number()});
    }
    if (Chance(0.5))
      seen.locks.push_back({Any<HeldLockKind>(), Int(1, 9), Name(), random_(), {Name(), Name(), Int(0, 99)}});
    if (Chance(0.3)) sample->events.push_back({.t = sample->t, .index = index, .what = seen});
    random_ = before;
  }

  void AddHangs(int index, Sample* sample) {
    if (!Chance(0.3)) return;
    HangsSeen seen;
    for (int left = Int(0, 2); left > 0; --left) {
      Hang hang = {.pid = Int(1, 4'194'304),
                   .tid = Int(1, 4'194'304),
                   .parent = Int(1, 4'194'304),
                   .waited = Micros(0, 90'000'000),
                   .proof = Any<HangProof>(),
                   .kind = Any<HangKind>(),
                   .by_fork = Chance(0.9),
                   .what = Name(),
                   .stack = {{Name(), Name(), Int(0, 99)}, {Name(), Name(), Int(0, 99)}},
                   .native = Name(),
                   .fix = Name()};
      if (Chance(0.5)) hang.holder = Holder{Int(1, 4'194'304), Name(), {{Name(), Name(), Int(0, 99)}}, Chance(0.5)};
      if (hang.holder && Chance(0.5)) hang.holder->looked_after = Micros(0, 900'000) - absl::Milliseconds(400);
      if (Chance(0.5)) hang.victims.push_back({Int(1, 99), Int(1, 99), Name(), {{Name(), Name(), Int(0, 99)}}});
      seen.hangs.push_back(std::move(hang));
    }
    sample->events.push_back({.t = sample->t, .index = index, .what = std::move(seen)});
  }

  // New frames and places, and counts of some places, new or old, of processes that are alive or have ended.
  void AddCopySites(Sample* sample) {
    if (!Chance(0.4)) return;
    for (int i = Int(0, 3); i > 0; --i) sample->new_frames.push_back({Name(), Name(), Int(0, 1 << Int(0, 30))});
    frames_ += sample->new_frames.size();
    for (int i = Int(0, 2); i > 0; --i) {
      CopySite copy_site = {.cause = Any<Cause>(), .type = Name(), .module = Name(), .symbol = Name()};
      for (int depth = frames_ > 0 ? Int(0, 4) : 0; depth > 0; --depth) copy_site.frames.push_back(Int(0, frames_ - 1));
      sample->new_copy_sites.push_back(copy_site);
    }
    copy_sites_ += sample->new_copy_sites.size();
    for (int i = copy_sites_ > 0 ? Int(0, 4) : 0; i > 0; --i) {
      sample->copy_sites.push_back({Int(0, next_index_ - 1), Int(0, copy_sites_ - 1), Number(), Number(), Number(60)});
      sample->new_growth_sites.push_back(
          {sample->new_copy_sites.empty() ? std::vector<int>{} : sample->new_copy_sites[0].frames});
      ++growth_sites_;
      sample->growth.push_back({Int(0, next_index_ - 1), Int(0, growth_sites_ - 1), Number(), Number()});
    }
    if (Chance(0.6)) sample->cause_evidence = CauseEvidence{Number(), Number(), Number(), Number()};
  }

  // New regions of address spaces, and counts of some.
  void AddRegions(Sample* sample) {
    if (!Chance(0.3)) return;
    for (int i = Int(0, 2); i > 0; --i) {
      const uint64_t start = Number(46);
      sample->new_regions.push_back({Int(0, next_index_ - 1), {Any<RegionKind>(), Name(), start, start + Number()}});
    }
    regions_ += sample->new_regions.size();
    if (regions_ > 0 && Chance(0.5)) sample->grown_regions.push_back({Int(0, regions_ - 1), Number()});
    for (int i = regions_ > 0 ? Int(0, 3) : 0; i > 0; --i) {
      sample->regions.push_back(
          {Int(0, next_index_ - 1), Int(0, regions_ - 1), Number(), Number(), Number(), Number(), Number()});
    }
  }

  void AddHeads(Sample* sample) {
    for (int i = regions_ > 0 ? Int(0, 2) : 0; i > 0; --i)
      sample->heads.push_back({Int(0, regions_ - 1), Number(), Number(), Number()});
  }

  // As CopiedPageRuns returns them: sorted by process and page, no page twice. The file groups them by cause.
  void AddPages(Sample* sample) {
    for (int index = 0; index < next_index_; ++index) {
      for (int cause = 0; Chance(0.06) && cause < kCauses; ++cause) {
        uint64_t page = Number(35);
        for (int i = Int(1, 4); i > 0; --i) {
          sample->pages.push_back({index, static_cast<Cause>(cause), page, 1 + Number(12)});
          page += sample->pages.back().pages + Number(12);
        }
      }
    }
  }

  // Sometimes a look at shared memory; a segment's figures need not be consistent.
  void AddShm(Sample* sample) {
    if (!Chance(0.2)) return;
    ShmSample& look = sample->shm.emplace();
    look = {.mount = "/dev/shm", .device = Number(20), .capacity_bytes = MaybeNumber(), .used_bytes = Number()};
    look.whole = Chance(0.5);
    look.unreadable = Number(8);
    look.unreadable_bytes = Number();
    look.unlisted = Number(10);
    look.omitted = Number(10);
    look.omitted_bytes = Number();
    look.unlinked = Number(4);
    for (int left = Int(0, 4); left > 0; --left) {
      ShmSegment segment = {.name = Name(), .kind = Any<SegmentKind>(), .device = Number(20)};
      segment.inode = Number();
      segment.bytes = Number();
      segment.length_bytes = Number();
      segment.deleted = Chance(0.5);
      segment.lost_name = Chance(0.1);
      segment.lasting_name = Chance(0.5);
      segment.creator = Int(0, 4'000'000);
      segment.creator_alive = Chance(0.5);
      segment.looks_unowned = Number(5);
      for (int owners = Int(0, 3); owners > 0; --owners) segment.mapped_by.push_back(Int(1, 4'000'000));
      if (Chance(0.5)) segment.opened_by.push_back(Int(1, 4'000'000));
      look.segments.push_back(std::move(segment));
    }
  }

  // A limit stays once it has appeared; its figures may vanish.
  void ChangeLimits(Sample* sample) {
    if (limits_.size() < kCountOf<LimitKind> && Chance(0.3))
      limits_.push_back({.kind = kAll<LimitKind>[limits_.size()], .name = Name()});
    for (LimitSample& limit : limits_) {
      if (Chance(0.5)) limit.used = Number();
      if (Chance(0.2)) limit.limit = MaybeNumber();
    }
    sample->limits = limits_;
    if (Chance(0.2)) losses_.events_dropped += Number(20);
    if (Chance(0.1)) losses_.regions_dropped += Number(20);
    if (Chance(0.1)) losses_.unclassified_copies += Number(20);
    if (Chance(0.1)) losses_.unplaced_copies += Number(20);
    if (Chance(0.1)) losses_.unplaced_new_pages += Number(20);
    if (Chance(0.1)) losses_.heaps_dropped += Number(20);
    if (Chance(0.1)) losses_.pages_dropped += Number(20);
    if (Chance(0.1)) losses_.unreadable += 1;
  }

  std::mt19937_64 random_;
  absl::Duration t_;
  int next_index_ = 0, frames_ = 0, copy_sites_ = 0, growth_sites_ = 0, regions_ = 0;
  std::map<int, ProcessSample> living_, rows_;
  std::vector<LimitSample> limits_;
  Losses losses_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_RANDOM_RECORDING_H_
