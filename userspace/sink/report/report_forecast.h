// Formats the forecast: the report's key `forecast`, and a few words for the line of a tick. Pure.
#ifndef COWPROF_SINK_REPORT_REPORT_FORECAST_H_
#define COWPROF_SINK_REPORT_REPORT_FORECAST_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/judge/forecast.h"

namespace cowprof {

nlohmann::ordered_json ForecastJson(const Forecast& forecast);
// "-> 41.0 GiB", or "-> the host's memory full in 47 min at 8.0 MiB/s"; "" while it is too early to tell.
std::string FormatForecast(const Forecast& forecast);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_REPORT_FORECAST_H_
