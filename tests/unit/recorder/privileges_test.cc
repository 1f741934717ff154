// What the recorder can't do any more once it gave up its rights, and what it still can: each thing is tried in a
// child.
#include "recorder/privileges.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>

#include "fixture_tree.h"
#include "posix/open_in_root.h"
#include "posix/rights.h"
#include "skip.h"

namespace cowprof {
namespace {

// Exit status of a child that gives up its rights and then returns `body()`.
int Afterwards(int (*body)(), const Signalled& signalled = {}) {
  const pid_t pid = fork();
  if (pid == 0) {
    GiveUpPrivileges(signalled);
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 200 + WTERMSIG(status);
}

int Refused(long result) { return result == -1 && (errno == ENOSYS || errno == EPERM) ? 0 : 1; }
int Filtered(long result) { return result == -1 && errno == ENOSYS ? 0 : 1; }  // by the filter, before rights are asked
int Works(long result) { return result >= 0 ? 0 : 1; }

struct Case {
  const char* what;
  int (*tried)();
};

}  // namespace

#ifndef __SANITIZE_ADDRESS__
TEST_CASE("what a recorder can't do after the attach") {
  const Case row = GENERATE(
      Case{"write a file", [] { return Refused(open("/dev/null", O_WRONLY)); }},
      Case{"read and write a file", [] { return Refused(open("/dev/null", O_RDWR)); }},
      Case{"create a file", [] { return Refused(open("/tmp/cowprof-never", O_RDONLY | O_CREAT, 0600)); }},
      Case{"truncate a file", [] { return Refused(open("/dev/null", O_RDONLY | O_TRUNC)); }},
      Case{"open by a pointer", [] { return Refused(syscall(SYS_openat2, AT_FDCWD, "/dev/null", nullptr, 24)); }},
      Case{"remove", [] { return Refused(unlink("/tmp/cowprof-never")); }},
      Case{"rename", [] { return Refused(rename("/tmp/cowprof-never", "/tmp/cowprof-ever")); }},
      Case{"link", [] { return Refused(link("/dev/null", "/tmp/cowprof-never")); }},
      Case{"change rights", [] { return Refused(chmod("/dev/null", 0666)); }},
      Case{"mount", [] { return Refused(mount("none", "/tmp", "tmpfs", 0, nullptr)); }},
      Case{"another namespace", [] { return Refused(syscall(SYS_unshare, 0)); }},
      Case{"execute", [] { return Refused(execl("/bin/true", "true", nullptr)); }},
      Case{"fork", [] { return Refused(fork()); }},
      Case{"socket", [] { return Refused(socket(AF_UNIX, SOCK_STREAM, 0)); }},
      Case{"trace", [] { return Refused(ptrace(PTRACE_TRACEME, 0, nullptr, nullptr)); }},
      Case{"write another's memory",
           [] { return Refused(syscall(SYS_process_vm_writev, getpid(), nullptr, 0, nullptr, 0, 0)); }},
      Case{"become root again", [] { return Refused(setresuid(0, 0, 0)); }},
      Case{"load a BPF program", [] { return Refused(syscall(SYS_bpf, 5, nullptr, 0)); }},
      Case{"type into the terminal", [] { return Refused(ioctl(0, TIOCSTI, "x")); }},
      Case{"show its memory", [] { return Refused(prctl(PR_SET_DUMPABLE, 1)); }},
      Case{"set a limit",
           [] {
             const rlimit none = {0, 0};
             return Refused(setrlimit(RLIMIT_CORE, &none));
           }},
      Case{"executable memory", [] {
             void* const made = mmap(nullptr, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
             return Refused(made == MAP_FAILED ? -1 : 0);
           }});
  INFO(row.what);
  CHECK(Afterwards(row.tried) == 0);
}

// As `cowprof -- CMD` has it, with CAP_KILL where root calls it. Signal 0 only asks.
TEST_CASE("a recorder signals the program that it started, the page's server and itself, nobody else") {
  const Signalled signalled = {.program = getpid(), .page_server = 1};
  const Case allowed = GENERATE(Case{"the program", [] { return Works(kill(getppid(), 0)); }},
                                Case{"the server", [] { return kill(1, 0) == 0 || errno == EPERM ? 0 : 1; }},
                                Case{"itself", [] { return Works(kill(getpid(), 0)); }},
                                Case{"its thread", [] { return Works(tgkill(getpid(), gettid(), 0)); }});
  INFO(allowed.what);
  CHECK(Afterwards(allowed.tried, signalled) == 0);
  const Case refused = GENERATE(Case{"another one", [] { return Filtered(kill(getppid() + 1, 0)); }},
                                Case{"all", [] { return Filtered(kill(-1, 0)); }},
                                Case{"its group", [] { return Filtered(kill(0, 0)); }},
                                Case{"another's thread", [] { return Filtered(tgkill(getppid(), getppid(), 0)); }},
                                Case{"by a descriptor", [] { return Filtered(fcntl(0, F_SETOWN, getppid())); }});
  INFO(refused.what);
  CHECK(Afterwards(refused.tried, signalled) == 0);
}
#endif

TEST_CASE("what it still can") {
  const Case row = GENERATE(Case{"read a file", [] { return Works(open("/proc/self/status", O_RDONLY | O_CLOEXEC)); }},
                            Case{"read a folder", [] { return Works(open("/proc", O_PATH | O_DIRECTORY)); }},
                            Case{"write what stands open", [] { return Works(write(STDERR_FILENO, "", 0)); }},
                            Case{"stop itself", [] { return Works(kill(getpid(), 0)); }},
                            Case{"end with its parent", [] { return Works(prctl(PR_SET_PDEATHSIG, SIGKILL)); }},
                            Case{"read its limits", [] {
                                   rlimit limit;
                                   return Works(getrlimit(RLIMIT_NOFILE, &limit));
                                 }});
  INFO(row.what);
  CHECK(Afterwards(row.tried) == 0);
}

TEST_CASE("root becomes nobody, or who called sudo") {
  if (LacksRoot()) return;
  CHECK(Afterwards([] { return getuid() == 65534 && getegid() == 65534 ? 0 : 1; }) == 0);
  setenv("SUDO_UID", "4321", 1);
  setenv("SUDO_GID", "1234", 1);
  CHECK(Afterwards([] { return getuid() == 4321 && getegid() == 1234 ? 0 : 1; }) == 0);
  setenv("SUDO_UID", "0", 1);  // root called sudo: no lesser user than nobody
  CHECK(Afterwards([] { return getuid() == 65534 ? 0 : 1; }) == 0);
  unsetenv("SUDO_UID");
  unsetenv("SUDO_GID");
}

TEST_CASE("links in another root stay in it") {
  FixtureTree tree;
  const std::string root = tree.root() + "/top";
  tree.Write("/top/run/shm/in", "");
  tree.Write("/out/shm/out", "");
  tree.Write("/top/dev/x", "");
  const auto has = [&](const char* path, const char* file) {
    const Fd folder = OpenFolderInRoot(root, path);
    return folder.ok() && faccessat(folder.fd(), file, F_OK, 0) == 0;
  };
  tree.Link("/top/dev/absolute", "/run/shm");
  tree.Link("/top/dev/relative", "../run/./shm");
  tree.Link("/top/dev/above", "../../../../../../run/shm");
  tree.Link("/top/dev/twice", "absolute/../shm");
  for (const char* path : {"run/shm", "dev/absolute", "dev/relative", "dev/above", "dev/twice"}) {
    INFO(path);
    CHECK(has(path, "in"));
  }
  tree.Link("/top/dev/outside", "../../out/shm");
  tree.Link("/top/dev/loop", "loop");
  for (const char* path : {"dev/outside", "dev/loop", "dev/none", "dev/x", "dev/x/y"}) {
    INFO(path);
    CHECK_FALSE(OpenFolderInRoot(root, path).ok());
  }
  CHECK_FALSE(OpenFolderInRoot(root + "/none", "run").ok());
}

}  // namespace cowprof
