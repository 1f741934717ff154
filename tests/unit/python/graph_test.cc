// References of containers, read in made-up memory. The system tests compare the rest with what pickle really visits.
#include "python/graph.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kDeque = 0x40000, kBlocks = 0x50000, kBlockBytes = 66 * 8, kItems = 0x100000;

// A deque of `count` items, which are kItems, kItems + 8, ..., from `index` of its first block on.
void AddDeque(PythonMemory* memory, uint64_t count, uint64_t index) {
  memory->Add(kDeque, std::string(64, '\0'));
  memory->Word(kDeque + 16, count);
  memory->Word(kDeque + 24, kBlocks);
  memory->Word(kDeque + 40, index);
  for (uint64_t block = 0; block <= (index + count) / 64; ++block) {
    const uint64_t at = kBlocks + block * kBlockBytes;
    memory->Add(at, std::string(kBlockBytes, '\0'));
    for (uint64_t i = 0; i < 64; ++i) {
      const uint64_t item = block * 64 + i;
      if (item >= index) memory->Word(at + 8 + 8 * i, kItems + 8 * (item - index));
    }
    memory->Word(at + 8 + 8 * 64, at + kBlockBytes);
  }
}

uint64_t CountItems(const PythonMemory& memory, Edges* edges) {
  uint64_t count = 0;
  Edge edge;
  while (edges->Next(memory, &edge)) {
    CHECK(edge.object == kItems + 8 * count);
    CHECK(edge.index == count);
    ++count;
  }
  return count;
}

TEST_CASE("graph: an int is read only of an int", "[python graph]") {
  PythonMemory memory;
  memory.interpreter_.layout = LayoutOf(12, 0, false);  // whose tag makes a 0 of other types' 5
  memory.AddType(0x20000, PythonMemory::kTypeType, "int", PythonMemory::kStaticFlags);
  memory.AddType(0x21000, PythonMemory::kTypeType, "numpy.int64", PythonMemory::kStaticFlags);
  memory.AddType(0x22000, PythonMemory::kTypeType, "bool", PythonMemory::kStaticFlags);
  ObjectGraph graph(memory.interpreter(), memory);
  const auto value_of = [&](uint64_t type, uint64_t tag) {
    memory.Add(kItems, std::string(32, '\0'));
    memory.Word(kItems + memory.layout().object.type, type);
    memory.Word(kItems + memory.layout().object.var_size, tag);
    memory.Word(kItems + memory.layout().object.var_size + 8, 5);
    return graph.Int(kItems);
  };
  CHECK(value_of(0x20000, 1 << 3) == 5);
  CHECK(value_of(0x20000, 1) == 0);
  CHECK(value_of(0x22000, 1) == 0);
  CHECK_FALSE(value_of(0x21000, 5).has_value());
  CHECK_FALSE(graph.Int(0).has_value());
}

TEST_CASE("graph: what a descriptor of the class decides is not an attribute", "[python graph]") {
  constexpr uint64_t kClass = 0x20000, kProperty = 0x22000, kInt = 0x24000;
  constexpr uint64_t kObject = 0x30000, kData = 0x31000, kLimit = 0x32000, kDict = 0x33000;
  PythonMemory memory;
  for (const auto& [type, name] : {std::pair{kClass, "Dataset"}, {kProperty, "property"}, {kInt, "int"}}) {
    memory.AddType(type, PythonMemory::kTypeType, name, PythonMemory::kStaticFlags);
    memory.AddBases(type, {type});
  }
  memory.AddBases(PythonMemory::kTypeType, {PythonMemory::kTypeType});
  memory.Word(kProperty + StateLayoutOf(memory.layout()).descr_get, 0x1000000);
  memory.AddDict(kDict, {{"data", kData}, {"limit", kLimit}});
  memory.Word(kClass + memory.layout().type.dict, kDict);
  for (const auto& [object, type] : {std::pair{kObject, kClass}, {kData, kProperty}, {kLimit, kInt}})
    memory.Word(object + memory.layout().object.type, type);
  ObjectGraph graph(memory.interpreter(), memory);
  CHECK(graph.Attribute(kObject, "limit") == kLimit);
  CHECK(graph.Attribute(kObject, "data") == 0);
  CHECK(graph.Attribute(kClass, "data") == kData);  // Dataset.data is the property itself
}

