// Shared memory in JSON: `shm` of a sample record and of the report, and the document cowprof.shm/1. Called by
// json_timeline.cc and report_json.cc, which own the rest, and by the command; spells the keys of this part. Pure.
#ifndef COWPROF_SINK_JSON_SHM_H_
#define COWPROF_SINK_JSON_SHM_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "model/growth.h"
#include "model/sample.h"

namespace cowprof {

// Appends `,"shm":{...}`.
void EncodeShm(const ShmSample& sample, std::string* out);
// The reverse, of a whole sample record; nullopt if it has none.
std::optional<ShmSample> DecodeShm(const nlohmann::ordered_json& record);
nlohmann::ordered_json NamesOfSegmentColumns();  // for the header: what stands where in a row

// What cowprof.shm/1 and the report share: mount, figures, totals, batches, segments (at most `most`).
nlohmann::ordered_json ShmJson(const ShmSample& sample, size_t most);
// `shm` of a report: the latest look, and what stood out before; null if there was none.
nlohmann::ordered_json ShmReportJson(const Growth& growth);

}  // namespace cowprof

#endif  // COWPROF_SINK_JSON_SHM_H_
