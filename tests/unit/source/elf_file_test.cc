// elf_file.cc on a small ELF file, on this program, and on the small file with every byte broken and truncated to every
// size: errors and absences, never a crash.
#include "source/elf_file.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <random>

#include "absl/strings/match.h"
#include "elf_image.h"
#include "fixture_tree.h"

namespace cowprof {
namespace {

ElfImage SmallImage() {
  ElfImage image;
  image.needed = {"libpython3.9.so.1.0", "libc.so.6"};
  image.dynamic_symbols = {{"first", 0x400100, 0x10},
                           {"imported", 0, 0, STT_FUNC, STB_GLOBAL, SHN_UNDEF},
                           {"object", 0x400200, 8, STT_OBJECT},
                           {"per_thread", 0x10, 8, STT_TLS},
                           {"no_size", 0x400300, 0},
                           {"twice", 0x400500, 4}};
  image.symbols = {{"local", 0x400400, 0x20, STT_FUNC, STB_LOCAL},
                   {"alias_local", 0x400100, 0x10, STT_FUNC, STB_LOCAL},
                   {"twice", 0x400600, 4},
                   {"last", 0x400f00, 0}};
  return image;
}

absl::StatusOr<ElfFile> OpenBytes(const FixtureTree& tree, const std::string& bytes) {
  tree.Write("/file", bytes);
  return ElfFile::Open(tree.root() + "/file");
}

// With a table of `count` sections, which all have one name of `name_bytes` bytes.
std::string WithSections(std::string file, uint16_t count, size_t name_bytes) {
  Elf64_Shdr section{};
  section.sh_type = SHT_STRTAB;
  section.sh_offset = file.size();
  section.sh_size = name_bytes + 1;
  file += std::string(name_bytes, 'n') + '\0';
  file.resize((file.size() + 7) & ~size_t{7});
  Elf64_Ehdr header;
  memcpy(&header, file.data(), sizeof(header));
  header.e_shoff = file.size();
  header.e_shnum = count;
  header.e_shstrndx = 1;
  memcpy(file.data(), &header, sizeof(header));
  file.append(sizeof(section), '\0');  // the first header is empty
  for (uint16_t i = 1; i < count; ++i) file.append(reinterpret_cast<const char*>(&section), sizeof(section));
  return file;
}

std::optional<ElfSymbol> Find(const ElfFile& file, absl::string_view name) { return file.FindSymbols({name})[0]; }

// Calls everything on a file.
void AskAll(ElfFile* file) {
  file->FindSymbols({"first", "local", "missing"});
  file->FindSection(".PyRuntime");
  for (const uint64_t address : {uint64_t{0}, uint64_t{0x400105}, uint64_t{0x400310}, UINT64_MAX}) {
    file->FunctionAt(address);
    file->AddressOfOffset(address);
  }
}

}  // namespace

TEST_CASE("elf: symbols, sections, segments, needed libraries") {
  const FixtureTree tree;
  auto file = OpenBytes(tree, SmallImage().Build());
  REQUIRE(file.ok());
  CHECK(file->position_independent());
  CHECK(file->needed() == std::vector<std::string>{"libpython3.9.so.1.0", "libc.so.6"});
  REQUIRE(file->segments().size() == 1);
  CHECK(file->segments()[0].address == 0x400000);
  CHECK(file->segments()[0].memory_bytes == file->segments()[0].file_bytes + 4096);
  CHECK(file->FindSection(".PyRuntime")->bytes == 64);
  CHECK_FALSE(file->FindSection(".nothing"));
  CHECK(Find(*file, "first") == ElfSymbol{0x400100, 0x10});
  CHECK(Find(*file, "object") == ElfSymbol{0x400200, 8});
  CHECK(Find(*file, "local") == ElfSymbol{0x400400, 0x20});
  CHECK(Find(*file, "twice") == ElfSymbol{0x400500, 4});  // from .dynsym
  CHECK_FALSE(Find(*file, "imported"));
  CHECK_FALSE(Find(*file, "per_thread"));
  CHECK_FALSE(Find(*file, ""));
  const auto found = file->FindSymbols({"local", "missing", "first", "local"});
  CHECK((found[0] && !found[1] && found[2] && found[3] == found[0]));
  CHECK(file->AddressOfOffset(0x100) == 0x400100);
  CHECK_FALSE(file->AddressOfOffset(1 << 20));
}

TEST_CASE("elf: the function that contains an address") {
  const FixtureTree tree;
  auto file = OpenBytes(tree, SmallImage().Build());
  REQUIRE(file.ok());
  const size_t loaded_bytes = file->index_bytes();
  CHECK(file->FunctionAt(0x400100) == "first");
  CHECK(file->FunctionAt(0x40010f) == "first");
  CHECK(file->FunctionAt(0x400110) == "");
  CHECK(file->FunctionAt(0x4000ff) == "");
  CHECK(file->FunctionAt(0x400204) == "");  // an object, not a function
  CHECK(file->FunctionAt(0x400300) == "no_size");
  CHECK(file->FunctionAt(0x4003ff) == "no_size");  // up to the next one
  CHECK(file->FunctionAt(0x400400) == "local");
  CHECK(file->FunctionAt(0x400f80) == "last");
  CHECK(file->FunctionAt(0x500000) == "");  // after the segment
  CHECK(file->index_bytes() == loaded_bytes + 6 * 24);
}

TEST_CASE("elf: long names of sections and libraries are left out, others count as memory") {
  const FixtureTree tree;
  constexpr uint16_t kSections = 60'000;
  const auto of_sections = [&](size_t name_bytes) {
    const auto file = OpenBytes(tree, WithSections(SmallImage().Build(), kSections, name_bytes));
    REQUIRE(file.ok());
    CHECK(file->FindSection(std::string(name_bytes, 'n')).has_value() == (name_bytes < 64));
    return file->index_bytes();
  };
  CHECK(of_sections(63) >= kSections * 63);
  CHECK(of_sections(63) <= kSections * 256);
  CHECK(of_sections(64) <= 4096);
  CHECK(of_sections(8000) <= 4096);
  ElfImage image;
  image.needed = {std::string(256, 'n'), "libc.so.6", std::string(255, 'm')};
  const auto file = OpenBytes(tree, image.Build());
  REQUIRE(file.ok());
  CHECK(file->needed() == std::vector<std::string>{"libc.so.6", std::string(255, 'm')});
}

TEST_CASE("elf: this program") {
  auto file = ElfFile::Open("/proc/self/exe");
  REQUIRE(file.ok());
  const auto main = Find(*file, "main");
  REQUIRE(main);
  CHECK(file->FunctionAt(main->address + 1) == "main");
  CHECK_FALSE(file->needed().empty());
  CHECK_FALSE(file->segments().empty());
}

TEST_CASE("elf: anything but an x86-64 ELF file is refused with the reason") {
  const FixtureTree tree;
  const auto refused = [&tree](const std::string& bytes, absl::string_view why) {
    const absl::Status status = OpenBytes(tree, bytes).status();
    INFO(status.ToString());
    return absl::IsInvalidArgument(status) && absl::StrContains(status.message(), why);
  };
  std::string image = SmallImage().Build();
  CHECK(refused("", "no ELF header"));
  CHECK(refused("#!/bin/sh\n", "no ELF header"));
  CHECK(refused("!<arch>\n", "no ELF header"));
  CHECK(refused(std::string(1 << 20, '\x7f'), "no ELF header"));
  image[EI_CLASS] = ELFCLASS32;
  CHECK(absl::IsUnimplemented(OpenBytes(tree, image).status()));
  image[EI_CLASS] = ELFCLASS64;
  image[offsetof(Elf64_Ehdr, e_machine)] = EM_386;
  CHECK(absl::IsUnimplemented(OpenBytes(tree, image).status()));
  CHECK(absl::StrContains(OpenBytes(tree, image).status().message(), "x86-64"));
  CHECK(absl::IsNotFound(ElfFile::Open(tree.root() + "/nothing").status()));
  CHECK(absl::IsInvalidArgument(ElfFile::Open(tree.root()).status()));
  REQUIRE(mkfifo((tree.root() + "/fifo").c_str(), 0600) == 0);  // must not block on a missing writer
  CHECK(absl::IsInvalidArgument(ElfFile::Open(tree.root() + "/fifo").status()));
}

TEST_CASE("elf: a file truncated anywhere") {
  const FixtureTree tree;
  const std::string image = SmallImage().Build();
  for (size_t size = 0; size < image.size(); size += size < 200 || size > 4300 ? 1 : 101) {
    auto file = OpenBytes(tree, image.substr(0, size));
    if (file.ok()) AskAll(&*file);
  }
}

TEST_CASE("elf: a file with any byte broken") {
  const FixtureTree tree;
  const std::string image = SmallImage().Build();
  for (size_t at = 0; at < image.size(); at += at >= 120 && at < 4200 ? 999 : 1) {
    for (const int value : {0, 0x7f, 0xff}) {
      std::string broken = image;
      broken[at] = static_cast<char>(value);
      auto file = OpenBytes(tree, broken);
      if (file.ok()) AskAll(&*file);
    }
  }
}

TEST_CASE("elf: any value in words of headers and symbols") {
  const FixtureTree tree;
  const std::string image = SmallImage().Build();
  std::mt19937_64 random(3);
  for (int i = 0; i < 3000; ++i) {
    std::string broken = image;
    for (int change = 0; change < 3; ++change) {
      // The ELF header and all that follows .text.
      const size_t words = image.size() / 8;
      const size_t word = random() % 3 == 0 ? random() % 15 : 4200 / 8 + random() % (words - 4200 / 8);
      const uint64_t values[] = {random(), UINT64_MAX, uint64_t{1} << 63, image.size(), 0, random() % 5000};
      memcpy(broken.data() + word * 8, &values[random() % 6], 8);
    }
    auto file = OpenBytes(tree, broken);
    if (file.ok()) AskAll(&*file);
  }
}

TEST_CASE("elf: a file that is truncated while open") {
  const FixtureTree tree;
  auto file = OpenBytes(tree, SmallImage().Build());
  REQUIRE(file.ok());
  std::filesystem::resize_file(tree.root() + "/file", 100);
  AskAll(&*file);
  CHECK(file->FunctionAt(0x400100) == "");
  CHECK_FALSE(Find(*file, "first"));
}

}  // namespace cowprof
