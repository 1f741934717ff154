#include "model/estimate/memory_series.h"

#include <algorithm>

#include "model/saturating.h"

namespace cowprof {
namespace {

using Stretch = MemorySeries::Stretch;

// Extends `into` by `next`, which follows it or goes on with it.
void Join(const Stretch& next, Stretch* into) {
  into->new_pages = std::min(into->new_pages, next.new_pages);
  into->file_pages = std::min(into->file_pages, next.file_pages);
  into->private_bytes = std::min(into->private_bytes, next.private_bytes);
}

}  // namespace

void MemorySeries::Add(const Stretch& sample) {
  if (!stretches.empty() && samples_in_last < samples_per_stretch) {
    Join(sample, &stretches.back());
    ++samples_in_last;
    return;
  }
  if (stretches.size() == kMost) {
    for (size_t i = 0; i < kMost / 2; ++i) {
      Stretch joined = stretches[2 * i];
      Join(stretches[2 * i + 1], &joined);
      stretches[i] = joined;
    }
    stretches.resize(kMost / 2);
    samples_per_stretch *= 2;
  }
  stretches.push_back(sample);
  samples_in_last = 1;
}

namespace {

// Behind the last stretch that counts: an ending interpreter frees memory, then takes a while.
std::vector<Stretch>::const_iterator EndOf(const MemorySeries& series, bool ended) {
  constexpr double kEnding = 0.125;  // of its life at most
  const auto end = series.stretches.end();
  const auto peak = std::max_element(series.stretches.begin(), end,
                                     [](const Stretch& a, const Stretch& b) { return a.new_pages < b.new_pages; });
  return ended && end[-1].t - peak->t <= kEnding * (end[-1].t - series.stretches.front().t) ? peak + 1 : end;
}

}  // namespace

bool RoseAtTheEnd(const MemorySeries& series, bool ended) {
  constexpr double kOfMeanRate = 0.4;
  constexpr absl::Duration kLongestEnd = absl::Seconds(3);
  if (series.stretches.empty()) return false;
  const auto begin = series.stretches.begin(), last = EndOf(series, ended) - 1;
  const absl::Duration end = std::min((last->t - begin->t) / 4, kLongestEnd);
  const auto then = std::find_if(begin, last, [&](const Stretch& one) { return one.t >= last->t - end; });
  const double part = absl::FDivDuration(last->t - then->t, std::max(last->t - begin->t, absl::Milliseconds(1)));
  return SaturatingSubtract(last->new_pages, then->new_pages) > kOfMeanRate * part * last->new_pages;
}

std::optional<Rise> SustainedRise(const MemorySeries& series, bool ended) {
  constexpr int kParts = 6;
  constexpr double kVisibleStep = 0.25;  // of the mean rate
  constexpr double kNotSlower = 0.7;     // of its first rate; what saturates has less left in its second half
  if (series.stretches.empty()) return std::nullopt;
  const auto less = [](const Stretch& a, const Stretch& b) { return a.new_pages < b.new_pages; };
  const auto end = EndOf(series, ended);
  const absl::Duration first = series.stretches.front().t;
  const absl::Duration last = end[-1].t;
  const auto begin = std::find_if(series.stretches.begin(), end,
                                  [&](const Stretch& one) { return one.t >= first + (last - first) / 4; });
  const auto count = end - begin;
  if (count < kParts) return std::nullopt;
  std::vector<Stretch> floors;
  for (int part = 0; part < kParts; ++part) {
    floors.push_back(*std::min_element(begin + count * part / kParts, begin + count * (part + 1) / kParts, less));
  }
  // Samples need not come at equal intervals, so rates are compared.
  const auto rate = [&](int from, int to) {
    const double rise = static_cast<double>(floors[to].new_pages) - static_cast<double>(floors[from].new_pages);
    return rise / std::max(absl::ToDoubleSeconds(floors[to].t - floors[from].t), 1e-3);
  };
  const double mean = rate(0, kParts - 1);
  int visible = 0;
  for (int part = 1; part < kParts; ++part) visible += rate(part - 1, part) >= kVisibleStep * mean;
  const bool slows = rate(kParts / 2, kParts - 1) < kNotSlower * rate(0, kParts / 2 - 1);
  if (mean <= 0 || visible < kParts - 2 || slows) return std::nullopt;
  return Rise{.pages = floors.back().new_pages - floors.front().new_pages,
              .begin = floors.front().t,
              .duration = floors.back().t - floors.front().t,
              .zero_fills = SaturatingSubtract(floors.back().zero_fills, floors.front().zero_fills)};
}

}  // namespace cowprof
