#include "model/judge/copies_ahead.h"

#include <algorithm>
#include <cmath>

namespace cowprof {
namespace {

// Workers that have all but stopped copying for long will not resume, whatever the place of their pages suggests: at
// the latest pace, the rest takes at most kMostPatience times as long as it has taken so far.
constexpr double kStopped = 0.1;                            // of the mean pace
constexpr double kMostPatience = 8, kShortestPatience = 5;  // times; seconds

}  // namespace

double CopiesAhead::Within(double seconds, double rest_bytes) const {
  if (rest_bytes <= 0 || rate <= 0) return 0;
  const double straight = rate * seconds;
  return sequential || !known ? std::min(straight, rest_bytes) : rest_bytes * -std::expm1(-straight / rest_bytes);
}

CopiesAhead CopiesAheadOf(const RunModel& model, const ForecastInputs& inputs) {
  const double page_bytes = model.info.page_bytes, now = absl::ToDoubleSeconds(model.t);
  CopiesAhead copies = {.known = true};
  double began = now, stretched = 0;
  for (const ProcessModel& process : model.processes) {
    if (process.ended || !process.is_worker()) continue;
    const double shared = process.still_shared_bytes.value_or(0);
    const double copied = process.inherited_copies() * page_bytes;
    copies.private_bytes += process.private_bytes.value_or(0);
    copies.shared_bytes += shared;
    copies.copied_bytes += copied;
    began = std::min(began, absl::ToDoubleSeconds(process.started));
    const auto pool = inputs.pools.find(process.space);
    const bool known = pool != inputs.pools.end() && pool->second.estimate();
    copies.known &= known || shared == 0;
    const PoolEstimate pages = known ? *pool->second.estimate() : PoolEstimate{.high = HUGE_VAL};
    const auto rest = [&](double most) { return std::clamp(most * page_bytes - copied, 0.0, shared); };
    copies.rest = {copies.rest.low + rest(pages.low), copies.rest.best + rest(pages.best),
                   copies.rest.high + rest(pages.high)};
    copies.sequential |= known && pages.sequential;
    stretched += pages.stretch * rest(pages.best);
  }
  if (copies.rest.best > 0) copies.stretch = stretched / copies.rest.best;
  const double elapsed = now - began;
  if (elapsed <= 0) return copies;
  const Series& series = inputs.copied_bytes;
  const auto rate_since = [&](double part) {
    return std::max(0.0, ValueAt(series, now) - ValueAt(series, now - part * elapsed)) / (part * elapsed);
  };
  copies.rate = rate_since(0.25);
  if (elapsed > kShortestPatience) {
    const double latest = rate_since(0.5), most = kMostPatience * latest * elapsed;
    if (latest < kStopped * rate_since(1)) {
      copies.rest = {std::min(copies.rest.low, most), std::min(copies.rest.best, most),
                     std::min(copies.rest.high, 4 * most)};
    }
    // If next to nothing is copied, the pages need not be known.
    copies.known |= most < CopiesAhead::kNoise;
  }
  copies.known |= copies.shared_bytes < CopiesAhead::kNoise;
  // Only the ceiling is known.
  if (!copies.known) copies.rest.best = copies.rest.high;
  return copies;
}

}  // namespace cowprof
