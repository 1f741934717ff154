// Puts records together from their parts, which the json_*.h beside it spell.
#include "timeline/json_timeline.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "timeline/json_alerts.h"
#include "timeline/json_copy_sites.h"
#include "timeline/json_events.h"
#include "timeline/json_fields.h"
#include "timeline/json_limits.h"
#include "timeline/json_losses.h"
#include "timeline/json_processes.h"
#include "timeline/json_shm.h"

namespace cowprof {
Json NamesOfColumns() {
  Json names = NamesOfProcessColumns();
  names["limits"] = NamesOfLimitColumns();
  names.update(NamesOfPythonColumns());
  names.update(NamesOfCopySiteColumns());
  names.update(NamesOfSegmentColumns());
  return names;
}

std::string RecordEncoder::Encode() {
  pending_ = written_;
  const Sample& sample = unwritten_.sample();
  std::string out;
  for (const Event& event : sample.events) absl::StrAppend(&out, Dump(EncodeEvent(event)), ",\n");
  for (const Alert& alert : unwritten_.alerts()) absl::StrAppend(&out, Dump(EncodeAlert(alert)), ",\n");
  absl::StrAppend(&out, "{\"t\":", SecondsText(sample.t), ",\"type\":\"sample\"");
  EncodeProcesses(sample, &pending_.processes, &out);
  EncodeLimits(sample.limits, &pending_.limits, &out);
  if (sample.shm) EncodeShm(*sample.shm, &out);
  EncodeCopySites(sample, &pending_.numbers, &out);
  if (!(sample.losses == pending_.losses)) absl::StrAppend(&out, ",\"losses\":", Dump(EncodeLosses(sample.losses)));
  pending_.losses = sample.losses;
  return absl::StrCat(out, "}");
}

void RecordEncoder::Commit() {
  written_ = pending_;
  unwritten_.Clear();
}

std::string EncodeEnd(absl::Duration t, absl::string_view reason) {
  return absl::StrCat("{\"t\":", SecondsText(t), ",\"type\":\"end\",\"reason\":", Dump(Json(std::string(reason))), "}");
}

absl::StatusOr<RecordDecoder::Result> RecordDecoder::Decode(absl::string_view record) {
  if (plain_.Read(record)) {
    const Json rest = plain_.rest().empty() ? Json::object() : ParseUntrusted(plain_.rest());
    if (rest.is_object()) return DecodeSample(plain_.t(), {.json = rest, .plain = &plain_});
  }
  return DecodeAny(record);
}

absl::StatusOr<RecordDecoder::Result> RecordDecoder::DecodeAny(absl::string_view record) {
  const Json json = ParseUntrusted(record);
  if (!json.is_object()) return absl::DataLossError("a record is not a JSON object");
  const std::string type = TextOf(json, "type");
  if (type == "event") {
    events_.push_back(DecodeEvent(json));
    return Result::kMore;
  }
  if (type == "alert") alerts_.push_back(DecodeAlert(json));
  if (type == "end") {
    stopped_by_target_ = TextOf(json, "reason") == kStoppedByTarget;
    return Result::kEnd;
  }
  if (type != "sample") return Result::kMore;  // also ignores types that later versions add
  return DecodeSample(NumberOf<double>(json, "t"), {.json = json});
}

void RecordDecoder::ForgetUnfinished() {
  events_.clear();
  alerts_.clear();
}

RecordDecoder::Result RecordDecoder::DecodeSample(double t, const SampleRecord& record) {
  DropEnded(&sample_);
  sample_.t = Rounded(t);
  sample_.events = std::exchange(events_, {});
  raised_ = std::exchange(alerts_, {});
  DecodeProcesses(record, &sample_.processes);
  DecodeLimits(record, &sample_.limits);
  sample_.shm = DecodeShm(record.json);
  DecodeCopySites(record, &numbers_, &sample_);
  const auto losses = record.json.find("losses");
  if (losses != record.json.end() && losses->is_object()) sample_.losses = DecodeLosses(*losses);
  return Result::kSample;
}

}  // namespace cowprof
