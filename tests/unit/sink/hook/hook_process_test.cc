// The process that runs hooks: what comes through to the hook, as whom it runs, and that it lives no longer than it
// should. What a hook may do wrong is in alert_hook_test.cc.
#include "sink/hook/hook_process.h"

#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "fixture_tree.h"
#include "json_schema.h"
#include "posix/clock.h"
#include "posix/fd.h"
#include "posix/rights.h"
#include "recorder/privileges.h"
#include "skip.h"

namespace cowprof {
namespace {

class Setting {
 public:
  explicit Setting(const std::string& script) {
    tree_.Write("/hook", absl::StrCat("#!/bin/sh\ncd ", tree_.root(), "\n", script, "\n"));
    REQUIRE(chmod((tree_.root() + "/hook").c_str(), 0755) == 0);
    REQUIRE(chmod(tree_.root().c_str(), 0755) == 0);
    model_.info.target.pid = 77;
  }
  absl::StatusOr<std::unique_ptr<HookProcess>> Start(const std::string& words = "", absl::Duration time = kLong) {
    sigset_t none;
    sigemptyset(&none);
    return HookProcess::Start(absl::StrCat(tree_.root(), "/hook", words), none,
                              [this](const std::string& what) { said_.push_back(what); }, {.time = time, .gap = {}});
  }
  Alert AlertOf(const std::string& text, bool over = false) const {
    return {.rule = AlertRule::kEta, .over = over, .kind = LimitKind::kShm, .text = text};
  }
  void Await(const std::string& file) const {
    for (const absl::Duration end = BootTime() + kLong; !Has(file); absl::SleepFor(absl::Milliseconds(5)))
      REQUIRE(BootTime() < end);
  }
  bool Has(const std::string& file) const { return access((tree_.root() + file).c_str(), F_OK) == 0; }
  std::string Read(const std::string& file) const { return ReadWhole(tree_.root() + file); }
  const RunModel& model() const { return model_; }
  std::string said() const { return absl::StrJoin(said_, "\n"); }
  const std::string& root() const { return tree_.root(); }

 private:
  static constexpr absl::Duration kLong = absl::Seconds(20);
  FixtureTree tree_;
  RunModel model_;
  std::vector<std::string> said_;
};

// As sudo says it.
class InvokedBy {
 public:
  explicit InvokedBy(uid_t uid) {
    setenv("SUDO_UID", absl::StrCat(uid).c_str(), 1);
    setenv("SUDO_GID", absl::StrCat(uid).c_str(), 1);
  }
  ~InvokedBy() {
    unsetenv("SUDO_UID");
    unsetenv("SUDO_GID");
    unsetenv("SUDO_USER");
  }
};

}  // namespace

TEST_CASE("the hook process passes an alert on, and nothing for one that is over") {
  Setting setting("cat >> json; echo \"$COWPROF_ALERT_TEXT\" >> texts");
  auto hook = setting.Start();
  REQUIRE(hook.ok());
  const std::string odd = "`touch evil` $(touch evil) \"' ;";
  (*hook)->Take({setting.AlertOf("over", true), setting.AlertOf(odd), setting.AlertOf("two")}, setting.model());
  (*hook)->Finish();
  CHECK(setting.Read("/texts") == odd + "\ntwo\n");
  CHECK(absl::StrContains(setting.Read("/json"), "\"pid\":77"));
  CHECK_FALSE(setting.Has("/evil"));
  CHECK(setting.said() == "");
}

TEST_CASE("a recorder that somebody took over chooses values, and no name of a variable") {
  Setting setting("echo \"${EVIL-unset} ${COWPROF_EVIL-unset} $COWPROF_ALERT_RULE\" > out; mv out done");
  const int socket = dup(STDERR_FILENO);  // where the recorder's end will be
  close(socket);
  auto hook = setting.Start();
  REQUIRE(hook.ok());
  std::string packet("{}\0EVIL=1\0COWPROF_EVIL=1\0", 25);
  for (int i = 0; i < 20; ++i) packet += std::string("EVIL=1\0", 7);
  REQUIRE(send(socket, packet.data(), packet.size(), 0) == static_cast<ssize_t>(packet.size()));
  setting.Await("/done");
  CHECK(setting.Read("/done") == "unset unset EVIL=1\n");
}

TEST_CASE("neither the hook nor its process keeps a descriptor that cowprof was started with") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const Fd reading(ends[0]);
  Fd writing(ends[1]);
  Setting setting("ls /proc/self/fd > out; mv out done");
  auto hook = setting.Start();
  REQUIRE(hook.ok());
  writing.Close();
  pollfd end = {reading.fd(), 0, 0};  // POLLHUP comes unasked
  CHECK(poll(&end, 1, 0) == 1);
  (*hook)->Take({setting.AlertOf("text")}, setting.model());
  setting.Await("/done");
  CHECK(setting.Read("/done") == "0\n1\n2\n3\n");  // 3: the folder that ls reads
}

