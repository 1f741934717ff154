// A progress line on the terminal while a long recording is read. Prints nothing in the first two seconds, and nothing
// if stderr is not a terminal. Several threads may read what it is about.
#ifndef COWPROF_TIMELINE_READING_PROGRESS_H_
#define COWPROF_TIMELINE_READING_PROGRESS_H_

#include <cstdint>
#include <mutex>
#include <string>

#include "absl/time/time.h"

namespace cowprof {

class ReadingNote {
 public:
  // `what`: a path, or several files in words. `bytes` 0: unknown, as of a pipe; then nothing is printed.
  ReadingNote(std::string what, uint64_t bytes);
  ~ReadingNote();  // erases the line
  ReadingNote(const ReadingNote&) = delete;
  ReadingNote& operator=(const ReadingNote&) = delete;

  void Advance(uint64_t bytes);
  // There is more to read than was known.
  void Expect(uint64_t more);

 private:
  const std::string what_;
  const bool wanted_;
  std::mutex mutex_;
  uint64_t bytes_;
  uint64_t read_bytes_ = 0;
  absl::Duration next_;  // of the monotonic clock
  bool shown_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_READING_PROGRESS_H_
