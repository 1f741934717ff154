// Walks over made-up objects. The system tests compare verdicts and bytes with what pickle really does.
#include "python/pickle_walk.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "python/pickle_look.h"
#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kBase = 0x40000, kType = 0x42000, kObject = 0x50000, kFunction = 0x1000000;

// An object of a subclass of str, bytes or int: `flags` tells which.
class Derived : public PythonMemory {
 public:
  Derived(const std::string& base, uint64_t flags) {
    AddType(kBase, kTypeType, base, kStaticFlags | flags);
    AddType(kType, kTypeType, "derived", kStaticFlags | flags);
    AddBases(kBase, {kBase});
    AddBases(kType, {kType, kBase});
    AddDict(kBase + 0x1000, {{"__getnewargs__", kFunction}});
    Word(kBase + layout().type.dict, kBase + 0x1000);
    Word(kType + StateLayoutOf(layout()).tp_new, kFunction);
    Add(kObject, std::string(128, '\0'));
    Word(kObject, 1);
    Word(kObject + layout().object.type, kType);
  }
  uint64_t Bytes() const {
    PickleWalk walk(interpreter(), *this, {});
    walk.Run({.parts = {{"", kObject}}, .expression = "x"});
    CHECK(walk.failures.empty());
    CHECK(walk.unknowns.empty());
    CHECK(walk.unreadable == 0);
    CHECK(walk.mix.instances == 1);
    return walk.bytes;
  }
};

// Takes 5 ms for each read of one place.
struct SlowMemory : PythonMemory {
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    if (slow - address < bytes.size()) usleep(5000);
    return PythonMemory::Read(address, bytes);
  }
  uint64_t slow = 0;
};

}  // namespace

TEST_CASE("pickle walk: an object of a subclass of str, bytes or int is sent with its content") {
  for (const uint64_t length : {1000, 1'000'000}) {
    Derived text("str", uint64_t{1} << 28);
    text.Word(kObject + text.layout().string.length, length);
    text.Word(kObject + text.layout().string.state, 1 << 2 | 1 << 6);  // ASCII, not compact
    CHECK(text.Bytes() >= length);
    CHECK(text.Bytes() <= length + length / 1000 + 64);
    Derived bytes("bytes", uint64_t{1} << 27);
    bytes.Word(kObject + bytes.layout().object.var_size, length);
    CHECK(bytes.Bytes() >= length);
    CHECK(bytes.Bytes() <= length + length / 1000 + 64);
  }
  Derived number("int", uint64_t{1} << 24);
  number.Word(kObject + number.layout().object.var_size, 1000);  // digits of 30 bits
  CHECK(number.Bytes() >= 3750);
  CHECK(number.Bytes() <= 3800);
}

TEST_CASE("pickle walk: what fails is possible only where the program has multiprocessing pickle by code of its own") {
  constexpr uint64_t kInterpreter = 0x80000, kModules = 0x81000, kModule = 0x83000, kGlobals = 0x84000;
  constexpr uint64_t kModuleType = 0x60000, kPickler = 0x62000, kBuiltinType = 0x64000, kDump = 0x70000;
  const std::string pickler = GENERATE("multiprocessing.reduction.ForkingPickler", "dill.Pickler");
  const std::string hook = GENERATE("register", "reducer_override");
  const bool own_dump = GENERATE(false, true);
  PythonMemory memory;
  for (const auto& [type, name] : {std::pair<uint64_t, std::string>{kType, "_thread.lock"},
                                   {kModuleType, "module"},
                                   {kBuiltinType, "builtin_function_or_method"},
                                   {kPickler, pickler}}) {
    memory.AddType(type, PythonMemory::kTypeType, name, PythonMemory::kStaticFlags);
    memory.AddBases(type, {type});
  }
  memory.AddDict(kPickler + 0x1000, {{hook, kFunction}});
  memory.Word(kPickler + memory.layout().type.dict, kPickler + 0x1000);
  memory.Word(kObject + memory.layout().object.type, kType);
  if (own_dump) memory.Word(kDump + memory.layout().object.type, kBuiltinType);
  memory.interpreter_.main_interpreter = kInterpreter;
  memory.Word(kInterpreter + memory.layout().interpreter.modules, kModules);
  memory.AddDict(kModules, {{"multiprocessing.reduction", kModule}});
  memory.Word(kModule + memory.layout().object.type, kModuleType);
  memory.Word(kModule + StateLayoutOf(memory.layout()).module_dict, kGlobals);
  memory.AddDict(kGlobals, {{"ForkingPickler", kPickler}, {"dump", kDump}});
  PickleWalk walk(memory.interpreter(), memory, {});
  walk.Run({.parts = {{"", kObject}}, .expression = "x"});
  const bool own = own_dump || hook == "reducer_override" || pickler == "dill.Pickler";
  REQUIRE(walk.failures.size() == 1);
  CHECK(walk.failures[0].below_unknown == own);
  REQUIRE(walk.unknowns.size() == (own ? 1 : 0));
  if (pickler == "dill.Pickler") CHECK(walk.unknowns[0].runs == "the program's own pickler, dill.Pickler");
}

