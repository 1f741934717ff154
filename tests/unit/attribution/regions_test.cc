// What regions.cc makes of maps written by hand, of memory in which pool headers stand where a test puts them, and of
// this very process: no hole of it may be filled by looking.
#include "attribution/regions.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <random>

#include "python/objects.h"
#include "python/process_memory.h"

namespace cowprof {
namespace {

constexpr RegionKind kArena = RegionKind::kPymallocArena, kMmap = RegionKind::kMmap;
constexpr uint64_t kPool = 16 << 10, kArenaBytes = 1 << 20;         // from 3.10 on
constexpr uint64_t kOldPool = 4 << 10, kOldArenaBytes = 256 << 10;  // up to 3.9
constexpr uint64_t kBase = 0x7f00'0000'0000;

using Header = std::array<char, kPoolHeaderBytes>;

// A pool of 64-byte blocks; `used` 0: all of them were given back.
Header PoolHeader(uint64_t frame, uint64_t pool_bytes, uint32_t arena, uint32_t used = 3) {
  Header header = {};
  const auto put = [&](size_t offset, auto value) { memcpy(header.data() + offset, &value, sizeof(value)); };
  put(0, used);
  put(8, uint64_t{frame + kPoolHeaderBytes + 64});
  put(16, uint64_t{frame + 8 * pool_bytes});
  put(32, arena);
  put(36, uint32_t{3});  // szidx: 64 / 16 - 1
  put(40, uint32_t{kPoolHeaderBytes + 4 * 64});
  put(44, static_cast<uint32_t>(pool_bytes - 64));
  return header;
}

// Memory of which only headers can be read. Counts what is asked for.
class Pools : public MemoryReader {
 public:
  explicit Pools(uint64_t pool_bytes = kPool) : pool_bytes_(pool_bytes) {}

  // An arena that begins at `start`, of which `pools` were handed out so far; by default all that fit.
  void Add(uint64_t start, uint32_t index, size_t pools = 64, uint32_t used = 3) {
    const uint64_t end = start + 64 * pool_bytes_;
    uint64_t frame = (start + pool_bytes_ - 1) / pool_bytes_ * pool_bytes_;
    for (; pools > 0 && frame + pool_bytes_ <= end; --pools, frame += pool_bytes_) {
      headers_[frame] = PoolHeader(frame, pool_bytes_, index, used);
    }
  }
  void Remove(uint64_t frame) { headers_.erase(frame); }
  void Put(uint64_t frame, const Header& header) { headers_[frame] = header; }

  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    ++reads_;
    bytes_ += bytes.size();
    const auto found = headers_.find(address);
    if (found == headers_.end() || bytes.size() > kPoolHeaderBytes) return false;
    memcpy(bytes.data(), found->second.data(), bytes.size());
    return true;
  }
  size_t reads() const { return reads_; }
  size_t bytes() const { return bytes_; }

 private:
  uint64_t pool_bytes_;
  std::map<uint64_t, Header> headers_;
  mutable size_t reads_ = 0, bytes_ = 0;
};

std::vector<Region> Split(const std::vector<Region>& regions, const Pools& pools) {
  return SplitArenas(regions, pools, kPool, kArenaBytes);
}

size_t CountArenas(const std::vector<Region>& regions) {
  return std::count_if(regions.begin(), regions.end(), [](const Region& region) { return region.kind == kArena; });
}

Region Anonymous(uint64_t start, uint64_t end) { return {kMmap, "", start, end}; }

}  // namespace

