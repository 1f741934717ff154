// Classifies a mapping by its line in maps and its neighbours, and finds pymalloc's arenas by the headers of their
// pools.
#include "attribution/regions.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/base_name.h"
#include "python/objects.h"

namespace cowprof {
namespace {

// ---- Mappings ----

// Bounds of the two guesses: stacks of threads, and zeroed data of modules.
constexpr uint64_t kMinStackBytes = 16 << 10, kMaxStackBytes = 64 << 20, kMaxGuardBytes = 64 << 10;
constexpr uint64_t kMaxBssBytes = 16 << 20;
// glibc's malloc keeps a heap for each of its arenas at multiples of this, writable at the front and inaccessible up to
// the next (HEAP_MAX_SIZE, malloc/arena.c): a heap behind one that is nearly full looks like a stack behind its guard.
constexpr uint64_t kMallocHeapBytes = 64 << 20;

uint64_t BytesOf(const Mapping& mapping) { return mapping.end - mapping.begin; }

bool IsFile(const Mapping& mapping) { return mapping.inode != 0 || absl::StartsWith(mapping.name, "/"); }

bool IsUnnamed(const Mapping& mapping) { return !IsFile(mapping) && mapping.name.empty(); }

bool IsThreadStack(const Mapping& mapping, const Mapping& below) {
  return mapping.writable && BytesOf(below) > 0 && IsUnnamed(below) && !below.readable && !below.writable &&
         !below.executable && BytesOf(below) <= kMaxGuardBytes && BytesOf(mapping) >= kMinStackBytes &&
         BytesOf(mapping) <= kMaxStackBytes && mapping.begin % kMallocHeapBytes != 0;
}

// `below`: the mapping that ends where this one begins, or an empty one.
Region RegionOf(const Mapping& mapping, const Mapping& below, const absl::flat_hash_set<std::string>& modules) {
  Region region = {.kind = RegionKind::kMmap, .name = mapping.name, .start = mapping.begin, .end = mapping.end};
  if (IsFile(mapping)) {
    region.kind = RegionKind::kFile;
    region.name = std::string(BaseName(mapping.name));
  } else if (mapping.name == "[heap]") {
    region.kind = RegionKind::kHeap;
  } else if (absl::StartsWith(mapping.name, "[stack")) {  // up to Linux 4.4 also "[stack:TID]"
    region.kind = RegionKind::kStack;
  } else if (!mapping.name.empty() && !absl::StartsWith(mapping.name, "[anon")) {
    region.kind = RegionKind::kOther;
  } else if (IsUnnamed(mapping) && IsThreadStack(mapping, below)) {
    region.kind = RegionKind::kStack;
    region.name = "thread stack";
  } else if (IsUnnamed(mapping) && mapping.writable && BytesOf(mapping) <= kMaxBssBytes && !below.executable &&
             modules.contains(below.name)) {
    region.kind = RegionKind::kFile;
    region.name = absl::StrCat(BaseName(below.name), " (bss)");
  }
  return region;
}

// ---- Arenas ----

// Frames that are read one by one between arenas, to find the one that is not in use to its end. There is at most one,
// since pymalloc takes a new arena only when no other has a free pool (Objects/obmalloc.c).
constexpr size_t kMaxGapFrames = 8192;
constexpr size_t kFirstBatch = 4, kMaxBatch = 256;  // arenas per bulk read
constexpr int64_t kNoPool = -1;

struct Arena {
  uint64_t start = 0, end = 0;
  int64_t index = kNoPool;
};

// A *frame* is where a pool may be: pool_bytes at a multiple of pool_bytes. An arena begins at any page and has the 63
// or 64 frames that lie wholly in it. They are handed out from the first one on, with the arena's index in their
// headers; frames after the last one handed out were never touched.
class ArenaSearch {
 public:
  ArenaSearch(const MemoryReader& memory, uint64_t pool_bytes, uint64_t arena_bytes)
      : memory_(memory), pool_bytes_(pool_bytes), arena_bytes_(arena_bytes) {}

  // Adds the arenas between the two addresses, except those that have few pools in use and don't follow another one.
  void Walk(uint64_t start, uint64_t end);
  // Adds arenas that begin at a frame of the gap which is in use.
  void ScanGap(uint64_t start, uint64_t end);
  // Sets the ends of arenas once all are found.
  void Close();

