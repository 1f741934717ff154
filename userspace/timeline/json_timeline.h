// Encodes and decodes the header and records of cowprof.timeline/1. With the json_*.h beside it, the only place that
// spells its keys. Pure; timeline_file owns the file around the records. docs/timeline.md describes the format for
// users, schema/timeline.schema.json defines it.
//
//   {"schema":"cowprof.timeline/1","header":{...},"records":[
//   {"t":0.01,"type":"event",...}
//   ,{"t":0.01,"type":"sample",...}
//   ]}
#ifndef COWPROF_TIMELINE_JSON_TIMELINE_H_
#define COWPROF_TIMELINE_JSON_TIMELINE_H_

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/facts/sample.h"
#include "model/judge/alert.h"
#include "timeline/backlog.h"
#include "timeline/json_copy_sites.h"
#include "timeline/plain_record.h"

namespace cowprof {

inline constexpr int kTimelineSchema = 1;

// The document up to and including the bracket that opens `records`.
std::string EncodeHeader(const RunInfo& info);
absl::StatusOr<RunInfo> DecodeHeader(absl::string_view document_start);
// The columns of the rows of a sample, for the header.
nlohmann::ordered_json NamesOfColumns();

// Turns samples into records, leaving out what did not change: rows of processes, limits, losses.
class RecordEncoder {
 public:
  // Until Commit() a sample counts as not written: the next one repeats what is written only once, such as events and
  // the last rows of ended processes (see Backlog), and what changed still counts as changed. Add each sample once.
  void Add(const Sample& latest, const std::vector<Alert>& raised) { unwritten_.Add(latest, raised); }
  const Backlog& unwritten() const { return unwritten_; }
  // What is unwritten: one or more records, joined by ",\n".
  std::string Encode();
  std::string Encode(const Sample& latest, const std::vector<Alert>& raised = {}) {
    Add(latest, raised);
    return Encode();
  }
  void Commit();

 private:
  struct Written {
    std::map<int, ProcessSample> processes;
    std::vector<LimitSample> limits;
    CopySiteNumbers numbers;
    Losses losses;
  };

  Written written_, pending_;
  Backlog unwritten_;  // since the last Commit()
};

// The target sent cowprof SIGINT: it had done what was to be recorded.
inline constexpr absl::string_view kStoppedByTarget = "stopped by the target";
// The recorder could not go on.
inline constexpr absl::string_view kRecorderFailed = "cowprof failed";
std::string EncodeEnd(absl::Duration t, absl::string_view reason);

// What a reader does with a timeline: `on_info` once before the first sample, then each sample with the alerts that
// were raised on it.
struct TimelineReaders {
  std::function<void(const RunInfo&)> on_info;
  std::function<void(const Sample&, const std::vector<Alert>&)> on_sample;
};

// The reverse: takes records in file order and returns whole samples.
class RecordDecoder {
 public:
  enum class Result { kSample, kMore, kEnd };
  // `record` is one element of `records`. kSample: sample() is complete. kMore: the record belongs to the next sample.
  absl::StatusOr<Result> Decode(absl::string_view record);
  // The same by the JSON parser alone, which takes whatever the plain reader leaves. Tests compare both.
  absl::StatusOr<Result> DecodeAny(absl::string_view record);
  // Forgets the records of a sample that is not complete: they come again.
  void ForgetUnfinished();
  // Of the record of the end.
  bool stopped_by_target() const { return stopped_by_target_; }
  const Sample& sample() const { return sample_; }
  const std::vector<Alert>& raised() const { return raised_; }  // on `sample()`
  // Events after the last sample of a file that was cut off; empty otherwise.
  const std::vector<Event>& events() const { return events_; }
  const std::vector<Alert>& alerts() const { return alerts_; }  // the same

 private:
  Result DecodeSample(double t, const SampleRecord& record);

  PlainRecord plain_;
  bool stopped_by_target_ = false;
  Sample sample_;
  std::vector<Event> events_;
  std::vector<Alert> raised_, alerts_;
  CopySiteNumbers numbers_;
};

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_TIMELINE_H_
