// What a command returns whose output can't be written.
#include "posix/exit_status.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>

#include "fixture_tree.h"
#include "network_disk.h"
#include "posix/fd.h"

namespace cowprof {
namespace {

// The status of a process that prints `texts` to `file`.
int StatusOfPrinting(const char* file, std::initializer_list<const char*> texts) {
  const pid_t pid = fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    dup2(open(file, O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
    int status = kDone;
    for (const char* text : texts) status = PrintToStdout(text);
    _exit(status);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("what can't be printed on stdout is status 6, also where only the first part can't") {
  CHECK(StatusOfPrinting("/dev/null", {"text"}) == kDone);
  CHECK(StatusOfPrinting("/dev/full", {"text"}) == kCannotWrite);
  CHECK(StatusOfPrinting("/dev/full", {"text", ""}) == kCannotWrite);
}

TEST_CASE("what a network file system lost of stdout is status 6") {
  FixtureTree tree;
  NetworkDisk disk(tree.root());
  if (disk.IsLacking()) return;
  const std::string path = tree.root() + "/out";
  REQUIRE(Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)).ok());
  CHECK(StatusOfPrinting(path.c_str(), {"text"}) == kDone);
  disk.FailAtClose(EDQUOT);
  CHECK(StatusOfPrinting(path.c_str(), {"text"}) == kCannotWrite);
}

}  // namespace cowprof
