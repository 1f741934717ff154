// The lists of glibc's malloc in memory laid out like its data, in this process, and in what only resembles them.
#include "attribution/malloc_lists.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "python/process_memory.h"
#include "skip.h"
#include "source/procfs.h"

namespace cowprof {
namespace {

constexpr uint64_t kData = 0x7f0000000000, kDataBytes = 8192, kHeap = 0x555500000000;

class Words : public MemoryReader {
 public:
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const auto word = words.find((address + i) & ~uint64_t{7});
      const bool in_data = address + i >= kData && address + i < kData + kDataBytes;
      if (word == words.end() && !in_data) return false;
      const uint64_t value = word == words.end() ? 0 : word->second;
      bytes[i] = reinterpret_cast<const char*>(&value)[(address + i) & 7];
    }
    return true;
  }
  std::map<uint64_t, uint64_t> words;
};

struct Libc {
  explicit Libc(uint32_t lists_at_, uint64_t at = 2776) : lists_at(lists_at_), lists(kData + at + lists_at_) {
    for (uint64_t i = 0; i < 127; ++i)
      memory.words[lists + 16 * i] = memory.words[lists + 16 * i + 8] = lists + 16 * i - 16;
    memory.words[lists + 2032 + 16] = lists - lists_at;
  }
  // A list with one chunk.
  void AddChunk(uint64_t list, uint64_t chunk) {
    memory.words[lists + 16 * list] = memory.words[lists + 16 * list + 8] = chunk;
    memory.words[chunk + 16] = memory.words[chunk + 24] = lists + 16 * list - 16;
  }
  std::optional<cowprof_malloc> Find(const std::string& name = "/usr/lib/libc.so.6") const {
    return FindMallocLists(
        {{.begin = kData, .end = kData + kDataBytes, .readable = true, .writable = true, .name = name}}, memory);
  }
  uint32_t lists_at;
  uint64_t lists;
  Words memory;
};

}  // namespace

TEST_CASE("malloc's lists: wherever they are, in each layout of struct malloc_state") {
  for (const uint32_t lists_at : {112u, 104u, 24u}) {
    for (const uint64_t at : {uint64_t{0}, uint64_t{2776}, kDataBytes - 2200}) {
      Libc libc(lists_at, at);
      libc.AddChunk(0, kHeap);
      libc.AddChunk(126, kHeap + 65536);
      const auto found = libc.Find();
      REQUIRE(found);
      CHECK(found->lists == libc.lists);
      CHECK(found->lists_at == lists_at);
    }
  }
}

TEST_CASE("malloc's lists: more arenas are in a circle") {
  Libc libc(112);
  const uint64_t other = kHeap + 48, next_at = 112 + 2032 + 16;
  libc.memory.words[libc.lists + 2032 + 16] = other;
  libc.memory.words[other + next_at] = libc.lists - 112;
  CHECK(libc.Find());
  libc.memory.words[other + next_at] = other;  // a circle without the first one
  CHECK_FALSE(libc.Find());
}

TEST_CASE("malloc's lists: what only resembles them is not taken") {
  Libc broken(112);
  broken.AddChunk(60, kHeap);
  broken.memory.words[kHeap + 24] += 16;  // the chunk is in another list
  CHECK_FALSE(broken.Find());
  Libc unknown(40);  // a layout that no version has
  CHECK_FALSE(unknown.Find());
  Libc unused(112);
  for (uint64_t i = 0; i < 127; ++i)
    unused.memory.words[unused.lists + 16 * i] = unused.memory.words[unused.lists + 16 * i + 8] = 0;
  CHECK_FALSE(unused.Find());  // nothing was allocated yet
  const Libc good(112);
  CHECK_FALSE(FindMallocLists({}, good.memory));
  CHECK_FALSE(good.Find("/lib/ld-musl-x86_64.so.1"));
}

TEST_CASE("malloc's lists: those of this process") {
#ifdef __SANITIZE_ADDRESS__
  if (Lacks("glibc's malloc", false, "AddressSanitizer has its own")) return;
#endif
  const ProcFs proc;
  const auto mappings = proc.ReadMaps(getpid());
  REQUIRE(mappings.ok());
  const auto found = FindMallocLists(*mappings, PresentMemory(getpid(), proc));
  REQUIRE(found);
  CHECK(found->lists % 8 == 0);
}

}  // namespace cowprof
