// Reads mappings when they may have changed, and keeps the numbers of their regions stable.
#include "attribution/address_spaces.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "python/object_heads.h"
#include "python/process_memory.h"

namespace cowprof {
namespace {

constexpr absl::Duration kLookAgain = absl::Seconds(10), kLookAgainAtFork = absl::Seconds(1);
constexpr uint64_t kLeastBytesWithHeads = 1 << 20;
constexpr int kMostLooks = 8;           // at once, of half a millisecond each
constexpr uint64_t kPoolsInArena = 64;  // ARENA_BITS - POOL_BITS, Objects/obmalloc.c, from 3.6 to 3.14

// A reader drops regions that begin inside of one that it is told.
void Tell(size_t number, const Region& region, std::map<uint64_t, size_t>* told) {
  if (region.start < region.end) told->erase(told->upper_bound(region.start), told->lower_bound(region.end));
  (*told)[region.start] = number;
}

}  // namespace

std::shared_ptr<const std::vector<AddressRange>> AddressSpaces::RangesOf(int owner, pid_t pid, uint64_t pool_bytes,
                                                                         absl::Duration t) {
  Space& space = spaces_[owner];
  if (space.ranges != nullptr && t < space.looked + kLookAgain) return space.ranges;
  const absl::StatusOr<std::vector<Mapping>> mappings = proc_.ReadMaps(pid);
  if (!mappings.ok()) return space.ranges;
  std::vector<Region> regions = ClassifyMappings(*mappings);
  if (pool_bytes != 0) {
    regions = SplitArenas(regions, PresentMemory(pid, proc_), pool_bytes, kPoolsInArena * pool_bytes);
  }
  space.ranges = std::make_shared<const std::vector<AddressRange>>(NumberRegions(regions, &space.known));
  space_full_ |= space.ranges->size() < regions.size();
  space.looked = t;
  for (size_t i = space.numbers.size(); i < space.known.size() && next_number_ < most_regions_; ++i) {
    space.numbers.push_back(next_number_++);
    space.told_ends.push_back(space.known[i].end);
    new_regions_.push_back({owner, space.known[i]});
    Tell(i, space.known[i], &space.told);
  }
  // A process that was forked from it may have one that is smaller: they don't shrink. But one whose place another had
  // taken, as a mapping that of its arenas while they were swapped out, is told again.
  for (const AddressRange& range : *space.ranges) {
    const size_t i = range.number;
    if (i >= space.numbers.size()) continue;
    const Region& region = space.known[i];
    const auto told = space.told.find(region.start);
    const bool is_back = told == space.told.end() || told->second != i;
    if (!is_back && region.end <= space.told_ends[i]) continue;
    space.told_ends[i] = region.end;
    Tell(i, region, &space.told);
    grown_regions_.push_back({space.numbers[i], region.end - region.start});
  }
  return space.ranges;
}

void AddressSpaces::Forked(int owner, absl::Duration t) {
  const auto space = spaces_.find(owner);
  if (space == spaces_.end()) return;
  const bool is_first = !std::exchange(space->second.has_forked, true);
  if (is_first || t >= space->second.looked + kLookAgainAtFork) space->second.looked = -absl::InfiniteDuration();
}

void AddressSpaces::LookForHeads(int owner, pid_t pid, const HeadLayout& layout, const TypeLookup& types) {
  const auto found = spaces_.find(owner);
  if (found == spaces_.end()) return;
  Space& space = found->second;
  space.looked_bytes.resize(space.known.size());
  std::vector<size_t> due;  // the largest first
  for (size_t i = 0; i < space.numbers.size(); ++i) {
    const Region& region = space.known[i];
    const uint64_t bytes = region.end - region.start;
    const bool grown = bytes >= kLeastBytesWithHeads && bytes > space.looked_bytes[i] + space.looked_bytes[i] / 8;
    if (grown && (region.kind == RegionKind::kHeap || region.kind == RegionKind::kMmap)) due.push_back(i);
  }
  const auto bytes_of = [&](size_t i) { return space.known[i].end - space.known[i].start; };
  std::sort(due.begin(), due.end(), [&](size_t a, size_t b) { return bytes_of(a) > bytes_of(b); });
  due.resize(std::min<size_t>(due.size(), kMostLooks));
  const PresentMemory memory(pid, proc_);
  for (const size_t i : due) {
    space.looked_bytes[i] = bytes_of(i);
    RegionHeads heads = cowprof::LookForHeads(space.known[i], page_bytes_, memory, layout, types);
    heads.region = space.numbers[i];
    if (heads.pages > 0) heads_.push_back(heads);
  }
}

void AddressSpaces::Add(int owner, int index, const FinishedSweep& sweep) {
  const auto space = spaces_.find(owner);
  if (space == spaces_.end()) return;
  absl::flat_hash_map<int, RegionCount>& counts = counts_[index];
  absl::flat_hash_set<int> found;
  for (const RangePages& pages : sweep.ranges) {
    if (pages.number >= space->second.numbers.size()) continue;
    const int region = space->second.numbers[pages.number];
    const RegionCount count = {.index = index,
                               .region = region,
                               .private_pages = pages.private_pages,
                               .shared_pages = pages.shared_pages,
                               .diverged_pages = pages.diverged_pages,
                               .same_pages = pages.same_pages,
                               .new_pages = pages.new_pages};
    found.insert(region);
    RegionCount& last = counts[region];
    if (last == count) continue;
    last = count;
    changed_.push_back(count);
  }
  // Those that are gone, or begin elsewhere now and have another number.
  for (auto& [region, last] : counts) {
    const RegionCount none = {.index = index, .region = region};
    if (found.contains(region) || last == none) continue;
    last = none;
    changed_.push_back(none);
  }
}

void AddressSpaces::Take(Sample* sample) {
  sample->new_regions = std::exchange(new_regions_, {});
  sample->grown_regions = std::exchange(grown_regions_, {});
  sample->regions = std::exchange(changed_, {});
  sample->heads = std::exchange(heads_, {});
  const bool full = next_number_ >= most_regions_;
  if ((!full && !space_full_) || std::exchange(told_full_, true)) return;
  const std::string most = full ? absl::StrCat(most_regions_) : absl::StrCat(kMaxRanges, " of one address space");
  sample->events.push_back({.t = sample->t,
                            .what = Note{absl::StrCat("regions past the first ", most,
                                                      " are not listed; pages are still counted and explained")}});
}

}  // namespace cowprof
