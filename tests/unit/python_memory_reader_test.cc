// Reading a live process, this one: values, text, many pieces, and holes in all of them.
#include <sys/mman.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <vector>

#include "python/memory_reader.h"

namespace cowprof {
namespace {

constexpr size_t kPage = 4096;

// Pages with a hole behind them.
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
  const ProcessMemory memory(getpid());
  strcpy(pages.memory() + kPage - 8, "1234567");
  CHECK(ReadValue<char>(memory, pages.address() + kPage - 8) == '1');
  CHECK(ReadValue<uint64_t>(memory, pages.address() + kPage - 8));
  CHECK_FALSE(ReadValue<uint64_t>(memory, pages.address() + kPage - 7));
  CHECK_FALSE(ReadValue<uint64_t>(memory, 0));
  CHECK_FALSE(ReadValue<uint64_t>(memory, UINT64_MAX - 3));
  CHECK(memory.Read(0, {}));
  CHECK_FALSE(ReadValue<uint64_t>(ProcessMemory(0x7fffffff), pages.address()));
}

TEST_CASE("memory reader: text up to its end, or up to the hole") {
  const Pages pages(2);
  const ProcessMemory memory(getpid());
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

TEST_CASE("memory reader: many pieces, each on its own") {
  const Pages pages(1);
  const ProcessMemory memory(getpid());
  for (size_t i = 0; i < kPage; ++i) pages.memory()[i] = static_cast<char>(i);
  const size_t count = GENERATE(size_t{0}, 1, 511, 512, 513, 3000);
  std::vector<char> bytes(count * 2);
  std::vector<ReadRequest> requests;
  for (size_t i = 0; i < count; ++i) {
    // Every third lies half or whole in the hole.
    const uint64_t address = i % 3 == 2 ? pages.address() + kPage - i % 2 : pages.address() + i % 4000;
    requests.push_back({address, absl::MakeSpan(bytes.data() + 2 * i, 2)});
  }
  memory.ReadMany(absl::MakeSpan(requests));
  for (size_t i = 0; i < count; ++i) {
    CHECK(requests[i].ok == (i % 3 != 2));
    if (requests[i].ok) CHECK(bytes[2 * i] == static_cast<char>(i % 4000));
  }
}

TEST_CASE("memory reader: what can be a pointer") {
  CHECK_FALSE(IsUserPointer(0));
  CHECK_FALSE(IsUserPointer(4088));
  CHECK(IsUserPointer(4096));
  CHECK_FALSE(IsUserPointer(4097));
  CHECK(IsUserPointer(0x7fffffffeff8));
  CHECK_FALSE(IsUserPointer(0x800000000000));
  CHECK_FALSE(IsUserPointer(UINT64_MAX - 7));
}

}  // namespace cowprof
