// What objects.cc accepts as a type in hostile memory: a pointer may lead to anything, and almost nothing is a type.
// recorded_test.cc tests it on real processes.
#include "python/objects.h"

#include <catch2/catch.hpp>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "python_memory.h"

namespace cowprof {
namespace {

// Every address is readable and contains a seeded hash of itself: pointers that lead anywhere, without end.
class RandomMemory : public MemoryReader {
 public:
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    for (size_t i = 0; i < bytes.size(); ++i) {
      uint64_t word = ((address + i) / 8 + 1) * 0x9e3779b97f4a7c15;
      word ^= word >> 29;
      // Half of the words look like user pointers, and half of those are aligned.
      if (word & 1 << 20) word &= (word & 1 << 21) ? 0x00007ffffffffff8 : 0x00007fffffffffff;
      bytes[i] = static_cast<char>(word >> 8 * ((address + i) % 8));
    }
    return true;
  }
};

std::string PoolHeader(uint32_t used, uint64_t free_block, uint32_t size_index, uint32_t next, uint32_t max_next) {
  std::string header(48, '\0');
  memcpy(&header[0], &used, 4);
  memcpy(&header[8], &free_block, 8);
  memcpy(&header[36], &size_index, 4);
  memcpy(&header[40], &next, 4);
  memcpy(&header[44], &max_next, 4);
  return header;
}

}  // namespace

TEST_CASE("python objects: a static type, a heap type, an object") {
  PythonMemory memory;
  memory.AddType(0x20000, PythonMemory::kTypeType, "numpy.ndarray", PythonMemory::kStaticFlags);
  memory.AddType(0x21000, PythonMemory::kTypeType, "Sample", PythonMemory::kHeapFlags);
  memory.AddStr(0x30000, "Outer.Sample");
  memory.Word(0x21000 + memory.layout().type.qualname, 0x30000);
  memory.Word(0x40000, 3);  // an object
  memory.Word(0x40008, 0x21000);
  TypeReader reader(memory.interpreter(), memory);
  CHECK(reader.NameOf(0x20000) == "numpy.ndarray");
  CHECK(reader.NameOf(PythonMemory::kTypeType) == "type");
  const auto info = reader.Read(0x21000);
  REQUIRE(info);
  CHECK(info->name == "Outer.Sample");  // no dict, so no module
  CHECK(info->basic_size == 64);
  CHECK(info->has_gc);
  CHECK(reader.TypeOfObject(0x40000)->name == "Outer.Sample");
  CHECK_FALSE(reader.NameOf(0x40000));
  memory.Word(0x40000, 0);  // freed
  CHECK_FALSE(reader.TypeOfObject(0x40000));
}

TEST_CASE("python objects: memory reused for another type is read again") {
  PythonMemory memory;
  TypeReader reader(memory.interpreter(), memory);
  CHECK_FALSE(reader.NameOf(0x20000));
  memory.AddType(0x20000, PythonMemory::kTypeType, "First", PythonMemory::kStaticFlags);
  CHECK(reader.NameOf(0x20000) == "First");
  memory.Add(0x50000, "Second" + std::string(64, '\0'));
  memory.Word(0x20000 + memory.layout().type.name, 0x50000);
  CHECK(reader.NameOf(0x20000) == "Second");
  memory.Word(0x20000 + memory.layout().type.flags, 0);
  CHECK_FALSE(reader.NameOf(0x20000));
  CHECK(reader.cached() == 1);
}

