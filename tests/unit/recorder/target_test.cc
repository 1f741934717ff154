// Which processes can't be recorded, and which programs can't be started.
#include "recorder/target.h"

#include <sched.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "fixture_tree.h"
#include "posix/exit_status.h"
#include "skip.h"

namespace cowprof {

TEST_CASE("a program that can't be started is told by its name and PATH") {
  FixtureTree tree;
  const std::string root = tree.root(), path = getenv("PATH");
  tree.Write("/plain/tool", "");
  tree.Write("/good/tool", "");
  tree.Write("/plain/text", "");
  REQUIRE(chmod((root + "/plain/tool").c_str(), 0644) == 0);
  REQUIRE(chmod((root + "/plain/text").c_str(), 0644) == 0);
  REQUIRE(chmod((root + "/good/tool").c_str(), 0755) == 0);
  REQUIRE(setenv("PATH", (root + "/nowhere:" + root + "/plain:" + root + "/good").c_str(), 1) == 0);
  CHECK(CheckProgram("tool").ok());
  CHECK(CheckProgram("text").code() == absl::StatusCode::kPermissionDenied);
  CHECK(CheckProgram("typo").code() == absl::StatusCode::kNotFound);
  CHECK(CheckProgram("typo").message() == "start typo: No such file or directory");
  CHECK(CheckProgram(root + "/good/tool").ok());
  CHECK(CheckProgram(root + "/plain/tool").code() == absl::StatusCode::kPermissionDenied);
  CHECK(CheckProgram("./typo").code() == absl::StatusCode::kNotFound);
  CHECK(CheckProgram(root + "/good/tool/below").ok());  // another error: the exec says which
  REQUIRE(setenv("PATH", path.c_str(), 1) == 0);
}

// As the C library does where cowprof's file has capabilities: tests/system/test_privileges.py runs that.
TEST_CASE("live: a variable that was removed since this process started is found, and only then") {
  const std::string path = getenv("PATH");
  const auto removed = [&] {
    const std::vector<char*> found = RemovedVariables();
    return std::count(found.begin(), found.end(), "PATH=" + path);
  };
  CHECK(removed() == 0);
  unsetenv("PATH");
  CHECK(removed() == 1);
  setenv("PATH", "another", 1);
  CHECK(removed() == 0);
  REQUIRE(setenv("PATH", path.c_str(), 1) == 0);
}

TEST_CASE("live: the number of a thread is refused with that of its process") {
  const auto gettid = [] { return static_cast<pid_t>(syscall(SYS_gettid)); };
  CHECK(CheckTarget(ProcFs(), getpid()).ok());
  absl::Status refused;
  pid_t thread = 0;
  std::thread([&] {
    thread = gettid();
    refused = CheckTarget(ProcFs(), thread);
  }).join();
  CHECK(absl::IsNotFound(refused));
  CHECK(absl::StrContains(refused.message(), absl::StrCat(thread, " is a thread of process ", getpid())));
}

TEST_CASE("on a kernel without page maps, a live process fails with Unimplemented") {
  FixtureTree tree;
  tree.Write("/12/stat", "12 (x) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 8192 1 2 3\n");
  const absl::Status status = CheckTarget(ProcFs(tree.root()), 12);
  CHECK(absl::StrContains(status.message(), "this kernel has no page maps"));
  CHECK(FailOnTarget(status) == kHostCannot);
  tree.Write("/self/pagemap", "");
  CHECK(FailOnTarget(CheckTarget(ProcFs(tree.root()), 12)) == kNoProcess);
}

TEST_CASE("live: all capabilities of another user namespace don't blame AppArmor or SELinux") {
  int said[2];
  REQUIRE(pipe(said) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(1);
    const std::string refused(CheckTarget(ProcFs(), getppid()).message());
    _exit(write(said[1], refused.data(), refused.size()) == static_cast<ssize_t>(refused.size()) ? 0 : 2);
  }
  close(said[1]);
  char text[1024];
  const ssize_t bytes = read(said[0], text, sizeof(text));
  close(said[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  if (Lacks("user namespaces", !WIFEXITED(status) || WEXITSTATUS(status) != 1, "unshare() fails")) return;
  REQUIRE((status == 0 && bytes > 0));
  const std::string refused(text, bytes);
  CHECK(absl::StrContains(refused, "its own user namespace only: run cowprof as root on the host"));
  CHECK_FALSE(absl::StrContains(refused, "SELinux"));
}

TEST_CASE("the remedy against Yama is one that helps") {
  FixtureTree tree;
  tree.Link("/12/mem", "mem");  // an error, also for root
  const auto note = [&](const char* scope) {
    tree.Write("/sys/kernel/yama/ptrace_scope", scope);
    return NoteOnTarget(ProcFs(tree.root()), 12);
  };
  CHECK(absl::StrContains(
      note("3\n"),
      "(kernel.yama.ptrace_scope is 3): no process may read another's memory until the host is rebooted with a lower one"));
  CHECK_FALSE(absl::StrContains(note("0\n"), "yama"));
  if (geteuid() != 0) {
    CHECK(absl::StrContains(note("1\n"), "is 1): start it with `cowprof -- COMMAND`, or run cowprof with sudo;"));
    CHECK(absl::StrContains(note("2\n"), "is 2): run cowprof with sudo;"));
  }
}

}  // namespace cowprof
