#include "model/facts/shm.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// Returns the pid between `prefix` and `end`; 0 if there is none.
pid_t PidAfter(absl::string_view prefix, char end, absl::string_view name) {
  if (!absl::StartsWith(name, prefix)) return 0;
  name.remove_prefix(prefix.size());
  pid_t pid = 0;
  const size_t digits = name.find(end);
  return digits != name.npos && absl::SimpleAtoi(name.substr(0, digits), &pid) && pid > 0 ? pid : 0;
}

bool Contains(const std::vector<pid_t>& pids, pid_t pid) {
  return std::find(pids.begin(), pids.end(), pid) != pids.end();
}

// Tells whether a stranger removed the name: a lasting name is gone, but none of the living users let go of the
// segment. A user that closes it and removes the name while others finish with it is right to do so. So is the resource
// tracker of the maker (most likely the lowest pid) once the maker has ended. Torch's manager removes the names of a
// worker that ended (file_system), and its batches may be in use for a while yet.
bool LostItsName(const ShmSegment& then, const ShmSegment& now, const std::vector<pid_t>& living) {
  if (!then.lasting_name || then.deleted || !now.deleted || !now.has_owner()) return false;
  if (!EndsWithItsProcesses(now.kind) || (now.kind == SegmentKind::kTorch && !now.creator_alive)) return false;
  const std::vector<pid_t> before = OwnersOf(then), after = OwnersOf(now);
  const auto still_uses = [&](pid_t pid) { return Contains(after, pid) || !Contains(living, pid); };
  return !before.empty() && Contains(after, before.front()) && std::all_of(before.begin(), before.end(), still_uses);
}

// Among the processes that were looked at; what is not to end with its processes counts as owned.
bool IsOwned(const ShmSegment& segment) {
  return segment.has_owner() || segment.deleted || segment.creator_alive || !EndsWithItsProcesses(segment.kind);
}

bool MayBeOfUnreadable(const ShmSample& sample, const ShmSegment& segment) {
  return sample.unreadable > 0 && segment.bytes <= sample.unreadable_bytes;
}

}  // namespace

SegmentKind KindOfName(absl::string_view name) {
  if (absl::StrContains(name, '/')) return SegmentKind::kFile;
  if (PidAfter("torch_", '_', name) != 0) return SegmentKind::kTorch;
  if (absl::StartsWith(name, "psm_")) return SegmentKind::kMultiprocessing;
  if (PidAfter("pym-", '-', name) != 0) return SegmentKind::kArray;
  if (absl::StartsWith(name, "sem.")) return SegmentKind::kSemaphore;
  return SegmentKind::kFile;
}

pid_t CreatorInName(absl::string_view name) {
  return std::max(PidAfter("torch_", '_', name), PidAfter("pym-", '-', name));
}

std::string FormatSegment(const ShmSegment& segment) {
  const std::string name = absl::AsciiStrToLower(segment.name);
  const bool numpy = absl::EndsWith(name, ".npy") || absl::EndsWith(name, ".npz");
  const bool arrow = absl::EndsWith(name, ".arrow") || absl::EndsWith(name, ".feather");
  const char* kind = segment.kind != SegmentKind::kFile ? NameOf(segment.kind)
                     : numpy                            ? "numpy file"
                     : arrow                            ? "Arrow file"
                                                        : "file";
  const bool nameless = segment.kind == SegmentKind::kMemfd || segment.kind == SegmentKind::kSysV;
  return absl::StrCat(kind, segment.lost_name ? ", name lost" : segment.deleted && !nameless ? ", unlinked" : "");
}

// Processes make these for themselves and should remove them; a file or a semaphore may be meant for the next program.
bool EndsWithItsProcesses(SegmentKind kind) {
  return kind == SegmentKind::kTorch || kind == SegmentKind::kMultiprocessing || kind == SegmentKind::kArray;
}

std::vector<pid_t> OwnersOf(const ShmSegment& segment) {
  std::set<pid_t> owners(segment.mapped_by.begin(), segment.mapped_by.end());
  owners.insert(segment.opened_by.begin(), segment.opened_by.end());
  return {owners.begin(), owners.end()};
}

bool IsOnMount(const ShmSample& sample, const ShmSegment& segment) { return segment.device == sample.device; }

// On its way from a worker to the trainer, a batch of torch's file_system strategy is neither mapped nor open anywhere:
// it counts as owned while its creator lives. A process that could not be examined does not own a segment larger than
// what it has resident, since a process that attaches to a segment reads it; one that hangs may own any.
Ownership OwnershipOf(const ShmSample& sample, const ShmSegment& segment) {
  if (IsOwned(segment)) return Ownership::kOwned;
  return sample.whole && !MayBeOfUnreadable(sample, segment) ? Ownership::kLeaked : Ownership::kUnknown;
}

std::map<SegmentKind, ShmTotal> TotalsByKind(const ShmSample& sample) {
  std::map<SegmentKind, ShmTotal> totals;
  for (const ShmSegment& segment : sample.segments) {
    if (!IsOnMount(sample, segment)) continue;
    ShmTotal& total = totals[segment.kind];
    ++total.segments;
    total.bytes += segment.bytes;
  }
  return totals;
}

