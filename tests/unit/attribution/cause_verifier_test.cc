// cause_verifier.cc on two made-up processes: what is counted, what is drawn, how budgets end it. And on a real child
// of this test, whose pages are known.
#include "attribution/cause_verifier.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "child.h"
#include "posix/fd.h"
#include "python/process_memory.h"
#include "skip.h"

namespace cowprof {
namespace {

constexpr uint64_t kPageBytes = CauseVerifier::kPageBytes, kBase = 0x7f0000000000;
constexpr uint64_t kFloat = 0x1000000, kList = 0x1000200, kStr = 0x1000400;
constexpr VerifyBudget kPlenty = {.cpu = absl::Seconds(100), .wall = absl::Seconds(100)};

uint64_t PageAt(size_t number) { return kBase + number * kPageBytes; }

std::vector<uint64_t> PagesAt(size_t begin, size_t end) {
  std::vector<uint64_t> pages;
  for (size_t i = begin; i < end; ++i) pages.push_back(PageAt(i));
  return pages;
}

// Whole pages that can be written by the word. What was never written can't be read.
class FakeMemory : public MemoryReader {
 public:
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    const auto page = pages_.find(address / kPageBytes);
    const size_t offset = address % kPageBytes;
    ++reads;
    if (cost > absl::ZeroDuration()) absl::SleepFor(cost);
    if (page == pages_.end() || offset + bytes.size() > kPageBytes) return false;
    memcpy(bytes.data(), reinterpret_cast<const char*>(page->second.data()) + offset, bytes.size());
    return true;
  }
  void Add(uint64_t page_address) { pages_[page_address / kPageBytes]; }
  void Word(uint64_t address, uint64_t word) {
    pages_[address / kPageBytes][address % kPageBytes / sizeof(uint64_t)] = word;
  }

  mutable size_t reads = 0;
  absl::Duration cost;  // of a read, on the wall's clock

 private:
  std::map<uint64_t, std::array<uint64_t, kPageBytes / sizeof(uint64_t)>> pages_;
};

std::optional<TypeTraits> LookUp(uint64_t address) {
  switch (address) {
    case kFloat:
      return TypeTraits{};
    case kList:
      return TypeTraits{.has_gc = true};
    case kStr:
      return TypeTraits{.caches_hash = true};
    default:
      return std::nullopt;
  }
}

struct Processes {
  FakeMemory worker, parent;

