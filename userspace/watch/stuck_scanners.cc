#include "watch/stuck_scanners.h"

#include <signal.h>
#include <sys/wait.h>

#include <cerrno>

namespace cowprof {

void StuckScanners::Add(pid_t scanner, pid_t target) {
  kill(scanner, SIGKILL);  // which may not be allowed, or have no effect before the read returns
  scanners_.push_back(scanner);
  targets_.push_back(target);
}

void StuckScanners::Tidy() {
  std::erase_if(scanners_, [](pid_t scanner) { return waitpid(scanner, nullptr, WNOHANG) == scanner; });
  std::erase_if(targets_, [](pid_t target) { return kill(target, 0) != 0 && errno == ESRCH; });
}

}  // namespace cowprof
