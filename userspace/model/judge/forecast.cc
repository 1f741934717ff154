// Growth has two parts, which are forecast separately: copies, which end when the workers own all that they read
// (copies_ahead.h says how much that is), and new memory, which need not end (robust_slope.h says how fast it comes).
#include "model/judge/forecast.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "model/judge/alert.h"
#include "model/judge/copies_ahead.h"
#include "model/judge/forecast_format.h"
#include "model/judge/worker_ceiling.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr uint64_t kLeastSamples = 8;
constexpr double kNoise = CopiesAhead::kNoise;
constexpr double kNoticeable = 0.005, kNoticeableOfHost = 0.05;  // of a limit: a smaller rise is not a trend
constexpr double kHorizon = 7 * 24 * 3600;                       // seconds; anything longer counts as never
// A rise is extrapolated no further than this many times as long as it has been seen: what has lasted for two seconds
// says nothing about the next hour. Start-ups and steps end.
constexpr double kReach = 30;
// Workers copy some MiB by starting. Where their pages are not known yet, copies are taken to go on once they took this
// share of what was free.
constexpr double kTellingShare = 0.1;
// The time to the plateau: what is read in order or once comes at a pace that is only as steady as the machine; what is
// shuffled comes ever slower, and how much so is an estimate, too. Measured: docs/forecast.md, "Error".
struct Spread {
  double low = 0, high = 0;
};
constexpr Spread kSteadyTime = {0.6, 1.6}, kSlowingTime = {0.4, 2.5};
constexpr double kSteadyStretch = 1.1;  // of PoolEstimate
constexpr double kVagueTime = 10;       // a time whose high estimate exceeds the low one by more is not reported
constexpr double kVague = 2;  // a plateau whose high estimate exceeds the low one by more than this factor is not
                              // reported

bool Copying(const ProcessModel& process) { return !process.ended && process.is_worker(); }

// Whether there are workers, and all that live were found at the attach.
bool FoundAtAttach(const RunModel& model) {
  const auto found = [](const ProcessModel& process) { return process.origin == Origin::kFoundAtAttach; };
  const std::vector<ProcessModel>& all = model.processes;
  return std::any_of(all.begin(), all.end(), Copying) &&
         std::all_of(all.begin(), all.end(), [&](const auto& one) { return !Copying(one) || found(one); });
}

// Whether memory comes back when workers end, so that earlier workers show what the next ones take.
bool IsSawtooth(const ForecastInputs& inputs) { return inputs.generations > 0; }

// Whether the workers have not yet taken what those before them did, as far as they are of the same kind.
bool BelowEarlier(const CopiesAhead& copies, const ForecastInputs& inputs) {
  return IsSawtooth(inputs) && copies.private_bytes < 1.05 * inputs.earlier_bytes;
}

Estimate PlateauOf(const CopiesAhead& copies, const ForecastInputs& inputs) {
  const double now = copies.private_bytes;
  // Between two generations.
  if (now == 0 && GenerationIsOver(inputs)) {
    const double earlier = std::max(inputs.earlier_bytes, inputs.generation.bytes);
    return {0.9 * earlier, earlier, 1.1 * earlier};
  }
  if (BelowEarlier(copies, inputs)) {
    const double earlier = inputs.earlier_bytes;
    return {std::max(now, 0.9 * earlier), std::max(now, earlier), std::max(now, 1.1 * earlier)};
  }
  return {now + copies.rest.low, now + copies.rest.best, now + copies.rest.high};
}

// Returns the time until 95 % of what is to come has come; nullopt if an interval that holds it would say nothing.
std::optional<Estimate> TimeToPlateau(const CopiesAhead& copies, const Estimate& plateau) {
  if (copies.rate <= 0) return std::nullopt;
  const auto time = [&](double height) {
    return copies.stretch * std::max(height - copies.private_bytes, 0.0) / copies.rate;
  };
  const Spread& spread = copies.stretch <= kSteadyStretch ? kSteadyTime : kSlowingTime;
  const Estimate seconds = {spread.low * time(plateau.low), time(plateau.best), spread.high * time(plateau.high)};
  return seconds.high <= kVagueTime * seconds.low ? std::optional(seconds) : std::nullopt;
}

