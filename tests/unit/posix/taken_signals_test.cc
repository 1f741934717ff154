#include "posix/taken_signals.h"

#include <catch2/catch.hpp>

namespace cowprof {

TEST_CASE("taken signals: a hangup that is ignored stays so, an interrupt does not") {
  const auto hangup = signal(SIGHUP, SIG_DFL), interrupt = signal(SIGINT, SIG_IGN);
  sigset_t taken = TakenSignals({SIGHUP, SIGINT});
  CHECK(sigismember(&taken, SIGHUP) == 1);
  CHECK(sigismember(&taken, SIGINT) == 1);
  CHECK(sigismember(&taken, SIGTERM) == 0);
  signal(SIGHUP, SIG_IGN);
  taken = TakenSignals({SIGHUP, SIGINT});
  CHECK(sigismember(&taken, SIGHUP) == 0);
  CHECK(sigismember(&taken, SIGINT) == 1);
  signal(SIGHUP, hangup);
  signal(SIGINT, interrupt);
}

}  // namespace cowprof
