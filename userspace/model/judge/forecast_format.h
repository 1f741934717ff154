// Formats a forecast as one sentence for a person. Judges nothing.
#ifndef COWPROF_MODEL_JUDGE_FORECAST_FORMAT_H_
#define COWPROF_MODEL_JUDGE_FORECAST_FORMAT_H_

#include <string>

#include "model/judge/forecast.h"

namespace cowprof {

// Of a limit that has an eta: "host memory full in about 47 min at 8.0 MiB/s"; with its bound in parentheses or
// without, with its rate or without; with "will be full" for a sentence of its own.
std::string FormatLimitEta(const LimitForecast& limit, bool with_bound, bool with_rate = true, bool with_verb = false);

// "plateaus at 41.0 GiB in about 12 min; from now on up to 45.2 GiB of 64.0 GiB in use (cgroup /job): safe"
std::string SentenceOf(const Forecast& forecast);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FORECAST_FORMAT_H_
