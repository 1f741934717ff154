// `hangs` of a report and of `cowprof hang --json`. Owns their keys. Pure.
#ifndef COWPROF_TIMELINE_JSON_HANGS_H_
#define COWPROF_TIMELINE_JSON_HANGS_H_

#include <nlohmann/json_fwd.hpp>

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "model/judge/hangs.h"

namespace cowprof {

// `now`: CLOCK_BOOTTIME, from which it is reckoned how long they wait at most.
nlohmann::ordered_json HangsJson(absl::Span<const Hang> hangs, absl::Duration now);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_HANGS_H_
