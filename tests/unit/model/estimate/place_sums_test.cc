// Sums of all places at once against sums of one place after the other, also of more words than a byte can count.
#include "model/estimate/place_sums.h"

#include <bit>
#include <catch2/catch.hpp>
#include <random>
#include <vector>

namespace cowprof {

TEST_CASE("place sums: as counted place by place") {
  std::mt19937_64 random(1);
  for (const int words : {0, 1, 2, 62, 63, 64, 126, 254, 255, 256, 511, 2000}) {
    PlaceSums<1, 1> pages, all_pages;
    PlaceSums<4, 4> groups, all_groups;
    std::vector<uint64_t> of_page(64), of_group(16);
    for (int i = 0; i < words; ++i) {
      const uint64_t word = random() & random();
      pages.Add(word);
      groups.Add(HitsByGroup(word));
      all_pages.Add(~uint64_t{0});
      all_groups.Add(HitsByGroup(~uint64_t{0}));
      for (int place = 0; place < 64; ++place) of_page[place] += word >> place & 1;
      for (int place = 0; place < 16; ++place) of_group[place] += std::popcount(word >> 4 * place & 0xf);
    }
    INFO(words << " words");
    CHECK(std::vector<uint64_t>(pages.Get().begin(), pages.Get().end()) == of_page);
    CHECK(std::vector<uint64_t>(groups.Get().begin(), groups.Get().end()) == of_group);
    for (const uint64_t sum : all_pages.Get()) CHECK(sum == static_cast<uint64_t>(words));
    for (const uint64_t sum : all_groups.Get()) CHECK(sum == 4 * static_cast<uint64_t>(words));
  }
}

}  // namespace cowprof
