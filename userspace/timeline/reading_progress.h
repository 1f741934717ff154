// A line on the terminal while a long recording is read: how far it is. Called by timeline_file.cc. Says nothing in the
// first two seconds, and nothing where stderr is no terminal.
#ifndef COWPROF_SINK_READING_NOTE_H_
#define COWPROF_SINK_READING_NOTE_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace cowprof {

class ReadingNote {
 public:
  // `file_bytes` 0: not known, as of a pipe; then nothing is said.
  ReadingNote(std::string path, uint64_t file_bytes);
  ~ReadingNote();  // takes the line away
  ReadingNote(const ReadingNote&) = delete;
  ReadingNote& operator=(const ReadingNote&) = delete;

  void Advance(uint64_t bytes);

 private:
  const std::string path_;
  const uint64_t file_bytes_;
  const bool wanted_;
  uint64_t read_bytes_ = 0;
  absl::Duration next_;  // of the monotonic clock
  bool shown_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_READING_NOTE_H_