TEST_CASE("pickle walk: a torch Module that was compiled is sent without its compiled function") {
  const std::string method = GENERATE("__getstate__", "__getattribute__");  // the latter drops nothing
  constexpr uint64_t kFunctionType = 0x60000, kNoneType = 0x62000, kCompiled = 0x70000, kNone = 0x71000;
  PythonMemory memory;
  for (const auto& [type, name] :
       {std::pair{kType, "torch.nn.modules.module.Module"}, {kFunctionType, "function"}, {kNoneType, "NoneType"}}) {
    memory.AddType(type, PythonMemory::kTypeType, name, PythonMemory::kStaticFlags);
    memory.AddBases(type, {type});
  }
  const StateLayout state = StateLayoutOf(memory.layout());
  memory.AddDict(kType + 0x1000, {{method, kFunction}});
  memory.Word(kType + memory.layout().type.dict, kType + 0x1000);
  memory.Word(kType + state.tp_new, kFunction);
  memory.Word(kType + state.dict_offset, 16);
  memory.AddDict(kObject, {{"_compiled_call_impl", kCompiled}, {"_hooks", kNone}});
  memory.Word(kObject + 0x1008, kType);
  memory.Word(kObject + 0x1010, kObject);
  memory.Word(kCompiled + memory.layout().object.type, kFunctionType);
  memory.Word(kFunction + memory.layout().object.type, kFunctionType);
  memory.Word(kNone + memory.layout().object.type, kNoneType);
  PickleWalk walk(memory.interpreter(), memory, {});
  walk.Run({.parts = {{"", kObject + 0x1000}}, .expression = "model"});
  CHECK(walk.objects == (method == "__getstate__" ? 2 : 3));
  CHECK(walk.unknowns.size() == (method == "__getstate__" ? 0 : 1));
}

TEST_CASE("pickle look: at the end a failure that code of the program may drop does not stop the walk") {
  constexpr uint64_t kLockType = 0x60000, kFunctionType = 0x62000, kListType = 0x64000, kIntType = 0x66000;
  constexpr uint64_t kRoot = 0x70000, kVocab = 0x71000, kDropped = 0x72000, kSent = 0x73000, kNumber = 0x74000;
  constexpr uint64_t kAttributes = 0x76000, kLists = 0x100000;
  SlowMemory memory;
  for (const auto& [type, name] : {std::pair<uint64_t, const char*>{kType, "vocab"},
                                   {kLockType, "_thread.lock"},
                                   {kFunctionType, "function"},
                                   {kListType, "list"},
                                   {kIntType, "int"}}) {
    memory.AddType(type, PythonMemory::kTypeType, name, PythonMemory::kStaticFlags);
    memory.AddBases(type, {type});
  }
  const StateLayout state = StateLayoutOf(memory.layout());
  const uint32_t type = memory.layout().object.type;
  memory.AddDict(kType + 0x1000, {{"__getstate__", kFunction}});
  memory.Word(kType + memory.layout().type.dict, kType + 0x1000);
  memory.Word(kType + state.tp_new, kFunction);
  memory.Word(kType + state.dict_offset, 16);
  memory.Word(kFunction + type, kFunctionType);
  memory.Word(kVocab + type, kType);
  memory.Word(kVocab + 16, kAttributes);
  memory.AddDict(kAttributes, {{"lock", kDropped}});
  for (const uint64_t lock : {kDropped, kSent}) memory.Word(lock + type, kLockType);
  memory.Word(kNumber + type, kIntType);
  memory.Word(kNumber + memory.layout().object.var_size, 0);
  const auto add_list = [&](uint64_t list, const std::vector<uint64_t>& items) {
    memory.Word(list + type, kListType);
    memory.Word(list + memory.layout().object.var_size, items.size());
    memory.Word(list + state.list_items, list + 0x100);
    memory.Add(list + 0x100, std::string(reinterpret_cast<const char*>(items.data()), 8 * items.size()));
  };
  // 3,000 numbers: the walk asks whether to go on after 1,024 objects and 2,048, and between these it takes too long.
  std::vector<uint64_t> items = {kVocab};
  for (uint64_t i = 0; i < 12; ++i) {
    items.push_back(kLists + 0x1000 * i);
    add_list(items.back(), std::vector<uint64_t>(250, kNumber));
  }
  items.push_back(kSent);
  add_list(kRoot, items);
  memory.slow = kLists + 0x1000 * 6 + 0x100;
  const PickleLook look =
      LookAtEnding(memory.interpreter(), memory, memory, {.parts = {{"", kRoot}}, .expression = "x"}, PickleLimits());
  CHECK_FALSE(look.capped);
  REQUIRE(look.failures.size() == 2);
  CHECK(look.failures[0].path == "x[0].lock");
  CHECK(look.failures[0].below_unknown);
  CHECK(look.failures[1].path == "x[13]");
  CHECK_FALSE(look.failures[1].below_unknown);
}

}  // namespace cowprof
