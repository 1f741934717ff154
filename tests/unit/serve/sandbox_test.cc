// The serving process can't do what it does not need: tries each forbidden thing in a sandboxed child.
#include "serve/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

namespace cowprof {
namespace {

// Exit status of a child that enters the sandbox and then returns `body()`.
int InSandbox(int (*body)()) {
  const pid_t pid = fork();
  // Not _exit(): before it AddressSanitizer queries the signal stack, which the sandbox forbids.
  if (pid == 0) syscall(SYS_exit_group, EnterSandbox({65534, 65534}).ok() ? body() : 100);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

int Refused(long result) { return result == -1 && errno == EPERM ? 0 : 1; }

}  // namespace

TEST_CASE("what the sandbox forbids") {
  struct Case {
    const char* what;
    int (*tried)();
  };
  const Case row = GENERATE(
      Case{"open", [] { return Refused(open("/dev/null", O_RDONLY)); }},
      Case{"create", [] { return Refused(syscall(SYS_openat, AT_FDCWD, "/tmp/x", O_CREAT | O_WRONLY, 0600)); }},
      Case{"socket", [] { return Refused(socket(AF_INET, SOCK_STREAM, 0)); }},
      Case{"connect", [] { return Refused(syscall(SYS_connect, 0, nullptr, 0)); }},
      Case{"execute", [] { return Refused(execl("/bin/true", "true", nullptr)); }},
      Case{"fork", [] { return Refused(fork()); }},
      Case{"vfork", [] { return Refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)); }},
      Case{"trace", [] { return Refused(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
      Case{"kill", [] { return Refused(kill(getppid() > 0 ? 1 : 1, 0)); }},
      Case{"read another's memory",
           [] { return Refused(syscall(SYS_process_vm_readv, 1, nullptr, 0, nullptr, 0, 0)); }},
      Case{"change its user", [] { return Refused(setuid(0)); }},
      Case{"load a program", [] { return Refused(syscall(SYS_bpf, 0, nullptr, 0)); }},
      Case{"executable memory", [] {
             void* const made = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
             return Refused(made == MAP_FAILED ? -1 : 0);
           }});
  INFO(row.what);
  CHECK(InSandbox(row.tried) == 0);
}

TEST_CASE("what the sandbox allows") {
  CHECK(InSandbox([] {
          void* const made = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
          return made != MAP_FAILED && write(STDERR_FILENO, "", 0) == 0 ? 0 : 1;
        }) == 0);
}

}  // namespace cowprof
