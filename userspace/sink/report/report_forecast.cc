#include "sink/report/report_forecast.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/forecast_format.h"
#include "model/saturating.h"
#include "timeline/json_limits.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

// Null for infinity and NaN, which JSON lacks.
Json Whole(double value) { return std::isfinite(value) ? Json(std::llround(value)) : Json(nullptr); }

Json Seconds(const std::optional<absl::Duration>& time) {
  return time ? Json(absl::ToDoubleSeconds(*time)) : Json(nullptr);
}

Json LimitJson(const LimitForecast& limit) {
  Json json = LimitUseJson(limit.now);
  json["peak"] = {{"low", Whole(limit.peak.low)}, {"best", Whole(limit.peak.best)}, {"high", Whole(limit.peak.high)}};
  json["eta_seconds"] = Seconds(limit.eta);
  json["eta_earliest_seconds"] = Seconds(limit.eta_earliest);
  json["per_second"] = limit.per_second;
  json["verdict"] = NameOf(limit.outlook);
  return json;
}

}  // namespace

Json ForecastJson(const Forecast& forecast) {
  Json limits = Json::array(), plateau = nullptr, eta = nullptr;
  for (const LimitForecast& limit : forecast.limits) limits.push_back(LimitJson(limit));
  if (const auto& bytes = forecast.plateau_bytes)
    plateau = {{"low", Whole(bytes->low)}, {"best", Whole(bytes->best)}, {"high", Whole(bytes->high)}};
  if (const auto& time = forecast.plateau_eta_seconds)
    eta = {{"low", time->low}, {"best", time->best}, {"high", time->high}};
  const LimitForecast* first = forecast.first_limit >= 0 ? &forecast.limits[forecast.first_limit] : nullptr;
  return {
      {"shape", forecast.shape ? Json(NameOf(*forecast.shape)) : Json(nullptr)},
      {"ceiling_bytes", forecast.ceiling_bytes},
      {"eta_ceiling_seconds", forecast.plateau_eta_seconds ? Json(forecast.plateau_eta_seconds->best) : Json(nullptr)},
      {"first_limit", first != nullptr ? Json(NameOf(first->now.kind)) : Json(nullptr)},
      {"nearest_limit", forecast.nearest_limit >= 0 ? Json(forecast.nearest_limit) : Json(nullptr)},
      {"eta_limit_seconds", first != nullptr ? Seconds(first->eta) : Json(nullptr)},
      {"verdict", NameOf(forecast.outlook)},
      {"plateau_bytes", std::move(plateau)},
      {"plateau_eta_seconds", std::move(eta)},
      {"next_worker_bytes_at_most", forecast.next_worker_bytes},
      {"unbounded_bytes_per_second", forecast.unbounded_bytes_per_second},
      {"sawtooth", forecast.sawtooth},
      {"ended", forecast.ended},
      {"limits", std::move(limits)},
      {"sentence", forecast.sentence}};
}

std::string FormatForecast(const Forecast& forecast) {
  if (forecast.first_limit >= 0)
    return absl::StrCat("-> ", FormatLimitEta(forecast.limits[forecast.first_limit], /*with_bound=*/false));
  if (!forecast.shape || !forecast.plateau_bytes || *forecast.shape == Shape::kUnbounded) return "";
  return absl::StrCat("-> ", HumanBytes(SaturatingCast(forecast.plateau_bytes->best)));
}

}  // namespace cowprof
