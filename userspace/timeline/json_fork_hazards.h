// Fork hazards in JSON: a look as a recording has it, and the rows of `fork_hazards` in cowprof.report/1, of which
// `cowprof doctor --json` prints one, too. Owns their keys.
#ifndef COWPROF_TIMELINE_JSON_FORK_HAZARDS_H_
#define COWPROF_TIMELINE_JSON_FORK_HAZARDS_H_

#include "model/facts/fork_hazard.h"
#include "timeline/json_fields.h"

namespace cowprof {

// Adds the look's keys to an event.
void EncodeForkHazard(const ForkHazardSeen& seen, Json* json);
// Keeps the bounds of a look, whatever the file says.
ForkHazardSeen DecodeForkHazard(const Json& json);

// threads, locks, pools and what limits them; without pid and times.
Json ForkHazardJson(const ForkHazardSeen& seen);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_FORK_HAZARDS_H_
