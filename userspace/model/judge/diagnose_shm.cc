// Diagnoses of shared memory.
#include <signal.h>

#include <algorithm>
#include <bit>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/facts/shm.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/post_mortem.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr double kFull = 0.99, kNearFull = 0.8;
constexpr absl::Duration kAtThatTime = absl::Seconds(2);  // from a bus error to a sample that tells of it
constexpr uint64_t kLooksToBelieve = 2;  // that a segment has no owner: it may change hands during a look
constexpr double kLeakShare = 0.001;     // of the capacity; less is not a finding
constexpr uint64_t kLeastLeaked = 8 << 20;
constexpr uint64_t kLargest = uint64_t{1} << 62;           // that can be doubled
constexpr double kMostlyFiles = 0.5, kLeastGrowth = 0.01;  // of what is used; of the capacity

double PeakRatio(const RunModel& model, LimitKind kind) {
  const LimitModel* limit = LimitOf(model, kind);
  return limit == nullptr ? 0 : limit->peak_ratio;
}

bool WillExceed(const Facts& facts, LimitKind kind) {
  return std::any_of(
      facts.findings.forecast.limits.begin(), facts.findings.forecast.limits.end(),
      [kind](const LimitForecast& limit) { return limit.now.kind == kind && limit.outlook == Outlook::kWillExceed; });
}

// A bus error at an address of which the file is not known.
bool IsOfUnknownFile(const Event& event) {
  const auto* delivered = event.As<SignalDelivered>();
  return delivered != nullptr && delivered->signal == SIGBUS && delivered->code == BUS_ADRERR && !delivered->file;
}

// Whether a write to shared memory found no room: SIGBUS inside a file of that mount or, if the file is unknown, while
// the mount was full.
bool WriteFailed(const RunModel& model, const Event& event) {
  if (IsOfUnknownFile(event)) {
    const LimitModel* limit = LimitOf(model, LimitKind::kShm);
    return limit != nullptr && limit->peak_ratio >= kFull && absl::AbsDuration(event.t - limit->peak_t) <= kAtThatTime;
  }
  const auto* delivered = event.As<SignalDelivered>();
  if (delivered == nullptr || delivered->signal != SIGBUS || !delivered->file) return false;
  const FaultFile& file = *delivered->file;
  const bool on_mount = !model.shm || file.device == model.shm->device;
  return file.in_memory && on_mount && !file.is_beyond_end(model.info.page_bytes);
}

template <typename Is>
std::vector<pid_t> PidsWith(const RunModel& model, Is is) {
  std::vector<pid_t> pids;
  for (const ProcessModel& process : model.processes) {
    if (std::any_of(process.signals.begin(), process.signals.end(), is)) pids.push_back(process.id.pid);
  }
  return pids;
}

std::vector<pid_t> FailedWriters(const RunModel& model) {
  return PidsWith(model, [&](const Event& event) { return WriteFailed(model, event); });
}

bool FullOfFiles(const RunModel& model) { return PeakRatio(model, LimitKind::kShmInodes) >= kFull; }

bool IsFull(const RunModel& model) {
  return PeakRatio(model, LimitKind::kShm) >= kFull || FullOfFiles(model) || !FailedWriters(model).empty();
}

// ---- Owners and contents ----

std::vector<pid_t> OwnersIn(const ShmSample& sample) {
  std::set<pid_t> owners;
  for (const ShmSegment& segment : sample.segments) {
    if (!IsOnMount(sample, segment) || segment.kind == SegmentKind::kSemaphore) continue;
    for (const pid_t pid : OwnersOf(segment)) owners.insert(pid);
  }
  return {owners.begin(), owners.end()};
}

// With a name of its own; nullptr: there is none.
const ShmSegment* LargestFile(const ShmSample& sample) {
  const auto file = std::find_if(sample.segments.begin(), sample.segments.end(), [&](const ShmSegment& segment) {
    return segment.kind == SegmentKind::kFile && IsOnMount(sample, segment);
  });  // segments are in order of size
  return file == sample.segments.end() ? nullptr : &*file;
}

// As one that a killed run has left.
bool IsUnused(const ShmSample& sample, const ShmSegment& file) {
  return sample.whole && sample.unreadable == 0 && !file.has_owner() && !file.creator_alive;
}

// Also in the last look and the one before. A program may open a file of its data only while it reads it.
bool IsStillUnused(const ShmSample& last, const ShmSegment& file) {
  return std::any_of(last.segments.begin(), last.segments.end(), [&](const ShmSegment& now) {
    const bool same = now.device == file.device && now.inode == file.inode;
    return same && now.looks_unowned >= kLooksToBelieve && IsUnused(last, now);
  });
}

