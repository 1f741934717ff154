// A note of what takes long: on a terminal only, not before two seconds, and gone at the end.
#include "cli/slow_note.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "posix/fd.h"

namespace cowprof {
namespace {

// What a note writes to a terminal in that time.
std::string Written(absl::Duration time) {
  const Fd terminal(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
  REQUIRE((terminal.ok() && grantpt(terminal.fd()) == 0 && unlockpt(terminal.fd()) == 0));
  const Fd other(open(ptsname(terminal.fd()), O_RDWR | O_NOCTTY)), before(dup(STDERR_FILENO));
  REQUIRE(other.ok());
  dup2(other.fd(), STDERR_FILENO);
  {
    const SlowNote note("reading");
    absl::SleepFor(time);
  }
  dup2(before.fd(), STDERR_FILENO);
  // What was written reaches this end a little later.
  std::string written;
  pollfd ready = {terminal.fd(), POLLIN, 0};
  char text[256];
  while (poll(&ready, 1, /*timeout=*/300) > 0) {
    const ssize_t got = read(terminal.fd(), text, sizeof(text));
    if (got <= 0) break;
    written.append(text, got);
  }
  return written;
}

}  // namespace

TEST_CASE("nothing is noted of what is quick") { CHECK(Written(absl::Milliseconds(100)).empty()); }

TEST_CASE("what takes more than two seconds is noted, and the note erased") {
  const std::string written = Written(absl::Milliseconds(2500));
  CHECK(absl::StartsWith(written, "\rcowprof: reading ... "));
  CHECK(absl::EndsWith(written, "\r\x1b[K"));
}

}  // namespace cowprof
