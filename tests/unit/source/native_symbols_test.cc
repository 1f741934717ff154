// Addresses to names: in this process, in made-up processes with every kind of mapping; and the demangler on hostile
// names.
#include "source/native_symbols.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "elf_image.h"
#include "fixture_tree.h"

namespace cowprof {
namespace {

const std::string kRoot = "/root";  // of the target, in the tree

// A mapping of the whole small file at 0x7f0000000000.
Mapping MappingOf(const std::string& name) {
  return {
      .begin = 0x7f0000000000, .end = 0x7f0000001000, .readable = true, .executable = true, .inode = 1, .name = name};
}

std::string ImageWith(const std::string& function) {
  ElfImage image;
  image.dynamic_symbols = {{function, 0x400100, 0x10}};
  return image.Build();
}

std::optional<NativeSymbol> FindIn(const FixtureTree& tree, const Mapping& mapping, uint64_t offset = 0x108) {
  ElfCache cache;
  return NativeSymbols({mapping}, tree.root(), &cache).Find(mapping.begin + offset);
}

// pair<pair<pair<...>, ...>, ...>, each level naming the previous one twice.
std::string Explosive(int levels) {
  const auto digit = [](int value) { return std::string(1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[value]); };
  std::string name = "_Z1fSt4pairIiiE";
  for (int i = 0; i < levels; ++i) {
    const std::string number = 2 * i < 36 ? digit(2 * i) : digit(2 * i / 36) + digit(2 * i % 36);
    absl::StrAppend(&name, "St4pairIS", number, "_S", number, "_E");
  }
  return name;
}

}  // namespace

TEST_CASE("native symbols: this process") {
  const ProcFs proc;
  const auto mappings = proc.ReadMaps(getpid());
  REQUIRE(mappings.ok());
  ElfCache cache;
  NativeSymbols symbols(*mappings, proc.PathOf(getpid(), ""), &cache);
  const auto own = symbols.Find(reinterpret_cast<uint64_t>(&Demangle) + 1);
  REQUIRE(own);
  CHECK(absl::StartsWith(own->symbol, "cowprof::Demangle("));
  CHECK(symbols.Find(reinterpret_cast<uint64_t>(&getpid))->module != own->module);
  CHECK_FALSE(symbols.Find(0));
  CHECK_FALSE(symbols.Find(UINT64_MAX));
  const auto on_stack = symbols.Find(reinterpret_cast<uint64_t>(&mappings));
  CHECK_FALSE(on_stack);
  for (const Mapping& mapping : *mappings) {
    if (mapping.name == "[vdso]") CHECK(symbols.Find(mapping.begin) == NativeSymbol{"[vdso]", ""});
  }
}

TEST_CASE("native symbols: a file that only the target's root has") {
  FixtureTree tree;
  tree.Write(kRoot + "/opt/lib/liba.so.1", ImageWith("_ZN1a1bEi"));
  CHECK(FindIn(tree, MappingOf("/opt/lib/liba.so.1")) == NativeSymbol{"liba.so.1", "a::b(int)"});
  CHECK(FindIn(tree, MappingOf("/opt/lib/liba.so.1"), 0x200) == NativeSymbol{"liba.so.1", ""});
  CHECK_FALSE(FindIn(tree, MappingOf("/opt/lib/liba.so.1"), 0x1000));  // after the mapping
}

TEST_CASE("native symbols: deleted and replaced files") {
  FixtureTree tree;
  tree.Write(kRoot + "/lib/liba.so", ImageWith("successor"));
  tree.Write("/map_files/7f0000000000-7f0000001000", ImageWith("original"));
  CHECK(FindIn(tree, MappingOf("/lib/liba.so (deleted)")) == NativeSymbol{"liba.so", "original"});
  CHECK(FindIn(tree, MappingOf("/memfd:jit (deleted)")) == NativeSymbol{"memfd:jit", "original"});
  CHECK(FindIn(tree, MappingOf("/gone/libb.so")) == NativeSymbol{"libb.so", "original"});
  std::filesystem::remove_all(tree.root() + "/map_files");
  CHECK(FindIn(tree, MappingOf("/lib/liba.so (deleted)")) == NativeSymbol{"liba.so", ""});
  CHECK(FindIn(tree, MappingOf("/gone/libb.so")) == NativeSymbol{"libb.so", ""});
}

TEST_CASE("native symbols: mappings that are not a file, or not an ELF file") {
  FixtureTree tree;
  tree.Write(kRoot + "/data/train.bin", std::string(5000, 'x'));
  tree.Write(kRoot + "/a\nb/lib.so", ImageWith("f"));
  CHECK(FindIn(tree, MappingOf("/data/train.bin")) == NativeSymbol{"train.bin", ""});
  CHECK(FindIn(tree, MappingOf("/a\\012b/lib.so")) == NativeSymbol{"lib.so", "f"});
  CHECK(FindIn(tree, MappingOf("[vdso]")) == NativeSymbol{"[vdso]", ""});
  CHECK_FALSE(FindIn(tree, MappingOf("")));
  CHECK_FALSE(FindIn(tree, MappingOf("[heap]")));
  CHECK_FALSE(FindIn(tree, MappingOf("[anon:jit]")));
}

TEST_CASE("native symbols: code that is generated at run time is told from memory without code") {
  ElfCache cache;
  const auto is_generated = [&cache](const Mapping& mapping, uint64_t offset = 0x108) {
    return NativeSymbols({mapping}, "", &cache).IsGenerated(mapping.begin + offset);
  };
  CHECK(is_generated(MappingOf("")));
  CHECK(is_generated(MappingOf("[anon:jit]")));
  CHECK_FALSE(is_generated(MappingOf(""), 0x1000));  // after the mapping
  CHECK_FALSE(is_generated(MappingOf("/lib/liba.so")));
  Mapping data = MappingOf("");
  data.executable = false;
  CHECK_FALSE(is_generated(data));
}

TEST_CASE("native symbols: the cache stays within its bounds") {
  FixtureTree tree;
  std::vector<Mapping> mappings;
  for (int i = 0; i < 300; ++i) {
    tree.Write(absl::StrCat(kRoot, "/lib", i), ImageWith(absl::StrCat("f", i)));
    Mapping mapping = MappingOf(absl::StrCat("/lib", i));
    mapping.begin += 0x1000 * i;
    mapping.end += 0x1000 * i;
    mappings.push_back(mapping);
  }
  ElfCache one;
  CHECK(NativeSymbols(mappings, tree.root(), &one).Find(0x7f0000000108)->symbol == "f0");
  const size_t file_bytes = one.index_bytes();
  ElfCache many, small(5 * file_bytes);
  NativeSymbols with_many(mappings, tree.root(), &many), with_small(mappings, tree.root(), &small);
  for (int i = 0; i < 300; ++i) {
    CHECK(with_many.Find(0x7f0000000108 + 0x1000 * i)->symbol == absl::StrCat("f", i));
    CHECK(with_small.Find(0x7f0000000108 + 0x1000 * i)->symbol == absl::StrCat("f", i));
    CHECK(small.index_bytes() <= 5 * file_bytes);
  }
  CHECK(many.index_bytes() == 256 * file_bytes);
  CHECK(with_small.Find(0x7f0000000108)->symbol == "f0");
}

TEST_CASE("demangling") {
  CHECK(Demangle("_ZN2at6native3addEv") == "at::native::add()");
  CHECK(Demangle("PyObject_Call") == "PyObject_Call");
  CHECK(Demangle("_ZNope") == "_ZNope");
  CHECK(Demangle("_Z") == "_Z");
  CHECK(Demangle("").empty());
  CHECK(Demangle(std::string(5000, 'x')) == std::string(1000, 'x'));
  CHECK(Demangle("_ZNSt6vectorIiSaIiEE9push_backERKi") ==
        "std::vector<int, std::allocator<int> >::push_back(int const&)");
}

TEST_CASE("demangling: names that stand for gigabytes are left alone") {
  CHECK(absl::StartsWith(Demangle(Explosive(3)), "f(std::pair<int, int>, std::pair<"));
  CHECK(Demangle(Explosive(12)).size() == 1000);
  for (int levels = 20; levels < 300; levels += 7) {
    CHECK(Demangle(Explosive(levels)) == Explosive(levels).substr(0, 1000));
  }
}

}  // namespace cowprof