std::vector<std::string> ContentsOf(const ShmSample& sample) {
  std::vector<std::string> lines;
  for (const auto& [kind, total] : TotalsByKind(sample)) {
    if (total.bytes < sample.used_bytes / 20) continue;
    lines.push_back(
        absl::StrCat(NameOf(kind), ": ", HumanBytes(total.bytes), " in ", Plural(total.segments, "segment")));
  }
  if (const ShmSegment* file = LargestFile(sample); file != nullptr && file->bytes >= sample.used_bytes / 20)
    lines.push_back(
        absl::StrCat("largest file with a name of its own: ", Printable(file->name), ", ", HumanBytes(file->bytes),
                     IsUnused(sample, *file) ? ", which no process had open or mapped when cowprof looked" : ""));
  if (const uint64_t bytes = UnexplainedBytes(sample); bytes > sample.used_bytes / 10)
    lines.push_back(absl::StrCat(HumanBytes(bytes), " not in any segment found at that moment"));
  return lines;
}

std::string RoleText(const RunModel& model, pid_t pid) {
  const auto is_it = [pid](const ProcessModel& process) { return process.id.pid == pid; };
  // The latest: pids are reused.
  const auto found = std::find_if(model.processes.rbegin(), model.processes.rend(), is_it);
  if (found != model.processes.rend()) return NameOf(*found);
  return absl::StrCat("process ", pid);
}

// ---- What would fit ----

std::string RoomText(const ShmSample& sample, const Batches& batches) {
  const uint64_t capacity = sample.capacity_bytes.value_or(0);
  const uint64_t other = SaturatingSubtract(sample.used_bytes, batches.bytes());
  const uint64_t fit = SaturatingSubtract(capacity, other) / std::max<uint64_t>(batches.bytes_each, 1);
  return absl::StrCat(
      HumanBytes(capacity), " minus ", HumanBytes(other), " for other things holds ", Plural(fit, "tensor"), " of ",
      HumanBytes(batches.bytes_each),
      ": those of num_workers x prefetch_factor batches, and of the one or two that the trainer still uses, must fit");
}

// More inodes than there are: a remount without nr_inodes keeps their number.
std::string InodesAdvice(const RunModel& model) {
  const LimitModel* limit = LimitOf(model, LimitKind::kShmInodes);
  const uint64_t inodes = limit == nullptr ? 0 : limit->now.limit.value_or(0);
  return absl::StrCat("Allow more files: mount -o remount,nr_inodes=", std::bit_ceil(std::min(inodes, kLargest) * 2),
                      " /dev/shm.");
}

std::vector<std::string> RoomAdvice(const RunModel& model, bool dataloader) {
  std::vector<std::string> advice;
  const std::optional<std::string> size = LargerShm(model), own = LargerShmOfContainer(model);
  const char* keep = "Or keep";
  if (FullOfFiles(model))
    advice.push_back(InodesAdvice(model));
  else if (size)
    advice.push_back(absl::StrCat(
        "Make it larger: ",
        own ? absl::StrCat("docker run --shm-size=", *own,
                           " (or --ipc=host, which uses the host's), in Kubernetes an emptyDir with medium: Memory on "
                           "/dev/shm, ")
            : "",
        "on the host itself mount -o remount,size=", *size, " /dev/shm.", own ? CountsAgainstMemory(model) : ""));
  else
    keep = kNoLargerShm;
  const std::optional<Batches> batches = model.shm_peak ? BatchesIn(*model.shm_peak) : std::nullopt;
  if (!dataloader && !batches) {
    advice.push_back(absl::StrCat(keep, " less in it: the largest segments are listed with their owners."));
    return advice;
  }
  advice.push_back(absl::StrCat(keep, " less in flight: fewer workers, a smaller prefetch_factor or batch_size",
                                batches ? absl::StrCat(" (", RoomText(*model.shm_peak, *batches), ")") : "",
                                "; num_workers=0 needs no shared memory."));
  if (batches) {
    advice.push_back(
        "The sharing strategy does not change how much is needed: file_system saves descriptors but leaves names "
        "behind when a run is killed; file_descriptor (the default) leaves nothing but uses a descriptor per tensor.");
  }
  return advice;
}

