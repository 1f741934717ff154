// `start_methods` in JSON: the rows of cowprof.report/1, which `cowprof pickle --json` prints, too; and looks as a
// recording has them.
#ifndef COWPROF_TIMELINE_JSON_START_METHODS_H_
#define COWPROF_TIMELINE_JSON_START_METHODS_H_

#include "model/facts/start_methods.h"
#include "timeline/json_fields.h"

namespace cowprof {

// A row for spawn and one for forkserver.
Json StartMethodsJson(const PickleLook& look);

// A look as it is, for the timeline.
Json EncodeLook(const PickleLook& look);
PickleLook DecodeLook(const Json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_START_METHODS_H_