  explicit Processes(size_t pages = 0) {
    for (size_t i = 0; i < pages; ++i) {
      worker.Add(PageAt(i));
      parent.Add(PageAt(i));
    }
  }
  VerifyTarget Target(int index = 0, bool python = true) const {
    return {.index = index, .worker = worker, .parent = parent, .types = python ? LookUp : TypeLookup()};
  }
  void Both(uint64_t address, uint64_t word) {
    worker.Word(address, word);
    parent.Word(address, word);
  }
  void Object(uint64_t address, uint64_t type) {
    Both(address, 1);
    Both(address + 8, type);
  }
};

TEST_CASE("every kind of page is counted and returned") {
  Processes both(5);
  both.Object(PageAt(1) + 160, kFloat);
  both.worker.Word(PageAt(1) + 160, 2);
  both.Object(PageAt(2) + 160, kList);
  both.worker.Word(PageAt(2) + 152, 8);
  both.Object(PageAt(3) + 160, kStr);
  both.parent.Word(PageAt(3) + 184, ~uint64_t{0});
  both.worker.Word(PageAt(4) + 160, 3);
  const VerifyFigures expected = {
      .pages = 5, .identical = 1, .refcount_only = 1, .gc_header_only = 1, .hash_only = 1, .data = 1};

  CauseVerifier verifier(1);
  verifier.Offer(3, PagesAt(0, 5));
  std::vector<PageVerdict> verdicts = verifier.Run(both.Target(3), kPlenty);
  CHECK(verifier.FiguresOf(3) == expected);
  CHECK(verifier.FiguresOf(0) == VerifyFigures{});
  std::sort(verdicts.begin(), verdicts.end(), [](const auto& a, const auto& b) { return a.address < b.address; });
  CHECK(verdicts == std::vector<PageVerdict>{{PageAt(0), PageDiff::kIdentical},
                                             {PageAt(1), PageDiff::kRefcountOnly},
                                             {PageAt(2), PageDiff::kGcHeaderOnly},
                                             {PageAt(3), PageDiff::kHashOnly},
                                             {PageAt(4), PageDiff::kData}});

  // Without Python there are two kinds only.
  verifier.Offer(4, PagesAt(0, 5));
  verifier.Run(both.Target(4, false), kPlenty);
  CHECK(verifier.FiguresOf(4) == VerifyFigures{.pages = 5, .identical = 1, .data = 4});
}

TEST_CASE("objects that reach over a page's end are understood by the neighbours, where they can be read") {
  Processes both(3);
  both.Object(PageAt(2) - 8, kFloat);  // the count on page 1, the type on page 2
  both.worker.Word(PageAt(2) - 8, 2);
  both.Object(PageAt(1) - 24, kStr);  // the head on page 0, the hash on page 1
  both.parent.Word(PageAt(1), ~uint64_t{0});
  CauseVerifier verifier(1);
  verifier.Offer(0, PagesAt(1, 2));
  const auto verdicts = verifier.Run(both.Target(), kPlenty);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].diff == PageDiff::kRefcountOnly);  // one word each

  Processes alone;
  alone.Object(PageAt(2) - 16, kFloat);
  alone.worker.Word(PageAt(2) - 8, kStr);
  CauseVerifier another(1);
  another.Offer(0, PagesAt(1, 2));
  another.Run(alone.Target(), kPlenty);
  CHECK(another.FiguresOf(0).data == 1);
}

TEST_CASE("neighbours are read only where they matter") {
  Processes both(3);
  CauseVerifier verifier(1);
  verifier.Offer(0, PagesAt(0, 3));
  both.worker.Word(PageAt(1) + 2048, 1);
  verifier.Run(both.Target(), kPlenty);
  CHECK(both.worker.reads == 3);
  both.worker.Word(PageAt(1), 1);
  verifier.Offer(1, PagesAt(0, 3));
  verifier.Run(both.Target(1), kPlenty);
  CHECK(both.worker.reads == 3 + 3 + 2);
}

TEST_CASE("pages that can't be read in one of the two are not counted, and may come again") {
  Processes both(2);
  both.worker.Add(PageAt(7));
  both.parent.Add(PageAt(8));
  CauseVerifier verifier(1);
  verifier.Offer(0, PagesAt(0, 10));
  CHECK(verifier.Run(both.Target(), kPlenty).size() == 2);
  CHECK(verifier.FiguresOf(0).pages == 2);
  both.parent.Add(PageAt(7));
  verifier.Offer(0, PagesAt(0, 10));
  CHECK(verifier.Run(both.Target(), kPlenty) == std::vector<PageVerdict>{{PageAt(7), PageDiff::kIdentical}});
}

TEST_CASE("a page is compared once a worker, until its address space is another one") {
  Processes both(10);
  CauseVerifier verifier(1);
  verifier.Offer(0, PagesAt(0, 10));
  verifier.Offer(0, PagesAt(0, 10));  // in the same round
  CHECK(verifier.Run(both.Target(), kPlenty).size() == 10);
  CHECK(verifier.Run(both.Target(), kPlenty).empty());
  verifier.Offer(0, PagesAt(0, 10));
  CHECK(verifier.Run(both.Target(), kPlenty).empty());
  verifier.Offer(1, PagesAt(0, 10));  // another worker
  CHECK(verifier.Run(both.Target(1), kPlenty).size() == 10);
  verifier.Forget(0);
  CHECK(verifier.FiguresOf(0).pages == 10);
  verifier.Offer(0, PagesAt(0, 10));
  CHECK(verifier.Run(both.Target(), kPlenty).size() == 10);
  CHECK(verifier.FiguresOf(0).pages == 20);
}

