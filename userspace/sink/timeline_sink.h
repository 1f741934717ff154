// The recording itself as a sink: passes samples on to the timeline file, which knows nothing about sinks.
#ifndef COWPROF_SINK_TIMELINE_SINK_H_
#define COWPROF_SINK_TIMELINE_SINK_H_

#include <string>

#include "sink/sink.h"
#include "timeline/timeline_file.h"

namespace cowprof {

class TimelineSink : public Sink {
 public:
  explicit TimelineSink(TimelineFile* file) : file_(file) {}
  absl::Status Write(const Tick& tick) override { return file_->Write(tick.sample, tick.raised); }
  absl::Status Finish(absl::Duration t, const std::string& reason) override { return file_->Finish(t, reason); }

 private:
  TimelineFile* file_;  // outlives the sink
};

}  // namespace cowprof

#endif  // COWPROF_SINK_TIMELINE_SINK_H_
