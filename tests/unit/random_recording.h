// A seeded stream of samples as a busy host could hand them out: workers that come and go, figures that
// are absent, large, unchanged or fall, events of every kind, places of copies. What one sample says agrees with the
// one before (an index is announced before its rows, a frame before the place on it), so that a timeline must give back
// exactly the same.
#ifndef COWPROF_TESTS_UNIT_RANDOM_RECORDING_H_
#define COWPROF_TESTS_UNIT_RANDOM_RECORDING_H_

#include <map>
#include <random>
#include <string>
#include <vector>

#include "model/sample.h"

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
    AddPlaces(&sample);
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
    info.limits = {{LimitKind::kShm, "/dev/shm", 67'108'864, 12}, {LimitKind::kHost, "Mem", {}, 9}};
    return info;
  }

  bool Chance(double p) { return std::bernoulli_distribution(p)(random_); }
  // Small and large ones alike: every order of magnitude below 2^`bits`.
  uint64_t Number(int bits = 40) {
    return random_() & ((uint64_t{1} << std::uniform_int_distribution<>(0, bits)(random_)) - 1);
  }
  int Int(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }

 private:
  absl::Duration Micros(int low, int high) { return absl::Microseconds(Int(low, high)); }
  Count MaybeNumber() { return Chance(0.15) ? std::nullopt : Count(Number()); }
  std::string Name() {
    const std::vector<std::string> names = {"python", "", "a b", "\"q\"\\", "t\ta\nb", "\xe2\x82\xac"};
    return names[Int(0, names.size() - 1)];
  }

  void Start(Sample* sample) {
    const int index = next_index_++;
    Event event = {.t = sample->t - Micros(0, 900), .kind = EventKind::kProcess, .index = index};
    event.id = {Int(1, 4'194'304), random_() >> 4};
    event.parent = index == 0 ? -1 : Int(0, index - 1);
    event.origin = index == 0 ? Origin::kTarget : Chance(0.3) ? Origin::kFoundAtAttach : Origin::kForked;
    if (event.origin == Origin::kForked && Chance(0.8)) event.space = event.parent;
    event.comm = Name();
    event.command = Name();
    sample->events.push_back(event);
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
                               Micros(0, 90'000)};
    }
    if (Chance(0.1)) row.verify = VerifyFigures{Number(), Number(), Number(), Number(), Number(), Number()};
    rows_[index] = row;
  }

  // The last row of a process has its counts; /proc has nothing left to say.
  void End(Sample* sample) {
    auto process = living_.begin();
    std::advance(process, Int(0, living_.size() - 1));
    Event event = {.t = sample->t, .kind = EventKind::kExit, .index = process->first};
    event.status = Int(0, 0xffff);
    sample->events.push_back(event);
    rows_[process->first].proc = {};
    living_.erase(process);
  }

  void AddSideEvents(Sample* sample) {
    const int index = living_.begin()->first;
    Event exec = {.t = sample->t, .kind = EventKind::kExec, .index = index};
    exec.comm = Name();
    exec.command = Name();
    Event sent = {.t = sample->t, .kind = EventKind::kSignalSent, .index = index};
    sent.signal = Int(1, 64);
    sent.code = Int(-6, 128);
    sent.sender = Int(0, 4'194'304);
    sent.sender_comm = Name();
    Event delivered = {.t = sample->t, .kind = EventKind::kSignalDelivered, .index = index};
    delivered.signal = 7;
    delivered.code = Int(-6, 128);
    delivered.address = random_();
    delivered.module = Name();
    delivered.symbol = Name();
    if (Chance(0.5)) delivered.frame = Frame{Name(), Name(), Int(0, 99)};
    if (Chance(0.5)) {
      delivered.file = FaultFile{Name(), Number(), Number(), Chance(0.5), Number(), Number(), Chance(0.5)};
      delivered.file->capacity_bytes = MaybeNumber();
    }
    Event note = {.t = sample->t, .kind = EventKind::kNote};
    note.text = Name();
    Event oom = {.t = sample->t, .kind = EventKind::kOomVictim, .index = index};
    if (Chance(0.8)) oom.limit = LimitSample{static_cast<LimitKind>(Int(0, 6)), Name(), MaybeNumber(), Number()};
    Event python = {.t = sample->t, .kind = EventKind::kPython, .index = index};
    python.python = Name();
    python.text = Name();
    for (const Event& event : {exec, sent, delivered, note, oom, python}) {
      if (Chance(0.15)) sample->events.push_back(event);
    }
  }

  // New frames and places, and counts of some places, new or old, of processes that live or once did.
  void AddPlaces(Sample* sample) {
    if (!Chance(0.4)) return;
    for (int i = Int(0, 3); i > 0; --i) sample->new_frames.push_back({Name(), Name(), Int(0, 1 << Int(0, 30))});
    frames_ += sample->new_frames.size();
    for (int i = Int(0, 2); i > 0; --i) {
      Place place = {.cause = AnyCause(), .type = Name(), .module = Name(), .symbol = Name()};
      for (int depth = frames_ > 0 ? Int(0, 4) : 0; depth > 0; --depth) place.frames.push_back(Int(0, frames_ - 1));
      sample->new_places.push_back(place);
    }
    places_ += sample->new_places.size();
    for (int i = places_ > 0 ? Int(0, 4) : 0; i > 0; --i) {
      sample->places.push_back({Int(0, next_index_ - 1), Int(0, places_ - 1), Number(), Number(), Number(60)});
    }
    if (Chance(0.6)) sample->cause_evidence = CauseEvidence{Number(), Number(), Number(), Number()};
  }

  // New regions of address spaces, and counts of some.
  void AddRegions(Sample* sample) {
    if (!Chance(0.3)) return;
    for (int i = Int(0, 2); i > 0; --i) {
      const uint64_t start = Number(46);
      sample->new_regions.push_back(
          {Int(0, next_index_ - 1), {static_cast<RegionKind>(Int(0, 5)), Name(), start, start + Number()}});
    }
    regions_ += sample->new_regions.size();
    for (int i = regions_ > 0 ? Int(0, 3) : 0; i > 0; --i) {
      sample->regions.push_back(
          {Int(0, next_index_ - 1), Int(0, regions_ - 1), Number(), Number(), Number(), Number(), Number()});
    }
  }

  void AddHeads(Sample* sample) {
    for (int i = regions_ > 0 ? Int(0, 2) : 0; i > 0; --i)
      sample->heads.push_back({Int(0, regions_ - 1), Number(), Number(), Number()});
  }

  // As the page log gives them: sorted by process and page, no page twice. The file groups them by cause.
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
  Cause AnyCause() { return static_cast<Cause>(Int(0, kCauses - 1)); }

  // A look at shared memory now and then; a segment's figures need not agree with each other.
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
      ShmSegment segment = {.name = Name(), .kind = static_cast<SegmentKind>(Int(0, 6)), .device = Number(20)};
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

  // A limit stays from where it appears; its figures may not.
  void ChangeLimits(Sample* sample) {
    if (limits_.size() < 6 && Chance(0.3)) {
      const auto kind = static_cast<LimitKind>(limits_.size());
      limits_.push_back({.kind = kind, .name = Name()});
    }
    for (LimitSample& limit : limits_) {
      if (Chance(0.5)) limit.used = Number();
      if (Chance(0.2)) limit.limit = MaybeNumber();
    }
    sample->limits = limits_;
    if (Chance(0.2)) losses_.events_dropped += Number(20);
    if (Chance(0.1)) losses_.regions_dropped += Number(20);
    if (Chance(0.1)) losses_.unclassified_copies += Number(20);
    if (Chance(0.1)) losses_.unplaced_copies += Number(20);
    if (Chance(0.1)) losses_.pages_dropped += Number(20);
    if (Chance(0.1)) losses_.unreadable += 1;
  }

  std::mt19937_64 random_;
  absl::Duration t_;
  int next_index_ = 0, frames_ = 0, places_ = 0, regions_ = 0;
  std::map<int, ProcessSample> living_, rows_;
  std::vector<LimitSample> limits_;
  Losses losses_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_RANDOM_RECORDING_H_
