// The search for what workers get, in made-up modules. The system tests find it in real programs.
#include "python/roots.h"

#include <catch2/catch.hpp>

#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kInterpreter = 0x40000, kModules = 0x41000, kModule = 0x42000, kGlobals = 0x43000, kKeys = 0x100000;
constexpr uint64_t kModuleType = 0x20000, kNumberType = 0x22000, kNumber = 0x30000;

// A program with one module of 4,000 numbers.
struct LargeModule : PythonMemory {
  LargeModule() {
    AddType(kModuleType, kTypeType, "module", kStaticFlags);
    AddType(kNumberType, kTypeType, "number", kStaticFlags);
    Word(kNumber + layout().object.type, kNumberType);
    interpreter_.main_interpreter = kInterpreter;
    Word(kInterpreter + layout().interpreter.modules, kModules);
    AddDict(kModules, {{"large", kModule}});
    Word(kModule + layout().object.type, kModuleType);
    Word(kModule + StateLayoutOf(layout()).module_dict, kGlobals);
    AddDict(kGlobals, {{"number", kNumber}});
    // 4,096 entries with indexes of 2 bytes: all have the one name.
    Word(kGlobals + layout().container.dict_keys, kKeys);
    std::vector<uint64_t> table(4 + 1024 + 2 * 4000);
    table[1] = 12 | 13 << 8 | 1 << 16;
    table[3] = 4000;
    for (size_t i = 4 + 1024; i < table.size(); i += 2) {
      table[i] = kGlobals + 0x200;
      table[i + 1] = kNumber;
    }
    Add(kKeys, std::string(reinterpret_cast<const char*>(table.data()), table.size() * 8));
  }
};

}  // namespace

TEST_CASE("pickle roots: whoever asked for the search is asked whether it goes on") {
  const LargeModule memory;
  int asked = 0;
  const auto count = [&](bool answer) {
    asked = 0;
    CHECK(FindWhatWorkersGet(memory.interpreter(), memory, [&, answer] {
            ++asked;
            return answer;
          }).parts.empty());
    return asked;
  };
  CHECK(count(true) == 3);
  CHECK(count(false) == 1);
  CHECK(FindWhatWorkersGet(memory.interpreter(), memory).parts.empty());
}

}  // namespace cowprof
