#include "model/estimate/unpickle_cost.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

PickleItems Sampled(PickleMix mix) { return {.count = 1000, .sampled = 10, .mix = mix}; }

TEST_CASE("unpickle cost: it is that of an item, not of the sample", "[unpickle_cost]") {
  const auto one = ItemTimeOf({.sampled = 1, .mix = {.numbers = 5, .tuples = 1}}, "3.11.2");
  const auto ten = ItemTimeOf(Sampled({.numbers = 50, .tuples = 10}), "3.11.2");
  REQUIRE(one);
  REQUIRE(ten);
  CHECK(ten->best == Approx(one->best));
  CHECK(ten->low < ten->best);
  CHECK(ten->best < *ten->high);
}

TEST_CASE("unpickle cost: bytes, classes and text that is not ASCII add to it", "[unpickle_cost]") {
  const PickleItems words = Sampled({.texts = 10, .text_bytes = 10'000});
  const double high = *ItemTimeOf(words, "3.9.18")->high;
  PickleItems more = words;
  more.mix.wide_texts = 1;
  CHECK(*ItemTimeOf(more, "3.9.18")->high > high);
  more = words;
  more.classes = 10;
  CHECK(*ItemTimeOf(more, "3.9.18")->high > high);
  more = words;
  more.mix.text_bytes *= 1000;  // a megabyte each, which is new memory: more than a thousand times as much
  CHECK(*ItemTimeOf(more, "3.9.18")->high > 1000 * high);
}

TEST_CASE("unpickle cost: what was not measured is not said", "[unpickle_cost]") {
  const PickleItems numbers = Sampled({.numbers = 10});
  CHECK(ItemTimeOf(numbers, "3.8.18"));
  CHECK(ItemTimeOf(numbers, "3.14.10"));
  for (const char* python : {"3.7.16", "3.15.0", "2.7.18", "", "3"}) CHECK_FALSE(ItemTimeOf(numbers, python));
  CHECK_FALSE(ItemTimeOf({.count = 1000, .sampled = 0}, "3.11.2"));
  CHECK_FALSE(ItemTimeOf(Sampled({.tensors = 1}), "3.11.2"));
  const PickleItems arrays = Sampled({.arrays = 10, .array_bytes = 100});
  CHECK(ItemTimeOf(arrays, "3.11.2"));
  CHECK_FALSE(ItemTimeOf(arrays, "3.9.18"));  // with numpy, only later versions were measured
}

}  // namespace
}  // namespace cowprof