// ---- Limits ----

// Much of what happens on a host is not the target's doing, and ends: require a larger rise there, unless the target
// grows.
double FloorOf(const LimitSample& limit, bool target_grows) {
  const double noticeable = limit.kind == LimitKind::kHost && !target_grows ? kNoticeableOfHost : kNoticeable;
  return std::max(noticeable * *limit.limit, limit.counts_bytes() ? 1.0 * (1 << 20) : 8.0);
}

// Returns the seconds until copies and growth at `slope` have taken `room`; nullopt if not before the horizon.
std::optional<double> TimeToFill(const CopiesAhead& copies, double rest, double slope, double room) {
  if (room <= 0) return 0;
  const auto taken = [&](double seconds) { return slope * seconds + copies.Within(seconds, rest); };
  if (taken(kHorizon) < room) return std::nullopt;
  double low = 0, high = kHorizon;
  for (int i = 0; i < 60 && high - low > 0.001 * high; ++i) {
    const double middle = low > 0 ? std::sqrt(low * high) : high / 1024;
    (taken(middle) < room ? low : high) = middle;
  }
  return high;
}

std::optional<absl::Duration> Time(const std::optional<double>& seconds) {
  return seconds ? std::optional(absl::Seconds(*seconds)) : std::nullopt;
}

Outlook OutlookOf(const LimitForecast& limit, bool known, bool early) {
  const double bound = *limit.now.limit;
  if (limit.eta) return Outlook::kWillExceed;
  if (early) return Outlook::kUnknown;
  if (limit.peak.high < kTightFrom * bound) return Outlook::kSafe;
  return known ? Outlook::kTight : Outlook::kUnknown;
}

// What the forecast of a limit needs besides its sample.
struct LimitInputs {
  double others_share = 0;   // what processes that copy, and are no workers, may still copy. Bytes
  Slope slope;               // of its use beyond copies
  double risen_seconds = 0;  // for which it has had about that slope
  double reached = 0;        // it comes to this at least, as earlier generations of workers show
  bool as_earlier = false;   // the slope is of growth outside the workers, who take what earlier ones took
  double to_come = 0;        // what they still lack of it, if the slope rises
  bool early = false;        // too few samples for a trend, or the target is starting
};

LimitForecast ForecastOfLimit(const LimitSample& now, const LimitInputs& inputs, const CopiesAhead& copies) {
  LimitForecast forecast = {.now = now};
  const double used = now.used, room = static_cast<double>(*now.limit) - used - inputs.to_come;
  Estimate rest = IsMemory(now.kind) ? copies.rest : Estimate{};
  const Slope& slope = inputs.slope;
  // What the workers take now was in use before and was given back.
  if (inputs.as_earlier && (used < 1.05 * inputs.reached || slope.best > 0)) rest = {};
  const auto peak = [&](double rate, double more) {
    return rate > 0 ? std::numeric_limits<double>::infinity() : std::max(used + more, inputs.reached);
  };
  const double others = IsMemory(now.kind) ? inputs.others_share : 0;
  forecast.peak = {peak(slope.low, rest.low), peak(slope.best, rest.best + others),
                   peak(slope.high, rest.high + others)};
  const bool telling = copies.known || copies.copied_bytes >= kTellingShare * (room + copies.copied_bytes);
  const auto eta = [&](double more, double rate) {
    if (!telling) more = 0;
    const std::optional<double> seconds = TimeToFill(copies, more, rate, room);
    const bool too_far = seconds && rate > 0 && *seconds > kReach * inputs.risen_seconds;
    return Time(too_far ? TimeToFill(copies, more, 0, room) : seconds);
  };
  forecast.eta = eta(rest.best, slope.best);
  forecast.eta_earliest = eta(rest.high, slope.high);
  if (forecast.eta) forecast.per_second = slope.best + (rest.best > 0 && telling ? copies.rate : 0);
  forecast.outlook = OutlookOf(forecast, copies.known && slope.best <= 0, inputs.early);
  return forecast;
}

