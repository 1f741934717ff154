// Which mapped files have a CPython, and what is known if one of them can't be opened.
#include <elf.h>

#include <catch2/catch.hpp>
#include <cstddef>
#include <cstring>
#include <filesystem>

#include "absl/strings/match.h"
#include "elf_image.h"
#include "fixture_tree.h"
#include "python/interpreter.h"

namespace cowprof {
namespace {

// A process that runs /gone/trainer, which is there unless a test removes it. Its other files are there if a test adds
// them: no such path exists on this host.
class Process {
 public:
  Process() {
    Add("/gone/trainer", {});
    tree_.Link("/12/exe", "/gone/trainer");
  }
  void Add(const std::string& path, const std::vector<ElfImage::Symbol>& symbols, uint16_t machine = EM_X86_64) {
    ElfImage image;
    image.dynamic_symbols = symbols;
    std::string bytes = image.Build();
    memcpy(bytes.data() + offsetof(Elf64_Ehdr, e_machine), &machine, sizeof(machine));
    tree_.Write("/12/root" + path, bytes);
  }
  void Remove(const std::string& path) { std::filesystem::remove(tree_.root() + "/12/root" + path); }
  auto Find(const std::vector<std::string>& names, FilesWithoutPython* without = nullptr) const {
    std::vector<Mapping> mappings;
    for (const std::string& name : names) {
      const uint64_t begin = 0x7f0000000000 + mappings.size() * 0x100000;
      mappings.push_back({.begin = begin,
                          .end = begin + 4096,
                          .readable = true,
                          .executable = true,
                          .inode = mappings.size() + 1,
                          .name = name});
    }
    return FindPythonModules(ProcFs(tree_.root()), 12, mappings, without);
  }

 private:
  FixtureTree tree_;
};

const std::vector<ElfImage::Symbol> kPython = {{"PyType_Type", ElfImage::kAddress + 0x200, 400, STT_OBJECT}};
constexpr char kLibrary[] = "/gone/libpython3.11.so.1.0", kOther[] = "/gone/libother.so";

}  // namespace

TEST_CASE("python modules: a library, an executable, none") {
  Process process;
  process.Add(kOther, {});
  auto modules = process.Find({"/gone/trainer", kOther});
  REQUIRE(modules.ok());
  CHECK(modules->empty());
  process.Add(kLibrary, kPython);
  modules = process.Find({"/gone/trainer", kOther, kLibrary});
  REQUIRE(modules.ok());
  REQUIRE(modules->size() == 1);
  CHECK((*modules)[0].path == kLibrary);
  CHECK((*modules)[0].minor_of_path == 11);
}

TEST_CASE("python modules: a Python whose file can't be opened is not a program without Python") {
  Process process;
  for (const std::string& name : std::vector<std::string>{"/gone/libpython3.11.so.1.0",
                                                          "/gone/libpython3.11.so.1.0 (deleted)", "/gone/python3.11"}) {
    const absl::Status status = process.Find({"/gone/trainer", name}).status();
    INFO(name << ": " << status.ToString());
    CHECK(absl::IsFailedPrecondition(status));
    CHECK(absl::StrContains(status.message(), name));
    CHECK(absl::StrContains(status.message(), "CAP_") == absl::EndsWith(name, "(deleted)"));
  }
  // Another file matters only if it is opened.
  const auto modules = process.Find({"/gone/trainer", kOther});
  REQUIRE(modules.ok());
  CHECK(modules->empty());
  // One that can be read is enough.
  process.Add("/gone/python3.11", kPython);
  CHECK(process.Find({kLibrary, "/gone/python3.11"})->size() == 1);
}

TEST_CASE("python modules: without its executable nothing is known") {
  Process process;
  process.Remove("/gone/trainer");
  CHECK(absl::IsUnavailable(process.Find({"/gone/trainer"}).status()));
  process.Add("/gone/trainer", kPython);
  CHECK(process.Find({"/gone/trainer"})->size() == 1);
}

TEST_CASE("python modules: of an executable for another machine nothing is known") {
  Process process;
  process.Add("/gone/trainer", kPython, EM_AARCH64);
  process.Add(kOther, {}, EM_AARCH64);
  const absl::Status status = process.Find({"/gone/trainer", kOther}).status();
  CHECK(absl::IsUnavailable(status));
  CHECK(absl::StrContains(status.message(), "/gone/trainer is not for x86-64"));
  process.Add("/gone/trainer", {});
  CHECK(process.Find({"/gone/trainer", kOther})->empty());
}

TEST_CASE("python modules: what was read and is not Python is not opened again") {
  Process process;
  process.Add(kOther, {});
  FilesWithoutPython without;
  CHECK(process.Find({"/gone/trainer", kOther}, &without)->empty());
  CHECK(without.size() == 2);
  process.Add(kOther, kPython);
  CHECK(process.Find({"/gone/trainer", kOther}, &without)->empty());
  CHECK(process.Find({"/gone/trainer", kOther})->size() == 1);
  // What could not be opened may become readable.
  CHECK_FALSE(process.Find({"/gone/trainer", kOther, kLibrary}, &without).ok());
  process.Add(kLibrary, kPython);
  CHECK(process.Find({"/gone/trainer", kOther, kLibrary}, &without)->size() == 1);
}

}  // namespace cowprof
