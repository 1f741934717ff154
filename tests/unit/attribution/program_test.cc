// What a program's processes say about it, where some of them have ended.
#include "attribution/program.h"

#include <unistd.h>

#include <catch2/catch.hpp>

#include "fixture_tree.h"

namespace cowprof {

TEST_CASE("program: where environ is, is asked again if a process has just ended, and found beside one") {
  ElfCache elf_cache;
  Program program(/*image=*/1, ProcFs(), &elf_cache, /*starting=*/false);
  const ProcessId ended = {.pid = 0x7fffffff};
  program.memory().Add(ended);
  CHECK(program.EnvironAddress(ended.pid) == 0);
  program.memory().Add({.pid = getpid()});
  CHECK(program.EnvironAddress(getpid()) != 0);
}

TEST_CASE("program: mappings are not read again for each place in generated code, but where there was none") {
  FixtureTree tree;
  ElfCache elf_cache;
  Program program(/*image=*/1, ProcFs(tree.root()), &elf_cache, /*starting=*/false);
  program.memory().Add({.pid = 7});
  tree.Write("/7/maps",
             "7f0000000000-7f0000001000 rwxp 00000000 00:00 0\n"
             "7f0000002000-7f0000003000 rw-p 00000000 00:00 0\n");
  CHECK(program.SymbolOf(0x7f0000000100) == NativeSymbol{});
  tree.Write("/7/maps",
             "7f0000000000-7f0000001000 r-xp 00000000 08:01 5 /none/a.so\n"
             "7f0000002000-7f0000003000 r-xp 00000000 08:01 6 /none/b.so\n");
  CHECK(program.SymbolOf(0x7f0000000200) == NativeSymbol{});
  CHECK(program.SymbolOf(0x7f0000002100) == NativeSymbol{"b.so", ""});  // loaded where data was before
  CHECK(program.SymbolOf(0x7f0000000300) == NativeSymbol{"a.so", ""});
  tree.Write("/7/maps", "7f0000004000-7f0000005000 r-xp 00000000 08:01 7 /none/c.so\n");
  CHECK(program.SymbolOf(0x7f0000004100) == NativeSymbol{"c.so", ""});
}

}  // namespace cowprof