Diagnosis Crowded(const Facts& facts, const char* id, double confidence) {
  const RunModel& model = facts.model;
  Diagnosis diagnosis = {.id = id, .confidence = confidence, .harm = Harm::kLimit};
  const LimitModel* limit = LimitOf(model, LimitKind::kShm);
  if (limit != nullptr) {
    // Capacity may have changed: the most that was used and the fullest moment may be two moments.
    diagnosis.evidence.push_back(absl::StrCat("up to ", HumanBytes(limit->peak), " used, up to ",
                                              Percent(limit->peak_ratio), " of what was its capacity then; now ",
                                              HumanBytes(limit->now.used), " of ", HumanBytes(limit->now.limit)));
  }
  if (model.shm_peak) {
    for (std::string& line : ContentsOf(*model.shm_peak)) diagnosis.evidence.push_back(std::move(line));
    if (const std::optional<Batches> batches = BatchesIn(*model.shm_peak)) {
      diagnosis.evidence.push_back(
          absl::StrCat(BatchesText(*batches), "; capacity ", HumanBytes(model.shm_peak->capacity_bytes)));
    }
    diagnosis.pids = OwnersIn(*model.shm_peak);
  }
  diagnosis.advice = RoomAdvice(model, facts.dataloader());
  const ShmSegment* file = model.shm_peak ? LargestFile(*model.shm_peak) : nullptr;
  // A run that goes on may need it again.
  if (file != nullptr && 2 * file->bytes >= model.shm_peak->used_bytes && IsUnused(*model.shm_peak, *file) &&
      facts.findings.forecast.ended && IsStillUnused(*model.shm, *file)) {
    diagnosis.advice.insert(
        diagnosis.advice.begin(),
        absl::StrCat("Remove ", Printable(file->name), " from /dev/shm if nobody needs it: ", HumanBytes(file->bytes),
                     ", which no process had open or mapped when cowprof looked."));
  }
  return diagnosis;
}

// Files with names of their own that lie there on purpose, such as a data set: as much as before the recording.
bool HoldsFilesOnly(const RunModel& model) {
  const LimitModel* limit = LimitOf(model, LimitKind::kShm);
  if (limit == nullptr || !model.shm_peak) return false;
  const auto before = std::find_if(model.info.limits.begin(), model.info.limits.end(),
                                   [](const LimitSample& one) { return one.kind == LimitKind::kShm; });
  if (before == model.info.limits.end()) return false;
  const auto totals = TotalsByKind(*model.shm_peak);
  const auto files = totals.find(SegmentKind::kFile);
  const bool grew = SaturatingSubtract(limit->peak, before->used) > kLeastGrowth * limit->now.limit.value_or(0);
  return !grew && files != totals.end() && files->second.bytes >= kMostlyFiles * limit->peak;
}

}  // namespace

Diagnosis ShmFull(const Facts& facts) {
  const RunModel& model = facts.model;
  if (!IsFull(model)) return {};
  const std::vector<pid_t> failed = FailedWriters(model);
  Diagnosis diagnosis = Crowded(facts, "shm-full", failed.empty() ? 0.97 : 0.95);
  diagnosis.summary =
      FullOfFiles(model)
          ? absl::StrCat("/dev/shm ran short of inodes (up to ", Percent(PeakRatio(model, LimitKind::kShmInodes)),
                         " in use): without a free one, no file can be created.")
      : facts.dataloader()
          ? "/dev/shm was full: a write that finds no room gets SIGBUS, or a RuntimeError from torch 2.10 on, and its "
            "worker is lost."
          : "/dev/shm was full: the first touch of a mapped page gets SIGBUS, and an allocation fails (ENOSPC).";
  for (const pid_t pid : failed)
    diagnosis.evidence.insert(diagnosis.evidence.begin(),
                              absl::StrCat(RoleText(model, pid), " got SIGBUS writing to shared memory"));
  if (!failed.empty()) diagnosis.pids = failed;
  return diagnosis;
}

Diagnosis ShmNearFull(const Facts& facts) {
  if (IsFull(facts.model)) return {};
  const double ratio = PeakRatio(facts.model, LimitKind::kShm);
  const bool near = ratio >= kNearFull;
  if (!near && (ratio < kHalfFull || !WillExceed(facts, LimitKind::kShm))) return {};
  if (HoldsFilesOnly(facts.model)) return {};
  Diagnosis diagnosis = Crowded(facts, "shm-near-full", near ? 0.9 : 0.75);
  const std::string use = Percent(ratio);
  diagnosis.summary = near ? absl::StrCat("/dev/shm was up to ", use, " full: ",
                                          facts.dataloader() ? "a batch that does not fit kills its worker."
                                                             : "a write that finds no room kills its process (SIGBUS).")
                           : absl::StrCat("/dev/shm is filling up, ", use, " so far: at this rate it will be full.");
  if (!near) return diagnosis;
  for (const pid_t pid : PidsWith(facts.model, IsOfUnknownFile)) {
    diagnosis.evidence.insert(diagnosis.evidence.begin(),
                              absl::StrCat(RoleText(facts.model, pid),
                                           " got SIGBUS, in which file is not known: it may have been full then"));
  }
  return diagnosis;
}