TEST_CASE("mappings become regions: files by name, heap, stacks, anonymous memory") {
  const std::vector<Region> regions = ClassifyMappings(ParseMaps(R"(
00400000-00401000 r--p 00000000 fe:00 11 /usr/bin/python3.11
00401000-00500000 r-xp 00001000 fe:00 11 /usr/bin/python3.11
00500000-00600000 rw-p 00100000 fe:00 11 /usr/bin/python3.11
00600000-00640000 rw-p 00000000 00:00 0
01000000-01100000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000100000 rw-p 00000000 00:00 0
7f0000100000-7f0000200000 rw-p 00000000 00:00 0 [anon: cpython pool]
7f0000300000-7f0000400000 rw-s 00000000 00:01 99 /dev/shm/torch_1
7f0000400000-7f0000500000 ---p 00000000 00:00 0
7f0000600000-7f0000700000 rw-p 00000000 00:01 77 /data/with blank.bin (deleted)
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
7ffc00030000-7ffc00034000 r--p 00000000 00:00 0 [vvar]
7ffc00034000-7ffc00036000 r-xp 00000000 00:00 0 [vdso]
7ffc00040000-7ffc00041000 r-xp 00000000 00:00 0 [uprobes]
)"));
  const std::vector<Region> expected = {
      {RegionKind::kFile, "python3.11", 0x400000, 0x600000},
      {RegionKind::kFile, "python3.11 (bss)", 0x600000, 0x640000},
      {RegionKind::kHeap, "[heap]", 0x1000000, 0x1100000},
      {kMmap, "", 0x7f0000000000, 0x7f0000100000},
      {kMmap, "[anon: cpython pool]", 0x7f0000100000, 0x7f0000200000},
      {RegionKind::kFile, "with blank.bin (deleted)", 0x7f0000600000, 0x7f0000700000},
      {RegionKind::kStack, "[stack]", 0x7ffc00000000, 0x7ffc00021000},
      {RegionKind::kOther, "[uprobes]", 0x7ffc00040000, 0x7ffc00041000},
  };
  CHECK(regions == expected);
}

TEST_CASE("a stack is writable memory of its size above a guard, nothing else") {
  const auto kind_of = [](const std::string& maps) { return ClassifyMappings(ParseMaps(maps)).back().kind; };
  const std::string guard = "7f0000000000-7f0000001000 ---p 00000000 00:00 0\n";
  CHECK(kind_of(guard + "7f0000001000-7f0000801000 rw-p 00000000 00:00 0\n") == RegionKind::kStack);
  CHECK(kind_of(guard + "7f0000002000-7f0000802000 rw-p 00000000 00:00 0\n") == kMmap);  // not above it
  CHECK(kind_of(guard + "7f0000001000-7f0000002000 rw-p 00000000 00:00 0\n") == kMmap);  // too small
  CHECK(kind_of(guard + "7f0000001000-7f0010001000 rw-p 00000000 00:00 0\n") == kMmap);  // too large
  CHECK(kind_of(guard + "7f0000001000-7f0000801000 r--p 00000000 00:00 0\n") == kMmap);  // not writable
  // Nothing at all below, and a heap of malloc behind another that is nearly full.
  CHECK(kind_of("7f0000001000-7f0000801000 rw-p 00000000 00:00 0\n") == kMmap);
  CHECK(kind_of("7f0003fff000-7f0004000000 ---p 00000000 00:00 0\n"
                "7f0004000000-7f0004021000 rw-p 00000000 00:00 0\n") == kMmap);
  CHECK(kind_of("7f0000000000-7f0000001000 ---p 00000000 fe:00 9 /lib/a.so\n"
                "7f0000001000-7f0000801000 rw-p 00000000 00:00 0\n") == kMmap);
}

TEST_CASE("memory behind a file is its bss only if the file has code and the size can be") {
  const auto name_of = [](const std::string& maps) { return ClassifyMappings(ParseMaps(maps)).back().name; };
  const std::string code = "7f0000000000-7f0000001000 r-xp 00000000 fe:00 9 /lib/libc.so.6\n";
  const std::string data = "7f0000001000-7f0000002000 rw-p 00000000 fe:00 9 /lib/libc.so.6\n";
  CHECK(name_of(code + data + "7f0000002000-7f0000003000 rw-p 00000000 00:00 0\n") == "libc.so.6 (bss)");
  CHECK(name_of(data + "7f0000002000-7f0000003000 rw-p 00000000 00:00 0\n").empty());
  CHECK(name_of(code + "7f0000001000-7f0000003000 rw-p 00000000 00:00 0\n").empty());
  CHECK(name_of(code + data + "7f0000002000-7f0002003000 rw-p 00000000 00:00 0\n").empty());
  CHECK(name_of(code + data + "7f0000003000-7f0000004000 rw-p 00000000 00:00 0\n").empty());
}

TEST_CASE("arenas in a row are found one by one, with what is left around them") {
  Pools pools;
  for (uint32_t i = 0; i < 10; ++i) pools.Add(kBase + i * kArenaBytes, 9 - i);
  const std::vector<Region> all = Split({Anonymous(kBase, kBase + 12 * kArenaBytes)}, pools);
  REQUIRE(all.size() == 11);
  for (uint32_t i = 0; i < 10; ++i) {
    CHECK(all[i] == Region{kArena, "", kBase + i * kArenaBytes, kBase + (i + 1) * kArenaBytes});
  }
  CHECK(all[10] == Anonymous(kBase + 10 * kArenaBytes, kBase + 12 * kArenaBytes));
}

TEST_CASE("an arena that begins between two frames has 63 pools") {
  const uint64_t start = kBase + 0x1000, end = start + 5 * kArenaBytes;
  Pools pools;
  for (uint32_t i = 0; i < 5; ++i) pools.Add(start + i * kArenaBytes, i);
  const std::vector<Region> all = Split({Anonymous(start, end)}, pools);
  REQUIRE(CountArenas(all) == 5);
  REQUIRE(all.size() == 7);
  CHECK(all[0] == Anonymous(start, kBase + kPool));  // a part of a frame, which holds nothing
  CHECK(all[1] == Region{kArena, "", kBase + kPool, kBase + kPool + kArenaBytes});
  CHECK(all[5].end == kBase + kPool + 5 * kArenaBytes - kPool);
  CHECK(all[6].end == end);
}

TEST_CASE("arenas need not be where the row before them would have them") {
  const uint64_t gap = GENERATE(0x1000, 0x4000, 0x5000, 0x49000, 0xff000, 0x100000, 0x37f000);
  const uint64_t lead = GENERATE(0, 0x3000, 0x4000, 0x21000);
  Pools pools;
  std::vector<uint64_t> starts;
  uint64_t at = kBase + lead;
  for (uint32_t i = 0; i < 30; ++i, at += kArenaBytes) {
    if (i % 7 == 3) at += gap;
    pools.Add(at, i * 5 % 31);
    starts.push_back((at + kPool - 1) / kPool * kPool);
  }
  std::vector<uint64_t> found;
  uint64_t end = kBase;
  for (const Region& region : Split({Anonymous(kBase, at + gap)}, pools)) {
    CHECK(region.start == end);  // nothing is lost or twice there
    end = region.end;
    if (region.kind == kArena) found.push_back(region.start);
  }
  CHECK(end == at + gap);
  CHECK(found == starts);
}

TEST_CASE("an arena whose first pools only are in use, or none, is found") {
  const std::vector<Region> region = {Anonymous(kBase, kBase + 8 * kArenaBytes)};
  Pools pools;
  pools.Add(kBase + 3 * kArenaBytes, 4);
  pools.Add(kBase + 4 * kArenaBytes, 7, GENERATE(1, 2, 31, 62, 64));
  CHECK(CountArenas(Split(region, pools)) == 2);
  pools.Add(kBase + 5 * kArenaBytes + 7 * kPool, 2, 1);  // follows no row: found frame by frame
  const std::vector<Region> all = Split(region, pools);
  REQUIRE(CountArenas(all) == 3);
  CHECK(all[3] == Anonymous(kBase + 5 * kArenaBytes, kBase + 5 * kArenaBytes + 7 * kPool));
  Pools free;
  free.Add(kBase + kArenaBytes, 1, 64, /*used=*/0);
  CHECK(CountArenas(Split(region, free)) == 1);
}

TEST_CASE("an arena at the edge of the mapping is found, half of one is not") {
  Pools pools;
  pools.Add(kBase, 1);
  const auto count = [&](uint64_t start, uint64_t end) { return CountArenas(Split({Anonymous(start, end)}, pools)); };
  CHECK(count(kBase, kBase + kArenaBytes) == 1);
  CHECK(count(kBase - 5 * kPool, kBase + kArenaBytes) == 1);
  CHECK(count(kBase - 0x2000, kBase + kArenaBytes + 0x3000) == 1);
  CHECK(count(kBase, kBase + kArenaBytes / 2) == 0);
  CHECK(count(kBase, kBase + kPool - 1) == 0);
  CHECK(count(kBase, kBase) == 0);
}

TEST_CASE("pools that can't be read now and then don't hide an arena or shift it") {
  Pools pools;
  for (uint32_t i = 0; i < 6; ++i) pools.Add(kBase + i * kArenaBytes, i);
  pools.Remove(kBase);
  pools.Remove(kBase + 2 * kArenaBytes);
  pools.Remove(kBase + 4 * kArenaBytes + 62 * kPool);
  const std::vector<Region> all = Split({Anonymous(kBase, kBase + 6 * kArenaBytes)}, pools);
  CHECK(CountArenas(all) == 6);
  CHECK(all[4].start == kBase + 2 * kArenaBytes + kPool);
  CHECK(all[5].start == kBase + 3 * kArenaBytes);
  CHECK(all.back() == Region{kArena, "", kBase + 5 * kArenaBytes, kBase + 6 * kArenaBytes});
}

TEST_CASE("arenas of 256 KiB at any page, and no pymalloc at all") {
  Pools pools(kOldPool);
  for (uint32_t i = 0; i < 5; ++i) pools.Add(kBase + 0x3000 + i * kOldArenaBytes, i);
  pools.Add(kBase + 0x5000 + 5 * kOldArenaBytes, 5, 9);
  const std::vector<Region> mapping = {Anonymous(kBase, kBase + 7 * kOldArenaBytes)};
  const std::vector<Region> all = SplitArenas(mapping, pools, kOldPool, kOldArenaBytes);
  CHECK(CountArenas(all) == 6);
  REQUIRE(all.size() == 9);
  CHECK(all[0] == Anonymous(kBase, kBase + 0x3000));
  CHECK(all[6] == Anonymous(kBase + 0x3000 + 5 * kOldArenaBytes, kBase + 0x5000 + 5 * kOldArenaBytes));
  CHECK(SplitArenas(mapping, pools, 0, 0) == mapping);
  CHECK(SplitArenas(mapping, pools, 5000, 320000) == mapping);
  CHECK(SplitArenas({}, pools, kPool, kArenaBytes).empty());
}

TEST_CASE("arenas that the kernel joined with a stack, a bss or a heap are found there; files are left alone") {
  Pools pools;
  const uint64_t arena = kBase + 8 * kPool, end = kBase + 2 * kArenaBytes;
  pools.Add(arena, 3);
  const auto rest = [&](RegionKind kind, std::string name) {
    std::vector<Region> all = Split({{kind, std::move(name), kBase, end}}, pools);
    REQUIRE(all.size() == 3);
    CHECK(all[1] == Region{kArena, "", arena, arena + kArenaBytes});
    return std::pair(all[0], all[2]);
  };
  CHECK(rest(RegionKind::kStack, "thread stack") ==
        std::pair(Region{RegionKind::kStack, "thread stack", kBase, arena}, Anonymous(arena + kArenaBytes, end)));
  CHECK(rest(RegionKind::kFile, "a.so (bss)") ==
        std::pair(Region{RegionKind::kFile, "a.so (bss)", kBase, arena}, Anonymous(arena + kArenaBytes, end)));
  CHECK(rest(RegionKind::kHeap, "[heap]").second.name == "[heap]");
  CHECK(rest(kMmap, "[anon:x]").second.name == "[anon:x]");
  for (const Region& other :
       {Region{RegionKind::kFile, "data.bin", kBase, end}, Region{RegionKind::kStack, "[stack]", kBase, end}}) {
    CHECK(Split({other}, pools) == std::vector<Region>{other});
  }
}

TEST_CASE("20,000 arenas take two small reads each") {
  Pools pools(kOldPool);
  for (uint32_t i = 0; i < 20'000; ++i) pools.Add(kBase + i * kOldArenaBytes, i);
  const std::vector<Region> mapping = {Anonymous(kBase, kBase + 20'000 * kOldArenaBytes)};
  CHECK(CountArenas(SplitArenas(mapping, pools, kOldPool, kOldArenaBytes)) == 20'000);
  CHECK(pools.reads() < 41'000);
  CHECK(pools.bytes() == pools.reads() * kPoolHeaderBytes);
}

TEST_CASE("whatever the memory holds, regions stay in order and cover what they covered") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    Pools pools;
    for (int i = 0; i < 200; ++i) {
      const uint64_t frame = kBase + random() % 600 * kPool;
      Header header = PoolHeader(frame, kPool, random() % 4, random() % 3);
      if (random() % 4 == 0) header[random() % header.size()] = static_cast<char>(random());
      pools.Put(frame, header);
    }
    std::vector<Region> mappings;
    uint64_t at = kBase;
    for (int i = 0; i < 4; ++i) {
      at += random() % 3 * 0x1000;
      const uint64_t end = at + 0x1000 + random() % (3 << 20) / 0x1000 * 0x1000;
      mappings.push_back(Anonymous(at, end));
      at = end;
    }
    uint64_t bytes = 0, bytes_before = 0, last = 0;
    for (const Region& region : mappings) bytes_before += region.end - region.start;
    for (const Region& region : Split(mappings, pools)) {
      REQUIRE(region.start >= last);
      REQUIRE(region.end > region.start);
      REQUIRE(region.end - region.start <= (region.kind == kArena ? kArenaBytes : bytes_before));
      last = region.end;
      bytes += region.end - region.start;
    }
    REQUIRE(bytes == bytes_before);
  }
}

TEST_CASE("a region keeps its number while its start and kind are the same") {
  std::vector<Region> known;
  const std::vector<Region> first = {Anonymous(0x1000, 0x5000), {RegionKind::kHeap, "[heap]", 0x8000, 0x9000}};
  CHECK(NumberRegions(first, &known) == std::vector<AddressRange>{{0x1000, 0x5000, 0}, {0x8000, 0x9000, 1}});
  CHECK(known == first);
  // An arena took the front of the first, the heap grew, and something came in between.
  const std::vector<Region> second = {{kArena, "", 0x1000, 0x3000},
                                      Anonymous(0x3000, 0x5000),
                                      {RegionKind::kFile, "a.so", 0x6000, 0x7000},
                                      {RegionKind::kHeap, "[heap]", 0x8000, 0xb000}};
  const std::vector<AddressRange> ranges = NumberRegions(second, &known);
  CHECK(ranges ==
        std::vector<AddressRange>{{0x1000, 0x3000, 2}, {0x3000, 0x5000, 3}, {0x6000, 0x7000, 4}, {0x8000, 0xb000, 1}});
  REQUIRE(known.size() == 5);
  CHECK(known[0] == first[0]);
  CHECK(known[1].end == 0xb000);
  CHECK(NumberRegions(second, &known) == ranges);
  CHECK(NumberRegions(first, &known)[0].number == 0);
  CHECK(known.size() == 5);
}

TEST_CASE("no more regions are numbered than a range can name") {
  std::vector<Region> many;
  for (uint64_t i = 1; i <= 70'000; ++i) many.push_back(Anonymous(i << 20, (i << 20) + 4096));
  std::vector<Region> known;
  CHECK(NumberRegions(many, &known).size() == kMaxRanges);
  CHECK(known.size() == kMaxRanges);
  CHECK(NumberRegions(many, &known).back().number == kMaxRanges - 1);
}

TEST_CASE("live: arenas of a process are found without filling its holes") {
  const size_t page = getpagesize(), bytes = 16 * kArenaBytes;
  char* map = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(map != MAP_FAILED);
  madvise(map, bytes, MADV_NOHUGEPAGE);
  const uint64_t start = (reinterpret_cast<uint64_t>(map) + kPool - 1) / kPool * kPool;
  size_t written = 0;
  for (uint32_t arena = 0; arena < 5; ++arena) {
    for (uint64_t pool = 0; pool < (arena == 4 ? 3 : 64); ++pool, ++written) {
      const uint64_t frame = start + arena * kArenaBytes + pool * kPool;
      const Header header = PoolHeader(frame, kPool, arena);
      memcpy(reinterpret_cast<char*>(frame), header.data(), header.size());
    }
  }
  const PresentMemory memory(getpid(), ProcFs());
  const std::vector<Region> mapping = {
      Anonymous(reinterpret_cast<uint64_t>(map), reinterpret_cast<uint64_t>(map) + bytes)};
  CHECK(CountArenas(Split(mapping, Pools())) == 0);
  CHECK(CountArenas(SplitArenas(mapping, memory, kPool, kArenaBytes)) == 5);
  std::vector<unsigned char> resident(bytes / page);
  REQUIRE(mincore(map, bytes, resident.data()) == 0);
  CHECK(static_cast<size_t>(std::count_if(resident.begin(), resident.end(), [](char c) { return c & 1; })) == written);
  uint64_t value = 0;
  const absl::Span<char> into(reinterpret_cast<char*>(&value), sizeof(value));
  CHECK(memory.Read(start, into));
  CHECK(memory.Read(start, into.subspan(0, 0)));
  CHECK_FALSE(memory.Read(start + kPool - 4, into.subspan(0, 4)));
  CHECK_FALSE(memory.Read(start + page - 4, into));  // its second page is none
  munmap(map, bytes);
  CHECK_FALSE(PresentMemory(getpid(), ProcFs("/nonexistent")).Read(start, into));
}

}  // namespace cowprof