std::vector<LimitForecast> ForecastLimits(const RunModel& model, const ForecastInputs& inputs,
                                          const CopiesAhead& copies, double others_share, bool target_grows) {
  std::vector<LimitForecast> limits;
  for (size_t i = 0; i < model.limits.size(); ++i) {
    const LimitSample& now = model.limits[i].now;
    if (now.limit.value_or(0) == 0) continue;
    if (i >= inputs.beyond_copies.size()) break;  // nothing is remembered about it
    const bool starting = inputs.start_up.target_begins();
    LimitInputs of_limit = {.others_share = others_share, .early = model.samples < kLeastSamples || starting};
    const double floor = FloorOf(now, target_grows);
    // Descriptors, inodes and address space that a program takes by starting can't be told from what it leaks.
    if (!starting || IsMemory(now.kind) || now.kind == LimitKind::kShm)
      of_limit.slope = SlopeOf(inputs.beyond_copies[i], floor);
    of_limit.risen_seconds = RisenFor(inputs.beyond_copies[i], of_limit.slope);
    if (IsMemory(now.kind) && BelowEarlier(copies, inputs)) {
      const OutsideGrowth& outside = inputs.outside[i];
      const OutsideGrowth::Growth growth = outside.Of(floor);
      const bool tells = outside.tells(absl::ToDoubleSeconds(model.t)), rises = growth.slope.best > 0;
      // Beside more than there was during earlier generations, workers as large as earlier ones come to this.
      const double top = tells && (rises || outside.above_earlier()) ? outside.latest() + inputs.earlier_bytes : 0;
      of_limit.reached = std::max<double>(inputs.earlier_peaks[i], top);
      // Where that has no room, they meet the limit at their own pace.
      of_limit.as_earlier = tells ? top < *now.limit : now.used < 1.05 * inputs.earlier_peaks[i];
      if (of_limit.as_earlier) {
        of_limit.slope = growth.slope;
        of_limit.risen_seconds = growth.risen_seconds;
        of_limit.to_come = rises ? std::max(top - now.used, 0.0) : 0;
      }
    }
    limits.push_back(ForecastOfLimit(now, of_limit, copies));
  }
  return limits;
}

// ---- All together ----

void JudgeLimits(Forecast* forecast) {
  // From good to bad.
  constexpr Outlook kOrder[] = {Outlook::kSafe, Outlook::kUnknown, Outlook::kTight, Outlook::kWillExceed};
  const auto badness = [&](Outlook outlook) { return std::find(kOrder, std::end(kOrder), outlook) - kOrder; };
  forecast->outlook = forecast->shape ? Outlook::kSafe : Outlook::kUnknown;
  for (size_t i = 0; i < forecast->limits.size(); ++i) {
    const LimitForecast& limit = forecast->limits[i];
    if (badness(limit.outlook) > badness(forecast->outlook)) forecast->outlook = limit.outlook;
    if (limit.eta && (forecast->first_limit < 0 || *limit.eta < *forecast->limits[forecast->first_limit].eta))
      forecast->first_limit = static_cast<int>(i);
  }
  const auto share = [&](int i) { return forecast->limits[i].peak.best / *forecast->limits[i].now.limit; };
  forecast->nearest_limit = forecast->first_limit;
  for (int i = 0; forecast->first_limit < 0 && i < static_cast<int>(forecast->limits.size()); ++i) {
    if (forecast->nearest_limit < 0 || share(i) > share(forecast->nearest_limit)) forecast->nearest_limit = i;
  }
}

Series WhileTargetLived(Series series, const RunModel& model) {
  const ProcessModel* target = model.target();
  if (target != nullptr && target->ended) {
    while (!series.empty() && series.back().t >= absl::ToDoubleSeconds(*target->ended)) series.pop_back();
  }
  return series;
}

