// The process that writes the file of --metrics-file. It is forked before cowprof gives up its rights, as the recorder
// can open no file for writing after that. It gets whole texts and writes them to the one path that it was told first;
// it can do nothing else. No tick waits for it: a disk that hangs costs texts, not samples.
#ifndef COWPROF_SINK_METRICS_METRICS_FILE_H_
#define COWPROF_SINK_METRICS_METRICS_FILE_H_

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "posix/fd.h"

namespace cowprof {

class MetricsFile {
 public:
  // Call while the process still has the rights to write where its user may.
  static absl::StatusOr<std::unique_ptr<MetricsFile>> Start();
  // The process at the other end of this socket, of cowprof watch, writes instead. Failures are not told: watch does.
  static std::unique_ptr<MetricsFile> Over(Fd socket) {
    std::unique_ptr<MetricsFile> file(new MetricsFile(/*pid=*/0, std::move(socket)));
    file->told_ = true;
    return file;
  }
  // After a fork, in the parent: only the child writes.
  void LeaveToChild() { pid_ = 0; }
  ~MetricsFile();  // the process ends once it has written what it has

  // Names the file and writes `text` to it. The status says why it can't be written.
  absl::Status Open(const std::string& path, absl::string_view text);
  // Replaces the file's contents. Drops `text` if the process is still busy with the last one. Returns a sentence the
  // first time that a text could not be written; otherwise "".
  std::string Write(absl::string_view text);
  // The same for the last text: waits for the process, at most a few seconds.
  std::string Finish(absl::string_view text);

 private:
  MetricsFile(pid_t pid, Fd socket) : pid_(pid), socket_(std::move(socket)) {}
  void Queue(absl::string_view text);
  bool Flush();  // false: the process is busy, or gone
  std::string Listen(bool finish);
  void Reap();

  pid_t pid_;
  Fd socket_;           // frames to the process, sentences back
  std::string unsent_;  // rest of a frame
  bool told_ = false;   // that a text could not be written
};

}  // namespace cowprof

#endif  // COWPROF_SINK_METRICS_METRICS_FILE_H_
