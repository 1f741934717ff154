// The timeline on disk: valid JSON after every tick, readable when truncated anywhere. Owns the closing bytes and the
// line structure around the records of json_timeline; knows nothing about their contents.
#ifndef COWPROF_TIMELINE_TIMELINE_FILE_H_
#define COWPROF_TIMELINE_TIMELINE_FILE_H_

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "model/judge/run.h"
#include "posix/fd.h"
#include "posix/output_file.h"
#include "posix/rights.h"
#include "timeline/json_timeline.h"
#include "timeline/reading_progress.h"

namespace cowprof {

class TimelineFile {
 public:
  static absl::StatusOr<std::unique_ptr<TimelineFile>> Create(const std::string& path, const RunInfo& info);

  // A record that can't be written (disk full) is dropped whole and counted; the file stays valid, and the next one
  // tries again. When much waits, it becomes a record of its own, which is kept until it fits: so each attempt is as
  // large as that at most, whatever the time without space. The status reports only the first failure. If the file was
  // removed, the status says once how to save it.
  absl::Status Write(const Sample& sample, const std::vector<Alert>& raised);
  // Tries again what waits, with the last sample; writes no end if that fails again. Call once.
  absl::Status Finish(absl::Duration t, const std::string& reason);
  const std::string& path() const { return path_; }
  // For a process that follows the recording.
  absl::StatusOr<Fd> OpenToRead() const { return cowprof::OpenToRead(fd_); }
  // For a recording that never began: earlier ones have their names back.
  void Remove() const { RemoveOutputFile(fd_, moved_); }
  // For one that has begun: of earlier ones only the latest is kept. Call before the right to remove is given up.
  void Keep() { RemoveMovedFiles(std::exchange(moved_, {})); }
  uint64_t records_dropped() const { return records_dropped_; }

 private:
  TimelineFile(std::string path, Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  // Leaves the file as it was if it fails.
  absl::Status Append(const std::string& record);
  // All that is unwritten, oldest first, as far as it fits.
  absl::Status AppendUnwritten();
  // Whether there is still no space for the record that failed: a target that writes, too, needs what there is.
  bool IsStillFull() const;
  // What to report of a failed Append().
  absl::Status Told(const absl::Status& failure);
  bool IsRemoved() const;

  std::string path_;
  Fd fd_;
  RecordEncoder encoder_;
  std::deque<std::string> waiting_;  // records that were made before what the encoder has not written
  size_t failed_bytes_ = 0;          // of the last attempt; 0: it succeeded
  off_t end_ = 0;                    // where the closing bytes begin
  bool empty_ = true;
  MovedFiles moved_;
  const bool privileged_ = EffectiveCapabilities() != 0;  // at creation; /proc/PID/fd then belongs to root
  bool told_ = false, told_removed_ = false;  // reported: a record could not be written; the file was removed
  uint64_t records_dropped_ = 0;
};

struct TimelineContents {
  RunInfo info;
  bool complete = false;  // it was finished; otherwise it still runs, was killed, or the file was truncated
  bool stopped_by_target = false;
};

// Reads a timeline from its beginning. InvalidArgument: not a recording. FailedPrecondition: it has the schema of one,
// but can't be read as it is. Unimplemented: a newer schema. Unavailable: it can't be opened. `note`: of the progress,
// if this is one of several files.
absl::StatusOr<TimelineContents> ReadTimeline(const std::string& path, const TimelineReaders& readers,
                                              ReadingNote* note = nullptr);
// Reads a whole timeline into `run`.
absl::StatusOr<TimelineContents> ReadRun(const std::string& path, Run* run);

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_TIMELINE_FILE_H_
