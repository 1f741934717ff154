// Who a process is, in JSON: in the header and the events of a timeline, and in the report. Pure.
#ifndef COWPROF_TIMELINE_JSON_IDENTITY_H_
#define COWPROF_TIMELINE_JSON_IDENTITY_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/facts/identity.h"

namespace cowprof {

// host, boot_id, job_id, world_size, labels: what the report has, too. Null where it is not known.
nlohmann::ordered_json IdentityJson(const RunIdentity& identity, const RankFacts& job);

// The same, with the target's rank.
nlohmann::ordered_json EncodeIdentity(const RunIdentity& identity);
RunIdentity DecodeIdentity(const nlohmann::ordered_json& json);

// Adds source, rank, local_rank, world_size and job_id to an event.
void EncodeRank(const RankFacts& rank, nlohmann::ordered_json* json);
RankFacts DecodeRank(const nlohmann::ordered_json& json);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_IDENTITY_H_
