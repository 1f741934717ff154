#include "model/estimate/pickle_cost.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

const PickleMix kRows = {
    .numbers = 2'000'000, .texts = 1'000'000, .text_bytes = 20'000'000, .again = 3'000'000, .dicts = 1'000'000};

TEST_CASE("pickle cost: a sample has the mix of the whole, and is neither too small nor too large", "[pickle_cost]") {
  const PickleMix large = SampleOf(kRows);
  CHECK(large.objects() <= 400'010);
  CHECK(large.numbers == 2 * large.texts);
  CHECK(large.text_bytes / large.texts >= 19);
  const PickleMix small = SampleOf({.numbers = 10, .lists = 1});
  CHECK(small.objects() >= 19'000);
  const PickleMix arrays = SampleOf({.arrays = 2, .array_bytes = uint64_t{1} << 40});
  CHECK(arrays.array_bytes <= 64 << 20);
  CHECK(arrays.arrays == 1);
  CHECK(SampleOf({}).objects() == 0);
}

TEST_CASE("pickle cost: time grows with objects, or with bytes where they are large", "[pickle_cost]") {
  const PickleMix sample = SampleOf(kRows);
  const PickleTime time = TimeOf(kRows, sample, {{0.01, 0.02}, {0.014, 0.03}}, true);
  const double factor = static_cast<double>(kRows.objects()) / sample.objects();
  CHECK(time.pickle.low < 0.01 * factor);
  CHECK(time.pickle.best >= 0.01 * factor);
  CHECK(*time.unpickle.high > 0.03 * factor);
  const PickleMix array = {.arrays = 1, .array_bytes = 1 << 30};
  CHECK(TimeOf(array, SampleOf(array), {{0.1, 0.1}}, true).pickle.best == Approx(1.6));
}

TEST_CASE("pickle cost: what is not followed has no upper bound", "[pickle_cost]") {
  CHECK_FALSE(TimeOf(kRows, SampleOf(kRows), {{0.01, 0.02}}, false).pickle.high);
  CHECK_FALSE(UnpickledBytes(kRows, false).high);
  PickleMix with_tensors = kRows;
  with_tensors.tensors = 1;
  CHECK_FALSE(TimeOf(with_tensors, SampleOf(with_tensors), {{0.01, 0.02}}, true).unpickle.high);
  CHECK(UnpickledBytes(kRows, true).high > UnpickledBytes(kRows, true).best);
}

}  // namespace
}  // namespace cowprof
