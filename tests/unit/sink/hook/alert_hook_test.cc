// The hook: how its command line is split, who may have written it, and that one which hangs, dies, floods or ignores
// its input is ended in time and told once. Real processes; scripts are written beside the assertion.
#include "sink/hook/alert_hook.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "fixture_tree.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

using Words = std::vector<std::string>;

class Hook {
 public:
  // A shell script with these lines.
  explicit Hook(const std::string& script, const HookLimits& limits = {.time = absl::Seconds(20), .gap = {}}) {
    path_ = Script("/hook", script);
    sigset_t none;
    sigemptyset(&none);
    auto hook = AlertHook::Create(
        path_, none, [this](const std::string& what) { said_.push_back(what); }, limits);
    INFO(hook.status());
    REQUIRE(hook.ok());
    hook_ = *std::move(hook);
    model_.info.target.pid = 77;
    model_.processes.push_back({.index = 0, .id = {77, 1}});
    model_.processes.push_back({.index = 1, .id = {4711, 2}});
  }
  std::string Script(const std::string& name, const std::string& lines) const {
    tree_.Write(name, absl::StrCat("#!/bin/sh\ncd ", tree_.root(), "\n", lines, "\n"));
    REQUIRE(chmod((tree_.root() + name).c_str(), 0755) == 0);
    return tree_.root() + name;
  }
  void Raise() {
    Alert alert = {.t = absl::Seconds(3), .rule = AlertRule::kEta, .kind = LimitKind::kShm, .name = "/dev/shm"};
    alert.limit = 64;
    alert.used = 48;
    alert.eta = absl::Seconds(12.5);
    alert.index = 1;
    alert.cause = "shm";
    alert.text = "`touch evil`; $(touch evil)";
    alert.diagnosis = "shm-near-full";
    alert.headline = "/dev/shm was 75 % full at most.";
    alert.culprit = {.frame = {"/home/me/train.py", "$(f)", 12}};
    hook_->Take(HookRunFor(alert, model_));
  }
  void Await(const std::string& file) {
    for (const absl::Duration end = BootTime() + absl::Seconds(120);
         access((tree_.root() + file).c_str(), F_OK) != 0;) {
      REQUIRE(BootTime() < end);
      hook_->Poll();
      absl::SleepFor(absl::Milliseconds(5));
    }
  }
  std::string Read(const std::string& file) const {
    std::ifstream in(tree_.root() + file);
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  bool Has(const std::string& file) const { return access((tree_.root() + file).c_str(), F_OK) == 0; }
  AlertHook& hook() { return *hook_; }
  void Drop() { hook_.reset(); }
  std::string said() const { return absl::StrJoin(said_, "\n"); }
  const std::string& root() const { return tree_.root(); }

 private:
  FixtureTree tree_;
  std::string path_;
  Words said_;
  RunModel model_;
  std::unique_ptr<AlertHook> hook_;
};

}  // namespace

TEST_CASE("a command line is split as a shell splits it, and nothing is expanded") {
  const std::pair<std::string, Words> table[] = {
      {"a", {"a"}},
      {"  a \t b\nc ", {"a", "b", "c"}},
      {"a 'b c' d", {"a", "b c", "d"}},
      {"a \"b 'c'\" ''", {"a", "b 'c'", ""}},
      {"a'b'\"c\"d", {"abcd"}},
      {"a\\ b \\'", {"a b", "'"}},
      {"a \"\\\"\\\\\\n\"", {"a", "\"\\\\n"}},
      {"a '\\'", {"a", "\\"}},
      {"a $HOME `id` $(id) *;|&>x", {"a", "$HOME", "`id`", "$(id)", "*;|&>x"}},
      {"a \\", {"a", "\\"}},
  };
  for (const auto& [text, words] : table) {
    INFO(text);
    REQUIRE(SplitWords(text).ok());
    CHECK(*SplitWords(text) == words);
  }
  for (const char* text : {"", "  ", "''", "a 'b", "a \"b", "\"", "a \"\\\""}) {
    INFO(text);
    CHECK_FALSE(SplitWords(text).ok());
  }
}