// Returns the bytes per second that come without an end in sight.
double NewMemory(const CopiesAhead& copies, const RunModel& model, const ForecastInputs& inputs) {
  const Series series = WhileTargetLived(inputs.new_bytes, model);
  const double floor = std::max(2 * kNoise, kNoticeable * inputs.peak_private_bytes);
  return BelowEarlier(copies, inputs) ? inputs.new_outside.Of(floor).slope.best : SlopeOf(series, floor).best;
}

// What living processes other than workers still share and, as they copy, may make their own. Bytes.
uint64_t SharedOutside(const RunModel& model) {
  uint64_t bytes = 0;
  ForEachLately(model, [&](const ProcessModel& process) {
    if (!process.ended && !process.is_worker() && process.counts.copies.value_or(0) > 0)
      bytes += process.still_shared_bytes.value_or(0);
  });
  return bytes;
}

// Bytes per second by which /dev/shm fills.
double ShmGrowth(const RunModel& model, const ForecastInputs& inputs) {
  for (size_t i = 0; i < std::min(model.limits.size(), inputs.beyond_copies.size()); ++i) {
    if (model.limits[i].now.kind == LimitKind::kShm) return SlopeOf(inputs.beyond_copies[i], 2 * kNoise).best;
  }
  return 0;
}

// A program that has ended gets no forecast, only what it reached.
void Conclude(const RunModel& model, const ForecastInputs& inputs, Forecast* forecast) {
  const double reached = model.workers_peak.bytes;
  forecast->private_bytes = inputs.peak_private_bytes;
  forecast->ceiling_bytes = inputs.peak_ceiling_bytes;
  forecast->plateau_bytes = Estimate{reached, reached, reached};
  forecast->shape = forecast->unbounded_bytes_per_second > 0          ? Shape::kUnbounded
                    : ValueAt(inputs.copied_bytes, HUGE_VAL) > kNoise ? Shape::kBounded
                                                                      : Shape::kFlat;
  for (size_t i = 0; i < model.limits.size(); ++i) {
    const LimitModel& limit = model.limits[i];
    const uint64_t bound = limit.peak_limit.value_or(0);
    if (bound == 0) continue;
    const double peak = limit.peak_ratio * static_cast<double>(bound);
    LimitSample then = limit.now;
    then.limit = bound;
    then.used = std::min(then.used, SaturatingCast(peak));
    const auto start = std::find_if(model.info.limits.begin(), model.info.limits.end(),
                                    [&](const LimitSample& other) { return other.key() == limit.now.key(); });
    const bool killed = start != model.info.limits.end() && limit.now.kills.value_or(0) > start->kills.value_or(0);
    forecast->limits.push_back({.now = std::move(then),
                                .peak = {peak, peak, peak},
                                .outlook = killed || limit.peak_ratio >= 1  ? Outlook::kWillExceed
                                           : limit.peak_ratio >= kTightFrom ? Outlook::kTight
                                                                            : Outlook::kSafe});
  }
}

}  // namespace