ShmTotal LeakedIn(const ShmSample& sample) {
  ShmTotal leaked;
  for (const ShmSegment& segment : sample.segments) {
    if (OwnershipOf(sample, segment) != Ownership::kLeaked) continue;
    ++leaked.segments;
    leaked.bytes += segment.bytes;
  }
  return leaked;
}

std::vector<const ShmSegment*> StillLeaked(const ShmSample& whole, const ShmSample& last) {
  std::map<std::pair<uint64_t, uint64_t>, const ShmSegment*> leaked;
  for (const ShmSegment& segment : whole.segments) {
    if (OwnershipOf(whole, segment) == Ownership::kLeaked) leaked[{segment.device, segment.inode}] = &segment;
  }
  std::vector<const ShmSegment*> still;
  for (const ShmSegment& segment : last.segments) {
    const auto found = leaked.find({segment.device, segment.inode});
    if (found == leaked.end() || found->second->name != segment.name) continue;
    if (!IsOwned(segment) && !MayBeOfUnreadable(last, segment)) still.push_back(&segment);
  }
  return still;
}

ShmTotal TotalOf(const std::vector<const ShmSegment*>& segments) {
  ShmTotal total = {.segments = segments.size()};
  for (const ShmSegment* segment : segments) total.bytes += segment->bytes;
  return total;
}

uint64_t UnexplainedBytes(const ShmSample& sample) {
  uint64_t explained = sample.omitted_bytes;
  for (const auto& [kind, total] : TotalsByKind(sample)) explained += total.bytes;
  return SaturatingSubtract(sample.used_bytes, explained);
}

std::optional<Batches> BatchesIn(const ShmSample& sample) {
  std::map<uint64_t, std::vector<const ShmSegment*>> by_length;
  for (const ShmSegment& segment : sample.segments) {
    if (segment.kind == SegmentKind::kTorch && (segment.has_owner() || segment.creator_alive))
      by_length[segment.length_bytes].push_back(&segment);
  }
  const auto largest = std::max_element(by_length.begin(), by_length.end(), [](const auto& a, const auto& b) {
    return a.first * a.second.size() < b.first * b.second.size();
  });
  if (largest == by_length.end()) return std::nullopt;
  std::set<pid_t> creators;
  for (const ShmSegment* segment : largest->second) creators.insert(segment->creator);
  creators.erase(0);  // not known
  return Batches{largest->second.size(), largest->first, creators.size()};
}

// How many of them make a batch, and which are still to be used, is not known.
std::string BatchesText(const Batches& batches) {
  std::string text = absl::StrCat(Plural(batches.segments, "segment"), " of ", HumanBytes(batches.bytes_each));
  if (batches.creators > 0) {
    const uint64_t each = (batches.segments + batches.creators - 1) / batches.creators;
    absl::StrAppend(&text, " from ", batches.creators, batches.creators == 1 ? " process, " : " processes, ",
                    batches.segments % batches.creators == 0 ? "" : "up to ", each, " each");
  }
  return absl::StrCat(text, ": ", HumanBytes(batches.bytes()), " in flight or still in use");
}

void CompareLooks(const ShmSample& before, const std::vector<pid_t>& living, ShmSample* now) {
  std::map<std::pair<uint64_t, uint64_t>, const ShmSegment*> known;
  for (const ShmSegment& segment : before.segments) known[{segment.device, segment.inode}] = &segment;
  now->unlinked = before.unlinked;
  for (ShmSegment& segment : now->segments) {
    const auto found = known.find({segment.device, segment.inode});
    // Inode numbers are reused: another kind or creator means another segment.
    const bool same =
        found != known.end() && found->second->kind == segment.kind && found->second->creator == segment.creator;
    const ShmSegment* then = same ? found->second : nullptr;
    const uint64_t unowned_before = then != nullptr ? then->looks_unowned : 0;
    const bool unowned = !segment.has_owner() && !segment.creator_alive;
    segment.looks_unowned = !now->whole ? unowned_before : unowned ? unowned_before + 1 : 0;
    if (then == nullptr) continue;
    segment.lost_name = then->lost_name;
    segment.lasting_name |= then->lasting_name && !segment.deleted;
    if (!now->whole || then->lost_name || !LostItsName(*then, segment, living)) continue;
    segment.lost_name = true;
    ++now->unlinked;
  }
}

void KeepLargest(size_t most, ShmSample* sample) {
  const auto rank = [&](const ShmSegment& segment) {
    const bool was_unowned = !sample->whole && segment.looks_unowned > 0 && !IsOwned(segment);
    const bool telling = segment.lost_name || was_unowned || OwnershipOf(*sample, segment) == Ownership::kLeaked;
    return std::make_pair(telling, segment.bytes);
  };
  std::vector<ShmSegment>& segments = sample->segments;
  std::stable_sort(segments.begin(), segments.end(),
                   [&](const ShmSegment& a, const ShmSegment& b) { return rank(a) > rank(b); });
  for (size_t i = most; i < segments.size(); ++i) {
    ++sample->omitted;
    sample->omitted_bytes += IsOnMount(*sample, segments[i]) ? segments[i].bytes : 0;
  }
  segments.resize(std::min(segments.size(), most));
  std::stable_sort(segments.begin(), segments.end(),
                   [](const ShmSegment& a, const ShmSegment& b) { return a.bytes > b.bytes; });
}

}  // namespace cowprof
