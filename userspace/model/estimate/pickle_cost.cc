// Sizes of objects are those of CPython 3.8 to 3.14 on 64-bit machines, the header of the collector included.
#include "model/estimate/pickle_cost.h"

#include <algorithm>
#include <cmath>

namespace cowprof {
namespace {

constexpr double kFewest = 20'000, kMost = 400'000, kMostBytes = 64 << 20;  // of a sample
// The truth against the figure: docs/start-methods.md.
constexpr double kFaster = 0.4, kSlower = 2.5;
constexpr double kLeast = 0.002;  // seconds: what importing, opening a pipe and the clock add
// Seconds for each byte that is sent: memory that a virtual machine has not used before comes from its host. Samples
// are too small to meet it.
constexpr double kNewMemory = 2e-9;
constexpr double kNumber = 32, kText = 56, kWide = 24, kList = 72, kTuple = 56, kDict = 200, kSet = 230,
                 kInstance = 180, kReduced = 80, kArray = 128, kReference = 8;
constexpr double kLess = 0.65, kMore = 1.5;

uint64_t Times(uint64_t count, double factor) {
  return count == 0 ? 0 : std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(count * factor)));
}

// `best` is between the fastest and the slowest run, as far from both in proportion.
SecondsRange RangeOf(const std::vector<double>& seconds, double factor, double bytes, bool whole) {
  const auto [fastest, slowest] = std::minmax_element(seconds.begin(), seconds.end());
  SecondsRange range = {.low = *fastest * factor * kFaster, .best = std::sqrt(*fastest * *slowest) * factor};
  if (whole) range.high = *slowest * factor * kSlower + bytes * kNewMemory + kLeast;
  return range;
}

}  // namespace

PickleMix SampleOf(const PickleMix& mix) {
  const double objects = static_cast<double>(std::max<uint64_t>(mix.objects(), 1));
  const double bytes = static_cast<double>(std::max<uint64_t>(mix.bytes(), 1));
  const double most = std::min(kMost / objects, kMostBytes / bytes);
  const double factor = std::min(std::max(1.0, kFewest / objects), most);
  PickleMix sample = mix;
  for (uint64_t* count : {&sample.numbers, &sample.floats, &sample.texts, &sample.text_bytes, &sample.wide_texts,
                          &sample.again, &sample.lists, &sample.tuples, &sample.dicts, &sample.sets, &sample.instances,
                          &sample.reduced, &sample.arrays, &sample.array_bytes, &sample.tensors})
    *count = Times(*count, factor);
  sample.scale = 1;
  return sample;
}

PickleTime TimeOf(const PickleMix& mix, const PickleMix& sample, const std::vector<PickleRun>& runs, bool whole) {
  if (runs.empty()) return {};
  // By objects, unless the sample's few objects are large.
  const double by_objects = static_cast<double>(mix.objects()) / std::max<uint64_t>(sample.objects(), 1);
  const double by_bytes = static_cast<double>(mix.bytes()) / std::max<uint64_t>(sample.bytes(), 1);
  const double factor = mix.scale * (sample.bytes() > 32 * sample.objects() ? by_bytes : by_objects);
  std::vector<double> pickle, unpickle;
  for (const PickleRun& run : runs) {
    pickle.push_back(run.pickle_seconds);
    unpickle.push_back(run.unpickle_seconds);
  }
  whole = whole && mix.tensors == 0;
  const double bytes = mix.scale * static_cast<double>(mix.bytes());
  return {RangeOf(pickle, factor, bytes, whole), RangeOf(unpickle, factor, bytes, whole)};
}

PickleSize UnpickledBytes(const PickleMix& mix, bool whole) {
  const double bytes =
      mix.scale *
      (kNumber * (mix.numbers + mix.floats) + kText * mix.texts + mix.text_bytes + kWide * mix.wide_texts +
       kList * mix.lists + kTuple * mix.tuples + kDict * mix.dicts + kSet * mix.sets + kInstance * mix.instances +
       kReduced * mix.reduced + kArray * mix.arrays + mix.array_bytes + kReference * mix.objects());
  PickleSize size = {.low = static_cast<uint64_t>(bytes * kLess), .best = static_cast<uint64_t>(bytes)};
  if (whole && mix.tensors == 0) size.high = static_cast<uint64_t>(bytes * kMore);
  return size;
}

}  // namespace cowprof
