// Follows a timeline while it is being written: reads what was appended since the last call, through a descriptor that
// is open for reading only. The writer, TimelineFile, overwrites the closing bytes at every append.
#ifndef COWPROF_TIMELINE_TIMELINE_TAIL_H_
#define COWPROF_TIMELINE_TIMELINE_TAIL_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "posix/fd.h"
#include "timeline/json_timeline.h"

namespace cowprof {

class TimelineTail {
 public:
  // Calls the readers as soon as a sample is complete.
  TimelineTail(Fd timeline, TimelineReaders readers) : timeline_(std::move(timeline)), readers_(std::move(readers)) {}

  // Fails only if the descriptor can't be read; an incomplete sample waits for the next call.
  absl::Status Read();
  bool complete() const { return complete_; }  // the recording was finished

 private:
  // kNothing: the line is to be read again. kPart: it belongs to a sample that is not complete.
  enum class Taken { kNothing, kPart, kWhole };
  Taken Take(absl::string_view line);

  Fd timeline_;
  TimelineReaders readers_;
  RecordDecoder decoder_;
  off_t at_ = 0;  // offset after the last complete sample: the writer never takes back what is before it
  bool headed_ = false, complete_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_TIMELINE_TAIL_H_