TEST_CASE("python objects: what only looks like a type") {
  PythonMemory memory;
  const uint64_t address = 0x20000;
  memory.AddType(address, PythonMemory::kTypeType, "Good", PythonMemory::kStaticFlags);
  TypeReader reader(memory.interpreter(), memory);
  REQUIRE(reader.NameOf(address));
  SECTION("its own type, but not PyType_Type") { memory.Word(address + 8, address); }
  SECTION("two objects that are each other's type") {
    memory.AddType(0x21000, address, "Other", PythonMemory::kMetaFlags);
    memory.Word(address + 8, 0x21000);
  }
  SECTION("a metaclass chain that is too long") {
    for (uint64_t i = 0; i < 6; ++i) {
      memory.AddType(0x21000 + i * 0x1000, i == 5 ? PythonMemory::kTypeType : 0x22000 + i * 0x1000, "Meta",
                     PythonMemory::kMetaFlags);
    }
    memory.Word(address + 8, 0x21000);
  }
  SECTION("an instance of a class") { memory.Word(address + 8, PythonMemory::kStrType); }
  SECTION("not ready") { memory.Word(address + memory.layout().type.flags, 0); }
  SECTION("no size") { memory.Word(address + memory.layout().type.basic_size, 0); }
  SECTION("an impossible size") { memory.Word(address + memory.layout().type.basic_size, uint64_t{1} << 40); }
  SECTION("no name") { memory.Word(address + memory.layout().type.name, 0); }
  SECTION("a name in unmapped memory") { memory.Word(address + memory.layout().type.name, 0x7000'0000'0000); }
  SECTION("a type in unmapped memory") { memory.Word(address + 8, 0x7000'0000'0000); }
  SECTION("a type in the kernel") { memory.Word(address + 8, 0xffff'8000'0000'0000); }
  SECTION("a type at an odd address") { memory.Word(address + 8, PythonMemory::kTypeType + 4); }
  CHECK_FALSE(reader.NameOf(address));
}

TEST_CASE("python objects: metaclasses up to four hops away") {
  PythonMemory memory;
  memory.AddType(0x21000, PythonMemory::kTypeType, "MetaMeta", PythonMemory::kMetaFlags);
  memory.AddType(0x22000, 0x21000, "Meta", PythonMemory::kMetaFlags);
  memory.AddType(0x23000, 0x22000, "Class", PythonMemory::kStaticFlags);
  TypeReader reader(memory.interpreter(), memory);
  CHECK(reader.NameOf(0x23000) == "Class");
  CHECK(reader.NameOf(0x22000) == "Meta");
}

TEST_CASE("python objects: names of any length and any bytes") {
  PythonMemory memory;
  TypeReader reader(memory.interpreter(), memory);
  memory.AddType(0x200000, PythonMemory::kTypeType, std::string(1 << 20, 'n'), PythonMemory::kStaticFlags);
  CHECK(reader.NameOf(0x200000) == std::string(kMaxNameBytes, 'n'));
  memory.AddType(0x400000, PythonMemory::kTypeType, "\x1b[31m\n\t\xff", PythonMemory::kStaticFlags);
  CHECK(reader.NameOf(0x400000) == "\x1b[31m\n\t\xff");
  memory.AddType(0x500000, PythonMemory::kTypeType, "Plain", PythonMemory::kHeapFlags);
  memory.AddStr(0x600000, std::string(1 << 20, 'q'));
  memory.Word(0x500000 + memory.layout().type.qualname, 0x600000);
  CHECK(reader.NameOf(0x500000) == std::string(kMaxNameBytes, 'q'));
  // A length that is only claimed.
  memory.Word(0x600000 + memory.layout().string.length, uint64_t{1} << 39);
  CHECK(ReadString(memory.layout(), memory, 0x600000, 50) == std::string(50, 'q'));
  memory.Word(0x600000 + memory.layout().string.length, UINT64_MAX);
  CHECK_FALSE(ReadString(memory.layout(), memory, 0x600000, 50));
}

TEST_CASE("python objects: strings of every kind") {
  PythonMemory memory;
  const auto add = [&memory](uint64_t kind, const std::string& data) {
    memory.AddStr(0x30000, "");
    memory.Word(0x30000 + memory.layout().string.length, data.size() / kind);
    memory.Word(0x30000 + memory.layout().string.state, kind << 2 | 1 << 5);
    memory.Add(0x30000 + memory.layout().string.compact_data, data);
    return ReadString(memory.layout(), memory, 0x30000, 100);
  };
  CHECK(add(1, "gr\xfc\xdf") == "grüß");
  CHECK(add(2, std::string("\x0d\x54\x4d\x52", 4)) == "名前");
  CHECK(add(2, std::string("\x00\xd8", 2)) == "?");  // a lone surrogate
  CHECK(add(4, std::string("\x0d\xf4\x01\x00", 4)) == "🐍");
  CHECK(add(4, std::string("\xff\xff\xff\xff", 4)) == "?");
  CHECK(add(4, "") == "");
  memory.Word(0x30000 + memory.layout().string.state, 3 << 2 | 1 << 5);
  CHECK_FALSE(ReadString(memory.layout(), memory, 0x30000, 100));  // no such kind
  memory.Word(0x30000 + memory.layout().object.type, PythonMemory::kCodeType);
  CHECK_FALSE(ReadString(memory.layout(), memory, 0x30000, 100));  // not a str
}

// A dict whose keys are at `keys`, the values 0x1000, 0x1001, ...; at 0x40000.
uint64_t AddDict(PythonMemory* memory, const std::vector<uint64_t>& keys) {
  constexpr uint64_t kDict = 0x40000, kKeys = 0x50000;
  memory->Add(kDict, std::string(48, '\0'));
  memory->Word(kDict + memory->layout().container.dict_keys, kKeys);
  int log2_size = 3;
  while (keys.size() > size_t{1} << log2_size) ++log2_size;
  std::string table(32 + (size_t{1} << log2_size) + 16 * keys.size(), '\0');
  table[8] = table[9] = static_cast<char>(log2_size);
  table[10] = 1;  // of str keys only
  const uint64_t count = keys.size();
  memcpy(&table[24], &count, sizeof(count));
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t entry[2] = {keys[i], 0x1000 + i};
    memcpy(&table[32 + (size_t{1} << log2_size) + 16 * i], entry, sizeof(entry));
  }
  memory->Add(kKeys, table);
  return kDict;
}

TEST_CASE("python objects: keys of every kind are found in a dict") {
  PythonMemory memory;
  const auto add_wide = [&memory](uint64_t address, uint64_t kind, const std::string& data) {
    memory.AddStr(address, std::string(64, '\0'));
    memory.Word(address + memory.layout().string.length, data.size() / kind);
    memory.Word(address + memory.layout().string.state, kind << 2 | 1 << 5);
    memory.Add(address + memory.layout().string.compact_data, data);
  };
  const std::string long_name(200, 'n');
  memory.AddStr(0x30000, "plain");
  add_wide(0x31000, 1,
           "gr\xf6\xdf"
           "e");
  add_wide(0x32000, 2, std::string("\x0d\x54\x4d\x52", 4));
  add_wide(0x33000, 4, std::string("\x0d\xf4\x01\x00", 4));
  memory.AddStr(0x34000, long_name);
  const uint64_t dict = AddDict(&memory, {0x30000, 0x31000, 0x32000, 0x33000, 0x34000});
  const auto find = [&](absl::string_view key) { return FindInDict(memory.layout(), memory, dict, key); };
  CHECK(find("plain") == 0x1000);
  CHECK(find("größe") == 0x1001);
  CHECK(find("名前") == 0x1002);
  CHECK(find("🐍") == 0x1003);
  CHECK(find(long_name) == 0x1004);
  CHECK(find("grosse") == 0);
  CHECK(find("gr\xf6\xdf"
             "e") == 0);  // not UTF-8
}

TEST_CASE("python objects: a search in a dict says whether it was whole") {
  PythonMemory memory;
  std::vector<uint64_t> keys(1000, 0x30000);
  memory.AddStr(0x30000, "other");
  memory.AddStr(0x31000, "last");
  keys.push_back(0x31000);
  const uint64_t dict = AddDict(&memory, keys);
  DictSearch search{.most = 1000};
  CHECK(FindInDict(memory.layout(), memory, dict, "last", &search) == 0);
  CHECK_FALSE(search.whole);
  CHECK(search.readable);
  CHECK(search.compared == 1000);
  search.most = 2000;
  CHECK(FindInDict(memory.layout(), memory, dict, "last", &search) == 0x1000 + 1000);
  CHECK(search.whole);
  CHECK(FindInDict(memory.layout(), memory, dict, "none", &search) == 0);
  CHECK(search.whole);
  FindInDict(memory.layout(), memory, dict, std::string(kMaxKeyBytes + 1, 'n'), &search);
  CHECK_FALSE(search.whole);
  CHECK(search.readable);
  FindInDict(memory.layout(), memory, 0x7000'0000'0000, "last", &search);
  CHECK_FALSE(search.whole);
  CHECK_FALSE(search.readable);
}

TEST_CASE("python objects: a search from the newest name on") {
  PythonMemory memory;
  std::vector<uint64_t> keys(1000, 0x30000);
  memory.AddStr(0x30000, "other");
  memory.AddStr(0x31000, "first");
  memory.AddStr(0x32000, "new");
  keys.front() = 0x31000;
  keys[997] = 0x32000;
  const uint64_t dict = AddDict(&memory, keys);
  DictSearch search{.newest_first = true};
  CHECK(FindInDict(memory.layout(), memory, dict, "new", &search) == 0x1000 + 997);
  CHECK(search.compared <= 8);
  CHECK(FindInDict(memory.layout(), memory, dict, "first", &search) == 0x1000);
  CHECK(FindInDict(memory.layout(), memory, dict, "none", &search) == 0);
  CHECK(search.whole);
}

TEST_CASE("python objects: the value of an int, before 3.12 and since") {
  PythonMemory memory;
  const auto read = [&memory](uint32_t minor, int64_t tag, uint32_t low, uint32_t high) {
    memory.interpreter_.layout = LayoutOf(minor, 0, false);
    memory.Add(0x30000, std::string(32, '\0'));
    memory.Word(0x30000 + 16, static_cast<uint64_t>(tag));
    memory.Word(0x30000 + 24, uint64_t{high} << 32 | low);
    return ReadInt(memory.layout(), memory, 0x30000);
  };
  CHECK(read(11, 0, 7, 7) == 0);
  CHECK(read(11, 1, 5, 7) == 5);
  CHECK(read(11, -1, 5, 7) == -5);
  CHECK(read(11, 2, 5, 1) == (int64_t{1} << 30) + 5);
  CHECK_FALSE(read(11, 3, 5, 1));
  CHECK_FALSE(read(11, 1, 1u << 30, 0));
  CHECK(read(12, 1, 7, 7) == 0);
  CHECK(read(12, 1 << 3, 5, 7) == 5);
  CHECK(read(12, 1 << 3 | 2, 5, 7) == -5);
  CHECK(read(14, 1 << 3 | 4, 5, 7) == 5);  // immortal
  CHECK(read(14, 2 << 3, 5, 1) == (int64_t{1} << 30) + 5);
  CHECK_FALSE(ReadInt(memory.layout(), memory, 0x7000'0000'0000));
}

TEST_CASE("python objects: random bytes are never a type") {
  const RandomMemory memory;
  for (uint32_t minor = 6; minor <= 14; ++minor) {
    Interpreter interpreter;
    interpreter.layout = LayoutOf(minor, 9, false);
    interpreter.type_type = 0x7f1234567890;
    interpreter.code_type = 0x7f1234567000;
    TypeReader reader(interpreter, memory);
    CodeReader code(interpreter, memory);
    std::mt19937_64 random(minor);
    size_t types = 0, codes = 0;
    for (int i = 0; i < 100000; ++i) {
      const uint64_t address = i % 2 ? random() : random() & 0x7ffffffffff8;
      types += reader.NameOf(address).has_value() + reader.TypeOfObject(address).has_value();
      codes += code.Resolve(address, random()).has_value();
      if (i % 100 == 0) {
        FindInDict(interpreter.layout, memory, address, "__module__");
        WalkFrames(interpreter, memory, address);
      }
    }
    CHECK(types == 0);
    CHECK(codes == 0);
    CHECK(reader.cached() <= 1 << 16);
  }
}

TEST_CASE("python pools: blocks of a pool in use") {
  const uint64_t pool = 0x7f0000004000;
  // 64-byte blocks of a 16 KiB pool with an alignment of 16: szidx 3.
  const std::string header = PoolHeader(10, pool + 48 + 64 * 5, 3, 48 + 64 * 20, 16384 - 64);
  const auto block = ParsePool(header, pool + 48 + 64 * 3 + 17, 16384);
  REQUIRE(block);
  CHECK(block->pool == pool);
  CHECK(block->block_bytes == 64);
  CHECK(block->block == pool + 48 + 64 * 3);
  CHECK(block->ever_used);
  CHECK_FALSE(block->in_header);
  CHECK(ParsePool(header, pool + 8, 16384)->in_header);
  CHECK(ParsePool(header, pool + 47, 16384)->in_header);
  CHECK_FALSE(ParsePool(header, pool + 48 + 64 * 20, 16384)->ever_used);
  CHECK_FALSE(ParsePool(header, pool + 48 + 64 * 255, 16384));  // after the last block
  CHECK(ParsePool(PoolHeader(1, 0, 0, 48, 4096 - 8), 0x7f0000001030, 4096)->block_bytes == 8);
}

TEST_CASE("python pools: what is no pool") {
  const uint64_t pool = 0x7f0000004000, address = pool + 100;
  const uint32_t max = 16384 - 64;
  CHECK(ParsePool(PoolHeader(1, 0, 3, 48, max), address, 16384));
  CHECK_FALSE(ParsePool(PoolHeader(0, 0, 3, 48, max), address, 16384));             // empty
  CHECK_FALSE(ParsePool(PoolHeader(256, 0, 3, 48, max), address, 16384));           // more blocks than it can hold
  CHECK_FALSE(ParsePool(PoolHeader(1, 0, 4, 48, max), address, 16384));             // another size class
  CHECK_FALSE(ParsePool(PoolHeader(1, 0, UINT32_MAX, 48, 16384), address, 16384));  // blocks of 0 bytes
  CHECK_FALSE(ParsePool(PoolHeader(1, 0, 127, 48, 16384 - 1024), address, 16384));
  CHECK_FALSE(ParsePool(PoolHeader(1, 0, 3, 40, max), address, 16384));
  CHECK_FALSE(ParsePool(PoolHeader(1, 0, 3, 50, max), address, 16384));
  CHECK_FALSE(ParsePool(PoolHeader(1, 0, 3, 20000, max), address, 16384));
  CHECK_FALSE(ParsePool(PoolHeader(1, pool + 49, 3, 48, max), address, 16384));  // a free block between two
  CHECK_FALSE(ParsePool(PoolHeader(1, pool + 16384 + 48, 3, 48, max), address, 16384));
  CHECK_FALSE(ParsePool(PoolHeader(1, 8, 3, 48, max), address, 16384));
  CHECK_FALSE(ParsePool(std::string(48, '\0'), address, 16384));
  CHECK_FALSE(ParsePool(std::string(48, '\xff'), address, 16384));
  CHECK_FALSE(ParsePool(std::string(47, '\0'), address, 16384));
  CHECK_FALSE(ParsePool(PoolHeader(1, 0, 3, 48, max), address, 0));
  CHECK_FALSE(ParsePool(PoolHeader(1, 0, 3, 48, max), address, 16383));
  std::mt19937 random(1);
  for (int i = 0; i < 100000; ++i) {
    std::string header(48, '\0');
    for (char& c : header) c = static_cast<char>(random());
    const auto block = ParsePool(header, random(), 16384);
    if (block && !block->in_header) CHECK(block->block >= block->pool + 48);
  }
}

TEST_CASE("python pools: sys.modules says whether objects lie in them") {
  constexpr uint64_t kInterpreter = 0x40000, kPool = 0x7f0000010000;
  PythonMemory memory;
  Interpreter& interpreter = memory.interpreter_;
  const auto modules_at = [&](uint64_t address) {
    memory.Word(kInterpreter + memory.layout().interpreter.modules, address);
    memory.Word(address, 1);
  };
  interpreter.pool_bytes = 16384;
  CHECK(UsesPools(interpreter, memory) == std::nullopt);
  interpreter.main_interpreter = kInterpreter;
  memory.Word(kInterpreter + memory.layout().interpreter.modules, 0);
  CHECK(UsesPools(interpreter, memory) == std::nullopt);  // not made yet

  memory.Add(kPool, PoolHeader(3, 0, 3, 48 + 10 * 64, 16384 - 64));  // blocks of 64 bytes, 10 of them used once
  for (const uint64_t before : {16, 32}) {  // behind a GC head; and the bytes of PYTHONMALLOC=debug
    modules_at(kPool + 48 + 2 * 64 + before);
    CHECK(UsesPools(interpreter, memory) == true);
  }
  for (const uint64_t before : {8, 24, 48}) {  // not where a block's object begins
    modules_at(kPool + 48 + 2 * 64 + before);
    CHECK(UsesPools(interpreter, memory) == false);
  }
  modules_at(kPool + 48 + 10 * 64 + 16);  // never used
  CHECK(UsesPools(interpreter, memory) == false);
  memory.Add(kPool + 16384, std::string(48, '\x11'));  // another allocator's memory
  modules_at(kPool + 16384 + 256);
  CHECK(UsesPools(interpreter, memory) == false);
  modules_at(kPool + 2 * 16384 + 4096);  // a heap that begins in the middle of what would be a pool
  CHECK(UsesPools(interpreter, memory) == false);
  interpreter.pool_bytes = 0;
  CHECK(UsesPools(interpreter, memory) == false);
}

TEST_CASE("python pools: behind GC heads of 24 and 32 bytes, up to 3.7") {
  constexpr uint64_t kInterpreter = 0x40000, kPool = 0x7f0000010000;
  PythonMemory memory;
  Interpreter& interpreter = memory.interpreter_;
  interpreter.main_interpreter = kInterpreter;
  interpreter.pool_bytes = 4096;
  memory.Add(kPool, PoolHeader(3, 0, 8, 48 + 10 * 72, 4096 - 72));  // blocks of 72 bytes, a dict and its head of 24
  const auto uses_pools = [&](uint32_t head_bytes, uint64_t before) {
    interpreter.layout = WithGcHead(LayoutOf(6, 9, false), head_bytes);
    const uint64_t modules = kPool + 48 + 3 * 72 + before;
    memory.Word(kInterpreter + interpreter.layout.interpreter.modules, modules);
    memory.Word(modules, 1);
    return UsesPools(interpreter, memory);
  };
  for (const uint64_t before : {24, 40}) {
    CHECK(uses_pools(24, before) == true);
    CHECK(uses_pools(32, before) == false);
  }
  for (const uint64_t before : {32, 48}) {
    CHECK(uses_pools(24, before) == false);
    CHECK(uses_pools(32, before) == true);
  }
  CHECK(uses_pools(0, 24) == std::nullopt);
}

}  // namespace cowprof
