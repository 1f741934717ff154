#include "model/judge/forecast_format.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr double kSameRate = 0.25;  // of the growth and of the limit: one figure is enough

// Rounds down, to two digits or more: "40 s", "1.5 min", "12 min", "3.2 h". Who plans by it must not be late.
std::string About(double seconds) {
  const auto in = [](double value, const char* unit) {
    return absl::StrFormat("%g %s", value < 10 ? std::floor(10 * value) / 10 : std::floor(value), unit);
  };
  if (seconds < 90) return absl::StrFormat("%.0f s", std::floor(std::max(seconds, 1.0)));
  if (seconds < 90 * 60) return in(seconds / 60, "min");
  return seconds < 48 * 3600 ? in(seconds / 3600, "h") : in(seconds / 86400, "days");
}

std::string Figure(const LimitSample& limit, double value) { return HumanAmount(limit.kind, SaturatingCast(value)); }

std::string LimitPart(const Forecast& forecast) {
  if (forecast.nearest_limit < 0) return "";
  const LimitForecast* limit = &forecast.limits[forecast.nearest_limit];
  const std::string what = FormatLimit(limit->now), bound = Figure(limit->now, *limit->now.limit);
  // Beside that of the growth its rate is told only if what others take makes it another.
  const bool told = forecast.shape == Shape::kUnbounded;
  const double workers = forecast.unbounded_bytes_per_second;
  const bool same_rate = told && std::abs(limit->per_second - workers) <= kSameRate * workers;
  if (limit->eta) return absl::StrCat("; ", FormatLimitEta(*limit, /*with_bound=*/true, /*with_rate=*/!same_rate));
  if (!forecast.shape) return "";
  // How far it will come is not known then.
  if (told && !forecast.ended)
    return absl::StrCat("; ", Figure(limit->now, limit->now.used), " of ", bound, " in use (", what, ")");
  // The outlook is that of this limit, not the overall one.
  const char* outlook = NameOf(limit->outlook);
  if (limit->outlook == Outlook::kUnknown || !std::isfinite(limit->peak.high))
    return absl::StrCat("; limit ", bound, " (", what, "): ", outlook);
  const bool rises = !forecast.ended && limit->peak.high > 1.01 * limit->now.used;
  const char* when = forecast.ended ? "at most " : rises ? "from now on up to " : "";
  return absl::StrCat("; ", when, Figure(limit->now, limit->peak.high), " of ", bound, " in use (", what,
                      forecast.ended || rises ? "): " : "), not rising: ", outlook);
}

std::string Bytes(double bytes) { return HumanBytes(SaturatingCast(bytes)); }

std::string BoundedPart(const Forecast& forecast) {
  std::string text =
      forecast.plateau_bytes
          ? absl::StrCat("plateaus at ", Bytes(forecast.plateau_bytes->best))
          : absl::StrCat("copies what it reads; how much is not known yet, all processes together at most ",
                         HumanBytes(forecast.ceiling_bytes));
  if (forecast.plateau_eta_seconds) absl::StrAppend(&text, " in about ", About(forecast.plateau_eta_seconds->best));
  if (forecast.plateau_of_earlier) absl::StrAppend(&text, ", as earlier workers did");
  if (forecast.unnamed_bytes_per_second > 0) {
    absl::StrAppend(&text, ", but for shared memory that grows by ", Bytes(forecast.unnamed_bytes_per_second), "/s");
  } else if (forecast.grows) {
    absl::StrAppend(&text, ", but for new memory that grows");
  }
  return text;
}

// ", but other processes copy 10.2 MiB/s, and share 98.0 MiB"
std::string OthersPart(const Forecast& forecast) {
  if (forecast.others_share_bytes == 0) return "";
  return absl::StrCat(", but other processes copy ", Bytes(forecast.others_copy_per_second), "/s, and still share ",
                      HumanBytes(forecast.others_share_bytes));
}

std::string ShapePart(const Forecast& forecast) {
  if (forecast.ended && !forecast.forked) return "no worker was seen";
  if (forecast.ended && forecast.shape)
    return absl::StrCat("the workers reached ", HumanBytes(forecast.reached_bytes), " of their own");
  if (!forecast.shape && forecast.still_since_attach)
    return "nothing has grown since the attach; what the workers may still copy is not known";
  const bool none_alive = forecast.forked && forecast.living_workers == 0;
  if (!forecast.shape && !forecast.grows) return "too early to tell how far it grows";
  if (!forecast.shape && forecast.unnamed_bytes_per_second > 0)
    return absl::StrCat("shared memory grows by ", Bytes(forecast.unnamed_bytes_per_second),
                        "/s; how far is not known");
  if (!forecast.shape && !none_alive) return "grows, but too slowly or for too short a time to tell how far";
  if (forecast.shape == Shape::kUnbounded)
    return absl::StrCat("grows by ", Bytes(forecast.unbounded_bytes_per_second), "/s, no end in sight (",
                        GrowsByShm(forecast) ? "shared memory)" : "new memory)");
  if (!forecast.forked && forecast.shape == Shape::kFlat) {
    if (forecast.of_worker) return "what this worker may still copy is not known";
    const uint64_t each = forecast.next_worker_bytes;
    return absl::StrCat("no worker yet", each > 0 ? absl::StrCat(": each can cost up to ", HumanBytes(each)) : "");
  }
  if (none_alive) return absl::StrCat("no worker is alive; earlier ones reached ", HumanBytes(forecast.reached_bytes));
  if (forecast.living_workers > 0 && !forecast.workers_known) return "what the workers own is not known";
  if (forecast.shape == Shape::kBounded) return BoundedPart(forecast);
  return absl::StrCat("flat: the workers own ", HumanBytes(forecast.workers_bytes), OthersPart(forecast));
}

}  // namespace

std::string FormatLimitEta(const LimitForecast& limit, bool with_bound, bool with_rate, bool with_verb) {
  const std::string bound = with_bound ? absl::StrCat(" (", Figure(limit.now, *limit.now.limit), ")") : "";
  const double seconds = absl::ToDoubleSeconds(limit.eta.value_or(absl::ZeroDuration()));
  if (seconds <= 0) return absl::StrCat(FormatLimit(limit.now), bound, with_verb ? " is" : "", " full");
  const bool rises = with_rate && limit.per_second >= 1;
  return absl::StrCat(FormatLimit(limit.now), bound, with_verb ? " will be" : "", " full in about ", About(seconds),
                      rises ? absl::StrCat(" at ", Figure(limit.now, limit.per_second), "/s") : "");
}

std::string SentenceOf(const Forecast& forecast) { return absl::StrCat(ShapePart(forecast), LimitPart(forecast)); }

}  // namespace cowprof
