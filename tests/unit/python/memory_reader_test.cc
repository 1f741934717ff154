// Reads live processes, this one and a child: values, text, many pieces, with holes in all of them, and without
// changing anything.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <vector>

#include "absl/algorithm/container.h"
#include "child.h"
#include "fixture_tree.h"
#include "posix/fd.h"
#include "python/process_memory.h"

namespace cowprof {
namespace {

constexpr size_t kPage = 4096;

// Pages followed by a hole.
class Pages {
 public:
  explicit Pages(size_t readable) : bytes_((readable + 1) * kPage) {
    memory_ = static_cast<char*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REQUIRE(memory_ != MAP_FAILED);
    REQUIRE(munmap(memory_ + readable * kPage, kPage) == 0);
  }
  ~Pages() { munmap(memory_, bytes_); }
  char* memory() const { return memory_; }
  uint64_t address() const { return reinterpret_cast<uint64_t>(memory_); }

 private:
  size_t bytes_;
  char* memory_;
};

}  // namespace

TEST_CASE("memory reader: values and holes") {
  const Pages pages(1);
  ProgramFiles files;
  const ProcessMemory memory(getpid(), ProcFs(), &files);
  strcpy(pages.memory() + kPage - 8, "1234567");
  CHECK(ReadValue<char>(memory, pages.address() + kPage - 8) == '1');
  CHECK(ReadValue<uint64_t>(memory, pages.address() + kPage - 8));
  CHECK_FALSE(ReadValue<uint64_t>(memory, pages.address() + kPage - 7));
  CHECK_FALSE(ReadValue<uint64_t>(memory, 0));
  CHECK_FALSE(ReadValue<uint64_t>(memory, UINT64_MAX - 3));
  CHECK(memory.Read(0, {}));
  CHECK_FALSE(ReadValue<uint64_t>(ProcessMemory(0x7fffffff, ProcFs(), &files), pages.address()));
}

TEST_CASE("memory reader: text up to its end or up to a hole") {
  const Pages pages(2);
  ProgramFiles files;
  const ProcessMemory memory(getpid(), ProcFs(), &files);
  char* end = pages.memory() + 2 * kPage;
  const auto text_at = [&](const char* at, size_t max) {
    return ReadCString(memory, reinterpret_cast<uint64_t>(at), max);
  };
  strcpy(end - 8, "1234567");
  CHECK(text_at(end - 8, 100) == "1234567");
  CHECK(text_at(end - 1, 100) == "");
  CHECK(text_at(end - 8, 3) == "123");
  memset(pages.memory(), 'n', 2 * kPage);
  CHECK_FALSE(text_at(end - 8, 100));
  CHECK(text_at(end - 8, 8) == "nnnnnnnn");
  CHECK(text_at(pages.memory() + 10, 5000) == std::string(5000, 'n'));
  CHECK_FALSE(text_at(pages.memory() + 10, 9000));
  CHECK_FALSE(ReadCString(memory, UINT64_MAX - 10, 100));
}

TEST_CASE("memory reader: many pieces, each independently") {
  const Pages pages(1);
  ProgramFiles files;
  const ProcessMemory memory(getpid(), ProcFs(), &files);
  for (size_t i = 0; i < kPage; ++i) pages.memory()[i] = static_cast<char>(i);
  const size_t count = GENERATE(size_t{0}, 1, 511, 512, 513, 3000);
  std::vector<char> bytes(count * 2);
  std::vector<ReadRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    // Every third is partly or completely in the hole.
    const uint64_t address = i % 3 == 2 ? pages.address() + kPage - i % 2 : pages.address() + i % 4000;
    requests.push_back({address, absl::MakeSpan(bytes.data() + 2 * i, 2)});
  }
  memory.ReadMany(absl::MakeSpan(requests));
  for (size_t i = 0; i < count; ++i) {
    CHECK(requests[i].ok == (i % 3 != 2));
    if (requests[i].ok) CHECK(bytes[2 * i] == static_cast<char>(i % 4000));
  }
}

namespace {

// Whether the process has a page there. Soft-dirty tracking sets a bit for holes, too.
bool Has(pid_t pid, uint64_t address) {
  const Fd pagemap(open(ProcFs().PathOf(pid, "pagemap").c_str(), O_RDONLY));
  uint64_t entry = 0;
  REQUIRE(pread(pagemap.fd(), &entry, sizeof(entry), address / kPage * sizeof(entry)) == sizeof(entry));
  return entry >> 62 != 0;  // present or swapped
}

Mapping StackOf(pid_t pid) {
  const std::vector<Mapping> mappings = ProcFs().ReadMaps(pid).value();
  const auto stack = absl::c_find_if(mappings, [](const Mapping& mapping) { return mapping.name == "[stack]"; });
  REQUIRE(stack != mappings.end());
  return *stack;
}

}  // namespace

TEST_CASE("process memory: reading below the stack does not grow it") {
  const Child child;
  const Mapping stack = StackOf(child.pid());
  ProgramFiles files;
  const ProcessMemory memory(child.pid(), ProcFs(), &files);
  for (const uint64_t below : {uint64_t{8}, uint64_t{kPage}, uint64_t{64} << 10, uint64_t{1} << 20}) {
    CHECK_FALSE(ReadValue<uint64_t>(memory, stack.begin - below));
    CHECK_FALSE(ReadValue<uint64_t>(PresentMemory(child.pid(), ProcFs()), stack.begin - below));
  }
  CHECK_FALSE(ReadValue<uint64_t>(memory, stack.begin - 4));
  CHECK(StackOf(child.pid()).begin == stack.begin);
  CHECK(ReadValue<uint64_t>(memory, stack.end - 8));
}

