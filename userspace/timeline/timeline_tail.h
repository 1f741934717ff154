// Follows a timeline while it is written: reads what was appended since the last time, through a descriptor that may
// do nothing else. Called by the page's server; the writer is TimelineFile, which replaces the closing bytes each time.
#ifndef COWPROF_SINK_TIMELINE_TAIL_H_
#define COWPROF_SINK_TIMELINE_TAIL_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "posix/fd.h"
#include "sink/json_timeline.h"

namespace cowprof {

class TimelineTail {
 public:
  // Each is called as soon as a line is whole: `on_info` once, before the first sample.
  struct Readers {
    std::function<void(const RunInfo&)> on_info;
    std::function<void(const Sample&)> on_sample;
  };
  TimelineTail(Fd timeline, Readers readers) : timeline_(std::move(timeline)), readers_(std::move(readers)) {}

  // An error is the descriptor's; a line that is not whole yet waits for the next call.
  absl::Status Read();
  bool complete() const { return complete_; }  // the recording was finished

 private:
  // Whether the line was taken; otherwise it is to be read again.
  bool Take(absl::string_view line);

  Fd timeline_;
  Readers readers_;
  RecordDecoder decoder_;
  off_t at_ = 0;  // where the first line begins that was not taken yet
  bool headed_ = false, complete_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_TIMELINE_TAIL_H_
