// The values of --alert-at and --alert-eta: text to rules. Pure; called by options.cc alone, which knows the flags.
//
//   --alert-at 90%        --alert-at shm=80%      --alert-at cgroup=85%:10s     --alert-at fds=off
//   --alert-eta 2m        --alert-eta shm=30s     --alert-eta host=5m:20s       --alert-eta off
#ifndef COWPROF_ALERT_OPTIONS_H_
#define COWPROF_ALERT_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/alert.h"

namespace cowprof {

// Values without a kind hold for every kind that is not named, wherever they stand. Returns what is wrong, as one
// sentence without its end; "": nothing.
std::string ParseAlertRatios(const std::vector<std::string>& values, AlertSettings* settings);
std::string ParseAlertEtas(const std::vector<std::string>& values, AlertSettings* settings);

// "90%" or "0.9", above 0 and at most 1.
std::optional<double> ParseRatio(absl::string_view text);
// "500ms", "2m", or seconds without a unit; above 0 and finite.
std::optional<absl::Duration> ParseDuration(absl::string_view text);

}  // namespace cowprof

#endif  // COWPROF_ALERT_OPTIONS_H_
