// Shared memory in JSON: `shm` of a sample record and of the report, and the common part of cowprof.shm/1. Owns the
// keys of this part. Pure.
#ifndef COWPROF_TIMELINE_JSON_SHM_H_
#define COWPROF_TIMELINE_JSON_SHM_H_

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "model/facts/run_model.h"
#include "model/facts/sample.h"

namespace cowprof {

// Appends `,"shm":{...}`.
void EncodeShm(const ShmSample& sample, std::string* out);
// The reverse, of a whole sample record; nullopt if it has none.
std::optional<ShmSample> DecodeShm(const nlohmann::ordered_json& record);
nlohmann::ordered_json NamesOfSegmentColumns();  // for the header: the columns of a segment's row

// The part that cowprof.shm/1 and the report share: mount, figures, totals, batches, at most `most` segments.
nlohmann::ordered_json ShmJson(const ShmSample& sample, size_t most);
// `shm` of a report: the latest look and what was notable before; null if there was no look.
nlohmann::ordered_json ShmReportJson(const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_SHM_H_
