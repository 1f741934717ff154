// Which library a thread waits in, by its innermost callers.
#include "recorder/native_callers.h"

#include <catch2/catch.hpp>
#include <vector>

namespace cowprof {
namespace {

NativeSymbol Of(const char* module) { return {.module = module, .symbol = ""}; }

TEST_CASE("native callers: the library that waits is the innermost one behind those of C and C++") {
  const NativeSymbol c = Of("libc.so.6"), cpp = Of("libstdc++.so.6"), polars = Of("polars.abi3.so");
  const NativeSymbol python = Of("python3.11");
  using Callers = std::vector<NativeSymbol>;
  CHECK(WaitingLibrary(Callers{c, polars, Of("libother.so"), polars, polars, polars, python}) == "polars.abi3.so");
  CHECK(WaitingLibrary(Callers{c, c, cpp, polars}) == "polars.abi3.so");
  // A wait of Python's own, such as that of a SimpleQueue, with what is left over from an earlier call.
  CHECK(WaitingLibrary(Callers{c, polars, python, polars}).empty());
  CHECK(WaitingLibrary(Callers{c, Of("libpython3.12.so.1.0"), polars}).empty());
  CHECK(WaitingLibrary(Callers{c, Of("server"), polars}).empty());  // the program itself
  CHECK(WaitingLibrary(Callers{c}).empty());
  CHECK(WaitingLibrary(Callers()).empty());
}

}  // namespace
}  // namespace cowprof
