// The first line of a timeline: what holds for the whole recording, and the version of the format.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "timeline/json_fields.h"
#include "timeline/json_identity.h"
#include "timeline/json_limits.h"
#include "timeline/json_timeline.h"

namespace cowprof {
namespace {

constexpr absl::string_view kSchemaPrefix = "cowprof.timeline/";

}  // namespace

std::string EncodeHeader(const RunInfo& info) {
  Json rejected = Json::array();
  for (const RejectedRung& rung : info.rejected) {
    rejected.push_back({{"rung", rung.rung}, {"reason", rung.reason}, {"remedy", rung.remedy}});
  }
  Json limits = Json::array();
  for (const LimitSample& limit : info.limits) limits.push_back(EncodeLimit(limit));
  Json header = {
      {"tool", {{"name", "cowprof"}, {"version", info.version}}},
      {"host",
       {{"kernel", info.kernel}, {"page_bytes", info.page_bytes}, {"cpus", info.cpus}, {"copy_ns", info.copy_ns}}},
      {"plan", {{"rung", info.rung}, {"exactness", NameOf(info.exactness)}, {"rejected", rejected}}},
      {"target",
       {{"pid", info.target.pid},
        {"start_ns", info.target.start_ns},
        {"command", info.command},
        {"started_by_cowprof", info.started_target}}},
      {"started", absl::FormatTime(absl::RFC3339_full, info.started, absl::UTCTimeZone())},
      {"interval_seconds", absl::ToDoubleSeconds(info.interval)},
      {"limits", std::move(limits)},
      {"identity", EncodeIdentity(info.identity)},
      {"columns", NamesOfColumns()},
  };
  if (!info.without.empty()) header["plan"]["without"] = info.without;
  if (info.target_age) header["target"]["age_seconds"] = absl::ToDoubleSeconds(*info.target_age);
  if (info.shm_of_host) header["target"]["host_shm"] = true;
  return absl::StrCat("{\"schema\":\"", kSchemaPrefix, kTimelineSchema, "\",\"header\":", Dump(header),
                      ",\"records\":[");
}

absl::StatusOr<RunInfo> DecodeHeader(absl::string_view document_start) {
  const Json json = ParseUntrusted(absl::StrCat(document_start, "]}"));
  if (!json.is_object()) return absl::InvalidArgumentError("not a cowprof recording: its first line is not JSON");
  const std::string schema = TextOf(json, "schema");
  int number = 0;
  if (!absl::StartsWith(schema, kSchemaPrefix) || !absl::SimpleAtoi(schema.substr(kSchemaPrefix.size()), &number)) {
    return absl::InvalidArgumentError(
        "not a cowprof recording: it does not begin with {\"schema\":\"cowprof.timeline/...\"}");
  }
  if (number > kTimelineSchema) {
    return absl::UnimplementedError(absl::StrCat("it is ", kSchemaPrefix, number, " and this cowprof reads up to ",
                                                 kSchemaPrefix, kTimelineSchema, "; use a newer cowprof"));
  }
  const Json none = Json::object();
  const auto part = [](const Json& object, const char* key, const Json& otherwise) -> const Json& {
    const auto found = object.find(key);
    return found != object.end() && found->is_object() ? *found : otherwise;
  };
  const Json& header = part(json, "header", none);
  const Json& host = part(header, "host", none);
  const Json& plan = part(header, "plan", none);
  const Json& target = part(header, "target", none);
  RunInfo info = {.version = TextOf(part(header, "tool", none), "version"),
                  .kernel = TextOf(host, "kernel"),
                  .page_bytes = std::max<uint64_t>(NumberOf<uint64_t>(host, "page_bytes", 4096), 1),
                  .cpus = NumberOf<int>(host, "cpus"),
                  .copy_ns = NumberOf<double>(host, "copy_ns"),
                  .interval = absl::Seconds(NumberOf<double>(header, "interval_seconds", 1)),
                  .rung = TextOf(plan, "rung"),
                  .exactness = EnumNamed(TextOf(plan, "exactness"), Exactness::kUnavailable),
                  .target = {NumberOf<pid_t>(target, "pid"), NumberOf<uint64_t>(target, "start_ns")},
                  .command = TextOf(target, "command"),
                  .started_target = BoolOf(target, "started_by_cowprof"),
                  .shm_of_host = BoolOf(target, "host_shm"),
                  .identity = DecodeIdentity(part(header, "identity", none))};
  if (target.contains("age_seconds"))
    info.target_age = absl::Seconds(std::max(NumberOf<double>(target, "age_seconds"), 0.0));
  absl::ParseTime(absl::RFC3339_full, TextOf(header, "started"), &info.started, nullptr);
  for (const Json& rung : ListOf(plan, "rejected")) {
    if (rung.is_object())
      info.rejected.push_back({TextOf(rung, "rung"), TextOf(rung, "reason"), TextOf(rung, "remedy")});
  }
  for (const Json& name : ListOf(plan, "without")) {
    if (name.is_string()) info.without.push_back(name.get<std::string>());
  }
  for (const Json& limit : ListOf(header, "limits")) {
    if (limit.is_object()) info.limits.push_back(DecodeLimit(limit));
  }
  return info;
}

}  // namespace cowprof
