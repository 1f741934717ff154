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

// A main module with two DataLoaders.
struct TwoLoaders : PythonMemory {
  static constexpr uint64_t kLoader = 0x24000, kSubclass = 0x26000, kDataSets[] = {0x60000, 0x61000};
  TwoLoaders() {
    const StateLayout state = StateLayoutOf(layout());
    AddType(kModuleType, kTypeType, "module", kStaticFlags);
    AddType(kLoader, kTypeType, "torch.utils.data.dataloader.DataLoader", kStaticFlags);
    AddType(kSubclass, kTypeType, "Loader", kHeapFlags);
    AddBases(kSubclass, {kSubclass, kLoader});
    Word(kSubclass + state.dict_offset, 16);
    interpreter_.main_interpreter = kInterpreter;
    Word(kInterpreter + layout().interpreter.modules, kModules);
    AddDict(kModules, {{"__main__", kModule}});
    Word(kModule + layout().object.type, kModuleType);
    Word(kModule + state.module_dict, kGlobals);
    AddDict(kGlobals, {{"val_loader", 0x50000}, {"train_loader", 0x52000}});
    for (const int i : {0, 1}) {
      const uint64_t loader = 0x50000 + 0x2000 * i;
      Word(loader + layout().object.type, kSubclass);
      Word(loader + 16, loader + 0x100);
      AddDict(loader + 0x100, {{"dataset", kDataSets[i]}});
    }
  }
};

}  // namespace

TEST_CASE("pickle roots: what was judged before is not found again") {
  const TwoLoaders memory;
  JudgedRoots judged;
  for (const int i : {0, 1, 2}) {
    const PickleRoot root = FindWhatWorkersGet(memory.interpreter(), memory, 0, nullptr, judged);
    REQUIRE(root.parts.empty() == (i == 2));
    if (i == 2) break;
    CHECK(root.expression == (i == 0 ? "__main__.val_loader" : "__main__.train_loader"));
    CHECK(root.of_loader);
    CHECK(root.parts == std::vector<std::pair<std::string, uint64_t>>{{"dataset", TwoLoaders::kDataSets[i]}});
    REQUIRE(root.subjects == std::vector<uint64_t>{TwoLoaders::kDataSets[i]});
    judged.subjects.insert(root.subjects[0]);
  }
}

TEST_CASE("pickle roots: whoever asked for the search is asked whether it goes on") {
  const LargeModule memory;
  int asked = 0;
  const auto count = [&](bool answer) {
    asked = 0;
    CHECK(FindWhatWorkersGet(memory.interpreter(), memory, 0, [&, answer] {
            ++asked;
            return answer;
          }).parts.empty());
    return asked;
  };
  CHECK(count(true) == 4000 / 128);
  CHECK(count(false) == 1);
  CHECK(FindWhatWorkersGet(memory.interpreter(), memory, 0).parts.empty());
}

}  // namespace cowprof
