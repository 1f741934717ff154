// The decision of probe_plan.cc: which way of counting follows from what the host allows, with one fact removed at a
// time. The facts of this host are only checked for consistency.
#include "source/probe_plan.h"

#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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
          .bpf_threads = true,
          .bpf_find_vma = true,
          .fault_tracepoint = true};
}

const Rung& RungOf(const std::vector<Rung>& ladder, const std::string& name) {
  for (const Rung& rung : ladder) {
    if (rung.name == name) return rung;
  }
  FAIL("no rung " << name);
  return ladder[0];
}

using Strings = std::vector<std::string>;

constexpr absl::string_view kBpfRungs[] = {"btf-tracepoints", "fentry", "perf-event", "process-tracepoints"};

bool UsesBpf(const std::vector<Rung>& ladder) {
  const Rung* chosen = ChosenRung(ladder);
  return chosen != nullptr &&
         std::find(std::begin(kBpfRungs), std::end(kBpfRungs), chosen->name) != std::end(kBpfRungs);
}

// The rungs that give faults, copies, follow and signals; "": none.
Strings Names(const std::vector<Rung>& ladder) {
  const ChosenRungs chosen = ChooseRungs(ladder);
  Strings names;
  for (const Rung* rung : {chosen.faults, chosen.copies, chosen.follow, chosen.signals})
    names.push_back(rung != nullptr ? rung->name : "");
  return names;
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

TEST_CASE("hugetlb is counted if fentry works and faults have error codes, whatever counts other copies") {
  CHECK(ChooseRungs(PlanProbes(Everything(), {})).hugetlb);
  CHECK(ChooseRungs(PlanProbes(Everything(), {"copies"})).hugetlb);
  CHECK_FALSE(ChooseRungs(PlanProbes(Everything(), {"fentry"})).hugetlb);
  CHECK_FALSE(ChooseRungs(PlanProbes(Everything(), {"btf-tracepoints"})).hugetlb);
  HostFacts facts = Everything();
  facts.fentry = absl::PermissionDeniedError("locked down");
  CHECK_FALSE(ChooseRungs(PlanProbes(facts, {})).hugetlb);
}

TEST_CASE("an obstacle to all BPF programs is named with its remedy") {
  struct Missing {
    std::function<void(HostFacts*)> take_away;
    const char *reason, *remedy;
  };
  const Missing missing = GENERATE(values<Missing>(
      {{[](HostFacts* facts) { facts->kernel_btf = false; }, "no BTF", "CONFIG_DEBUG_INFO_BTF"},
       {[](HostFacts* facts) { facts->bpf_threads = false; }, "state per thread", "5.15"},
       {[](HostFacts* facts) { facts->ring_sleeps = true; }, "PREEMPT_RT", "6.12"},
       {[](HostFacts* facts) { facts->page_bytes = 65536; }, "pages of 64 KiB", "page map"},
       {[](HostFacts* facts) { facts->host_users = false; }, "user namespace", "on the host"},
       {[](HostFacts* facts) { facts->cap_bpf = facts->cap_sys_admin = false; }, "CAP_BPF missing", "sudo"},
       {[](HostFacts* facts) { facts->cap_perfmon = facts->cap_sys_admin = false; }, "CAP_PERFMON missing",
        "--cap-add"}}));
  HostFacts facts = Everything();
  missing.take_away(&facts);
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  CHECK_FALSE(UsesBpf(ladder));
  for (const absl::string_view name : kBpfRungs) {
    const Rung& rung = RungOf(ladder, std::string(name));
    CHECK_FALSE(rung.usable);
    CHECK(absl::StrContains(rung.reason, missing.reason));
    CHECK(absl::StrContains(rung.remedy, missing.remedy));
  }
}

TEST_CASE("an unusable rung is named with its remedy, and the next one is used") {
  struct Missing {
    std::function<void(HostFacts*)> take_away;
    const char *rung, *reason, *remedy, *copies, *faults;
  };
  const Missing missing = GENERATE(values<Missing>(
      {{[](HostFacts* facts) { facts->fault_tracepoint = false, facts->architecture = "aarch64"; }, "btf-tracepoints",
        "aarch64", "x86-64", "fentry", "perf-event"},
       {[](HostFacts* facts) { facts->refused["btf-tracepoints"] = absl::PermissionDeniedError("load refused"); },
        "btf-tracepoints", "load refused", "seccomp", "fentry", "perf-event"},
       {[](HostFacts* facts) { facts->fentry = absl::PermissionDeniedError("not this one"); }, "fentry", "not this one",
        "none needed", "btf-tracepoints", "btf-tracepoints"},
       {[](HostFacts* facts) { facts->perf_event = absl::PermissionDeniedError("no event"); }, "perf-event", "no event",
        "CAP_PERFMON", "btf-tracepoints", "btf-tracepoints"},
       {[](HostFacts* facts) { facts->bpf_find_vma = false; }, "perf-event", "mapping", "5.17", "btf-tracepoints",
        "btf-tracepoints"}}));
  HostFacts facts = Everything();
  missing.take_away(&facts);
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  const Rung& rung = RungOf(ladder, missing.rung);
  CHECK_FALSE(rung.usable);
  CHECK(absl::StrContains(rung.reason, missing.reason));
  CHECK(absl::StrContains(rung.remedy, missing.remedy));
  CHECK(Names(ladder) == Strings{missing.faults, missing.copies, "process-tracepoints", "process-tracepoints"});
}

TEST_CASE("without fentry and fault tracepoints copies are an upper bound") {
  HostFacts facts = Everything();
  facts.fault_tracepoint = false;
  facts.fentry = absl::NotFoundError("no do_wp_page");
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  REQUIRE(ChosenRung(ladder) != nullptr);
  CHECK(ChosenRung(ladder)->name == "perf-event");
  CHECK(ChosenRung(ladder)->exactness == Exactness::kUpperBound);
}

TEST_CASE("fentry needs another rung for faults") {
  HostFacts facts = Everything();
  facts.fault_tracepoint = false;
  facts.perf_event = absl::PermissionDeniedError("no event");
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  CHECK_FALSE(UsesBpf(ladder));
  CHECK(absl::StrContains(RungOf(ladder, "fentry").reason, "needs the faults of btf-tracepoints or perf-event"));
}

TEST_CASE("without following processes no BPF rung is usable") {
  HostFacts facts = Everything();
  facts.refused["process-tracepoints"] = absl::PermissionDeniedError("refused");
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  CHECK_FALSE(UsesBpf(ladder));
  CHECK(absl::StrContains(RungOf(ladder, "btf-tracepoints").reason, "needs process-tracepoints"));
}

TEST_CASE("unreportable deaths do not prevent counting, and are mentioned") {
  HostFacts facts = Everything();
  facts.refused["signals"] = absl::PermissionDeniedError("no such tracepoint");
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  CHECK(Names(ladder) == Strings{"btf-tracepoints", "btf-tracepoints", "process-tracepoints", ""});
  const Rung& rung = RungOf(ladder, "process-tracepoints");
  CHECK(rung.usable);
  CHECK(rung.reason == "without signals: no such tracepoint");
  CHECK_FALSE(rung.gives("signals"));
}

TEST_CASE("facts that change nothing") {
  HostFacts facts = Everything();
  const bool by_admin = GENERATE(true, false);
  if (by_admin) {
    facts.cap_bpf = facts.cap_perfmon = false;  // CAP_SYS_ADMIN implies both
  } else {
    facts.cap_sys_admin = false;
  }
  CHECK(Names(PlanProbes(facts, {})) == Names(PlanProbes(Everything(), {})));
}

TEST_CASE("all missing capabilities are named at once") {
  HostFacts facts = Everything();
  facts.cap_bpf = facts.cap_perfmon = facts.cap_sys_admin = false;
  const std::vector<Rung> ladder = PlanProbes(facts, {});
  CHECK(absl::StrContains(ladder[0].reason, "CAP_BPF, CAP_PERFMON missing"));
}

TEST_CASE("--without steps down: a rung by its name, a capability from its best rung") {
  struct Step {
    Strings without, names;  // faults, copies, follow, signals
  };
  const std::string all = "btf-tracepoints", fentry = "fentry", event = "perf-event", tree = "process-tracepoints";
  const Step step = GENERATE_COPY(values<Step>({{{"nonsense", ""}, {all, all, tree, tree}},
                                                {{fentry}, {all, all, tree, tree}},
                                                {{all}, {event, fentry, tree, tree}},
                                                {{"copies"}, {all, fentry, tree, tree}},
                                                {{"faults"}, {event, fentry, tree, tree}},
                                                {{all, fentry}, {event, event, tree, tree}},
                                                {{"copies", "copies"}, {event, event, tree, tree}},
                                                {{"copies", event}, {all, fentry, tree, tree}},
                                                {{"signals"}, {all, all, tree, ""}}}));
  INFO(absl::StrJoin(step.without, " "));
  CHECK(Names(PlanProbes(Everything(), step.without)) == step.names);
}

TEST_CASE("--without once per rung leaves no BPF rung") {
  const Strings without = GENERATE(values<Strings>({{"follow"},
                                                    {"process-tracepoints"},
                                                    {"copies", "copies", "copies"},
                                                    {"faults", "faults"},
                                                    {"btf-tracepoints", "fentry", "perf-event"}}));
  CHECK_FALSE(UsesBpf(PlanProbes(Everything(), without)));
}

TEST_CASE("--without is named as the reason, unless the rung was not usable anyway") {
  const std::vector<Rung> ladder = PlanProbes(Everything(), {"copies"});
  CHECK(RungOf(ladder, "btf-tracepoints").usable);
  CHECK(RungOf(ladder, "btf-tracepoints").reason == "without copies: forbidden by --without copies");
  CHECK(RungOf(PlanProbes(Everything(), {"fentry"}), "fentry").reason == "forbidden by --without fentry");
  HostFacts facts = Everything();
  facts.kernel_btf = false;
  CHECK(absl::StrContains(PlanProbes(facts, {"copies"})[0].reason, "no BTF"));
}

TEST_CASE("names that --without accepts") {
  for (const char* name :
       {"btf-tracepoints", "fentry", "perf-event", "process-tracepoints", "faults", "copies", "follow", "signals"})
    CHECK(CheckWithout({"causes", name}).ok());
  for (const char* name : {"", "copy", "Copies", "copies ", "nonsense"}) {
    const absl::Status status = CheckWithout({"stacks", name});
    CHECK(absl::StrContains(status.message(), absl::StrCat("'", name, "'")));
  }
}

TEST_CASE("every unusable rung says why, whatever the facts") {
  for (int bits = 0; bits < 1 << 11; ++bits) {
    HostFacts facts = Everything();
    facts.kernel_btf = bits & 1;
    facts.cap_bpf = bits & 2;
    facts.cap_perfmon = bits & 4;
    facts.cap_sys_ptrace = bits & 8;
    facts.cap_sys_admin = bits & 16;
    facts.fault_tracepoint = bits & 32;
    facts.bpf_threads = bits & 64;
    facts.bpf_find_vma = bits & 128;
    if (bits & 256) facts.refused["btf-tracepoints"] = absl::PermissionDeniedError("refused");
    if (bits & 512) facts.fentry = absl::PermissionDeniedError("refused");
    if (bits & 1024) facts.perf_event = absl::PermissionDeniedError("refused");
    const std::vector<Rung> ladder = PlanProbes(facts, {});
    for (const Rung& rung : ladder) {
      INFO(bits << " " << rung.name);
      REQUIRE(rung.usable == rung.reason.empty());
      REQUIRE(rung.usable == rung.remedy.empty());
      REQUIRE_FALSE(rung.capabilities.empty());
    }
    const bool bpf = (bits & 1) && (bits & 64) && ((bits & 16) || (bits & 6) == 6);
    const bool tracepoints = (bits & 32) && !(bits & 256), event = (bits & 128) && !(bits & 1024);
    REQUIRE(UsesBpf(ladder) == (bpf && (tracepoints || event)));
  }
}

TEST_CASE("the page map needs nothing from the host, and is the last resort unless the target's is unreadable") {
  HostFacts facts;
  CHECK(ChosenRung(PlanProbes(facts, {}))->name == kRungPageMap);
  CHECK(ChosenRung(PlanProbes(facts, {}))->exactness == Exactness::kPageMap);
  CHECK(ChosenRung(PlanProbes(Everything(), {}))->name != kRungPageMap);
  facts.refused[std::string(kRungPageMap)] = absl::PermissionDeniedError("open /proc/7/pagemap");
  CHECK(ChosenRung(PlanProbes(facts, {})) == nullptr);
}

TEST_CASE("the remedy for a refusal by a resource limit is to raise it") {
  HostFacts facts = Everything();
  facts.refused["process-tracepoints"] = absl::ResourceExhaustedError("create a map: Too many open files");
  CHECK(absl::StrContains(RungOf(PlanProbes(facts, {}), "process-tracepoints").remedy, "ulimit -n"));
}

TEST_CASE("an empty ladder has no rung") { CHECK(ChosenRung({}) == nullptr); }

TEST_CASE("live: the facts of this host") {
  const HostFacts facts = ReadHostFacts();
  CHECK_FALSE(facts.kernel.empty());
  CHECK_FALSE(facts.architecture.empty());
  CHECK(facts.page_bytes == static_cast<uint64_t>(getpagesize()));
  CHECK(facts.cpus >= 1);
  CHECK((facts.kernel_btf || !facts.fault_tracepoint));
  CHECK(facts.refused.empty());  // left to the caller
}

}  // namespace cowprof
