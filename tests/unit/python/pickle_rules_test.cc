// Rules of types in made-up memory. The system tests compare verdicts with what pickle really does.
#include "python/pickle_rules.h"

#include <catch2/catch.hpp>

#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kType = 0x40000, kBases = 0x50000;

// Has a class whose attributes are being resized.
struct Torn : PythonMemory {
  Torn() {
    AddType(kType, kTypeType, "thing", kStaticFlags);
    Word(kType + StateLayoutOf(layout()).mro, kBases);
    Add(kBases, std::string(64, '\0'));
    Word(kBases + layout().object.var_size, 1);
    Word(kBases + layout().container.tuple_items, kType);
    Word(kType + layout().type.dict, 0x7000'0000'0000);
  }
  void Settle() { Word(kType + layout().type.dict, 0); }
};

}  // namespace

TEST_CASE("pickle rules: random.Random is sent by getstate(), which its subclasses have otherwise") {
  constexpr uint64_t kRandom = 0x60000, kSystem = 0x62000, kMine = 0x64000, kPlain = 0x66000, kFunction = 0x1000000;
  PythonMemory memory;
  const auto add = [&](uint64_t type, const std::string& name, const std::vector<uint64_t>& bases,
                       const std::vector<std::pair<std::string, uint64_t>>& attributes) {
    memory.AddType(type, PythonMemory::kTypeType, name, PythonMemory::kStaticFlags);
    memory.AddBases(type, bases);
    memory.AddDict(type + 0x1000, attributes);
    memory.Word(type + memory.layout().type.dict, type + 0x1000);
  };
  add(kRandom, "random.Random", {kRandom}, {{"__reduce__", kFunction}, {"getstate", kFunction}});
  add(kSystem, "random.SystemRandom", {kSystem, kRandom}, {{"getstate", kFunction}});
  add(kMine, "Mine", {kMine, kRandom}, {{"getstate", kFunction}});
  add(kPlain, "Plain", {kPlain, kRandom}, {{"shuffle", kFunction}});
  ObjectGraph graph(memory.interpreter(), memory);
  PickleRules rules(&graph);
  for (const uint64_t type : {kRandom, kPlain}) CHECK(rules.RuleOf(type)->replay == Replay::kAtom);
  CHECK(rules.RuleOf(kSystem)->replay == Replay::kFails);
  CHECK(rules.RuleOf(kSystem)->reason == PickleReason::kForbidden);
  CHECK(rules.RuleOf(kMine)->replay == Replay::kUnknown);
  CHECK(rules.RuleOf(kMine)->runs == "Mine.getstate (native code)");
}

TEST_CASE("pickle rules: a class whose attributes can't be read is judged when they can") {
  Torn memory;
  ObjectGraph graph(memory.interpreter(), memory);
  PickleRules rules(&graph);
  CHECK(rules.RuleOf(kType) == nullptr);
  memory.Settle();
  const TypeRule* rule = rules.RuleOf(kType);
  REQUIRE(rule != nullptr);
  CHECK(rule->replay == Replay::kFails);
  CHECK(rule->reason == PickleReason::kNoNew);
}

TEST_CASE("pickle rules: a class that stays unreadable is not looked at for each of its objects") {
  Torn memory;
  ObjectGraph graph(memory.interpreter(), memory);
  PickleRules rules(&graph);
  for (int i = 0; i < 16; ++i) CHECK(rules.RuleOf(kType) == nullptr);
  memory.Settle();
  CHECK(rules.RuleOf(kType) == nullptr);
}

}  // namespace cowprof