TEST_CASE("rounds go on where the last ended: all pages are compared in the end") {
  Processes both(1000);
  CauseVerifier verifier(1, 300);
  const auto pages = PagesAt(0, 1000);
  for (const size_t expected : {300, 300, 300, 100, 0}) {
    verifier.Offer(0, pages);
    CHECK(verifier.Run(both.Target(), kPlenty).size() == expected);
  }
}

TEST_CASE("the draw is fair to early and late pages, whatever the pieces they come in and however little is read",
          "[long]") {
  constexpr int kRounds = 3000, kPages = 1000, kDrawn = 64;
  Processes both(kPages);
  // A budget that is used up by the first piece: the sleep is longer than the wall allows.
  for (const bool cut_off : {false, true}) {
    std::array<int, 10> drawn = {};  // by tenths of the addresses
    const int rounds = cut_off ? 200 : kRounds;
    both.worker.cost = cut_off ? absl::Microseconds(1) : absl::ZeroDuration();
    int total = 0;
    for (int round = 0; round < rounds; ++round) {
      CauseVerifier verifier(round, kDrawn);
      for (int begin = 0; begin < kPages; begin += 250) verifier.Offer(0, PagesAt(begin, begin + 250));
      const VerifyBudget budget = {.cpu = absl::Seconds(9),
                                   .wall = cut_off ? absl::Microseconds(20) : absl::Seconds(9)};
      for (const PageVerdict& verdict : verifier.Run(both.Target(), budget)) {
        ++drawn[(verdict.address - kBase) / kPageBytes / (kPages / 10)];
        ++total;
      }
    }
    if (!cut_off) CHECK(total == kRounds * kDrawn);
    // A tenth each; five standard deviations.
    const double expected = total / 10.0;
    for (const int count : drawn) CHECK(std::abs(count - expected) < 5 * std::sqrt(expected));
  }
}

TEST_CASE("the same seed draws the same pages, another one others") {
  Processes both(1000);
  const auto draw = [&both](uint64_t seed) {
    CauseVerifier verifier(seed, 50);
    verifier.Offer(0, PagesAt(0, 1000));
    return verifier.Run(both.Target(), kPlenty);
  };
  CHECK(draw(5) == draw(5));
  CHECK(draw(5) != draw(6));
}

TEST_CASE("a budget ends a round, and what was compared counts") {
  Processes both(400);
  CauseVerifier verifier(1);
  const auto pages = PagesAt(0, 400);
  for (const VerifyBudget none : {VerifyBudget{.cpu = absl::ZeroDuration(), .wall = absl::Seconds(9)},
                                  VerifyBudget{.cpu = absl::Seconds(9), .wall = absl::ZeroDuration()}}) {
    verifier.Offer(0, pages);
    CHECK(verifier.Run(both.Target(), none).empty());
    CHECK(both.worker.reads == 0);
  }
  both.worker.cost = absl::Microseconds(100);  // at least: 32 of them are a piece
  verifier.Offer(0, pages);
  const auto verdicts = verifier.Run(both.Target(), {.cpu = absl::Seconds(9), .wall = absl::Milliseconds(8)});
  CHECK(verdicts.size() >= 32);
  CHECK(verdicts.size() <= 96);
  CHECK(verifier.FiguresOf(0).pages == verdicts.size());
  // What was left over is no longer waiting, but may be offered again.
  both.worker.cost = absl::ZeroDuration();
  CHECK(verifier.Run(both.Target(), kPlenty).empty());
  verifier.Offer(0, pages);
  CHECK(verifier.Run(both.Target(), kPlenty).size() == 400 - verdicts.size());
}

