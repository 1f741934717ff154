// CachedMemory against what it reads from, of which pages come and go.
#include "python/cached_memory.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/types/span.h"

namespace cowprof {
namespace {

constexpr uint64_t kPage = kLeastPageBytes, kFirst = 0x7f0000000000;

// Every byte tells its address. Reads of pages that are not there fail; those that are swapped out can be read.
class Told : public MemoryReader {
 public:
  static char At(uint64_t address) { return static_cast<char>(address * 0x9e3779b97f4a7c15 >> 56); }
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    ++reads;
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (absent.contains((address + i) / kPage)) return false;
      bytes[i] = At(address + i);
    }
    return true;
  }
  bool ReadIfPresent(uint64_t address, absl::Span<char> bytes) const override {
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (swapped.contains((address + i) / kPage)) return false;
    }
    return Read(address, bytes);
  }
  absl::flat_hash_set<uint64_t> absent, swapped;
  mutable int reads = 0;
};

bool Tells(const MemoryReader& memory, uint64_t address, size_t size) {
  std::string bytes(size, '\0');
  if (!memory.Read(address, absl::MakeSpan(bytes.data(), size))) return false;
  for (size_t i = 0; i < size; ++i) {
    if (bytes[i] != Told::At(address + i)) return false;
  }
  return true;
}

TEST_CASE("what was read of a page is not read again") {
  const Told told;
  const CachedMemory cached(told);
  for (int i = 0; i < 100; ++i) CHECK(Tells(cached, kFirst + 40 * i, 40));
  CHECK(told.reads == 1);
  CHECK(Tells(cached, kFirst + 5 * kPage - 7, 20));  // ends in the next page
  CHECK(Tells(cached, kFirst + 1, kPage));
  CHECK(Tells(cached, kFirst + 100, 20 * kPage));  // more than is kept
  CHECK(Tells(cached, kFirst, 0));
}

TEST_CASE("of what another one has read it keeps nothing, and reads it as it was") {
  Told told;
  const CachedMemory first(told), second(static_cast<const MemoryReader&>(first));
  CHECK(Tells(second, kFirst, 40));
  told.absent.insert(kFirst / kPage);
  CHECK(Tells(second, kFirst + 40, 40));
  CHECK(Tells(first, kFirst + 80, 40));
  CHECK(told.reads == 1);
}

TEST_CASE("a walk from page to page reads ahead, one by one where a page is absent") {
  Told told;
  const CachedMemory cached(told);
  for (uint64_t page = 0; page < 64; ++page) CHECK(Tells(cached, kFirst + page * kPage + 8, 8));
  CHECK(told.reads <= 8);

  told.absent = {kFirst / kPage + 70, kFirst / kPage + 77};
  for (uint64_t page = 64; page < 96; ++page)
    CHECK(Tells(cached, kFirst + page * kPage, 8) == !told.absent.contains(kFirst / kPage + page));
  CHECK_FALSE(Tells(cached, kFirst + 70 * kPage - 4, 8));
  CHECK(Tells(cached, kFirst + 70 * kPage - 4, 4));
  told.absent.clear();
  CHECK(Tells(cached, kFirst + 70 * kPage, 8));  // it came back
}

TEST_CASE("what is swapped out is read when it is asked for, not ahead") {
  Told told;
  for (uint64_t page = 5; page < 64; ++page) told.swapped.insert(kFirst / kPage + page);
  const CachedMemory cached(told);
  for (uint64_t page = 0; page < 5; ++page) CHECK(Tells(cached, kFirst + page * kPage, 8));
  CHECK(told.reads == 5);
  CHECK(Tells(cached, kFirst + 5 * kPage, 8));
  CHECK(told.reads == 6);
}

TEST_CASE("pages that have the same place push each other out") {
  Told told;
  const CachedMemory cached(told);
  for (int round = 0; round < 3; ++round) {
    for (const uint64_t far : {0, 1, 2, 3, 100}) {
      for (uint64_t page = 0; page < 40; page += 3) CHECK(Tells(cached, kFirst + (far << 24) + page * kPage + 16, 8));
    }
  }
  // One that fails does not leave half of itself.
  CHECK(Tells(cached, kFirst, 8));
  told.absent = {kFirst / kPage + (1 << 12)};
  CHECK_FALSE(Tells(cached, kFirst + (1 << 24), 8));
  CHECK(Tells(cached, kFirst, 8));
}

TEST_CASE("the first page, the last one and a wrap around are as the reader has them") {
  Told told;
  told.absent = {0, UINT64_MAX / kPage};
  const CachedMemory cached(told);
  CHECK_FALSE(Tells(cached, 0, 8));
  CHECK_FALSE(Tells(cached, UINT64_MAX - 3, 8));
  CHECK_FALSE(Tells(cached, UINT64_MAX - kPage, 2 * kPage));
}

}  // namespace
}  // namespace cowprof