Diagnosis ShmUnlinked(const Facts& facts) {
  const RunModel& model = facts.model;
  if (model.shm_unlinked.empty() || IsFull(model)) return {};
  Diagnosis diagnosis = {.id = "shm-unlinked", .confidence = 0.8, .harm = Harm::kHazard};
  const uint64_t count = std::max<uint64_t>(model.shm ? model.shm->unlinked : 0, model.shm_unlinked.size());
  diagnosis.summary =
      absl::StrCat("Shared memory lost ", Plural(count, "name"),
                   " while processes still use it: the next process that opens it gets FileNotFoundError.");
  std::set<pid_t> owners;
  for (const ShmSegment& segment : model.shm_unlinked) {
    std::vector<std::string> who;
    for (const pid_t pid : OwnersOf(segment)) {
      owners.insert(pid);
      who.push_back(RoleText(model, pid));
    }
    diagnosis.evidence.push_back(absl::StrCat(Printable(segment.name), " (", NameOf(segment.kind), ", ",
                                              HumanBytes(segment.bytes), ") lost its name; still in use by ",
                                              absl::StrJoin(who, ", ")));
  }
  diagnosis.pids.assign(owners.begin(), owners.end());
  diagnosis.advice = {
      "In every program that attaches to a SharedMemory, multiprocessing's resource tracker removes it when that "
      "program ends (bpo-38119): attach with track=False (Python 3.13), or call resource_tracker.unregister() after "
      "attaching.",
      "If a cleanup script did it: make it skip names that a process still maps (cowprof shm lists them). systemd-logind "
      "removes a user's names at the end of the last session, unless logind.conf has RemoveIPC=no."};
  return diagnosis;
}

Diagnosis ShmLeaked(const Facts& facts) {
  const RunModel& model = facts.model;
  if (!model.shm_whole) return {};
  std::vector<const ShmSegment*> leaked = StillLeaked(*model.shm_whole, *model.shm);
  std::erase_if(leaked, [](const ShmSegment* segment) { return segment->looks_unowned < kLooksToBelieve; });
  const uint64_t bytes = TotalOf(leaked).bytes;
  const uint64_t capacity = model.shm->capacity_bytes.value_or(0);
  if (bytes < kLeastLeaked || bytes < kLeakShare * capacity) return {};
  const double share = capacity == 0 ? 0 : static_cast<double>(bytes) / capacity;
  Diagnosis diagnosis = {.id = "shm-leaked",
                         .confidence = std::min(0.95, 0.6 + share),
                         .harm = Harm::kHazard,
                         .bytes = bytes,
                         .saves = Saving{bytes, bytes, bytes}};
  diagnosis.summary = absl::StrCat(HumanBytes(bytes), " of /dev/shm is taken by ", Plural(leaked.size(), "segment"),
                                   " that no living process maps or holds.");
  for (size_t i = 0; i < std::min<size_t>(leaked.size(), 3); ++i) {
    const pid_t creator = leaked[i]->creator;
    diagnosis.evidence.push_back(
        absl::StrCat(Printable(leaked[i]->name), ", ", HumanBytes(leaked[i]->bytes),
                     creator != 0 ? absl::StrCat(", made by process ", creator, ", now gone") : ", owner unknown"));
  }
  if (capacity > 0)
    diagnosis.evidence.push_back(absl::StrCat(Percent(share), " of the capacity, ", HumanBytes(capacity)));
  diagnosis.advice = {
      "Remove them: cowprof shm lists the names; each is a file in /dev/shm. Otherwise they stay until the next boot, "
      "or until the container ends.",
      std::any_of(leaked.begin(), leaked.end(), [](const auto* one) { return one->kind == SegmentKind::kTorch; })
          ? "They come from runs that were killed with all their processes, under torch's file_system strategy: end runs "
            "with SIGTERM, or use the file_descriptor strategy."
          : "They come from runs that were killed with all their processes, or from shared memory that was never "
            "unlinked: end runs with SIGTERM."};
  return diagnosis;
}

}  // namespace cowprof
