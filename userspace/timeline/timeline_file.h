// The timeline on disk: valid JSON after every tick, and readable when it was cut off anywhere. Owns the closing bytes
// and the line structure around the records of json_timeline; knows nothing of what a record says.
#ifndef COWPROF_SINK_TIMELINE_FILE_H_
#define COWPROF_SINK_TIMELINE_FILE_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "posix/fd.h"
#include "posix/rights.h"
#include "sink/json_timeline.h"
#include "sink/output_file.h"
#include "sink/sink.h"

namespace cowprof {

class TimelineFile : public Sink {
 public:
  static absl::StatusOr<std::unique_ptr<TimelineFile>> Create(const std::string& path, const RunInfo& info);

  // A record that can't be written (disk full) is dropped whole and counted; the file stays valid, and the next one
  // tries again. The status says so once per row of failures. Of a file that somebody removes it says how to save it.
  absl::Status Write(const Sample& sample, const Growth& growth) override;
  absl::Status Finish(absl::Duration t, const std::string& reason, const Growth& growth) override;
  const std::string& path() const { return path_; }
  // For who follows the recording.
  absl::StatusOr<Fd> OpenToRead() const { return cowprof::OpenToRead(fd_); }
  // Of a recording that never began.
  void Remove() const { RemoveOutputFile(path_, fd_); }
  uint64_t records_dropped() const { return records_dropped_; }

 private:
  TimelineFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  absl::Status Append(const std::string& record);
  bool IsRemoved() const;

  std::string path_;
  Fd fd_;
  RecordEncoder encoder_;
  off_t end_ = 0;  // where the closing bytes begin
  bool empty_ = true;
  const bool privileged_ = EffectiveCapabilities() != 0;  // as it was then: /proc/PID/fd is root's from the attach on
  bool told_ = false, told_removed_ = false;  // that a record could not be written; that the file has no name any more
  uint64_t records_dropped_ = 0;
};

struct TimelineContents {
  RunInfo info;
  bool complete = false;  // the recording was finished; otherwise it still runs, was killed, or the file was cut off
};

// Reads a timeline sample by sample; `on_info` once before the first. InvalidArgument: no recording, or a newer schema.
absl::StatusOr<TimelineContents> ReadTimeline(const std::string& path,
                                              const std::function<void(const RunInfo&)>& on_info,
                                              const std::function<void(const Sample&)>& on_sample);
// The whole of it folded into one state.
absl::StatusOr<TimelineContents> ReadGrowth(const std::string& path, Growth* growth);

}  // namespace cowprof

#endif  // COWPROF_SINK_TIMELINE_FILE_H_
