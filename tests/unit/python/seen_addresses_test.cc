// SeenAddresses against a set of the same addresses.
#include "python/seen_addresses.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <unordered_set>

namespace cowprof {
namespace {

TEST_CASE("an address is new once, wherever it lies and in whichever order it comes") {
  SeenAddresses seen;
  std::unordered_set<uint64_t> truth;
  std::mt19937_64 random(1);
  const auto insert = [&](uint64_t address) {
    const bool is_new = truth.insert(address).second;
    return seen.Insert(address) == is_new && seen.size() == truth.size();
  };
  bool right = true;
  for (int i = 0; i < 100'000; ++i) {
    right &= insert(0x7f0000000000 + random() % 8192 * 8);         // often met again
    right &= insert(random() % (uint64_t{1} << 44) * 8);           // anywhere
    right &= insert(0x7f1000000000 + uint64_t{1} * i / 2 * 48);    // side by side
    right &= insert(0x7f2000000000 + random() % 500 * (1 << 18));  // pages that push each other out
  }
  CHECK(right);
  CHECK(seen.Insert(0));
  CHECK_FALSE(seen.Insert(0));
  CHECK(seen.Insert(UINT64_MAX));
  CHECK_FALSE(seen.Insert(UINT64_MAX));

  seen.Clear();
  CHECK(seen.size() == 0);
  CHECK(seen.Insert(0x7f0000000000));
}

}  // namespace
}  // namespace cowprof
