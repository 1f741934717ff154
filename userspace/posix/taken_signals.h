// Which signals a long-running command takes instead of being ended by them.
#ifndef COWPROF_POSIX_TAKEN_SIGNALS_H_
#define COWPROF_POSIX_TAKEN_SIGNALS_H_

#include <signal.h>

#include <initializer_list>

namespace cowprof {

// Respects `nohup`: a SIGHUP that is ignored stays so, which blocking it would change. But takes an ignored SIGINT:
// shells make background jobs ignore it.
inline sigset_t TakenSignals(std::initializer_list<int> wanted) {
  sigset_t taken;
  sigemptyset(&taken);
  for (const int signal : wanted) sigaddset(&taken, signal);
  struct sigaction hangup;
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN) sigdelset(&taken, SIGHUP);
  return taken;
}

}  // namespace cowprof

#endif  // COWPROF_POSIX_TAKEN_SIGNALS_H_