TEST_CASE("a hook that others can change is refused, with what to do") {
  FixtureTree tree;
  tree.Write("/safe/hook", "#!/bin/sh\n");
  const std::string folder = tree.root() + "/safe", hook = folder + "/hook";
  REQUIRE(chmod(hook.c_str(), 0755) == 0);
  const auto check = [&] { return CheckHook({hook}, getuid()); };
  CHECK(check().ok());
  SECTION("a file for all") {
    REQUIRE(chmod(hook.c_str(), 0757) == 0);
    CHECK(absl::StrContains(check().status().message(), "chmod go-w"));
  }
  SECTION("its folder") {
    REQUIRE(chmod(folder.c_str(), 0777) == 0);
    CHECK(absl::StrContains(check().status().message(), "chmod go-w"));
    REQUIRE(chmod(folder.c_str(), 01777) == 0);
    CHECK(check().ok());
  }
  SECTION("a folder above") {
    REQUIRE(chmod(tree.root().c_str(), 0777) == 0);
    CHECK_FALSE(check().ok());
  }
  SECTION("by way of a link") {
    REQUIRE(chmod(folder.c_str(), 0777) == 0);
    tree.Link("/other/link", hook);
    CHECK_FALSE(CheckHook({tree.root() + "/other/link"}, getuid()).ok());
  }
  SECTION("a relative path becomes absolute, and keeps the name of the link") {
    tree.Link("/safe/link", hook);
    const std::string here = std::filesystem::current_path();
    REQUIRE(chdir(folder.c_str()) == 0);
    const auto found = CheckHook({"./link"}, getuid());
    REQUIRE(chdir(here.c_str()) == 0);
    REQUIRE(found.ok());
    CHECK(std::filesystem::path(*found).is_absolute());
    CHECK(absl::EndsWith(*found, "/link"));
  }
  SECTION("somebody else's") {
    if (geteuid() != 0) return;
    REQUIRE(chown(hook.c_str(), 12345, 12345) == 0);
    CHECK(absl::StrContains(check().status().message(), "chown"));
    CHECK(CheckHook({hook}, 12345).ok());
  }
  SECTION("a script that is given to its interpreter") {
    REQUIRE(chmod(hook.c_str(), 0666) == 0);
    CHECK_FALSE(CheckHook({"sh", hook}, getuid()).ok());
  }
  SECTION("not executable") {
    REQUIRE(chmod(hook.c_str(), 0644) == 0);
    CHECK(absl::StrContains(check().status().message(), "chmod +x"));
  }
  SECTION("missing, or a folder") {
    CHECK(absl::IsNotFound(CheckHook({hook + "2"}, getuid()).status()));
    CHECK(absl::IsNotFound(CheckHook({folder}, getuid()).status()));
    CHECK(absl::IsNotFound(CheckHook({"no-such-program-anywhere"}, getuid()).status()));
  }
}

TEST_CASE("a hook gets the alert as JSON and as variables, as data") {
  Hook hook("cat > json; env > env; mv env done");
  hook.Raise();
  hook.Await("/done");
  hook.hook().Finish();
  CHECK(hook.said() == "");
  const auto json = nlohmann::json::parse(hook.Read("/json"), nullptr, false);
  REQUIRE(json.is_object());
  CHECK(json.value("kind", "") == "shm");
  CHECK(json.value("pid", 0) == 77);
  CHECK(json.value("worker_pid", 0) == 4711);
  CHECK(json.value("eta_seconds", 0.0) == 12.5);
  CHECK(json.value("diagnosis", "") == "shm-near-full");
  CHECK(json["culprit"].value("function", "") == "$(f)");
  const std::string env = absl::StrCat("\n", hook.Read("/done"));
  for (const char* line :
       {"COWPROF_ALERT_KIND=shm", "COWPROF_ALERT_LIMIT=64", "COWPROF_ALERT_USED=48", "COWPROF_PID=77",
        "COWPROF_WORKER_PID=4711", "COWPROF_ALERT_ETA_SECONDS=12.5", "COWPROF_ALERT_CAUSE=shm",
        "COWPROF_ALERT_TEXT=`touch evil`; $(touch evil)", "COWPROF_ALERT_DIAGNOSIS=shm-near-full",
        "COWPROF_ALERT_HEADLINE=/dev/shm was 75 % full at most.", "COWPROF_ALERT_CULPRIT=/home/me/train.py:12"}) {
    CHECK(absl::StrContains(env, absl::StrCat("\n", line, "\n")));
  }
  CHECK_FALSE(hook.Has("/evil"));
}

