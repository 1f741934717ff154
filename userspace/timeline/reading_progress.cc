// Rewrites one line of stderr in place.
#include "timeline/reading_progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "model/format.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(2), kPace = absl::Milliseconds(200);
constexpr size_t kPathColumns = 50;

absl::Duration Now() { return ReadClock(CLOCK_MONOTONIC); }

}  // namespace

ReadingNote::ReadingNote(std::string what, uint64_t bytes)
    : what_(std::move(what)), wanted_(bytes > 0 && isatty(STDERR_FILENO)), bytes_(bytes), next_(Now() + kPatience) {}

ReadingNote::~ReadingNote() {
  if (shown_) absl::FPrintF(stderr, "\r\033[K");
}

void ReadingNote::Expect(uint64_t more) {
  const std::lock_guard lock(mutex_);
  bytes_ += more;
}

void ReadingNote::Advance(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  read_bytes_ += bytes;
  if (!wanted_ || Now() < next_) return;
  const uint64_t percent = std::min<uint64_t>(100, 100 * read_bytes_ / bytes_);
  absl::FPrintF(stderr, "\rcowprof: reading %s: %d %%", Printable(what_, kPathColumns), percent);
  fflush(stderr);
  next_ = Now() + kPace;
  shown_ = true;
}

}  // namespace cowprof
