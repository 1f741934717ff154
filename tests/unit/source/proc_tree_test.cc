// Following a tree of real processes through /proc: which come, which end, and how.
#include "source/proc_tree.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "child.h"
#include "fixture_tree.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

// A process with one child, which it forks and ends on command.
class Family {
 public:
  Family() {
    REQUIRE(pipe(words_) == 0);
    REQUIRE(pipe(answers_) == 0);
    parent_ = fork();
    if (parent_ == 0) Run();
  }
  ~Family() {
    kill(parent_, SIGKILL);
    waitpid(parent_, nullptr, 0);
    for (const int fd : {words_[0], words_[1], answers_[0], answers_[1]}) close(fd);
  }
  pid_t parent() const { return parent_; }
  // 'f' forks a child, 'x' one that calls exec, 'k' kills it, 'w' waits for it, 'e' makes it exit with status 3.
  // Returns the child's pid.
  pid_t Tell(char word) {
    pid_t child = 0;
    REQUIRE(write(words_[1], &word, 1) == 1);
    REQUIRE(read(answers_[0], &child, sizeof(child)) == sizeof(child));
    return child;
  }

 private:
  [[noreturn]] void Run() {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    int ends[2];
    pid_t child = 0;
    char word;
    while (read(words_[0], &word, 1) == 1) {
      if (word == 'f' && pipe(ends) == 0 && (child = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(read(ends[0], &word, 1) == 1 ? 3 : 4);
      }
      if (word == 'k') kill(child, SIGKILL);
      if (word == 'e' && write(ends[1], "e", 1) != 1) _exit(1);
      if (word == 'x' && (child = fork()) == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sleep", "sleep", "1000", nullptr);
        _exit(1);
      }
      siginfo_t info;
      if (word == 'k' || word == 'e') waitid(P_PID, child, &info, WEXITED | WNOWAIT);
      if (word == 'w') waitpid(child, nullptr, 0);
      if (write(answers_[1], &child, sizeof(child)) != sizeof(child)) _exit(1);
    }
    _exit(0);
  }

  int words_[2], answers_[2];
  pid_t parent_;
};

std::optional<TreeMember> Find(const std::vector<TreeMember>& members, pid_t pid) {
  const auto found = absl::c_find_if(members, [&](const TreeMember& member) { return member.id.pid == pid; });
  return found == members.end() ? std::nullopt : std::optional<TreeMember>(*found);
}

// For as long as it lives, this process can open nothing.
class NoDescriptors {
 public:
  NoDescriptors() {
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before_) == 0);
    const rlimit none = {.rlim_cur = 3, .rlim_max = before_.rlim_max};
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_;
};

bool IsReadable(int fd) {
  pollfd one = {fd, POLLIN, 0};
  return poll(&one, 1, 0) == 1;
}

}  // namespace

TEST_CASE("a forked child is found with its parent and distinguished from an existing one") {
  Family family;
  const pid_t old_child = family.Tell('f');
  ProcTree tree((ProcFs()));
  REQUIRE(tree.Follow(family.parent()).ok());
  const pid_t new_child = family.Tell('f');
  const std::vector<TreeMember> members = tree.Look();
  REQUIRE(members.size() == 3);
  CHECK(Find(members, family.parent())->origin == Origin::kTarget);
  CHECK(Find(members, old_child)->origin == Origin::kFoundAtAttach);
  CHECK(Find(members, new_child)->origin == Origin::kForked);
  CHECK(Find(members, new_child)->parent.pid == family.parent());
  const absl::Duration deadline = BootTime() + absl::Seconds(10);  // it may not have run yet
  while (Find(tree.Look(), new_child)->faults == 0) REQUIRE(BootTime() < deadline);
  CHECK(tree.Look().size() == 3);
  kill(old_child, SIGKILL);
  kill(new_child, SIGKILL);
}

TEST_CASE("cowprof is not part of the tree of a target that started it") {
  ProcTree tree((ProcFs()));
  REQUIRE(tree.Follow(getppid()).ok());
  const std::vector<TreeMember> members = tree.Look();
  CHECK(Find(members, getppid()));
  CHECK_FALSE(Find(members, getpid()));
}

TEST_CASE("an exec before the first look at a child is reported, once") {
  Family family;
  ProcTree tree((ProcFs()));
  REQUIRE(tree.Follow(family.parent()).ok());
  const pid_t worker = family.Tell('f'), other = family.Tell('x');
  const absl::Duration deadline = BootTime() + absl::Seconds(10);
  // Wait until it sleeps: during exec PF_FORKNOEXEC is cleared before the stack is at its final place.
  for (ProcStat stat; (stat = ProcFs().ReadStat(other).value()).flags & 0x40 || stat.state != 'S';)
    REQUIRE(BootTime() < deadline);
  const std::vector<TreeMember> members = tree.Look();
  CHECK_FALSE(Find(members, worker)->execed);
  CHECK(Find(members, other)->execed);
  CHECK_FALSE(Find(tree.Look(), other)->execed);
  kill(worker, SIGKILL);
  kill(other, SIGKILL);
}

