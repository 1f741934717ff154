// environ.cc on arrays that change, end late or never, and on our own process.
#include "python/environ.h"

#include <stdlib.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "python/process_memory.h"
#include "python_recording.h"

namespace cowprof {
namespace {

constexpr uint64_t kVariable = 0x10000, kArray = 0x20ff0, kText = 0x40000;

class Environment : public RecordedMemory {
 public:
  explicit Environment(const std::vector<std::string>& variables) {
    Word(kVariable, kArray);
    for (size_t i = 0; i < variables.size(); ++i) Set(i, variables[i], kText + 0x1000 * i);
    Word(kArray + 8 * variables.size(), 0);
    Add(kArray + 8 * variables.size() + 8, std::string(0x1000, '\0'));
  }
  void Word(uint64_t address, uint64_t value) {
    Add(address, std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
  }
  void Set(size_t i, const std::string& variable, uint64_t at) {
    Add(at, variable + std::string(512, '\0'));
    Word(kArray + 8 * i, at);
  }
};

}  // namespace

TEST_CASE("environ: read once, and again when a pointer has changed") {
  Environment memory({"A=1", "RANK=0", "TOKEN=hunter2"});
  EnvironReader reader(kVariable);
  CHECK(reader.ReadChanged(memory) == JobVariables{{"RANK", "0"}});
  CHECK_FALSE(reader.ReadChanged(memory).has_value());
  memory.Set(1, "RANK=1", kText + 0x9000);  // setenv(3) makes a new string
  CHECK(reader.ReadChanged(memory) == JobVariables{{"RANK", "1"}});
  memory.Word(kArray + 8, 0);
  CHECK(reader.ReadChanged(memory) == JobVariables{});
}

TEST_CASE("environ: nothing there, no end, pointers to anywhere") {
  Environment memory({"RANK=0", "WORLD_SIZE=2"});
  CHECK_FALSE(EnvironReader(0).ReadChanged(memory).has_value());
  CHECK_FALSE(EnvironReader(kVariable + 4).ReadChanged(memory).has_value());
  CHECK_FALSE(EnvironReader(0x7000'0000'0000).ReadChanged(memory).has_value());
  memory.Word(kArray, 0xffff'ffff'ffff'ffff);
  CHECK(EnvironReader(kVariable).ReadChanged(memory) == JobVariables{{"WORLD_SIZE", "2"}});
  std::string endless;
  for (int i = 0; i < 8000; ++i) endless += std::string("\0\0\4\0\0\0\0\0", 8);
  memory.Add(kArray, endless);
  CHECK_FALSE(EnvironReader(kVariable).ReadChanged(memory).has_value());
  memory.Word(kVariable, 0);  // clearenv(3)
  CHECK_FALSE(EnvironReader(kVariable).ReadChanged(memory).has_value());
}

TEST_CASE("environ: that of this process, which has just changed it") {
  const ProcFs proc;
  ElfCache cache;
  const uint64_t address = FindEnviron(proc, getpid(), &cache);
  CHECK(address == reinterpret_cast<uint64_t>(&environ));
  ProgramFiles files;
  const ProcessMemory memory(getpid(), proc, &files);
  EnvironReader reader(address);
  REQUIRE(setenv("RANK", "41", 1) == 0);
  CHECK(RankFactsOf(reader.ReadChanged(memory).value()).rank == 41u);
  REQUIRE(setenv("RANK", "42", 1) == 0);
  CHECK(RankFactsOf(reader.ReadChanged(memory).value()).rank == 42u);
  REQUIRE(unsetenv("RANK") == 0);
  CHECK_FALSE(RankFactsOf(reader.ReadChanged(memory).value()).rank.has_value());
}

}  // namespace cowprof
