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

struct Classes : PythonMemory {
  void AddClass(uint64_t type, const std::string& name, const std::vector<uint64_t>& bases,
                const std::vector<std::pair<std::string, uint64_t>>& attributes) {
    AddType(type, kTypeType, name, kStaticFlags);
    AddBases(type, bases);
    AddDict(type + 0x1000, attributes);
    Word(type + layout().type.dict, type + 0x1000);
  }
};

// A lock of the fork context, in a program whose default context is `set`; 0: nothing asked for that yet, and it is
// fork's.
struct ForkLock : PythonMemory {
  static constexpr uint64_t kInstance = 0x60000, kModuleType = 0x62000, kNoneType = 0x64000, kBool = 0x66000;
  static constexpr uint64_t kNone = 0x68000, kTrue = 0x68100, kFork = 0x68200, kSpawn = 0x68300;
  static constexpr uint64_t kLock = 0x70000, kForkContext = 0x72000, kSpawnContext = 0x74000, kDefault = 0x76000;
  static constexpr uint64_t kProcess = 0x78000, kLoader = 0x7a000;
  static constexpr uint64_t kModule = 0x80000, kGlobals = 0x82000, kModules = 0x84000, kInterpreter = 0x86000;

  explicit ForkLock(uint64_t set = 0) {
    const StateLayout state = StateLayoutOf(layout());
    for (const auto& [type, name] : {std::pair<uint64_t, const char*>{kInstance, "instance"},
                                     {kModuleType, "module"},
                                     {kNoneType, "NoneType"},
                                     {kBool, "bool"}}) {
      AddType(type, kTypeType, name, kStaticFlags);
      AddBases(type, {type});
    }
    Word(kInstance + state.dict_offset, 16);
    Word(kNone + layout().object.type, kNoneType);
    interpreter_.none = kNone;
    Word(kTrue + layout().object.type, kBool);
    Word(kTrue + layout().object.var_size, 1);
    Word(kTrue + layout().object.var_size + 8, 1);
    AddStr(kFork, "fork");
    AddStr(kSpawn, "spawn");
    AddInstance(kLock, {{"_is_fork_ctx", kTrue}});
    AddInstance(kForkContext, {{"_name", kFork}});
    AddInstance(kSpawnContext, {{"_name", kSpawn}});
    AddInstance(kDefault, {{"_default_context", kForkContext}, {"_actual_context", set == 0 ? kNone : set}});
    AddInstance(kProcess, {{"_start_method", kSpawn}});
    AddInstance(kLoader, {{"_DataLoader__multiprocessing_context", kSpawnContext}});
    Word(kModule + layout().object.type, kModuleType);
    Word(kModule + state.module_dict, kGlobals);
    AddDict(kGlobals, {{"_default_context", kDefault}});
    AddDict(kModules, {{"multiprocessing.context", kModule}});
    interpreter_.main_interpreter = kInterpreter;
    Word(kInterpreter + layout().interpreter.modules, kModules);
  }
  void AddInstance(uint64_t address, const std::vector<std::pair<std::string, uint64_t>>& attributes) {
    AddDict(address + 0x100, attributes);
    Word(address, 1);
    Word(address + layout().object.type, kInstance);
    Word(address + 16, address + 0x100);
  }
  ByName Find(uint64_t starter = 0, bool ending = false) {
    ObjectGraph graph(interpreter_, *this);
    PickleRules rules(&graph, ending);
    rules.set_starter(starter);
    return rules.FindItself(kLock, {.replay = Replay::kSemLock});
  }
};

}  // namespace

TEST_CASE("pickle rules: a lock of the fork context is made anew where the program's start method is switched") {
  for (const uint64_t set : {uint64_t{0}, ForkLock::kForkContext}) {
    const ByName found = ForkLock(set).Find();
    CHECK(found.unknown);
    CHECK(found.reason == PickleReason::kNone);
    CHECK(found.runs == kFollowsStartMethod);
  }
}

TEST_CASE("pickle rules: a lock of the fork context fails where workers are started otherwise, or were to be") {
  CHECK(ForkLock(ForkLock::kSpawnContext).Find().reason == PickleReason::kForkContext);
  CHECK(ForkLock().Find(ForkLock::kProcess).reason == PickleReason::kForkContext);
  CHECK(ForkLock().Find(ForkLock::kLoader).reason == PickleReason::kForkContext);
  CHECK(ForkLock().Find(ForkLock::kSpawn).reason == PickleReason::kForkContext);
  CHECK(ForkLock().Find(0, /*ending=*/true).reason == PickleReason::kForkContext);
  CHECK(ForkLock(ForkLock::kSpawnContext).Find(ForkLock::kFork).unknown);
}

TEST_CASE("pickle rules: random.Random is sent by getstate(), which its subclasses have otherwise") {
  constexpr uint64_t kRandom = 0x60000, kSystem = 0x62000, kMine = 0x64000, kPlain = 0x66000, kFunction = 0x1000000;
  Classes memory;
  memory.AddClass(kRandom, "random.Random", {kRandom}, {{"__reduce__", kFunction}, {"getstate", kFunction}});
  memory.AddClass(kSystem, "random.SystemRandom", {kSystem, kRandom}, {{"getstate", kFunction}});
  memory.AddClass(kMine, "Mine", {kMine, kRandom}, {{"getstate", kFunction}});
  memory.AddClass(kPlain, "Plain", {kPlain, kRandom}, {{"shuffle", kFunction}});
  ObjectGraph graph(memory.interpreter(), memory);
  PickleRules rules(&graph);
  for (const uint64_t type : {kRandom, kPlain}) CHECK(rules.RuleOf(type)->replay == Replay::kAtom);
  CHECK(rules.RuleOf(kSystem)->replay == Replay::kFails);
  CHECK(rules.RuleOf(kSystem)->reason == PickleReason::kForbidden);
  CHECK(rules.RuleOf(kMine)->replay == Replay::kUnknown);
  CHECK(rules.RuleOf(kMine)->runs == "Mine.getstate (native code)");
}