TEST_CASE("a zombie's exit status is reported once, and its end wakes the caller") {
  Family family;
  ProcTree tree((ProcFs()));
  REQUIRE(tree.Follow(family.parent()).ok());
  const pid_t child = family.Tell('f');
  CHECK_FALSE(Find(tree.Look(), child)->ended);
  CHECK_FALSE(IsReadable(tree.wake_fd()));
  family.Tell('e');
  CHECK(IsReadable(tree.wake_fd()));
  const std::optional<TreeMember> ended = Find(tree.Look(), child);
  REQUIRE(ended);
  CHECK(ended->ended);
  CHECK(ended->exit_status == 3 << 8);
  CHECK_FALSE(IsReadable(tree.wake_fd()));
  CHECK(tree.Look().size() == 1);
}

TEST_CASE("the ends of workers are told apart from those of commands") {
  Family family;
  ProcTree tree((ProcFs()));
  REQUIRE(tree.Follow(family.parent()).ok());
  const pid_t command = family.Tell('x');
  const absl::Duration deadline = BootTime() + absl::Seconds(10);
  while (ProcFs().ReadStat(command).value().has_not_execed()) REQUIRE(BootTime() < deadline);
  for (int look = 0; look < 2; ++look) tree.Look();
  family.Tell('k');
  if (!IsReadable(tree.wake_fd())) return;  // no pidfds, before Linux 5.3
  CHECK_FALSE(IsReadable(tree.worker_wake_fd()));
  family.Tell('f');
  for (int look = 0; look < 2; ++look) tree.Look();
  CHECK_FALSE(IsReadable(tree.worker_wake_fd()));
  family.Tell('e');
  CHECK(IsReadable(tree.worker_wake_fd()));
  tree.Look();
  CHECK_FALSE(IsReadable(tree.worker_wake_fd()));
}

TEST_CASE("the end of a reaped child is reported, with its status if the kernel keeps it") {
  Family family;
  ProcTree tree((ProcFs()));
  REQUIRE(tree.Follow(family.parent()).ok());
  const pid_t child = family.Tell('f');
  tree.Look();
  family.Tell('k');
  family.Tell('w');
  const std::optional<TreeMember> ended = Find(tree.Look(), child);
  REQUIRE(ended);
  CHECK(ended->ended);
  CHECK((!ended->exit_status || *ended->exit_status == SIGKILL));  // absent before Linux 6.15
}

TEST_CASE("a process that can't be read has not ended, unless its pidfd says so") {
  Family family;
  ProcTree tree((ProcFs()));
  REQUIRE(tree.Follow(family.parent()).ok());
  const pid_t child = family.Tell('f');
  const uint32_t serial = Find(tree.Look(), child)->serial;
  {
    const NoDescriptors none;
    REQUIRE_FALSE(ProcFs().ReadStat(child).ok());
    const std::vector<TreeMember> members = tree.Look();
    REQUIRE(members.size() == 2);
    CHECK_FALSE(Find(members, family.parent())->ended);
    CHECK_FALSE(Find(members, child)->ended);
    family.Tell('e');
    if (IsReadable(tree.wake_fd())) CHECK(Find(tree.Look(), child)->ended);  // without pidfds, before Linux 5.3, later
    tree.Look();
  }
  const std::vector<TreeMember> members = tree.Look();
  const std::optional<TreeMember> again = Find(members, child);
  CHECK((!again || again->serial == serial));  // its zombie is not a new process
}

TEST_CASE("a nonexistent process can't be followed") {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  waitpid(gone, nullptr, 0);
  ProcTree tree((ProcFs()));
  CHECK(absl::IsNotFound(tree.Follow(gone)));
}

TEST_CASE("a child of vfork has its parent's memory itself, and one of fork a copy of it") {
  const Child forked;
  CHECK_FALSE(HasMemoryOf(ProcFs(), getpid(), forked.pid()));
  const VforkedChild borrower;
  REQUIRE(borrower.pid() > 0);
  CHECK(HasMemoryOf(ProcFs(), getpid(), borrower.pid()));
}

TEST_CASE("a child whose figures of memory are not all its parent's, or not known, has its own") {
  FixtureTree tree;
  const std::string parent = "RssAnon:\t8308 kB\nRssFile:\t1388 kB\nRssShmem:\t4 kB\n";
  tree.Write("/7/status", parent);
  const auto has = [&](const std::string& status) {
    tree.Write("/8/status", status);
    return HasMemoryOf(ProcFs(tree.root()), 7, 8);
  };
  CHECK(has(parent));
  CHECK_FALSE(has("RssAnon:\t8304 kB\nRssFile:\t1388 kB\nRssShmem:\t4 kB\n"));
  CHECK_FALSE(has("RssAnon:\t8308 kB\nRssFile:\t352 kB\nRssShmem:\t4 kB\n"));
  CHECK_FALSE(has("RssAnon:\t8308 kB\nRssFile:\t1388 kB\n"));
  CHECK_FALSE(has("State:\tZ (zombie)\n"));
  tree.Write("/7/status", "State:\tZ (zombie)\n");
  CHECK_FALSE(has(parent));
  CHECK_FALSE(has("State:\tZ (zombie)\n"));
  CHECK_FALSE(HasMemoryOf(ProcFs(tree.root()), 7, 9));
}

}  // namespace cowprof
