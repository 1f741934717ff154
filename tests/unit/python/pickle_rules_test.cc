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
