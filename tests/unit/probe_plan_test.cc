// The decision of probe_plan.cc: which way of counting follows from what the host allows, with one fact
// taken away at a time. What this host really allows is asked once, and only for being consistent.
#include "source/probe_plan.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "absl/strings/match.h"

namespace cowprof {
namespace {

HostFacts Everything() {
  return {.kernel = "6.18.0",
          .architecture = "x86_64",
          .cpus = 2,
          .kernel_btf = true,
          .cap_bpf = true,
          .cap_perfmon = true,
          .cap_sys_ptrace = true,
          .cap_sys_admin = true,
          .host_namespaces = true,
          .host_users = true,
          .fault_tracepoint = true};
}

const Rung& RungOf(const std::vector<Rung>& ladder, const std::string& name) {
  for (const Rung& rung : ladder) {
    if (rung.name == name) return rung;
  }
  FAIL("no rung " << name);
  return ladder[0];
}

}  // namespace

TEST_CASE("a host that allows everything counts exactly, by BTF tracepoints") {
  const std::vector<Rung> ladder = PlanProbes(Everything(), {});
  const Rung* chosen = ChosenRung(ladder);
  REQUIRE(chosen != nullptr);
  CHECK(chosen->name == "btf-tracepoints");
  CHECK(chosen->exactness == Exactness::kExact);
  CHECK(chosen->reason.empty());
  CHECK(chosen->remedy.empty());
}

TEST_CASE("each missing fact is named with its remedy") {
  struct Missing {
    std::function<void(HostFacts*)> take_away;
    const char *reason, *remedy;
  };
  const Missing missing = GENERATE(values<Missing>(
      {{[](HostFacts* facts) { facts->kernel_btf = false; }, "no BTF", "CONFIG_DEBUG_INFO_BTF"},
       {[](HostFacts* facts) { facts->fault_tracepoint = false, facts->architecture = "riscv64"; }, "riscv64",
        "x86-64"},
       {[](HostFacts* facts) { facts->host_users = false; }, "user namespace of its own", "on the host"},
       {[](HostFacts* facts) { facts->cap_bpf = facts->cap_sys_admin = false; }, "CAP_BPF missing", "sudo"},
       {[](HostFacts* facts) { facts->cap_perfmon = facts->cap_sys_admin = false; }, "CAP_PERFMON missing", "sudo"},
       {[](HostFacts* facts) { facts->cap_sys_ptrace = false; }, "CAP_SYS_PTRACE missing", "--cap-add"},
       {[](HostFacts* facts) { facts->refused["btf-tracepoints"] = absl::PermissionDeniedError("load refused"); },
        "load refused", "seccomp"}}));
  HostFacts facts = Everything();
  missing.take_away(&facts);
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  CHECK(ChosenRung(ladder) == nullptr);
  const Rung& rung = RungOf(ladder, "btf-tracepoints");
  CHECK_FALSE(rung.usable);
  CHECK(absl::StrContains(rung.reason, missing.reason));
  CHECK(absl::StrContains(rung.remedy, missing.remedy));
}

TEST_CASE("facts that change nothing") {
  HostFacts facts = Everything();
  const bool by_admin = GENERATE(true, false);
  if (by_admin) {
    facts.cap_bpf = facts.cap_perfmon = false;  // CAP_SYS_ADMIN implies both
  } else {
    facts.cap_sys_admin = false;
  }
  facts.fentry = absl::NotFoundError("no do_wp_page");
  CHECK(ChosenRung(PlanProbes(facts, {})) != nullptr);
}

TEST_CASE("all missing capabilities are named at once") {
  HostFacts facts = Everything();
  facts.cap_bpf = facts.cap_perfmon = facts.cap_sys_ptrace = facts.cap_sys_admin = false;
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  CHECK(absl::StrContains(ladder[0].reason, "CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE missing"));
}

TEST_CASE("--without forbids a rung by its name and by each of its capabilities") {
  const std::string name = GENERATE(as<std::string>(), "btf-tracepoints", "faults", "copies", "follow", "signals");
  const std::vector<Rung> ladder = PlanProbes(Everything(), {"nonsense", name});
  CHECK(ChosenRung(ladder) == nullptr);
  CHECK(absl::StrContains(RungOf(ladder, "btf-tracepoints").reason, "--without " + name));
  CHECK_FALSE(RungOf(ladder, "btf-tracepoints").remedy.empty());
}

TEST_CASE("--without leaves other rungs, and the true reason of an unusable one, alone") {
  CHECK(ChosenRung(PlanProbes(Everything(), {"fentry", "", "btf"})) != nullptr);
  HostFacts facts = Everything();
  facts.kernel_btf = false;
  CHECK(absl::StrContains(PlanProbes(facts, {"copies"})[0].reason, "no BTF"));
}

TEST_CASE("what --without may name") {
  for (const char* name : {"btf-tracepoints", "fentry", "faults", "copies", "follow", "signals"})
    CHECK(IsKnownCapability(name));
  for (const char* name : {"", "copy", "Copies", "copies ", "nonsense"}) CHECK_FALSE(IsKnownCapability(name));
}

TEST_CASE("every rung that is not taken says why, whatever the facts") {
  for (int bits = 0; bits < 256; ++bits) {
    HostFacts facts = Everything();
    facts.kernel_btf = bits & 1;
    facts.cap_bpf = bits & 2;
    facts.cap_perfmon = bits & 4;
    facts.cap_sys_ptrace = bits & 8;
    facts.cap_sys_admin = bits & 16;
    facts.fault_tracepoint = bits & 32;
    if (bits & 64) facts.refused["btf-tracepoints"] = absl::PermissionDeniedError("refused");
    if (bits & 128) facts.fentry = absl::PermissionDeniedError("refused");
    const std::vector<Rung> ladder = PlanProbes(facts, {});
    REQUIRE(ladder.size() >= 2);
    for (const Rung& rung : ladder) {
      INFO(bits << " " << rung.name);
      REQUIRE(rung.usable == rung.reason.empty());
      REQUIRE(rung.usable == rung.remedy.empty());
      REQUIRE_FALSE(rung.capabilities.empty());
    }
    const bool all = (bits & 1) && (bits & 8) && (bits & 32) && !(bits & 64) && ((bits & 16) || (bits & 6) == 6);
    REQUIRE((ChosenRung(ladder) != nullptr) == all);
  }
}

TEST_CASE("an empty ladder has no rung") { CHECK(ChosenRung({}) == nullptr); }

TEST_CASE("live: what this host says of itself") {
  const HostFacts facts = ReadHostFacts();
  CHECK_FALSE(facts.kernel.empty());
  CHECK_FALSE(facts.architecture.empty());
  CHECK(facts.page_bytes == static_cast<uint64_t>(getpagesize()));
  CHECK(facts.cpus >= 1);
  CHECK((facts.kernel_btf || !facts.fault_tracepoint));
  CHECK(facts.refused.empty());  // left to the caller
}

}  // namespace cowprof
