// The format cowprof.timeline/1: the only place that spells a key of it. Encoding and decoding of header and records,
// pure; the file around them is timeline_file's. docs/timeline.md describes the format for users,
// schema/timeline.schema.json fixes it.
//
//   {"schema":"cowprof.timeline/1","header":{...},"records":[
//   {"t":0.01,"type":"event",...}
//   ,{"t":0.01,"type":"sample",...}
//   ]}
#ifndef COWPROF_SINK_JSON_TIMELINE_H_
#define COWPROF_SINK_JSON_TIMELINE_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/sample.h"
#include "sink/json_places.h"

namespace cowprof {

inline constexpr int kTimelineSchema = 1;

// The document up to and with the bracket that opens `records`.
std::string EncodeHeader(const RunInfo& info);
absl::StatusOr<RunInfo> DecodeHeader(absl::string_view document_start);
// What stands where in the rows of a sample, for the header.
nlohmann::ordered_json NamesOfColumns();

// Turns samples into records and leaves out what did not change: a process's row, a limit, the losses.
class RecordEncoder {
 public:
  // One record or more, joined by ",\n". Without a Commit() they count as not written: who came and who went, with its
  // last row, is told with the next sample, and what changed counts as changed still. Each sample is to be encoded
  // once.
  std::string Encode(const Sample& latest);
  void Commit();

 private:
  struct Written {
    std::map<int, ProcessSample> processes;
    std::vector<LimitSample> limits;
    PlaceNumbers numbers;
    Losses losses;
  };
  void EncodeProcesses(const Sample& sample, std::string* out);
  void EncodeLimits(const Sample& sample, std::string* out);

  Written written_, pending_;
  Sample unwritten_;  // what is told once, since the last Commit(): events, places, the last rows of those that ended
};

std::string EncodeEnd(absl::Duration t, absl::string_view reason);

// The reverse: feeds records in file order, gives back whole samples.
class RecordDecoder {
 public:
  enum class Result { kSample, kMore, kEnd };
  // `record` is one element of `records`. kSample: `sample()` is complete; kMore: an event, belongs to the next sample.
  absl::StatusOr<Result> Decode(absl::string_view record);
  const Sample& sample() const { return sample_; }
  // Events after the last sample of a file that was cut off; empty otherwise.
  const std::vector<Event>& events() const { return events_; }
  const std::vector<Alert>& alerts() const { return alerts_; }  // the same

 private:
  void DecodeProcesses(const nlohmann::ordered_json& record);
  void DecodeLimits(const nlohmann::ordered_json& record);

  Sample sample_;
  std::vector<Event> events_;
  std::vector<Alert> alerts_;
  std::map<int, ProcessSample> processes_;
  std::vector<LimitSample> limits_;
  PlaceNumbers numbers_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_JSON_TIMELINE_H_
