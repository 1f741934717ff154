#include "model/judge/forecast_format.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// Rounds, since nobody plans by tenths of a second: "40 s", "12 min", "3 h".
std::string About(double seconds) {
  if (seconds < 90) return absl::StrFormat("%.0f s", std::max(seconds, 1.0));
  if (seconds < 90 * 60) return absl::StrFormat("%.0f min", seconds / 60);
  return seconds < 48 * 3600 ? absl::StrFormat("%.0f h", seconds / 3600)
                             : absl::StrFormat("%.0f days", seconds / 86400);
}

std::string Figure(const LimitSample& limit, double value) { return HumanAmount(limit.kind, SaturatingCast(value)); }

std::string LimitPart(const Forecast& forecast) {
  if (forecast.nearest_limit < 0) return "";
  const LimitForecast* limit = &forecast.limits[forecast.nearest_limit];
  const std::string what = FormatLimit(limit->now), bound = Figure(limit->now, *limit->now.limit);
  if (limit->eta)
    return absl::StrCat("; ", what, " (", bound, ") full in about ", About(absl::ToDoubleSeconds(*limit->eta)));
  // The outlook is that of this limit, not the overall one.
  const char* outlook = NameOf(limit->outlook);
  if (!forecast.shape && limit->outlook == Outlook::kUnknown) return "";
  if (limit->outlook == Outlook::kUnknown || !std::isfinite(limit->peak.high))
    return absl::StrCat("; limit ", bound, " (", what, "): ", outlook);
  const double peak = limit->outlook == Outlook::kTight ? limit->peak.high : limit->peak.best;
  return absl::StrCat("; ", forecast.ended ? "" : "up to ", Figure(limit->now, peak), " of ", bound, " (", what,
                      "): ", outlook);
}

std::string ShapePart(const Forecast& forecast) {
  if (!forecast.shape) return "too early to tell how far it grows";
  const std::string height = forecast.plateau_bytes ? HumanBytes(SaturatingCast(forecast.plateau_bytes->best))
                                                    : HumanBytes(forecast.private_bytes);
  if (forecast.ended) return absl::StrCat("the workers reached ", height, " of their own");
  if (!forecast.forked && forecast.shape == Shape::kFlat)
    return absl::StrCat("no worker yet: each can cost up to ", HumanBytes(forecast.next_worker_bytes));
  if (forecast.forked && forecast.workers_bytes == 0)
    return absl::StrCat("no worker is alive; earlier ones reached ", height);
  switch (*forecast.shape) {
    case Shape::kFlat:
      return absl::StrCat("flat: the workers own ", height);
    case Shape::kUnbounded:
      return absl::StrCat("grows by ", HumanBytes(SaturatingCast(forecast.unbounded_bytes_per_second)),
                          "/s without bound (new memory)");
    case Shape::kBounded:
      break;
  }
  if (!forecast.plateau_bytes)
    return absl::StrCat("copies what it reads; how much is not known yet, at most ",
                        HumanBytes(forecast.ceiling_bytes));
  if (!forecast.plateau_eta_seconds) return absl::StrCat("plateaus at ", height);
  return absl::StrCat("plateaus at ", height, " in about ", About(forecast.plateau_eta_seconds->best));
}

}  // namespace

std::string SentenceOf(const Forecast& forecast) {
  return absl::StrCat(ShapePart(forecast), forecast.sawtooth && !forecast.ended ? ", as earlier workers did" : "",
                      LimitPart(forecast));
}

}  // namespace cowprof
