// Streams that are not read, or not fast enough: nothing waits for them, what must be kept is kept in order, and they
// stay as they are for others.
#include "posix/nonblocking_output.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "posix/fd.h"
#include "slow_reader.h"

namespace cowprof {
namespace {

std::string ReadSome(int fd) {
  char text[4096];
  const ssize_t got = read(fd, text, sizeof(text));
  return {text, text + std::max<ssize_t>(got, 0)};
}

}  // namespace

TEST_CASE("a pipe that is not read: what was put waits in order, of offers the latest") {
  const bool again = GENERATE(true, false);
  SlowReader reader;
  NonblockingOutput output(reader.fd());
  if (again) output.OpenAgain();
  output.Offer("tick 0\n");
  CHECK(reader.Read() == "tick 0\n");
  reader.Stop();
  CHECK(output.Put("alert 1\n"));
  output.Offer("tick 1\n");
  CHECK(output.offer_waits());
  output.Offer("tick 2\n");
  CHECK(output.Put("alert 2\n"));
  CHECK_FALSE(output.Flush());
  CHECK(reader.Read() == "");
  CHECK(output.Flush());
  CHECK_FALSE(output.offer_waits());
  CHECK(reader.Read() == "alert 1\nalert 2\ntick 2\n");
  reader.Stop();
  output.Offer("tick 3\n");
  output.Offer("");
  CHECK(output.Flush());
  CHECK((fcntl(reader.fd(), F_GETFL) & O_NONBLOCK) == 0);
}

TEST_CASE("a text that is longer than the pipe comes through whole") {
  const bool again = GENERATE(true, false);
  SlowReader reader;
  NonblockingOutput output(reader.fd());
  if (again) output.OpenAgain();
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += static_cast<char>('a' + i % 26);
  output.Offer(text);
  CHECK_FALSE(output.offer_waits());  // it was begun
  output.Offer("next");
  std::string got = reader.Read();
  while (!output.Flush()) got += reader.Read();
  CHECK(got + reader.Read() == text + "next");
}

TEST_CASE("what waits is bounded") {
  SlowReader reader;
  NonblockingOutput output(reader.fd());
  output.OpenAgain();
  reader.Stop();
  int taken = 0;
  while (taken < 1000 && output.Put(std::string(1000, 'x'))) ++taken;
  CHECK(taken >= 65);
  CHECK(taken <= 66);
}

TEST_CASE("a stream without a reader, or that can't be written, takes everything") {
  SlowReader reader;
  NonblockingOutput output(reader.fd()), closed(-1);
  output.OpenAgain();
  reader.Stop();
  CHECK(output.Put("one"));
  reader.Leave();
  CHECK(output.Flush());
  output.Offer("two");
  CHECK_FALSE(output.offer_waits());
  output.Drain();
  CHECK(closed.Put("one"));
  CHECK(closed.Flush());
  const Fd read_only(open("/dev/zero", O_RDONLY | O_CLOEXEC));
  NonblockingOutput never(read_only.fd());
  never.OpenAgain();
  CHECK(never.Write("text") == 4);
  CHECK(never.Flush());
}

TEST_CASE("a terminal that was stopped with Ctrl-S") {
  const bool again = GENERATE(true, false);
  const Fd screen(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(screen.ok());
  REQUIRE(grantpt(screen.fd()) == 0);
  REQUIRE(unlockpt(screen.fd()) == 0);
  char name[64];
  REQUIRE(ptsname_r(screen.fd(), name, sizeof(name)) == 0);
  const Fd terminal(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  REQUIRE(terminal.ok());
  NonblockingOutput output(terminal.fd());
  if (again) output.OpenAgain();
  REQUIRE(tcflow(terminal.fd(), TCOOFF) == 0);
  CHECK(output.Put("alert"));
  CHECK_FALSE(output.Flush());
  REQUIRE(tcflow(terminal.fd(), TCOON) == 0);
  CHECK(output.Flush());
  CHECK(ReadSome(screen.fd()) == "alert");
}

TEST_CASE("a socket that is not read") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  const Fd reading(ends[0]), writing(ends[1]);
  NonblockingOutput output(writing.fd());
  output.OpenAgain();
  CHECK(output.Put("line"));
  CHECK(ReadSome(reading.fd()) == "line");
  while (send(writing.fd(), "....", 4, MSG_DONTWAIT) > 0) {
  }
  output.Offer("tick");
  CHECK(output.offer_waits());
}

}  // namespace cowprof
