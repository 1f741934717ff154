// A stream whose reader may stop reading: a pager that shows its first page, a terminal stopped with Ctrl-S, a
// connection that stalls. Owns what waits to be written. Waits at most some milliseconds for a reader that reads, and
// for one that does not only in Drain().
#ifndef COWPROF_POSIX_NONBLOCKING_OUTPUT_H_
#define COWPROF_POSIX_NONBLOCKING_OUTPUT_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "posix/fd.h"

namespace cowprof {

// A stream that fails (its reader has gone, the disk is full) takes everything, and loses it.
class NonblockingOutput {
 public:
  explicit NonblockingOutput(int fd);
  // Opens the stream a second time: O_NONBLOCK on `fd` itself would change it for every process that shares it. Until
  // then, and where that is refused (the terminal belongs to another user), asks poll(2) before each small write: that
  // can wait only if another process fills the stream in between.
  void OpenAgain();
  int fd() const { return fd_; }

  // Writes `text`, or lets it wait. Returns false, and drops it, if 64 KiB wait already.
  bool Put(absl::string_view text);
  // Writes `text` after that, or lets it wait, but only until the next offer, which takes its place. "": takes back
  // what waits of an offer that was not begun.
  void Offer(absl::string_view text);
  bool offer_waits() const { return !offered_.empty(); }
  // Writes what waits, as far as it fits. Returns whether nothing waits any more.
  bool Flush();
  // Writes what waits, whatever it takes.
  void Drain();
  // Writes `text` past what waits, as far as it fits. Returns the number of bytes. Async-signal-safe.
  size_t Write(absl::string_view text) const;

 private:
  enum class Kind { kFile, kPipe, kTerminal, kSocket };  // kFile: what never waits for a reader
  ssize_t WritePiece(absl::string_view text) const;
  void FlushSoon();

  int fd_;
  Kind kind_ = Kind::kFile;
  Fd again_;  // the same stream, with O_NONBLOCK
  std::string waiting_, offered_;
};

}  // namespace cowprof

#endif  // COWPROF_POSIX_NONBLOCKING_OUTPUT_H_
