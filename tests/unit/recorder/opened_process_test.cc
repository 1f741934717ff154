#include "recorder/opened_process.h"

#include <unistd.h>

#include <catch2/catch.hpp>

namespace cowprof {

TEST_CASE("opened process: the main thread is not the first by tid once tids have wrapped around") {
  const pid_t pid = getpid();
  const OpenedProcess wrapped(ProcFs(), pid, {.threads = {{.tid = 1}, {.tid = pid}, {.tid = pid + 1}}});
  REQUIRE(wrapped.MainThread() != nullptr);
  CHECK(wrapped.MainThread()->tid == pid);
  const OpenedProcess without(ProcFs(), pid, {.threads = {{.tid = 1}, {.tid = pid + 1}}});
  CHECK(without.MainThread() == nullptr);
}

}  // namespace cowprof