Forecast ForecastOf(const RunModel& model, const ForecastInputs& inputs) {
  const Totals living = SumOf(model, /*living_only=*/true, /*workers_only=*/false);
  const CopiesAhead copies = CopiesAheadOf(model, inputs);
  Forecast forecast = {.private_bytes = living.private_bytes,
                       .still_shared_bytes = living.still_shared_bytes,
                       .ceiling_bytes = living.private_bytes + living.still_shared_bytes};
  forecast.sawtooth = IsSawtooth(inputs);
  forecast.unbounded_bytes_per_second = NewMemory(copies, model, inputs);
  forecast.unnamed_bytes_per_second = SlopeOf(WhileTargetLived(inputs.unnamed_bytes, model), 2 * kNoise).best;
  forecast.workers_bytes = SaturatingCast(copies.private_bytes);
  forecast.ended = model.target() != nullptr && model.target()->ended;
  const Totals workers = SumOf(model, /*living_only=*/true, /*workers_only=*/true);
  forecast.living_workers = workers.processes;
  forecast.workers_known = workers.private_known;
  forecast.reached_bytes = model.workers_peak.bytes;
  forecast.of_worker = TargetIsWorker(model);
  forecast.forked = SumOf(model, /*living_only=*/false, /*workers_only=*/true).processes > 0;
  if (!forecast.ended) forecast.next_worker_bytes = NextWorkerBytes(model);
  if (forecast.ended) {
    Conclude(model, inputs, &forecast);
  } else {
    const Estimate plateau = PlateauOf(copies, inputs);
    forecast.plateau_known = copies.known || BelowEarlier(copies, inputs);
    const bool copied =
        copies.private_bytes > 0 && plateau.best - copies.private_bytes >= std::max(kNoise, 0.02 * plateau.best);
    if (model.samples >= kLeastSamples && forecast.plateau_known) {
      const bool vague = plateau.high > kVague * plateau.low;
      if (!vague) forecast.plateau_bytes = plateau;
      forecast.plateau_of_earlier = !vague && BelowEarlier(copies, inputs);
      forecast.shape = forecast.unbounded_bytes_per_second > 0 ? Shape::kUnbounded
                       : copied                                ? Shape::kBounded
                                                               : Shape::kFlat;
      // When earlier workers reached their height is not remembered.
      if (copied && !vague && !forecast.plateau_of_earlier)
        forecast.plateau_eta_seconds = TimeToPlateau(copies, plateau);
    } else if (forecast.unbounded_bytes_per_second > 0) {
      forecast.shape = Shape::kUnbounded;
    }
    forecast.still_since_attach = model.samples >= kLeastSamples && copies.copied_bytes == 0 &&
                                  forecast.unbounded_bytes_per_second == 0 && FoundAtAttach(model);
    forecast.shm_bytes_per_second = ShmGrowth(model, inputs);
    forecast.others_copy_per_second = SlopeOf(inputs.copied_outside, 2 * kNoise).best;
    if (forecast.others_copy_per_second > 0) forecast.others_share_bytes = SharedOutside(model);
    const bool grows = forecast.unbounded_bytes_per_second > 0;
    forecast.limits = ForecastLimits(model, inputs, copies, forecast.others_share_bytes, grows);
  }
  JudgeLimits(&forecast);
  forecast.sentence = SentenceOf(forecast);
  return forecast;
}

void Heed(const std::vector<const Alert*>& standing, absl::Duration now, Forecast* forecast) {
  if (forecast->ended) return;
  bool heeded = false;
  for (LimitForecast& limit : forecast->limits) {
    const auto warns = [&](const Alert* alert) {
      return alert->limit_key() == limit.now.key() && TellsTime(*alert, now);
    };
    if (limit.outlook == Outlook::kWillExceed || std::none_of(standing.begin(), standing.end(), warns)) continue;
    if (limit.outlook == Outlook::kSafe) limit.outlook = Outlook::kUnknown;
    heeded = true;
  }
  if (!heeded) return;
  if (forecast->shape == Shape::kFlat) forecast->shape.reset();
  forecast->still_since_attach = false;
  JudgeLimits(forecast);
  forecast->sentence = SentenceOf(*forecast);
}

void HeedGrowth(Forecast* forecast) {
  if (forecast->ended || forecast->shape == Shape::kUnbounded) return;
  if (forecast->shape != Shape::kBounded) {  // copies have a plateau all the same
    forecast->shape.reset();
    forecast->plateau_bytes.reset();
  }
  forecast->grows = true;
  forecast->still_since_attach = false;
  for (LimitForecast& limit : forecast->limits) {
    if (!IsMemory(limit.now.kind) || limit.outlook != Outlook::kSafe) continue;
    limit.outlook = Outlook::kUnknown;
    limit.peak.best = limit.peak.high = std::numeric_limits<double>::infinity();
  }
  const int nearest = forecast->nearest_limit;
  JudgeLimits(forecast);
  forecast->nearest_limit = nearest;  // infinite peaks can't be compared
  if (forecast->outlook == Outlook::kSafe) forecast->outlook = Outlook::kUnknown;
  forecast->sentence = SentenceOf(*forecast);
}

}  // namespace cowprof