TEST_CASE("pickle rules: ndarray.__reduce_ex__() calls the __reduce__() that a subclass may have") {
  constexpr uint64_t kArray = 0x60000, kMine = 0x62000, kPlain = 0x64000, kFunction = 0x1000000;
  Classes memory;
  memory.AddClass(kArray, "numpy.ndarray", {kArray}, {{"__reduce_ex__", kFunction}, {"__reduce__", kFunction}});
  memory.AddClass(kMine, "Mine", {kMine, kArray}, {{"__reduce__", kFunction}});
  memory.AddClass(kPlain, "Plain", {kPlain, kArray}, {{"__setstate__", kFunction}});
  ObjectGraph graph(memory.interpreter(), memory);
  PickleRules rules(&graph);
  for (const uint64_t type : {kArray, kPlain}) CHECK(rules.RuleOf(type)->replay == Replay::kArray);
  CHECK(rules.RuleOf(kMine)->replay == Replay::kUnknown);
  CHECK(rules.RuleOf(kMine)->runs == "Mine.__reduce__ (native code)");
}

TEST_CASE("pickle rules: a subclass of bytearray or array.array sends its attributes, too") {
  const auto [base, exact] = GENERATE(std::pair("bytearray", Replay::kBytes), std::pair("array.array", Replay::kArray));
  constexpr uint64_t kBase = 0x60000, kMine = 0x62000, kFunction = 0x1000000;
  Classes memory;
  memory.AddClass(kBase, base, {kBase}, {{"__reduce_ex__", kFunction}});
  memory.AddClass(kMine, "Mine", {kMine, kBase}, {});
  ObjectGraph graph(memory.interpreter(), memory);
  PickleRules rules(&graph);
  CHECK(rules.RuleOf(kBase)->replay == exact);
  CHECK(rules.RuleOf(kMine)->replay == Replay::kUnknown);
}

TEST_CASE("pickle rules: an exception can't be made in the worker if its __init__ takes other arguments than it has") {
  constexpr uint64_t kBase = 0x60000, kMine = 0x62000, kFunctionType = 0x64000, kOptions = 0x66000;
  constexpr uint64_t kInit = 0x70000, kCode = 0x71000, kObject = 0x72000, kArguments = 0x73000, kDefaults = 0x74000;
  constexpr uint64_t kException = uint64_t{1} << 30, kReducer = 0x1000000;
  Classes memory;
  const StateLayout state = StateLayoutOf(memory.layout());
  memory.AddType(kFunctionType, PythonMemory::kTypeType, "function", PythonMemory::kStaticFlags);
  memory.AddClass(kBase, "BaseException", {kBase}, {{"__reduce__", kReducer}, {"__setstate__", kReducer}});
  memory.AddClass(kMine, "Mine", {kMine, kBase}, {{"__init__", kInit}});
  memory.Word(kMine + memory.layout().type.flags, PythonMemory::kHeapFlags | kException);
  for (const uint64_t address : {kInit, kCode, kObject, kArguments, kDefaults, kOptions})
    memory.Add(address, std::string(256, '\0'));
  memory.Word(kInit + memory.layout().object.type, kFunctionType);
  memory.Word(kInit + state.function_code, kCode);
  memory.Word(kObject + memory.layout().object.type, kMine);
  memory.Word(kObject + state.exception_args, kArguments);
  struct {
    uint64_t positional, keyword_only, flags, defaults, keyword_defaults, least, most;
  } const kCases[] = {{2, 0, 0, 0, 0, 1, 1}, {4, 0, 0, 2, 0, 1, 3}, {1, 0, 4, 0, 0, 0, 5},
                      {0, 0, 4, 0, 0, 0, 5}, {2, 2, 0, 0, 1, 9, 0}, {2, 2, 0, 0, 2, 1, 1}};
  for (const auto& made : kCases) {
    memory.Word(kCode + state.code_arguments, made.positional);
    memory.Word(kCode + state.code_arguments + 8, made.keyword_only);
    memory.Word(kCode + state.code_flags, made.flags);
    memory.Word(kInit + state.function_defaults, made.defaults == 0 ? 0 : kDefaults);
    memory.Word(kDefaults + memory.layout().object.var_size, made.defaults);
    memory.Word(kInit + state.function_keyword_defaults, made.keyword_defaults == 0 ? 0 : kOptions);
    memory.Word(kOptions + memory.layout().object.var_size, made.keyword_defaults);
    ObjectGraph graph(memory.interpreter(), memory);
    PickleRules rules(&graph), ending(&graph, /*ending=*/true);
    for (uint64_t passed = 0; passed < 5; ++passed) {
      CAPTURE(made.positional, made.keyword_only, made.defaults, passed);
      memory.Word(kArguments + memory.layout().object.var_size, passed);
      const bool fits = made.least <= passed && passed <= made.most;
      CHECK(rules.FindItself(kObject, *rules.RuleOf(kMine)).reason ==
            (fits ? PickleReason::kNone : PickleReason::kCannotBeMade));
      CHECK(ending.FindItself(kObject, *ending.RuleOf(kMine)).reason == PickleReason::kNone);
    }
  }
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