TEST_CASE("process memory: holes stay holes") {
  char* anonymous = static_cast<char*>(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  const Fd file(memfd_create("hole", 0));
  REQUIRE(ftruncate(file.fd(), kPage) == 0);
  char* shared = static_cast<char*>(mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file.fd(), 0));
  char* privately = static_cast<char*>(mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE, file.fd(), 0));
  const Child child;
  ProgramFiles files;
  const ProcessMemory memory(child.pid(), ProcFs(), &files);
  for (char* map : {anonymous, shared, privately}) {
    CHECK_FALSE(ReadValue<char>(memory, reinterpret_cast<uint64_t>(map)));
    CHECK_FALSE(Has(child.pid(), reinterpret_cast<uint64_t>(map)));
    munmap(map, kPage);
  }
}

TEST_CASE("process memory: pages of the program that it has not touched are readable") {
  const Child child;
  ProgramFiles files;
  const ProcessMemory memory(child.pid(), ProcFs(), &files);
  // A page of this program for which the child has no entry: fork did not copy it.
  uint64_t untouched = 0;
  const std::vector<Mapping> mappings = ProcFs().ReadMaps(child.pid()).value();
  for (const Mapping& mapping : mappings) {
    if (mapping.inode == 0 || !mapping.executable) continue;
    for (uint64_t page = mapping.begin; page < mapping.end && untouched == 0; page += kPage) {
      if (!Has(child.pid(), page)) untouched = page;
    }
  }
  REQUIRE(untouched != 0);
  CHECK_FALSE(ReadValue<uint64_t>(PresentMemory(child.pid(), ProcFs()), untouched));
  char bytes[8];
  CHECK_FALSE(memory.ReadIfPresent(untouched, absl::MakeSpan(bytes)));
  uint64_t own;
  memcpy(&own, reinterpret_cast<const void*>(untouched), sizeof(own));
  CHECK(ReadValue<uint64_t>(memory, untouched) == own);
  CHECK(memory.ReadIfPresent(untouched, absl::MakeSpan(bytes)));
}

TEST_CASE("process memory: mappings of a program's files are cached for 10 s") {
  const FixtureTree tree;
  const ProcFs proc(tree.root());
  auto have = [&, files = ProgramFiles()](uint64_t address, int seconds) mutable {
    return files.Have(proc, 7, address, absl::Seconds(seconds));
  };
  tree.Write("/7/maps",
             "00400000-00401000 r--p 00000000 08:01 5 /bin/python\n"
             "00401000-00402000 r-xp 00001000 08:01 5 /bin/python\n"
             "00402000-00403000 rw-s 00001000 08:01 5 /bin/python\n"
             "00403000-00404000 r--p 00000000 08:01 6 /data\n"
             "00404000-00405000 rwxp 00000000 00:00 0 \n");
  CHECK(have(0x400000, 0));
  CHECK(have(0x401fff, 0));
  for (const uint64_t address : {0x3fffff, 0x402000, 0x403000, 0x404000, 0x405000}) CHECK_FALSE(have(address, 0));
  tree.Write("/7/maps", "00500000-00501000 r-xp 00000000 08:01 6 /lib\n");
  CHECK(have(0x400000, 9));
  CHECK_FALSE(have(0x500000, 9));
  CHECK_FALSE(have(0x400000, 10));
  CHECK(have(0x500000, 10));
  // Ended, a zombie or reaped: still valid for other processes that run the program.
  tree.Write("/7/maps", "");
  CHECK(have(0x500000, 20));
  std::filesystem::remove(tree.root() + "/7/maps");
  CHECK(have(0x500000, 30));
}

TEST_CASE("process memory: a process that has ended yields no mappings") {
  Child child;
  ProgramFiles files;
  const ProcessMemory memory(child.pid(), ProcFs(), &files);
  const Pages pages(1);
  child.Kill();
  CHECK_FALSE(ReadValue<char>(memory, pages.address()));
  CHECK_FALSE(ReadValue<char>(memory, reinterpret_cast<uint64_t>(&kPage)));
}

TEST_CASE("process memory: addresses that no process has") {
  std::vector<char> bytes(3 * kPage);
  ProgramFiles files;
  const ProcessMemory memory(getpid(), ProcFs(), &files);
  const PresentMemory present(getpid(), ProcFs());
  for (const uint64_t address :
       {uint64_t{0}, (uint64_t{1} << 47) - 8, uint64_t{1} << 63, UINT64_MAX - kPage, UINT64_MAX}) {
    CHECK_FALSE(memory.Read(address, absl::MakeSpan(bytes)));
    CHECK_FALSE(present.Read(address, absl::MakeSpan(bytes)));
    CHECK(present.Read(address, {}));
  }
}

TEST_CASE("memory reader: a range with holes") {
  const Pages pages(2);
  memset(pages.memory(), 'n', 2 * kPage);
  std::string bytes(3 * kPage - 10, 'x');
  ProgramFiles files;
  ReadOrZero(ProcessMemory(getpid(), ProcFs(), &files), pages.address() + 10,
             absl::MakeSpan(bytes.data(), bytes.size()));
  CHECK((bytes == std::string(2 * kPage - 10, 'n') + std::string(kPage, '\0')));
}

TEST_CASE("memory reader: possible values of a pointer") {
  CHECK_FALSE(IsUserPointer(0));
  CHECK_FALSE(IsUserPointer(4088));
  CHECK(IsUserPointer(4096));
  CHECK_FALSE(IsUserPointer(4097));
  CHECK(IsUserPointer(0x7fffffffeff8));
  CHECK_FALSE(IsUserPointer(0x800000000000));
  CHECK_FALSE(IsUserPointer(UINT64_MAX - 7));
}

}  // namespace cowprof