TEST_CASE("hooks that misbehave are told once and harm nobody") {
  const auto [script, says] = GENERATE(table<std::string, std::string>({
      {"exit 3", "ended with status 3"},
      {"kill -SEGV $$", "killed by SIGSEGV"},
      {"exec 0<&-; head -c 20000000 /dev/zero; head -c 20000000 /dev/zero >&2; exit 4", "ended with status 4"},
      {"yes & sleep 100", "took longer than 0.3 s and was killed"},
      {"trap '' TERM INT HUP; while :; do sleep 1; done", "took longer than 0.3 s and was killed"},
  }));
  INFO(script);
  Hook hook(script, {.time = absl::Seconds(absl::StrContains(says, "longer") ? 0.3 : 20), .gap = {}});
  hook.Raise();
  hook.Raise();
  for (const absl::Duration end = BootTime() + absl::Seconds(30); hook.hook().busy();
       absl::SleepFor(absl::Milliseconds(5))) {
    REQUIRE(BootTime() < end);
    hook.hook().Poll();
  }
  CHECK(absl::StrContains(hook.said(), says));
  CHECK(absl::StrContains(hook.said(), "reported once"));
  CHECK_FALSE(absl::StrContains(hook.said(), "\n"));
}

TEST_CASE("one at a time: others wait, and beyond that are counted") {
  Hook hook("echo x >> runs; touch begun; while [ ! -e go ]; do sleep 0.01; done",
            {.time = absl::Seconds(20), .gap = {}, .waiting = 3});
  for (int i = 0; i < 1000; ++i) hook.Raise();
  hook.Await("/begun");
  hook.hook().Poll();
  CHECK(hook.Read("/runs") == "x\n");
  hook.Script("/go", "");
  hook.hook().Finish();
  CHECK(hook.Read("/runs") == "x\nx\nx\nx\n");
  CHECK(absl::StrContains(hook.said(), "not run for 996 alerts"));
}

TEST_CASE("a hook that was replaced by somebody else's is not run") {
  Hook hook("touch ran");
  REQUIRE(chmod((hook.root() + "/hook").c_str(), 0777) == 0);
  hook.Raise();
  hook.hook().Finish();
  CHECK_FALSE(hook.Has("/ran"));
  CHECK(absl::StrContains(hook.said(), "not safe to run"));
}

TEST_CASE("the end of a recording ends a hook that hangs, and all that it started") {
  Hook hook("sleep 100 & echo $$ > new; mv new pid; wait", {.time = absl::Seconds(4), .gap = {}});
  hook.Raise();
  hook.Await("/pid");
  SECTION("orderly") { hook.hook().Finish(); }
  SECTION("at once") {
    hook.Drop();
    CHECK(absl::StrContains(hook.said(), ": was killed "));
    CHECK(absl::StrContains(hook.said(), " s after its start, because the recording had ended (reported once)"));
  }
  pid_t pid = 0;
  std::ifstream(hook.root() + "/pid") >> pid;
  REQUIRE(pid > 0);
  for (const absl::Duration end = BootTime() + absl::Seconds(120); kill(-pid, 0) == 0;
       absl::SleepFor(absl::Milliseconds(5)))
    REQUIRE(BootTime() < end);
}

}  // namespace cowprof
