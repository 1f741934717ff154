// Which capabilities doctor calls held, and for which it asks.
#include "recorder/capability_facts.h"

#include <catch2/catch.hpp>
#include <set>

#include "absl/strings/match.h"
#include "posix/rights.h"
#include "skip.h"
#include "source/namespaces.h"

namespace cowprof {
namespace {

std::set<std::string> HeldWith(CapabilitySet effective) {
  const CapabilitySet before = EffectiveCapabilities();
  REQUIRE(SetEffective(effective).ok());
  std::set<std::string> held;
  for (const CapabilityFact& fact : ReadCapabilityFacts()) {
    if (fact.held) held.insert(fact.name);
  }
  REQUIRE(SetEffective(before).ok());
  return held;
}

}  // namespace

TEST_CASE("capabilities: one that gives the same counts as held") {
  if (LacksRoot() || Lacks("the host's user namespace", HasHostUsers(), "capabilities do not count")) return;
  using Names = std::set<std::string>;
  CHECK(HeldWith(0).empty());
  CHECK(HeldWith(SetOf({kCapPerfmon})) == Names{"CAP_PERFMON"});
  CHECK(HeldWith(SetOf({CAP_SYS_ADMIN})) == Names{"CAP_BPF", "CAP_PERFMON", "CAP_SYS_ADMIN"});
  CHECK(HeldWith(SetOf({CAP_DAC_OVERRIDE})) == Names{"CAP_DAC_READ_SEARCH"});
}

TEST_CASE("capabilities: those that are seldom worth their power are not asked for") {
  std::vector<CapabilityFact> facts = ReadCapabilityFacts();
  for (CapabilityFact& fact : facts)
    fact.held = fact.name != std::string("CAP_SYS_ADMIN") && fact.name != std::string("CAP_IPC_LOCK");
  const std::string text = CapabilityText(facts);
  CHECK(absl::StrContains(text, "CAP_SYS_ADMIN        missing  page frames"));
  CHECK_FALSE(absl::StrContains(text, "do:"));
  facts[0].held = false;
  CHECK(absl::StrContains(CapabilityText(facts), "do:"));
}

}  // namespace cowprof
