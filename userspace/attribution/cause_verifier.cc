// Draws, reads and counts. Most pages are identical and cost no more than two bulk reads; neighbours are read only
// where an object may cross the edge of the page.
#include "attribution/cause_verifier.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr size_t kPagesPerPiece = 32;
constexpr size_t kPageWords = CauseVerifier::kPageBytes / sizeof(uint64_t);
using PageWords = std::array<uint64_t, kPageWords>;

absl::Span<char> BytesOf(absl::Span<uint64_t> words) {
  return absl::MakeSpan(reinterpret_cast<char*>(words.data()), words.size() * sizeof(uint64_t));
}

// A page of one process.
struct Copy {
  PageWords words;
  bool ok = false;
};

void ReadPages(const MemoryReader& memory, absl::Span<const uint64_t> addresses, absl::Span<Copy> copies) {
  std::array<ReadRequest, kPagesPerPiece> requests;
  for (size_t i = 0; i < addresses.size(); ++i) {
    requests[i] = {addresses[i], BytesOf(absl::MakeSpan(copies[i].words))};
  }
  memory.ReadMany(absl::MakeSpan(requests.data(), addresses.size()));
  for (size_t i = 0; i < addresses.size(); ++i) copies[i].ok = requests[i].ok;
}

PageNeighbours ReadNeighbours(const MemoryReader& memory, uint64_t address) {
  constexpr uint64_t kBytes = kNeighbourWords * sizeof(uint64_t);
  std::array<uint64_t, kNeighbourWords> before, after;
  std::array<ReadRequest, 2> requests = {
      ReadRequest{address - kBytes, BytesOf(absl::MakeSpan(before))},
      ReadRequest{address + CauseVerifier::kPageBytes, BytesOf(absl::MakeSpan(after))},
  };
  memory.ReadMany(absl::MakeSpan(requests));
  PageNeighbours near;
  if (requests[0].ok) near.before = before;
  if (requests[1].ok) near.after = after;
  return near;
}

PageDiff Compare(const VerifyTarget& target, uint64_t address, const PageWords& parent, const PageWords& worker) {
  PageContext context{.address = address, .layout = target.layout, .types = target.types};
  if (context.types && NeedsNeighbours(parent, worker)) {
    context.parent = ReadNeighbours(target.parent, address);
    context.worker = ReadNeighbours(target.worker, address);
  }
  return ComparePages(context, parent, worker);
}

void Add(PageDiff diff, VerifyFigures* figures) {
  ++figures->pages;
  switch (diff) {
    case PageDiff::kIdentical:
      ++figures->identical;
      break;
    case PageDiff::kRefcountOnly:
      ++figures->refcount_only;
      break;
    case PageDiff::kGcHeaderOnly:
      ++figures->gc_header_only;
      break;
    case PageDiff::kHashOnly:
      ++figures->hash_only;
      break;
    case PageDiff::kData:
      ++figures->data;
      break;
  }
}

// Time left, on the clock of this thread and on the wall's.
class Deadline {
 public:
  explicit Deadline(VerifyBudget budget)
      : cpu_end_(ReadClock(CLOCK_THREAD_CPUTIME_ID) + budget.cpu),
        wall_end_(ReadClock(CLOCK_MONOTONIC) + budget.wall) {}
  bool passed() const {
    return ReadClock(CLOCK_THREAD_CPUTIME_ID) >= cpu_end_ || ReadClock(CLOCK_MONOTONIC) >= wall_end_;
  }

 private:
  absl::Duration cpu_end_, wall_end_;
};

}  // namespace

// std::uniform_int_distribution differs between libraries. The bias is below 2^-40 for any number of pages.
uint64_t CauseVerifier::Below(uint64_t bound) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(random_()) * bound >> 64);
}

// Algorithm R (Vitter 1985): the n-th page takes a random place with probability pages_per_round / n.
void CauseVerifier::Offer(int index, absl::Span<const uint64_t> page_addresses) {
  Worker& worker = workers_[index];
  for (const uint64_t address : page_addresses) {
    if (worker.compared.size() >= kMaxPagesPerWorker) return;
    if (worker.compared.contains(address)) continue;
    ++worker.offered;
    if (worker.sample.size() < pages_per_round_) {
      worker.sample.push_back(address);
    } else if (const uint64_t copy_site = Below(worker.offered); copy_site < worker.sample.size()) {
      worker.sample[copy_site] = address;
    }
  }
}

std::vector<PageVerdict> CauseVerifier::ComparePiece(const VerifyTarget& target,
                                                     absl::Span<const uint64_t> addresses) const {
  const auto parent = std::make_unique<std::array<Copy, kPagesPerPiece>>();
  const auto worker = std::make_unique<std::array<Copy, kPagesPerPiece>>();
  ReadPages(target.worker, addresses, absl::MakeSpan(*worker));
  ReadPages(target.parent, addresses, absl::MakeSpan(*parent));
  std::vector<PageVerdict> verdicts;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const Copy& theirs = (*parent)[i];
    const Copy& own = (*worker)[i];
    if (!theirs.ok || !own.ok) continue;
    verdicts.push_back({addresses[i], Compare(target, addresses[i], theirs.words, own.words)});
  }
  return verdicts;
}

std::vector<PageVerdict> CauseVerifier::Run(const VerifyTarget& target, VerifyBudget budget) {
  const Deadline deadline(budget);
  Worker& worker = workers_[target.index];
  std::vector<uint64_t> sample = std::exchange(worker.sample, {});
  worker.offered = 0;
  // The reservoir keeps early pages in front, and the budget may cut off the rest: shuffle.
  for (size_t i = sample.size(); i > 1; --i) std::swap(sample[i - 1], sample[Below(i)]);

  std::vector<PageVerdict> verdicts;
  for (size_t next = 0; next < sample.size() && !deadline.passed(); next += kPagesPerPiece) {
    const auto piece = absl::MakeConstSpan(sample).subspan(next, kPagesPerPiece);
    for (const PageVerdict& verdict : ComparePiece(target, piece)) {
      if (!worker.compared.insert(verdict.address).second) continue;  // offered twice
      Add(verdict.diff, &worker.figures);
      verdicts.push_back(verdict);
    }
  }
  return verdicts;
}

VerifyFigures CauseVerifier::FiguresOf(int index) const {
  const auto worker = workers_.find(index);
  return worker == workers_.end() ? VerifyFigures{} : worker->second.figures;
}

void CauseVerifier::Forget(int index) {
  const auto worker = workers_.find(index);
  if (worker != workers_.end()) worker->second = {.figures = worker->second.figures};
}

}  // namespace cowprof
