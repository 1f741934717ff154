// `start_methods` in JSON: the rows of cowprof.report/1, which `cowprof pickle --json` prints, too; and looks as a
// recording has them.
#ifndef COWPROF_TIMELINE_JSON_START_METHODS_H_
#define COWPROF_TIMELINE_JSON_START_METHODS_H_

#include "model/facts/start_methods.h"
#include "model/judge/start_costs.h"
#include "timeline/json_fields.h"

namespace cowprof {

// A row for spawn and one for forkserver.
Json StartMethodsJson(const PickleLook& look);

// Rows of cowprof.pickle/1's what_if.
Json StartCostsJson(const PickleLook& look, const StartCostFacts& facts);

// A look as it is, for the timeline.
Json EncodeLook(const PickleLook& look);
PickleLook DecodeLook(const Json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_START_METHODS_H_
