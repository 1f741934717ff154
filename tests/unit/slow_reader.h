// A pipe whose reader stops reading.
#ifndef COWPROF_TESTS_UNIT_SLOW_READER_H_
#define COWPROF_TESTS_UNIT_SLOW_READER_H_

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "posix/fd.h"

namespace cowprof {

class SlowReader {
 public:
  SlowReader() {
    int ends[2];
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0);
    reading_ = Fd(ends[0]);
    writing_ = Fd(ends[1]);
    REQUIRE(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    REQUIRE(fcntl(ends[1], F_SETPIPE_SZ, 4 * 4096) > 0);
    old_handler_ = signal(SIGPIPE, SIG_IGN);
  }
  ~SlowReader() { signal(SIGPIPE, old_handler_); }
  SlowReader(const SlowReader&) = delete;
  SlowReader& operator=(const SlowReader&) = delete;

  int fd() const { return writing_.fd(); }
  // From now on a write(2) would wait.
  void Stop() const {
    const std::string page(4096, '.');
    REQUIRE(fcntl(writing_.fd(), F_SETFL, O_NONBLOCK) == 0);
    while (write(writing_.fd(), page.data(), page.size()) > 0) {
    }
    while (write(writing_.fd(), ".", 1) > 0) {
    }
    REQUIRE(fcntl(writing_.fd(), F_SETFL, 0) == 0);
  }
  // All that can be read now, without the filling.
  std::string Read() const {
    std::string text(1 << 20, '\0');
    size_t bytes = 0;
    for (ssize_t got; (got = read(reading_.fd(), &text[bytes], text.size() - bytes)) > 0;) bytes += got;
    text.resize(bytes);
    return text.substr(std::min(text.find_first_not_of('.'), bytes));
  }
  void Leave() { reading_.Close(); }

 private:
  Fd reading_, writing_;
  sighandler_t old_handler_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_SLOW_READER_H_
