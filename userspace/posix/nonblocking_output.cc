#include "posix/nonblocking_output.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr size_t kMostWaiting = 64 << 10;
constexpr int kPatienceMs = 10;  // for each piece, and for all
constexpr absl::Duration kPatience = absl::Milliseconds(kPatienceMs);
// What fits where poll(2) says that something does. Of a pipe that is certain, while only one process writes.
constexpr size_t kPieceOfPipe = PIPE_BUF, kPieceOfTerminal = 256;

}  // namespace

NonblockingOutput::NonblockingOutput(int fd) : fd_(fd) {
  struct stat stream;
  const int flags = fcntl(fd, F_GETFL);
  // A descriptor that can't be written fails at once.
  if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || fstat(fd, &stream) != 0) return;
  if (S_ISFIFO(stream.st_mode)) kind_ = Kind::kPipe;
  if (S_ISCHR(stream.st_mode)) kind_ = Kind::kTerminal;
  if (S_ISSOCK(stream.st_mode)) kind_ = Kind::kSocket;
}

// Never of what `fd` can't write: a privileged cowprof must not write where its user could not.
void NonblockingOutput::OpenAgain() {
  if (kind_ != Kind::kPipe && kind_ != Kind::kTerminal) return;
  const std::string path = absl::StrCat("/proc/self/fd/", fd_);
  again_ = Fd(open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

// As write(2), but EAGAIN instead of waiting.
ssize_t NonblockingOutput::WritePiece(absl::string_view text) const {
  if (again_.ok()) return write(again_.fd(), text.data(), text.size());
  if (kind_ == Kind::kFile) return write(fd_, text.data(), text.size());
  if (kind_ == Kind::kSocket) return send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  pollfd room = {fd_, POLLOUT, 0};
  if (poll(&room, 1, 0) == 0) errno = EAGAIN;
  if (room.revents == 0) return -1;
  return write(fd_, text.data(), std::min(text.size(), kind_ == Kind::kPipe ? kPieceOfPipe : kPieceOfTerminal));
}

size_t NonblockingOutput::Write(absl::string_view text) const {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t wrote = WritePiece({text.data() + done, text.size() - done});
    if (wrote > 0) {
      done += wrote;
    } else if (wrote == 0 || errno != EINTR) {
      return wrote < 0 && errno == EAGAIN ? done : text.size();
    }
  }
  return done;
}

bool NonblockingOutput::Flush() {
  waiting_.erase(0, Write(waiting_));
  if (waiting_.empty() && !offered_.empty()) {
    const size_t wrote = Write(offered_);
    if (wrote > 0) waiting_ = std::exchange(offered_, "").substr(wrote);
  }
  return waiting_.empty() && offered_.empty();
}

// A terminal takes some kilobytes at a time. If it is read, there is room for the rest at once.
void NonblockingOutput::FlushSoon() {
  const absl::Duration end = BootTime() + kPatience;
  const auto bytes = [&] { return waiting_.size() + offered_.size(); };
  for (;;) {
    const size_t before = bytes();
    if (Flush() || bytes() == before || BootTime() >= end) return;
    pollfd room = {fd_, POLLOUT, 0};
    poll(&room, 1, kPatienceMs);
  }
}

bool NonblockingOutput::Put(absl::string_view text) {
  Flush();
  if (waiting_.size() >= kMostWaiting) return false;
  absl::StrAppend(&waiting_, text);
  FlushSoon();
  return true;
}

void NonblockingOutput::Offer(absl::string_view text) {
  offered_ = std::string(text);
  FlushSoon();
}

void NonblockingOutput::Drain() {
  pollfd room = {fd_, POLLOUT, 0};
  while (!Flush()) {
    poll(&room, 1, -1);
    absl::SleepFor(absl::Milliseconds(5));  // a terminal may have room, but not for a whole character
  }
}

}  // namespace cowprof