TEST_CASE("graph: an instance's own attributes, as many as are asked for", "[python graph]") {
  constexpr uint64_t kClass = 0x20000, kClassDict = 0x22000, kObject = 0x30000, kDict = 0x33000;
  constexpr uint64_t kFirst = 0x40000, kSecond = 0x41000, kOfClass = 0x42000;
  PythonMemory memory;
  memory.AddType(kClass, PythonMemory::kTypeType, "Arbiter", PythonMemory::kStaticFlags);
  memory.AddBases(kClass, {kClass});
  memory.AddDict(kClassDict, {{"of_class", kOfClass}});
  memory.Word(kClass + memory.layout().type.dict, kClassDict);
  memory.Word(kClass + StateLayoutOf(memory.layout()).dict_offset, 16);
  memory.AddDict(kDict, {{"first", kFirst}, {"second", kSecond}});
  memory.Word(kObject + memory.layout().object.type, kClass);
  memory.Word(kObject + 16, kDict);
  ObjectGraph graph(memory.interpreter(), memory);
  CHECK(graph.InstanceAttribute(kObject, "second") == kSecond);
  CHECK(graph.InstanceAttribute(kObject, "second", 1) == 0);
  CHECK(graph.InstanceAttribute(kObject, "first", 1) == kFirst);
  CHECK(graph.InstanceAttribute(kObject, "of_class") == 0);
  CHECK(graph.Attribute(kObject, "second") == kSecond);
}

TEST_CASE("graph: a deque of any length", "[python graph]") {
  PythonMemory memory;
  const uint64_t count = GENERATE(0, 1, 4, 5, 200, 5000);
  AddDeque(&memory, count, 60);
  const ObjectGraph graph(memory.interpreter(), memory);
  Edges edges = graph.DequeItems(kDeque);
  CHECK(edges.size() == count);
  CHECK(CountItems(memory, &edges) == count);
  CHECK_FALSE(edges.torn());
}

TEST_CASE("graph: a deque that claims more than it has is torn", "[python graph]") {
  PythonMemory memory;
  AddDeque(&memory, 200, 0);
  const ObjectGraph graph(memory.interpreter(), memory);
  SECTION("the next block is nowhere") { memory.Word(kBlocks + kBlockBytes - 8, 0); }
  SECTION("no item has such an index") { memory.Word(kDeque + 40, 64); }
  SECTION("more than there can be") { memory.Word(kDeque + 16, uint64_t{1} << 40); }
  Edges edges = graph.DequeItems(kDeque);
  CHECK(CountItems(memory, &edges) < 200);
  CHECK(edges.torn());
}

TEST_CASE("graph: a table that claims billions of entries, all of them empty, is torn", "[python graph]") {
  constexpr uint64_t kSet = 0x40000, kTable = 0x100'0000'0000;
  struct Zeros : PythonMemory {
    bool Read(uint64_t address, absl::Span<char> bytes) const override {
      if (address < kTable) return PythonMemory::Read(address, bytes);
      std::fill(bytes.begin(), bytes.end(), '\0');
      read += bytes.size();
      return true;
    }
    mutable uint64_t read = 0;
  };
  Zeros memory;
  const ObjectGraph graph(memory.interpreter(), memory);
  memory.Word(kSet + graph.state().set_used, 1);
  memory.Word(kSet + graph.state().set_mask, UINT32_MAX);
  memory.Word(kSet + graph.state().set_table, kTable);
  Edges edges = graph.SetItems(kSet);
  CHECK(edges.size() == uint64_t{1} << 32);
  Edge edge;
  CHECK_FALSE(edges.Next(memory, &edge));
  CHECK(edges.torn());
  CHECK(edges.empty() > 1 << 20);
  CHECK(memory.read < uint64_t{2} << 30);
  CHECK_FALSE(edges.Next(memory, &edge));
}

TEST_CASE("graph: an item of a list is read without those before it", "[python graph]") {
  PythonMemory memory;
  memory.Add(kDeque, std::string(40, '\0'));
  memory.Word(kDeque + 16, 1000);
  memory.Word(kDeque + 24, kBlocks);
  memory.Word(kBlocks + 8 * 999, kItems);  // alone is readable
  const ObjectGraph graph(memory.interpreter(), memory);
  Edges edges = graph.Items(kDeque, EdgeKind::kIndex);
  REQUIRE(edges.SkipTo(999));
  Edge edge;
  REQUIRE(edges.Next(memory, &edge));
  CHECK(edge.object == kItems);
  CHECK(edge.index == 999);
  CHECK_FALSE(edges.Next(memory, &edge));
  Edges fields = Edges::Fields({{.object = kItems}});
  CHECK_FALSE(fields.SkipTo(0));
}

}  // namespace
}  // namespace cowprof
