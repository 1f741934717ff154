#include "model/judge/copies_ahead.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

namespace cowprof {
namespace {

// Workers that have all but stopped copying for long will not resume, whatever the place of their pages suggests: at
// the latest pace, the rest takes at most kMostPatience times as long as it has taken so far.
constexpr double kStopped = 0.1;                            // of the mean pace
constexpr double kMostPatience = 8, kShortestPatience = 5;  // times; seconds
// Workers tell the pace once they have made this share of the copies since they began, and this one of all; before that
// age they may only be starting. Seconds.
constexpr double kMost = 0.5, kNoticeable = 0.02, kStarted = 2;
constexpr double kBusy = 4 * CopiesAhead::kNoise;  // of one worker: more than it copies by starting

struct Worker {
  double began = 0, copied_bytes = 0;
};

// Returns when those workers began whose copies are to be followed: the youngest that tell the pace. Others may have
// been idle for hours, and over their lives these would seem to copy slowly, or to be at rest.
double BeganOf(std::vector<Worker> workers, const Series& copied_bytes, double now) {
  std::sort(workers.begin(), workers.end(), [](const Worker& a, const Worker& b) { return a.began > b.began; });
  double of_all = 0, theirs = 0;
  for (const Worker& worker : workers) of_all += worker.copied_bytes;
  for (size_t i = 0; i < workers.size(); ++i) {
    const double began = workers[i].began;
    theirs += workers[i].copied_bytes;
    const bool together = i + 1 < workers.size() && workers[i + 1].began == began;
    if (together || now - began < kStarted || theirs < kNoticeable * of_all) continue;
    const double since = ValueAt(copied_bytes, now) - ValueAt(copied_bytes, began);
    if (theirs >= std::max(kMost * since, CopiesAhead::kNoise * (i + 1))) return began;
  }
  return workers.empty() ? now : workers.back().began;
}

// Those of each address space that have copied most.
std::map<int, Worker> BusiestBySpace(const RunModel& model) {
  std::map<int, Worker> busiest;
  for (const ProcessModel& process : model.processes) {
    if (process.ended || !process.is_worker()) continue;
    Worker& worker = busiest[process.space];
    const double copied = process.inherited_copies() * static_cast<double>(model.info.page_bytes);
    if (copied >= worker.copied_bytes) worker = {absl::ToDoubleSeconds(process.started), copied};
  }
  return busiest;
}

// Whether the worker has had time to read, as `busiest` did, and has not: whether it ever will, as one that validates
// after the epoch, nothing tells.
bool Idles(const Worker& worker, const Worker& busiest, double now) {
  return busiest.copied_bytes >= kBusy && worker.copied_bytes < WorkingSetEstimator::kIdle * busiest.copied_bytes &&
         now - worker.began >= (now - busiest.began) / 2;
}

}  // namespace

double CopiesAhead::Within(double seconds, double rest_bytes) const {
  if (rest_bytes <= 0 || rate <= 0) return 0;
  const double straight = rate * seconds;
  return sequential || !known ? std::min(straight, rest_bytes) : rest_bytes * -std::expm1(-straight / rest_bytes);
}

CopiesAhead CopiesAheadOf(const RunModel& model, const ForecastInputs& inputs) {
  const double page_bytes = model.info.page_bytes, now = absl::ToDoubleSeconds(model.t);
  CopiesAhead copies = {.known = true};
  const std::map<int, Worker> busiest = BusiestBySpace(model);
  std::vector<Worker> workers;
  double stretched = 0;
  for (const ProcessModel& process : model.processes) {
    if (process.ended || !process.is_worker()) continue;
    const double shared = process.still_shared_bytes.value_or(0);
    const double copied = process.inherited_copies() * page_bytes;
    copies.private_bytes += process.private_bytes.value_or(0);
    copies.shared_bytes += shared;
    copies.copied_bytes += copied;
    workers.push_back({absl::ToDoubleSeconds(process.started), copied});
    const auto pool = inputs.pools.find(process.space);
    const bool known = pool != inputs.pools.end() && pool->second.estimate();
    copies.known &= known || shared == 0;
    PoolEstimate pages = known ? *pool->second.estimate() : PoolEstimate{.high = HUGE_VAL};
    if (Idles(workers.back(), busiest.at(process.space), now)) pages.low = pages.best = 0;
    const auto rest = [&](double most) { return std::clamp(most * page_bytes - copied, 0.0, shared); };
    copies.rest = {copies.rest.low + rest(pages.low), copies.rest.best + rest(pages.best),
                   copies.rest.high + rest(pages.high)};
    copies.sequential |= known && pages.sequential;
    stretched += pages.stretch * rest(pages.best);
  }
  if (copies.rest.best > 0) copies.stretch = stretched / copies.rest.best;
  const Series& series = inputs.copied_bytes;
  const double elapsed = now - BeganOf(std::move(workers), series, now);
  if (elapsed <= 0) return copies;
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
