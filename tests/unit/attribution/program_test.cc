// What a program's processes say about it, where some of them have ended.
#include "attribution/program.h"

#include <unistd.h>

#include <catch2/catch.hpp>

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

}  // namespace cowprof
