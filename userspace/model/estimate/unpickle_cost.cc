// The rates are what tests/bench/unpickle_rates.py printed on 25 Nov 2026, on two shared CPUs of an AMD EPYC, in four
// runs, the least and the most of all runs and builds. The first three tried other lengths of texts and fewer kinds of
// arrays: text_byte and long_byte are the fourth's. Builds of one version differ by as much as versions do, since
// distributions optimise theirs with profiles: 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1 and 3.13.0 are plain builds,
// Debian's 3.9.2, 3.11.2, 3.13.5 and 3.14.10 are not.
#include "model/estimate/unpickle_cost.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace cowprof {
namespace {

struct Rate {  // ns
  double low = 0, high = 0;
};

struct Rates {
  int oldest, newest;  // minor versions
  Rate call, number, real, text, text_byte, long_byte, wide_text, wide_byte, again, list, tuple, dict, set, instance,
      by_name, reduced;
  std::optional<Rate> array, array_byte;
};

constexpr Rates kRates[] = {
    {.oldest = 8,
     .newest = 10,
     .call = {57, 107},
     .number = {5.5, 22},
     .real = {7.8, 19},
     .text = {15, 57},
     .text_byte = {0.033, 0.077},
     .long_byte = {0.054, 0.67},
     .wide_text = {18, 61},
     .wide_byte = {0.36, 0.44},
     .again = {3.4, 9.1},
     .list = {3.1, 48},
     .tuple = {0.5, 19},
     .dict = {10, 230},
     .set = {18, 130},
     .instance = {130, 230},
     .by_name = {550, 1100},
     .reduced = {50, 3100},
     .array = std::nullopt,  // the builds that were measured have no numpy
     .array_byte = std::nullopt},
    {.oldest = 11,
     .newest = 14,
     .call = {63, 163},
     .number = {4.5, 25},
     .real = {7.7, 18},
     .text = {12, 62},
     .text_byte = {0.033, 0.053},
     .long_byte = {0.057, 0.61},
     .wide_text = {14, 61},
     .wide_byte = {0.37, 0.44},
     .again = {4, 9.2},
     .list = {0, 62},
     .tuple = {0, 23},
     .dict = {2.4, 140},
     .set = {17, 143},
     .instance = {129, 272},
     .by_name = {460, 1200},
     .reduced = {45, 2100},
     .array = Rate{114, 2200},
     .array_byte = Rate{0.014, 0.045}},
};
constexpr double kLong = 64 << 10;  // bytes of a text or an array, from which on each is new memory
// Other hosts, of which none was measured.
constexpr double kFaster = 0.5, kSlower = 2;

const Rates* RatesOf(absl::string_view python) {
  const std::vector<absl::string_view> numbers = absl::StrSplit(python, '.');
  int minor = 0;
  if (numbers.size() < 2 || numbers[0] != "3" || !absl::SimpleAtoi(numbers[1], &minor)) return nullptr;
  for (const Rates& rates : kRates) {
    if (rates.oldest <= minor && minor <= rates.newest) return &rates;
  }
  return nullptr;
}

}  // namespace

std::optional<SecondsRange> ItemTimeOf(const PickleItems& items, absl::string_view python) {
  const Rates* rates = RatesOf(python);
  const PickleMix& mix = items.mix;
  if (rates == nullptr || items.sampled == 0 || mix.tensors > 0 || (mix.arrays > 0 && !rates->array))
    return std::nullopt;
  Rate all = rates->call;
  const auto add = [&](double count, const Rate& rate) {
    all.low += count / items.sampled * rate.low;
    all.high += count / items.sampled * rate.high;
  };
  // Of how many of the bytes are wide, nothing is known but that there are some.
  const auto add_bytes = [&](double bytes, double objects, Rate rate, double wide) {
    if (wide > 0) rate.high = std::max(rate.high, rates->wide_byte.high);
    if (wide == objects) rate.low = rates->wide_byte.low;
    if (bytes > kLong * objects) rate.high = std::max(rate.high, rates->long_byte.high);
    add(bytes, rate);
  };
  add(mix.numbers, rates->number);
  add(mix.floats, rates->real);
  const uint64_t wide = std::min(mix.wide_texts, mix.texts);
  add(mix.texts - wide, rates->text);
  add(wide, rates->wide_text);
  add_bytes(mix.text_bytes, mix.texts, rates->text_byte, wide);
  add(mix.again, rates->again);
  add(mix.lists, rates->list);
  add(mix.tuples, rates->tuple);
  add(mix.dicts, rates->dict);
  add(mix.sets, rates->set);
  add(mix.instances, rates->instance);
  add(items.classes, rates->by_name);
  add(mix.reduced, rates->reduced);
  if (mix.arrays > 0) {
    add(mix.arrays, *rates->array);
    add_bytes(mix.array_bytes, mix.arrays, *rates->array_byte, /*wide=*/0);
  }
  return SecondsRange{
      .low = all.low * kFaster / 1e9, .best = std::sqrt(all.low * all.high) / 1e9, .high = all.high * kSlower / 1e9};
}

}  // namespace cowprof