TEST_CASE("a worker that is known well enough is left alone") {
  struct Zeros : MemoryReader {
    bool Read(uint64_t, absl::Span<char> bytes) const override {
      std::fill(bytes.begin(), bytes.end(), '\0');
      return true;
    }
  };
  const size_t most = CauseVerifier::kMaxPagesPerWorker;
  const Zeros zeros;
  const VerifyTarget target = {.worker = zeros, .parent = zeros};
  CauseVerifier verifier(1, most);
  verifier.Offer(0, PagesAt(0, most + 100));
  CHECK(verifier.Run(target, kPlenty).size() == most);
  verifier.Offer(0, PagesAt(0, most + 100));
  CHECK(verifier.Run(target, kPlenty).empty());
}

TEST_CASE("a real child: written with what was there, and with something else") {
  constexpr size_t kPages = 64;
  void* map = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(map != MAP_FAILED);
  madvise(map, kPages * kPageBytes, MADV_NOHUGEPAGE);
  const auto word = [map](size_t page) {
    return reinterpret_cast<volatile uint64_t*>(static_cast<char*>(map) + page * kPageBytes);
  };
  for (size_t i = 0; i < kPages; ++i) *word(i) = i + 1;
  Child child([&] {
    for (size_t i = 0; i < kPages; ++i) *word(i) = i % 4 == 0 ? 0 : i + 1;
  });

  std::vector<uint64_t> pages;
  for (size_t i = 0; i < kPages; ++i) pages.push_back(reinterpret_cast<uint64_t>(word(i)));
  const PresentMemory worker(child.pid(), ProcFs()), parent(getpid(), ProcFs());
  if (ReadValue<char>(worker, pages[0])) {
    CauseVerifier verifier(1);
    verifier.Offer(0, pages);
    verifier.Run({.worker = worker, .parent = parent, .types = LookUp}, kPlenty);
    CHECK(verifier.FiguresOf(0) == VerifyFigures{.pages = kPages, .identical = kPages * 3 / 4, .data = kPages / 4});
  } else {
    Lacks("reading a child", false, "CAP_SYS_PTRACE");
  }
  child.End();
  if (!ReadValue<char>(worker, pages[0])) {
    CauseVerifier verifier(1);
    verifier.Offer(0, pages);
    CHECK(verifier.Run({.worker = worker, .parent = parent, .types = LookUp}, kPlenty).empty());
  }
  munmap(map, kPages * kPageBytes);
}

uint64_t FrameOf(pid_t pid, uint64_t address) {
  const Fd pagemap(open(absl::StrCat("/proc/", pid, "/pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t entry = 0;
  if (pread(pagemap.fd(), &entry, sizeof(entry), address / kPageBytes * sizeof(entry)) != sizeof(entry)) return 0;
  return entry & ((uint64_t{1} << 55) - 1);
}

TEST_CASE("comparing copies no page: what the parent shares with its other workers stays shared") {
  constexpr size_t kPages = 64;
  void* map = mmap(nullptr, kPages * kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(map != MAP_FAILED);
  madvise(map, kPages * kPageBytes, MADV_NOHUGEPAGE);
  std::vector<uint64_t> pages;
  for (size_t i = 0; i < kPages; ++i) {
    static_cast<char*>(map)[i * kPageBytes] = 1;
    pages.push_back(reinterpret_cast<uint64_t>(map) + i * kPageBytes);
  }
  const Child worker, other;
  const auto shared = [&pages, &other] {
    return std::count_if(pages.begin(), pages.end(),
                         [&other](uint64_t page) { return FrameOf(getpid(), page) == FrameOf(other.pid(), page); });
  };
  if (FrameOf(other.pid(), pages[0]) != 0) {
    REQUIRE(shared() == kPages);
    CauseVerifier verifier(1);
    verifier.Offer(0, pages);
    const auto verdicts = verifier.Run(
        {.worker = PresentMemory(worker.pid(), ProcFs()), .parent = PresentMemory(getpid(), ProcFs()), .types = LookUp},
        kPlenty);
    CHECK(verdicts.size() == kPages);
    CHECK(shared() == kPages);
  } else {
    Lacks("page frames", false, "CAP_SYS_ADMIN");
  }
  munmap(map, kPages * kPageBytes);
}

}  // namespace
}  // namespace cowprof
