// A thread of its own writes: what is slow does not know of it.
#include "cli/slow_note.h"

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <utility>

namespace cowprof {

SlowNote::SlowNote(std::string what) : what_(std::move(what)) {
  if (isatty(STDERR_FILENO)) thread_ = std::thread([this] { Run(); });
}

SlowNote::~SlowNote() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void SlowNote::Run() {
  std::unique_lock lock(mutex_);
  bool shown = false;
  for (int seconds = 2;; ++seconds) {
    if (ended_.wait_for(lock, std::chrono::seconds(shown ? 1 : 2), [this] { return end_; })) break;
    std::fprintf(stderr, "\rcowprof: %s ... %d s", what_.c_str(), seconds);
    std::fflush(stderr);
    shown = true;
  }
  if (shown) std::fprintf(stderr, "\r\033[K");
}

}  // namespace cowprof
