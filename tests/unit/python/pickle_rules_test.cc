// Rules of types in made-up memory. The system tests compare verdicts with what pickle really does.
#include "python/pickle_rules.h"

#include <catch2/catch.hpp>

#include "python_memory.h"

namespace cowprof {

TEST_CASE("pickle rules: a class whose attributes can't be read is judged when they can") {
  constexpr uint64_t kType = 0x40000, kBases = 0x50000;
  PythonMemory memory;
  memory.AddType(kType, PythonMemory::kTypeType, "thing", PythonMemory::kStaticFlags);
  memory.Word(kType + StateLayoutOf(memory.layout()).mro, kBases);
  memory.Add(kBases, std::string(64, '\0'));
  memory.Word(kBases + memory.layout().object.var_size, 1);
  memory.Word(kBases + memory.layout().container.tuple_items, kType);
  memory.Word(kType + memory.layout().type.dict, 0x7000'0000'0000);  // is being resized
  ObjectGraph graph(memory.interpreter(), memory);
  PickleRules rules(&graph);
  CHECK(rules.RuleOf(kType) == nullptr);
  memory.Word(kType + memory.layout().type.dict, 0);
  const TypeRule* rule = rules.RuleOf(kType);
  REQUIRE(rule != nullptr);
  CHECK(rule->replay == Replay::kFails);
  CHECK(rule->reason == PickleReason::kNoNew);
}

}  // namespace cowprof