TEST_CASE("the hook process refuses at its start what must not run") {
  Setting setting("true");
  CHECK(absl::StrContains(setting.Start(" 'x").status().message(), "missing closing '"));
  REQUIRE(chmod((setting.root() + "/hook").c_str(), 0777) == 0);
  CHECK(absl::StrContains(setting.Start().status().message(), "not safe to run"));
}

TEST_CASE("what a hook did wrong is said by the recorder") {
  Setting setting("exit 3");
  auto hook = setting.Start();
  REQUIRE(hook.ok());
  (*hook)->Take({setting.AlertOf("one")}, setting.model());
  (*hook)->Finish();
  CHECK(absl::StrContains(setting.said(), "ended with status 3"));
}

TEST_CASE("an alert that can't be passed on is counted") {
  const size_t bytes = GENERATE(70'000, 10'000'000);  // more than the process reads, and than a socket takes
  Setting setting("echo \"$COWPROF_ALERT_TEXT\" >> texts");
  auto hook = setting.Start();
  REQUIRE(hook.ok());
  (*hook)->Take({setting.AlertOf(std::string(bytes, 'x')), setting.AlertOf("short")}, setting.model());
  (*hook)->Finish();
  CHECK(setting.Read("/texts") == "short\n");
  CHECK(absl::StrContains(setting.said(), "was not run for 1 alert:"));
}

TEST_CASE("no tick waits for a hook, and a hook that hangs ends with the recording") {
  Setting setting("echo > started; exec sleep 100");
  auto hook = setting.Start("", absl::Seconds(1));
  REQUIRE(hook.ok());
  const absl::Duration began = BootTime();
  for (int i = 0; i < 5000; ++i) (*hook)->Take({setting.AlertOf(std::string(300, 'x'))}, setting.model());
  CHECK(BootTime() - began < absl::Seconds(10));
  setting.Await("/started");
  const absl::Duration end = BootTime();
  SECTION("orderly") {
    (*hook)->Finish();
    CHECK(absl::StrContains(setting.said(), "killed"));
  }
  SECTION("at once") { hook->reset(); }
  CHECK(BootTime() - end < absl::Seconds(10));
}

// As sudo(8) does it: a setuid copy of setpriv(1) that the hook becomes.
TEST_CASE("a hook that became another user is given up, and said to be") {
  if (LacksRoot()) return;
  const InvokedBy user(4321);
  const auto [words, says] = GENERATE(table<std::string, std::string>(
      {{"exec ./setpriv --reuid 0 sleep 60", "can't be killed: it became another user"},
       {"./setpriv --reuid 0 sleep 60; exit 1", "was killed, except what became another user"}}));
  Setting setting("echo $$ > pid; mv pid started; " + words);
  const std::string setuid = setting.root() + "/setpriv";
  std::filesystem::copy_file("/usr/bin/setpriv", setuid);
  REQUIRE(chmod(setuid.c_str(), 04755) == 0);
  REQUIRE(chown(setting.root().c_str(), 4321, 4321) == 0);
  auto hook = setting.Start("", absl::Seconds(2));
  REQUIRE(hook.ok());
  (*hook)->Take({setting.AlertOf("text")}, setting.model());
  setting.Await("/started");
  const absl::Duration end = BootTime();
  (*hook)->Finish();
  hook->reset();
  CHECK(BootTime() - end < absl::Seconds(10));
  CHECK(absl::StrContains(setting.said(), says));
  const pid_t group = atoi(setting.Read("/started").c_str());
  REQUIRE(group > 1);
  CHECK(kill(-group, SIGKILL) == 0);  // it lives
}

// As capabilities of cowprof's file would: what is in a folder that is not its user's is not told.
TEST_CASE("a hook is looked for with its user's rights, without capabilities") {
  if (LacksRoot()) return;
  Setting setting("grep CapPrm /proc/self/status > out; mv out done");
  REQUIRE(mkdir((setting.root() + "/hidden").c_str(), 0700) == 0);
  std::filesystem::copy_file(setting.root() + "/hook", setting.root() + "/hidden/hook");
  REQUIRE(chown(setting.root().c_str(), 4321, 4321) == 0);
  const auto start = [&](const std::string& path) -> std::string {  // as a user with capabilities
    prctl(PR_SET_KEEPCAPS, 1);
    if (setresuid(4321, 4321, 4321) != 0 || !SetEffective(SetOf({CAP_DAC_READ_SEARCH})).ok()) return "failed";
    sigset_t none;
    sigemptyset(&none);
    auto hook = HookProcess::Start(setting.root() + path, none, [](const std::string&) {});
    if (!hook.ok()) return std::string(hook.status().message());
    (*hook)->Take({setting.AlertOf("text")}, setting.model());
    (*hook)->Finish();
    return "";
  };
  const auto [path, expected] = GENERATE(table<std::string, std::string>(
      {{"/hidden/hook", "user 4321 may not see"}, {"/hidden/none", "user 4321 may not see"}, {"/hook", ""}}));
  const pid_t pid = fork();
  if (pid == 0) {
    const std::string said = start(path);
    _exit(absl::StartsWith(said, expected) && said.empty() == expected.empty() ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  INFO(path);
  CHECK(status == 0);
  if (path == "/hook") CHECK(setting.Read("/done") == "CapPrm:\t0000000000000000\n");
}

// Otherwise root would run what that user can change.
TEST_CASE("where root can't become who called sudo, only root's files are run") {
  if (LacksRoot()) return;
  const InvokedBy user(4321);
  const bool theirs = GENERATE(true, false);
  Setting setting("true");
  if (theirs) REQUIRE(chown((setting.root() + "/hook").c_str(), 4321, 4321) == 0);
  const pid_t pid = fork();
  if (pid == 0) {
    if (!KeepCapabilities(0).ok()) _exit(3);
    const auto hook = setting.Start();
    _exit(hook.ok() ? 0 : absl::StrContains(hook.status().message(), "belongs to user 4321") ? 1 : 2);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == (theirs ? 1 : 0));
}

// As from a shell of `sudo -i`, in which the hook's folder can be read.
TEST_CASE("a hook that who called sudo may not see is not said to be missing") {
  if (LacksRoot()) return;
  const InvokedBy user(4321);
  Setting setting("true");
  REQUIRE(chmod(setting.root().c_str(), 0700) == 0);
  CHECK(setting.Start().status().message() == absl::StrCat("user 4321, who called sudo and runs the hook, may not see ",
                                                           setting.root(), "/hook; put it where that user may"));
  const std::string path = getenv("PATH");
  setenv("PATH", setting.root().c_str(), 1);
  sigset_t none;
  sigemptyset(&none);
  const auto by_name = HookProcess::Start("hook", none, [](const std::string&) {});
  setenv("PATH", path.c_str(), 1);
  CHECK(by_name.status().message() ==
        "user 4321, who called sudo and runs the hook, finds no program 'hook'; give its full path");
}

TEST_CASE("a hook of who called sudo finds that user's home and name") {
  if (LacksRoot()) return;
  const uid_t uid = GENERATE(1, 4321);  // the latter as of a directory service: not in /etc/passwd
  const bool named = GENERATE(true, false);
  const InvokedBy user(uid);
  if (named) setenv("SUDO_USER", "somebody", 1);
  const passwd* const entry = getpwuid(uid);
  const std::string expected = entry != nullptr
                                   ? absl::StrCat(entry->pw_dir, " ", entry->pw_name, " ", entry->pw_name, "\n")
                               : named ? "none somebody somebody\n"
                                       : "none none none\n";
  Setting setting("echo ${HOME-none} ${USER-none} ${LOGNAME-none} > out; mv out done");
  REQUIRE(chown(setting.root().c_str(), uid, uid) == 0);
  auto hook = setting.Start();
  REQUIRE(hook.ok());
  (*hook)->Take({setting.AlertOf("text")}, setting.model());
  (*hook)->Finish();
  CHECK(setting.Read("/done") == expected);
}

TEST_CASE("a hook is run as who called sudo, with what a hook may do, whatever the recorder gave up") {
  if (LacksRoot()) return;
  Setting setting("id -u > out; grep -E 'CapEff|NoNewPrivs|Seccomp:' /proc/self/status >> out; echo > done");
  const bool sudo = GENERATE(true, false);
  std::optional<InvokedBy> user;
  if (sudo) {
    user.emplace(4321);
    REQUIRE(chown(setting.root().c_str(), 4321, 4321) == 0);
  }
  // In a child: giving up is for good.
  const pid_t pid = fork();
  if (pid == 0) {
    auto hook = setting.Start();
    if (!hook.ok()) _exit(1);
    GiveUpPrivileges({});
    (*hook)->Take({setting.AlertOf("text")}, setting.model());
    (*hook)->Finish();
    _exit(setting.said().empty() ? 0 : 2);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  CHECK(status == 0);
  setting.Await("/done");
  const std::string out = setting.Read("/out");
  INFO(out);
  CHECK(absl::StartsWith(out, sudo ? "4321\n" : "0\n"));
  CHECK(absl::StrContains(out, "CapEff:\t0000000000000000\n") == sudo);
  CHECK(absl::StrContains(out, "NoNewPrivs:\t0\n"));
  CHECK(absl::StrContains(out, "Seccomp:\t0\n"));
}

}  // namespace cowprof
