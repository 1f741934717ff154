// A Perfetto trace: a group of tracks for each process, and tracks of the limits. Pure.
#ifndef COWPROF_SINK_EXPORT_PERFETTO_TRACE_H_
#define COWPROF_SINK_EXPORT_PERFETTO_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/judge/findings.h"
#include "sink/marks.h"

namespace cowprof {

class PerfettoTrace {
 public:
  // `raised`: alerts on this sample; `model` already includes the sample.
  void Add(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model);
  // The whole trace: descriptions of the tracks, then what was added.
  std::string Finish(const RunModel& model, const Findings& findings) const;

 private:
  // Of each process: its tracks are described even if the model no longer lists it.
  struct Description {
    int pid = 0;
    std::string label, command;
    absl::Duration started;
  };
  static Description DescriptionOf(const ProcessModel& process, const RunModel& model);
  void Set(uint64_t track, absl::Duration t, uint64_t value, const RunInfo& info);
  void AddProcess(const ProcessModel& process, absl::Duration t, const RunModel& model);

  std::string events_;
  std::map<uint64_t, uint64_t> values_;   // by track; a track that is not here has none yet
  std::map<int, Description> described_;  // by index: as first seen, or as it ended
  std::vector<Mark> marks_;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_EXPORT_PERFETTO_TRACE_H_
