// Parses the values of --alert-at and --alert-eta. Pure.
//
//   --alert-at 90%        --alert-at shm=80%      --alert-at cgroup=85%:10s     --alert-at fds=off
//   --alert-eta 2m        --alert-eta shm=30s     --alert-eta host=5m:20s       --alert-eta off
#ifndef COWPROF_CLI_ALERT_OPTIONS_H_
#define COWPROF_CLI_ALERT_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/judge/alert.h"

namespace cowprof {

// Values without a kind apply to every kind that is not named, in any order. Returns what is wrong as a sentence
// without a final period; "": nothing.
std::string ParseAlertRatios(const std::vector<std::string>& values, AlertSettings* settings);
std::string ParseAlertEtas(const std::vector<std::string>& values, AlertSettings* settings);

// "90%" or "0.9", above 0 and at most 1.
std::optional<double> ParseRatio(absl::string_view text);
// The kinds of limits of this name: "shm"; "cgroup" is of either version. Empty: there is none.
std::vector<LimitKind> LimitKindsNamed(absl::string_view name);
// "500ms", "2m", or seconds without a unit; above 0 and finite. For every option that takes a time.
std::optional<absl::Duration> ParseDuration(absl::string_view text);

}  // namespace cowprof

#endif  // COWPROF_CLI_ALERT_OPTIONS_H_