  size_t FramesOf(uint64_t start, uint64_t end) const;  // where an arena may begin
  std::vector<Arena>& arenas() { return arenas_; }      // sorted after Close()

 private:
  uint64_t RoundUp(uint64_t address) const { return (address + pool_bytes_ - 1) / pool_bytes_ * pool_bytes_; }
  // The least that an arena has from its first frame on.
  uint64_t least_bytes() const { return pool_bytes_ == kLeastPoolBytes ? arena_bytes_ : arena_bytes_ - pool_bytes_; }
  int64_t IndexOf(absl::Span<char> header, uint64_t frame) const;
  std::vector<int64_t> ReadIndices(const std::vector<uint64_t>& frames) const;
  uint64_t FirstFrame(uint64_t hit, int64_t index, uint64_t lowest) const;
  bool Locate(uint64_t hit, int64_t index, uint64_t lowest, uint64_t end);

  const MemoryReader& memory_;
  const uint64_t pool_bytes_, arena_bytes_;
  std::vector<Arena> arenas_;
};

// The number of the arena that the pool belongs to; kNoPool if it is not a pool. A pool that is wholly free keeps its
// header, with a count of 0.
int64_t ArenaSearch::IndexOf(absl::Span<char> header, uint64_t frame) const {
  uint32_t used, index;  // pool_header.ref.count at 0, arenaindex at 32
  memcpy(&used, header.data(), sizeof(used));
  memcpy(&index, header.data() + 32, sizeof(index));
  used = std::max(used, 1u);
  memcpy(header.data(), &used, sizeof(used));
  return ParsePool(header, frame, pool_bytes_) ? int64_t{index} : kNoPool;
}

// Frame 0 stands for none.
std::vector<int64_t> ArenaSearch::ReadIndices(const std::vector<uint64_t>& frames) const {
  std::vector<std::array<char, kPoolHeaderBytes>> headers(frames.size());
  std::vector<ReadRequest> requests;
  requests.reserve(frames.size());
  for (size_t i = 0; i < frames.size(); ++i) {
    if (frames[i] != 0) requests.push_back({frames[i], absl::MakeSpan(headers[i])});
  }
  memory_.ReadMany(absl::MakeSpan(requests));
  std::vector<int64_t> indices(frames.size(), kNoPool);
  auto request = requests.begin();
  for (size_t i = 0; i < frames.size(); ++i) {
    if (frames[i] != 0 && request++->ok) indices[i] = IndexOf(absl::MakeSpan(headers[i]), frames[i]);
  }
  return indices;
}

// The first frame of the arena that the frame `hit` is in. Reads all candidates, since one in between may be swapped
// out or about to change.
uint64_t ArenaSearch::FirstFrame(uint64_t hit, int64_t index, uint64_t lowest) const {
  std::vector<uint64_t> frames;
  const uint64_t reach = arena_bytes_ - pool_bytes_;
  for (uint64_t at = hit - std::min(reach, hit - lowest); at < hit; at += pool_bytes_) frames.push_back(at);
  const std::vector<int64_t> indices = ReadIndices(frames);
  const auto first = std::find(indices.begin(), indices.end(), index);
  return first == indices.end() ? hit : frames[first - indices.begin()];
}

// Adds the arena that the frame `hit` is in, if it fits in front of `end`.
bool ArenaSearch::Locate(uint64_t hit, int64_t index, uint64_t lowest, uint64_t end) {
  // If the front of the arena before could not be read, it seems to reach into this one.
  if (!arenas_.empty()) {
    const Arena& before = arenas_.back();
    lowest = std::max(lowest, before.start + (before.index == index ? arena_bytes_ : pool_bytes_));
  }
  const uint64_t start = FirstFrame(hit, index, lowest);
  if (start + least_bytes() > end) return false;
  arenas_.push_back({.start = start, .index = index});
  return true;
}

// The kernel puts most arenas in rows, where each begins where the one before it ends. So this reads the first and the
// last frame of each arena that the row would have next, many at a time; where they disagree, a row ends and another
// may begin.
void ArenaSearch::Walk(uint64_t start, uint64_t end) {
  uint64_t next = RoundUp(start), to_last = arena_bytes_ - 2 * pool_bytes_;  // the last frame that each has
  size_t batch = kFirstBatch;
  bool in_row = false;
  while (next + pool_bytes_ <= end) {
    std::vector<uint64_t> frames;
    for (uint64_t at = next; at + pool_bytes_ <= end && frames.size() < 2 * batch; at += arena_bytes_) {
      frames.push_back(at);
      frames.push_back(at + to_last + pool_bytes_ <= end ? at + to_last : 0);
    }
    const std::vector<int64_t> indices = ReadIndices(frames);
    batch = std::min(2 * batch, kMaxBatch);
    for (size_t i = 0; i < frames.size(); i += 2, next += arena_bytes_) {
      const int64_t first = indices[i], last = indices[i + 1];
      if (in_row && first != kNoPool && first == last && first != arenas_.back().index) {
        arenas_.push_back({.start = next, .index = first});
        continue;
      }
      in_row = first != kNoPool || last != kNoPool;
      if (!in_row) continue;
      const int64_t index = first != kNoPool ? first : last;
      if (!Locate(first != kNoPool ? next : next + to_last, index, RoundUp(start), end)) return;  // no more will fit
      next = arenas_.back().start + arena_bytes_;
      // A pool of this arena, or of the next if this one's first frame could not be read; the next batch finds that
      // out.
      const bool has_64 = next <= end && ReadIndices({next - pool_bytes_})[0] != kNoPool;
      to_last = arena_bytes_ - (has_64 ? 1 : 2) * pool_bytes_;
      batch = kFirstBatch;
      break;
    }
  }
}

size_t ArenaSearch::FramesOf(uint64_t start, uint64_t end) const {
  const uint64_t first = RoundUp(start);
  return first + least_bytes() <= end ? (end - least_bytes() - first) / pool_bytes_ + 1 : 0;
}

void ArenaSearch::ScanGap(uint64_t start, uint64_t end) {
  std::vector<uint64_t> frames(FramesOf(start, end));
  for (size_t i = 0; i < frames.size(); ++i) frames[i] = RoundUp(start) + i * pool_bytes_;
  const std::vector<int64_t> indices = ReadIndices(frames);
  uint64_t behind = start;
  for (size_t i = 0; i < frames.size(); ++i) {
    if (indices[i] == kNoPool || frames[i] < behind) continue;
    arenas_.push_back({.start = frames[i], .index = indices[i]});
    behind = frames[i] + arena_bytes_;
  }
}

// An arena that does not begin at a multiple of the pool size has 63 frames. After them comes less than a frame that
// nothing touches, and then memory of others. So the last two frames decide; within a row it does not matter.
void ArenaSearch::Close() {
  std::sort(arenas_.begin(), arenas_.end(), [](const Arena& a, const Arena& b) { return a.start < b.start; });
  std::vector<size_t> open;
  std::vector<uint64_t> frames;
  for (size_t i = 0; i < arenas_.size(); ++i) {
    Arena& arena = arenas_[i];
    arena.end = arena.start + arena_bytes_;
    if (i + 1 < arenas_.size()) arena.end = std::min(arena.end, arenas_[i + 1].start);
    if (pool_bytes_ == kLeastPoolBytes || (i + 1 < arenas_.size() && arenas_[i + 1].start == arena.end)) continue;
    open.push_back(i);
    frames.push_back(arena.end - 2 * pool_bytes_);
    frames.push_back(arena.end - pool_bytes_);
  }
  const std::vector<int64_t> indices = ReadIndices(frames);
  for (size_t i = 0; i < open.size(); ++i) {
    Arena& arena = arenas_[open[i]];
    if (indices[2 * i] == arena.index && indices[2 * i + 1] != arena.index) arena.end -= pool_bytes_;
  }
}

// Memory that the kernel may have merged with an arena: it merges adjacent mappings of the same rights.
bool MayHoldArenas(const Region& region) {
  return region.kind == RegionKind::kMmap || region.kind == RegionKind::kHeap ||
         (region.kind == RegionKind::kStack && region.name != "[stack]") ||
         (region.kind == RegionKind::kFile && absl::EndsWith(region.name, " (bss)"));
}

// The gaps between sorted arenas, and the arenas themselves where `arenas_too`.
std::vector<Region> Cut(const std::vector<Region>& regions, const std::vector<Arena>& arenas, bool arenas_too) {
  std::vector<Region> out;
  auto arena = arenas.begin();
  for (const Region& region : regions) {
    Region rest = region;
    for (; arena != arenas.end() && arena->start < region.end; ++arena) {
      if (rest.start < arena->start) {
        out.push_back(rest);
        out.back().end = arena->start;
      }
      if (arenas_too) out.push_back({RegionKind::kPymallocArena, "", arena->start, std::min(arena->end, region.end)});
      rest.start = std::min(arena->end, region.end);
      if (rest.kind == RegionKind::kFile || rest.kind == RegionKind::kStack) rest.kind = RegionKind::kMmap;
      if (rest.kind != region.kind) rest.name.clear();
    }
    if (rest.start < rest.end) out.push_back(rest);
  }
  return out;
}

}  // namespace

std::vector<Region> ClassifyMappings(const std::vector<Mapping>& mappings) {
  std::vector<Region> regions;
  absl::flat_hash_set<std::string> modules;  // files that have code
  Mapping below;
  for (const Mapping& mapping : mappings) {
    if (below.end != mapping.begin) below = {};
    if (IsFile(mapping) && mapping.executable) modules.insert(mapping.name);
    const bool counts = mapping.readable && !mapping.shared && !absl::StartsWith(mapping.name, "[v");
    if (counts) {
      Region region = RegionOf(mapping, below, modules);
      if (!regions.empty() && IsFile(mapping) && IsFile(below) && regions.back().end == region.start &&
          below.name == mapping.name && below.inode == mapping.inode) {
        regions.back().end = region.end;
      } else {
        regions.push_back(std::move(region));
      }
    }
    below = mapping;
  }
  return regions;
}

std::vector<Region> SplitArenas(const std::vector<Region>& regions, const MemoryReader& memory, uint64_t pool_bytes,
                                uint64_t arena_bytes) {
  if (pool_bytes < kLeastPoolBytes || (pool_bytes & (pool_bytes - 1)) != 0 || arena_bytes % pool_bytes != 0 ||
      arena_bytes < 4 * pool_bytes) {
    return regions;
  }
  ArenaSearch search(memory, pool_bytes, arena_bytes);
  for (const Region& region : regions) {
    if (MayHoldArenas(region) && IsUserAddress(region.start) && IsUserAddress(region.end - 1))
      search.Walk(region.start, region.end);
  }
  search.Close();
  std::vector<std::pair<size_t, Region>> gaps;
  for (Region& gap : Cut(regions, search.arenas(), /*arenas_too=*/false)) {
    const size_t frames = search.FramesOf(gap.start, gap.end);
    if ((gap.kind == RegionKind::kMmap || gap.kind == RegionKind::kFile) && MayHoldArenas(gap) && frames > 0)
      gaps.emplace_back(frames, std::move(gap));
  }
  // The smallest first: the largest are data, and too much to read.
  std::sort(gaps.begin(), gaps.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.start) < std::pair(b.first, b.second.start);
  });
  size_t left = kMaxGapFrames;
  for (const auto& [frames, gap] : gaps) {
    if (frames > left) break;
    left -= frames;
    search.ScanGap(gap.start, gap.end);
  }
  search.Close();
  return Cut(regions, search.arenas(), /*arenas_too=*/true);
}

std::vector<AddressRange> NumberRegions(const std::vector<Region>& now, std::vector<Region>* known) {
  absl::flat_hash_map<std::pair<uint64_t, RegionKind>, size_t> numbers;
  numbers.reserve(known->size() + now.size());
  for (size_t i = 0; i < known->size(); ++i) numbers.emplace(std::pair((*known)[i].start, (*known)[i].kind), i);
  std::vector<AddressRange> ranges;
  ranges.reserve(now.size());
  for (const Region& region : now) {
    const auto found = numbers.find(std::pair(region.start, region.kind));
    const size_t number = found != numbers.end() ? found->second : known->size();
    if (number >= kMaxRanges) continue;
    if (number == known->size()) known->emplace_back();
    (*known)[number] = region;
    ranges.push_back({region.start, region.end, static_cast<uint16_t>(number)});
  }
  return ranges;
}

}  // namespace cowprof
