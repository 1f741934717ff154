// Reads pagemaps in paced pieces and classifies every page. See pagemap.h for why the pace.
#include "source/pagemap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr uint64_t kSwapped = kPageSwapped, kFileOrShared = kPageOfFile, kExclusive = kPageExclusive;
constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 60'000};  // lets a waiting writer of mmap_lock in

// CPU time between two pauses: some four pieces of 2 MiB, and many holes.
constexpr absl::Duration kStretch = absl::Microseconds(150);

// What the kernel searches for a page at once, holding mmap_lock: it walks a table for every 2 MiB that ever had one.
constexpr uint64_t kSearched = 1 << 30;

bool HasPage(uint64_t entry) { return (entry & (kPagePresent | kPageSwapped)) != 0; }

constexpr uint64_t kNoPageFrame = kPageFrame;  // beyond any physical memory

// The frame behind every page of zeroes, learned from pages of our own that were only read; kNoPageFrame if the kernel
// has none. 0 if PFNs are hidden.
uint64_t ReadZeroPfn(const ProcFs& proc, uint64_t page_bytes) {
  void* pages = mmap(nullptr, 2 * page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return 0;
  for (const uint64_t at : {uint64_t{0}, page_bytes}) static_cast<void>(static_cast<volatile char*>(pages)[at]);
  Fd pagemap(open(proc.PathOf(getpid(), "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t entries[2] = {};
  const off_t offset = reinterpret_cast<uint64_t>(pages) / page_bytes * sizeof(uint64_t);
  if (!pagemap.ok() || pread(pagemap.fd(), entries, sizeof(entries), offset) != sizeof(entries)) entries[0] = 0;
  munmap(pages, 2 * page_bytes);
  if (PfnOf(entries[0]) == 0) return 0;
  // Some kernels (seen: 6.18 in a Firecracker guest) give each page its own frame at its first read.
  return PfnOf(entries[0]) == PfnOf(entries[1]) ? PfnOf(entries[0]) : kNoPageFrame;
}

// Those that end behind `address`.
absl::Span<const AddressRange> RangesFrom(const std::vector<AddressRange>* ranges, uint64_t address) {
  if (ranges == nullptr) return {};
  const auto first = std::partition_point(ranges->begin(), ranges->end(),
                                          [&](const AddressRange& range) { return range.end <= address; });
  return absl::MakeConstSpan(*ranges).subspan(first - ranges->begin());
}

}  // namespace

PageState StateOfPage(uint64_t own, uint64_t peer, uint64_t zero_pfn) {
  const uint64_t pfn = PfnOf(own);
  if (pfn == 0 || pfn == zero_pfn || own & kFileOrShared) return PageState::kOther;
  if (pfn == PfnOf(peer)) return PageState::kSame;
  const bool peer_has = (peer & kPagePresent) && !(peer & kFileOrShared) && PfnOf(peer) != zero_pfn;
  if (peer_has) return PageState::kDiverged;
  return peer & kSwapped ? PageState::kOther : PageState::kNew;  // what the peer has in swap can't be compared
}

bool MayHaveMigrated(absl::Span<const uint64_t> own, absl::Span<const uint64_t> peer, uint64_t zero_pfn) {
  const uint64_t first = PfnOf(own.front());
  if (first % kPagesOfRegion == 0 && PfnOf(own.back()) == first + kPagesOfRegion - 1) return true;
  for (size_t i = 0; i < own.size(); ++i) {
    if (!(own[i] & kExclusive) && StateOfPage(own[i], peer[i], zero_pfn) == PageState::kDiverged) return true;
  }
  return false;
}

RegionPages ClassifyPages(absl::Span<const uint64_t> own, absl::Span<const uint64_t> peer, uint64_t zero_pfn) {
  RegionPages pages;
  for (size_t i = 0; i < own.size(); ++i) {
    const uint64_t entry = own[i];
    if (entry & kSwapped) ++pages.swapped_pages;
    if (!(entry & kPagePresent) || entry & kFileOrShared) continue;
    if (zero_pfn != 0 && PfnOf(entry) == zero_pfn) {
      ++pages.zero_pages;
      continue;
    }
    const PageState state = StateOfPage(entry, i < peer.size() ? peer[i] : 0, zero_pfn);
    const bool exclusive = (entry & kExclusive) && state != PageState::kSame;
    ++(exclusive ? pages.private_pages : pages.shared_pages);
    if (peer.empty()) continue;
    pages.same_pages += state == PageState::kSame;
    pages.diverged_pages += state == PageState::kDiverged;
    pages.new_pages += state == PageState::kNew;
  }
  return pages;
}

PagemapSweep::PagemapSweep(ProcFs proc, uint64_t page_bytes, uint64_t t0_ns)
    : proc_(std::move(proc)), page_bytes_(page_bytes), t0_ns_(t0_ns), zero_pfn_(ReadZeroPfn(proc_, page_bytes)) {
  frames_hidden_ = zero_pfn_ == 0;
  if (frames_hidden_) zero_pfn_ = kStandInForZero;
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; the default of 50 us would double the pause
}

// To the microsecond, as a timeline has it: a replay must compare the same times.
absl::Duration PagemapSweep::Now() const {
  return absl::Trunc(BootTime() - absl::Nanoseconds(t0_ns_), absl::Microseconds(1));
}

// The descriptor holds on to the address space, so the start time is compared after the open.
Fd PagemapSweep::OpenPagemap(const ProcessId& process) const {
  if (process.pid == 0) return Fd();
  Fd pagemap(open(proc_.PathOf(process.pid, "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  const absl::StatusOr<ProcStat> stat = proc_.ReadStat(process.pid);
  const bool same = stat.ok() && stat->start_ticks == process.start_ticks();
  return same ? std::move(pagemap) : Fd();
}

// False if the process is gone or may not be read.
bool PagemapSweep::Open(SweepJob& job) {
  own_ = OpenPagemap(job.process);
  peer_ = OpenPagemap(job.peer);
  if (!own_.ok()) return false;
  progress_ = {.open = true};
  if (job.full) {
    absl::StatusOr<std::vector<Mapping>> mappings = proc_.ReadMaps(job.process.pid);
    if (!mappings.ok()) return false;
    progress_.left = SpansToSweep(*mappings);
    if (job.sharing) progress_.hugetlb = HugetlbSpans(*std::move(mappings));
  } else {
    std::sort(job.regions.begin(), job.regions.end());
    job.regions.erase(std::unique(job.regions.begin(), job.regions.end()), job.regions.end());
    progress_.left = SpansOf(job.regions);
  }
  progress_.pieces = PiecesIn(progress_.left);
  progress_.begin = std::min(Now(), job.full ? absl::InfiniteDuration() : job.regions_as_of);
  return true;
}

// False if the process is gone. The peer is read first: a page that this process copies in between has left the peer's,
// and not the peer this one's.
bool PagemapSweep::ReadLook(const SweepJob& job, uint64_t address, Look* look) {
  const size_t pages = kRegionBytes / page_bytes_;
  const off_t offset = address / page_bytes_ * sizeof(uint64_t);
  look->peer.resize(pages);
  const ssize_t peer_got = peer_.ok() ? pread(peer_.fd(), look->peer.data(), pages * sizeof(uint64_t), offset) : 0;
  look->own.resize(pages);
  const ssize_t got = pread(own_.fd(), look->own.data(), pages * sizeof(uint64_t), offset);
  if (got <= 0) return false;  // 0: the address space is gone
  look->own.resize(got / sizeof(uint64_t));
  look->has_peer = peer_got > 0;
  look->peer.resize(std::max<ssize_t>(peer_got, 0) / sizeof(uint64_t));
  if (look->has_peer) look->peer.resize(look->own.size());
  if (!frames_hidden_) return true;
  const auto has_data = [](uint64_t entry) { return (entry & kPagePresent) && !(entry & kFileOrShared); };
  if (std::none_of(look->own.begin(), look->own.end(), has_data)) return true;
  const auto scan = [&](int pagemap, std::vector<uint64_t>* entries) {
    if (kinds_known_ && !entries->empty())
      kinds_known_ = ScanKinds(pagemap, address, page_bytes_, absl::MakeSpan(*entries)) != KindsScan::kUnknown;
  };
  scan(own_.fd(), &look->own);
  if (look->has_peer) scan(peer_.fd(), &look->peer);
  FillInFrames(address / page_bytes_, job.has_children, absl::MakeSpan(look->own), absl::MakeSpan(look->peer));
  return true;
}

// One count for each range that has pages here, and one for the pages that are in none.
void PagemapSweep::CountLook(const SweepJob& job, uint64_t address, Look* look) const {
  const absl::Span<const uint64_t> own(look->own), peer(look->peer);
  const uint64_t end = address + own.size() * page_bytes_;
  look->counts.clear();
  look->diverged_pages = 0;
  uint64_t at = address;
  const auto count = [&](uint64_t until, uint16_t range) {
    const size_t first = (at - address) / page_bytes_, pages = (until - at) / page_bytes_;
    at = until;
    const RegionPages counts = ClassifyPages(
        own.subspan(first, pages), look->has_peer ? peer.subspan(first, pages) : peer.subspan(0, 0), zero_pfn_);
    // Address space that holds nothing takes no memory here either: some programs map terabytes of it.
    if (counts == RegionPages{}) return;
    look->counts.push_back({static_cast<uint32_t>(address / kRegionBytes), range, counts});
    look->diverged_pages += counts.diverged_pages;
  };
  for (const AddressRange& range : RangesFrom(job.ranges.get(), address)) {
    if (range.start >= end) break;
    if (range.start > at) count(range.start, kMaxRanges);
    count(std::min(range.end, end), range.number);
  }
  if (at < end) count(end, kMaxRanges);
}

// Pages of one region that had diverged when it was last read.
uint64_t PagemapSweep::DivergedBefore(uint32_t serial, uint64_t address) const {
  const auto known = known_.find(serial);
  if (known == known_.end()) return 0;
  const uint32_t region = address / kRegionBytes;
  uint64_t diverged = 0;
  for (auto kept = std::partition_point(known->second.begin(), known->second.end(),
                                        [&](const KeptPages& one) { return one.region < region; });
       kept != known->second.end() && kept->region == region; ++kept)
    diverged += kept->pages.diverged_pages;
  return diverged;
}

// False if the process is gone.
bool PagemapSweep::ReadPiece(const SweepJob& job, uint64_t address) {
  const Look* best = nullptr;
  const uint64_t known = DivergedBefore(job.serial, address);
  // Where more diverged than had before, and pages may only have migrated, a second look tells.
  for (Look& look : looks_) {
    if (!ReadLook(job, address, &look)) return false;
    CountLook(job, address, &look);
    if (best == nullptr || look.diverged_pages < best->diverged_pages) best = &look;
    if (best->diverged_pages <= known || !look.has_peer || frames_hidden_) break;
    if (!MayHaveMigrated(look.own, look.peer, zero_pfn_)) break;
  }
  progress_.in_hole = std::none_of(best->own.begin(), best->own.end(), HasPage);
  progress_.read.insert(progress_.read.end(), best->counts.begin(), best->counts.end());
  if (best->has_peer && job.sample_diverged > 0 && best->diverged_pages > 0) NotePages(job, address, *best);
  if (job.sharing && !best->counts.empty()) {
    std::vector<RegionSharing>& sharing = progress_.found.sharing;
    sharing.push_back(SharingOf(address, best->own, best->peer, zero_pfn_));
    sharing.back().hugetlb = Contains(progress_.hugetlb, address);
  }
  return true;
}

// Reads the next piece, or passes over a part of a hole. The last piece of a span is read in any case: only that shows
// whether the process is still there. False if it is gone.
bool PagemapSweep::Step(const SweepJob& job) {
  AddressSpan& left = progress_.left[progress_.span];
  const uint64_t address = left.begin, last = left.end - kRegionBytes;
  if (progress_.in_hole && kinds_known_ && address < last) {
    const uint64_t until = std::min(last, address + kSearched);
    uint64_t first = address;
    const KindsScan scan = FindPage(own_.fd(), address, until, &first);
    kinds_known_ = scan != KindsScan::kUnknown;
    progress_.in_hole = scan == KindsScan::kDone && first == until;
    left.begin = first / kRegionBytes * kRegionBytes;
    if (left.begin > address) return true;
  }
  left.begin += kRegionBytes;
  if (left.begin == left.end) ++progress_.span;
  return ReadPiece(job, address);
}

// What is asked for page by page.
void PagemapSweep::NotePages(const SweepJob& job, uint64_t address, const Look& look) {
  FinishedSweep& found = progress_.found;
  for (size_t i = 0; i < look.own.size(); ++i) {
    if (StateOfPage(look.own[i], look.peer[i], zero_pfn_) != PageState::kDiverged) continue;
    const uint64_t page = address + i * page_bytes_;
    // Vitter's algorithm R: each page that was met stays with the same chance.
    ++found.diverged_met;
    if (found.diverged_sample.size() < std::min(job.sample_diverged, kMaxDivergedSample)) {
      found.diverged_sample.push_back(page);
    } else if (const uint64_t slot = random_() % found.diverged_met; slot < found.diverged_sample.size()) {
      found.diverged_sample[slot] = page;
    }
  }
}

// What was read takes the place of what was known of the same regions; of a full sweep, of all that was known.
void PagemapSweep::Keep(const SweepJob& job) {
  std::vector<KeptPages>& known = known_[job.serial];
  std::erase_if(known, [&](const KeptPages& kept) {
    return job.full || std::binary_search(job.regions.begin(), job.regions.end(), kept.region * kRegionBytes);
  });
  std::vector<KeptPages> merged;
  merged.reserve(known.size() + progress_.read.size());  // no more: there are 64 workers of this
  std::merge(known.begin(), known.end(), progress_.read.begin(), progress_.read.end(), std::back_inserter(merged),
             [](const KeptPages& a, const KeptPages& b) { return a.region < b.region; });
  known = std::move(merged);
}

FinishedSweep PagemapSweep::Finish(const SweepJob& job) {
  Keep(job);
  FinishedSweep finished = std::move(progress_.found);
  finished.serial = job.serial;
  SweepFigures& sum = finished.figures;
  sum = {.begin = progress_.begin, .end = Now(), .full = job.full, .regions = progress_.pieces};
  sum.cost = progress_.cost;
  std::vector<RangePages> ranges;  // by number
  for (const auto& [region, number, pages] : known_[job.serial]) {
    sum.private_pages += pages.private_pages;
    sum.shared_pages += pages.shared_pages;
    sum.diverged_pages += pages.diverged_pages;
    sum.same_pages += pages.same_pages;
    sum.new_pages += pages.new_pages;
    sum.zero_pages += pages.zero_pages;
    sum.swapped_pages += pages.swapped_pages;
    if (number == kMaxRanges) continue;
    if (ranges.size() <= number) ranges.resize(number + 1);
    RangePages& range = ranges[number];
    range.number = number;
    range.private_pages += pages.private_pages;
    range.shared_pages += pages.shared_pages;
    range.diverged_pages += pages.diverged_pages;
    range.same_pages += pages.same_pages;
    range.new_pages += pages.new_pages;
  }
  std::copy_if(ranges.begin(), ranges.end(), std::back_inserter(finished.ranges),
               [](const RangePages& range) { return range.private_pages + range.shared_pages > 0; });
  std::sort(finished.diverged_sample.begin(), finished.diverged_sample.end());
  return finished;
}

void PagemapSweep::Forget(uint32_t serial) {
  known_.erase(serial);
  if (!jobs_.empty() && jobs_.front().serial == serial) progress_ = {};
  std::erase_if(jobs_, [&](const SweepJob& job) { return job.serial == serial; });
}

std::vector<FinishedSweep> PagemapSweep::Run(absl::Duration budget, absl::Duration longest) {
  std::vector<FinishedSweep> finished;
  const absl::Duration cpu_start = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  absl::Duration paused = cpu_start;
  const absl::Duration deadline = ReadClock(CLOCK_MONOTONIC) + std::min(longest, 10 * budget + absl::Milliseconds(1));
  while (!jobs_.empty()) {
    SweepJob& job = jobs_.front();
    const absl::Duration cpu_before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
    bool alive = progress_.open || Open(job);
    const bool done = alive && progress_.span == progress_.left.size();
    if (alive && !done) alive = Step(job);
    const absl::Duration cpu_now = ReadClock(CLOCK_THREAD_CPUTIME_ID);
    progress_.cost += cpu_now - cpu_before;
    cost_ += cpu_now - cpu_before;
    if (done) finished.push_back(Finish(job));
    if (done || !alive) {
      jobs_.pop_front();
      progress_ = {};
    }
    if (cpu_now - cpu_start >= budget || ReadClock(CLOCK_MONOTONIC) >= deadline) break;
    if (alive && !done && cpu_now - paused >= kStretch) {
      nanosleep(&kPause, nullptr);
      paused = cpu_now;
    }
  }
  return finished;
}

}  // namespace cowprof
