#include "cli/record_in_child.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "posix/exit_status.h"

namespace cowprof {
namespace {

volatile pid_t recorder = 0;  // for the signal handler
void PassOn(int signal) {
  if (recorder > 0) kill(recorder, signal);
}

}  // namespace

int RecordInChild(const RecordOptions& options, const std::vector<std::pair<std::string, std::string>>& environment) {
  std::fflush(nullptr);
  struct sigaction pass_on = {}, interrupt, terminate;
  pass_on.sa_handler = PassOn;
  const pid_t pid = fork();
  if (pid < 0) return Fail(kInternalFailure, absl::StrCat("fork: ", strerror(errno)));
  if (pid == 0) {
    for (const int number : {SIGINT, SIGTERM}) signal(number, SIG_DFL);  // until it has handlers of its own
    for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
    _exit(RunRecording(options));
  }
  recorder = pid;
  // Ctrl-C at a terminal reaches the recorder, too: wait for it.
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &interrupt);
  sigaction(SIGTERM, &pass_on, &terminate);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  recorder = 0;
  sigaction(SIGINT, &interrupt, nullptr);
  sigaction(SIGTERM, &terminate, nullptr);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace cowprof
