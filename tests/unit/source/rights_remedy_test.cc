// What to type, for every kind of caller.
#include "source/rights_remedy.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"

namespace cowprof {

TEST_CASE("words are quoted for a shell where that is needed") {
  CHECK(ShellQuoted("--attach=4711") == "--attach=4711");
  CHECK(ShellQuoted("") == "''");
  CHECK(ShellQuoted("a b") == "'a b'");
  CHECK(ShellQuoted("it's") == "'it'\\''s'");
  CHECK(ShellQuoted("$(reboot)") == "'$(reboot)'");
  CHECK(ShellQuoted("~/x") == "'~/x'");
}

TEST_CASE("the line with sudo has the very arguments") {
  CHECK(SudoLine({.words = {"cowprof", "--attach", "4711"}}) == "sudo $(command -v cowprof) --attach 4711");
  CHECK(SudoLine({.words = {"build/cowprof", "hang", "4711"}}) == "sudo build/cowprof hang 4711");
  CHECK(SudoLine({.words = {"./my cowprof", "--label", "a=b c"}}) == "sudo './my cowprof' --label 'a=b c'");
  CHECK(SudoLine({.words = {"cowprof", "-q", "--", "python3", "a b.py"}}) ==
        "sudo env \"PATH=$PATH\" $(command -v cowprof) -q -- python3 'a b.py'");
  CHECK(SudoLine({}).empty());
  CHECK(SudoLine({.words = {"cowprof", "a\nb"}}).empty());
  CHECK(SudoLine({.words = {"cowprof", "\x1b[2J"}}).empty());
  CHECK(SudoLine({.words = {"cowprof", std::string(2000, 'x')}}).empty());
}

TEST_CASE("each kind of caller is told its own way") {
  const std::vector<std::string> missing = {"CAP_BPF", "CAP_PERFMON"};
  const std::vector<std::string> words = {"cowprof", "--attach", "7"};
  CHECK(RightsRemedy({.words = words}, missing) == "run: sudo $(command -v cowprof) --attach 7");
  CHECK(RightsRemedy({}, missing) == "run cowprof with sudo, and the same arguments");
  CHECK(absl::StrContains(RightsRemedy({.root = true}, missing), "bounding set"));
  const auto inside = [&](Container kind, bool root = true) {
    return RightsRemedy({.words = words, .root = root, .container = kind, .bounding = 0}, missing);
  };
  // Its root has them.
  CHECK(RightsRemedy({.words = words, .container = Container::kDocker, .bounding = SetOf({kCapBpf, kCapPerfmon})},
                     missing) ==
        "run: sudo $(command -v cowprof) --attach 7; or, if the container has no sudo, start it as root: "
        "docker run --user 0 --cap-add BPF --cap-add PERFMON ...");
  CHECK(absl::StrContains(RightsRemedy({.container = Container::kDocker, .bounding = SetOf({kCapBpf})}, missing),
                          "docker run --user 0 --cap-add BPF --cap-add PERFMON"));
  CHECK(absl::StrContains(inside(Container::kDocker), "docker run --cap-add BPF --cap-add PERFMON ..."));
  CHECK(absl::StrContains(inside(Container::kDocker, false), "docker run --user 0 --cap-add BPF"));
  CHECK(absl::StrContains(inside(Container::kPodman),
                          "podman run --cap-add BPF,PERFMON --security-opt seccomp=unconfined ..."));
  CHECK(absl::StrContains(inside(Container::kKubernetes), "securityContext: {capabilities: {add: [BPF, PERFMON]}}"));
  CHECK(absl::StrContains(inside(Container::kKubernetes, false), "{runAsUser: 0, capabilities"));
  for (const char* engine : {"docker run", "podman run", "securityContext"})
    CHECK(absl::StrContains(inside(Container::kUnknown), engine));
  const Caller rootless = {.words = words, .root = true, .host_users = false, .container = Container::kPodman};
  CHECK(absl::StrContains(RightsRemedy(rootless, missing),
                          "on the host, run: sudo $(command -v cowprof) --attach \"$(podman inspect"));
  CHECK_FALSE(absl::StrContains(RightsRemedy(rootless, missing), "cap-add"));
}

TEST_CASE("the caller is this very process") {
  const Caller caller = ReadCaller();
  REQUIRE_FALSE(caller.words.empty());
  CHECK(absl::StrContains(caller.words[0], "unit_tests"));
}

}  // namespace cowprof
