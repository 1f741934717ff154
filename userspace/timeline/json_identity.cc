#include "timeline/json_identity.h"

#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr size_t kMostLabels = 1000;

Count CountUpTo(uint64_t most, const Json& json, const char* key) {
  const Count count = CountOf(json, key);
  return count && *count <= most ? count : std::nullopt;
}

}  // namespace

Json IdentityJson(const RunIdentity& identity, const RankFacts& job) {
  Json labels = Json::object();
  for (const auto& [name, value] : identity.labels) labels[name] = value;
  return {{"host", TextOrNull(identity.host)},
          {"boot_id", TextOrNull(identity.boot_id)},
          {"job_id", TextOrNull(job.job_id)},
          {"world_size", OrNull(job.world_size)},
          {"labels", std::move(labels)}};
}

Json EncodeIdentity(const RunIdentity& identity) {
  Json json = IdentityJson(identity, identity.rank);
  json["rank"] = OrNull(identity.rank.rank);
  json["local_rank"] = OrNull(identity.rank.local_rank);
  json["source"] = TextOrNull(std::string(NameOf(identity.rank.source)));
  return json;
}

RunIdentity DecodeIdentity(const Json& json) {
  RunIdentity identity = {
      .host = TextOf(json, "host"), .boot_id = TextOf(json, "boot_id"), .rank = DecodeRank(json), .labels = {}};
  if (const auto labels = json.find("labels"); labels != json.end() && labels->is_object()) {
    for (const auto& [name, value] : labels->items()) {
      if (value.is_string() && identity.labels.size() < kMostLabels)
        identity.labels[name] = value.get_ref<const std::string&>();
    }
  }
  return identity;
}

void EncodeRank(const RankFacts& rank, Json* json) {
  (*json)["source"] = TextOrNull(std::string(NameOf(rank.source)));
  (*json)["rank"] = OrNull(rank.rank);
  (*json)["local_rank"] = OrNull(rank.local_rank);
  (*json)["world_size"] = OrNull(rank.world_size);
  (*json)["job_id"] = TextOrNull(rank.job_id);
}

RankFacts DecodeRank(const Json& json) {
  return {.source = EnumNamed(TextOf(json, "source"), RankSource::kNone),
          .rank = CountUpTo(kMostRanks - 1, json, "rank"),
          .local_rank = CountUpTo(kMostRanks - 1, json, "local_rank"),
          .world_size = CountUpTo(kMostRanks, json, "world_size"),
          .job_id = TextOf(json, "job_id")};
}

}  // namespace cowprof
