// Reads pagemaps in paced pieces and classifies every page. See pagemap.h for why the pace.
#include "source/pagemap.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr uint64_t kPresent = 1ull << 63, kSwapped = 1ull << 62, kFileOrShared = 1ull << 61, kExclusive = 1ull << 56;
constexpr uint64_t kPfnMask = (1ull << 55) - 1;
constexpr timespec kPause = {.tv_sec = 0, .tv_nsec = 60'000};  // between pieces: lets a waiting writer of mmap_lock in

constexpr absl::Duration kCheap = absl::Microseconds(6);  // a hole: no pause needed

uint64_t PfnOf(uint64_t entry) { return entry & kPresent ? entry & kPfnMask : 0; }

// The frame behind every page of zeroes, learned from a page of our own that was only read. 0 if PFNs are hidden.
uint64_t ReadZeroPfn(const ProcFs& proc, uint64_t page_bytes) {
  void* page = mmap(nullptr, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 0;
  static_cast<void>(*static_cast<volatile char*>(page));
  Fd pagemap(open(proc.PathOf(getpid(), "pagemap").c_str(), O_RDONLY | O_CLOEXEC));
  uint64_t entry = 0;
  const off_t offset = reinterpret_cast<uint64_t>(page) / page_bytes * sizeof(entry);
  if (!pagemap.ok() || pread(pagemap.fd(), &entry, sizeof(entry), offset) != sizeof(entry)) entry = 0;
  munmap(page, page_bytes);
  return PfnOf(entry);
}

// Mappings whose pages can be anonymous and private. A large read-only file mapping is a data set: its pages stay the
// file's.
bool MayHoldCopies(const Mapping& mapping) {
  if (mapping.shared || absl::StartsWith(mapping.name, "[v")) return false;  // [vdso], [vvar], [vsyscall]
  if (!mapping.readable && !mapping.writable) return false;                  // reserved address space
  const bool read_only_file = mapping.inode != 0 && !mapping.writable;
  return !read_only_file || mapping.end - mapping.begin <= 2 * kRegionBytes;
}

std::vector<uint64_t> RegionsOf(const std::vector<Mapping>& mappings) {
  std::vector<uint64_t> regions;
  for (const Mapping& mapping : mappings) {
    if (!MayHoldCopies(mapping)) continue;
    for (uint64_t at = mapping.begin / kRegionBytes * kRegionBytes; at < mapping.end; at += kRegionBytes) {
      if (regions.empty() || regions.back() < at) regions.push_back(at);
    }
  }
  return regions;
}

}  // namespace

RegionPages ClassifyPages(absl::Span<const uint64_t> own, absl::Span<const uint64_t> peer, uint64_t zero_pfn) {
  RegionPages pages;
  for (size_t i = 0; i < own.size(); ++i) {
    const uint64_t entry = own[i];
    if (entry & kSwapped) ++pages.swapped_pages;
    if (!(entry & kPresent) || entry & kFileOrShared) continue;
    const uint64_t pfn = PfnOf(entry);
    if (pfn != 0 && pfn == zero_pfn) {
      ++pages.zero_pages;
      continue;
    }
    const uint64_t other = i < peer.size() ? peer[i] : 0;
    const bool same = pfn != 0 && pfn == PfnOf(other);
    const bool exclusive = (entry & kExclusive) && !same;
    ++(exclusive ? pages.private_pages : pages.shared_pages);
    if (pfn == 0 || peer.empty()) continue;
    if (same) {
      ++pages.same_pages;
    } else if (other & kPresent && PfnOf(other) != zero_pfn) {
      ++pages.diverged_pages;
    } else if (!(other & kSwapped)) {  // what the peer has in swap can't be compared
      ++pages.new_pages;
    }
  }
  return pages;
}

PagemapSweep::PagemapSweep(ProcFs proc, uint64_t page_bytes, uint64_t t0_ns)
    : proc_(std::move(proc)),
      page_bytes_(page_bytes),
      t0_ns_(t0_ns),
      zero_pfn_(ReadZeroPfn(proc_, page_bytes)),
      own_entries_(kRegionBytes / page_bytes),
      peer_entries_(kRegionBytes / page_bytes) {
  prctl(PR_SET_TIMERSLACK, 1000);  // ns; the default of 50 us would double the pause
}

absl::Duration PagemapSweep::Now() const { return BootTime() - absl::Nanoseconds(t0_ns_); }

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
  if (job.full) {
    absl::StatusOr<std::vector<Mapping>> mappings = proc_.ReadMaps(job.process.pid);
    if (!mappings.ok()) return false;
    job.regions = RegionsOf(*mappings);
    known_[job.index].clear();
  }
  progress_ = {.open = true, .begin = Now()};
  return true;
}

// False if the process is gone.
bool PagemapSweep::ReadPiece(const SweepJob& job, uint64_t address) {
  const off_t offset = address / page_bytes_ * sizeof(uint64_t);
  const size_t bytes = own_entries_.size() * sizeof(uint64_t);
  RegionPages pages;
  // A page that migrates between the two reads looks diverged: a second look tells.
  for (int look = 0; look < 2; ++look) {
    const ssize_t got = pread(own_.fd(), own_entries_.data(), bytes, offset);
    if (got <= 0) return false;  // 0: the address space is gone
    const ssize_t peer_got = peer_.ok() ? pread(peer_.fd(), peer_entries_.data(), bytes, offset) : 0;
    const absl::Span<const uint64_t> own(own_entries_.data(), got / sizeof(uint64_t));
    const absl::Span<const uint64_t> peer(peer_entries_.data(), std::max<ssize_t>(peer_got, 0) / sizeof(uint64_t));
    const RegionPages again = ClassifyPages(own, peer, zero_pfn_);
    if (look == 0 || again.diverged_pages < pages.diverged_pages) pages = again;
    if (pages.diverged_pages == 0 || peer.empty()) break;
  }
  // Address space that holds nothing takes no memory here either: some programs map terabytes of it.
  if (pages == RegionPages{}) {
    known_[job.index].erase(address / kRegionBytes);
  } else {
    known_[job.index][address / kRegionBytes] = pages;
  }
  return true;
}

SweepFigures PagemapSweep::Sum(const SweepJob& job) const {
  SweepFigures sum = {
      .begin = progress_.begin, .end = Now(), .full = job.full, .regions = job.regions.size(), .cost = progress_.cost};
  const auto known = known_.find(job.index);
  if (known == known_.end()) return sum;
  for (const auto& [region, pages] : known->second) {
    sum.private_pages += pages.private_pages;
    sum.shared_pages += pages.shared_pages;
    sum.diverged_pages += pages.diverged_pages;
    sum.same_pages += pages.same_pages;
    sum.new_pages += pages.new_pages;
    sum.zero_pages += pages.zero_pages;
    sum.swapped_pages += pages.swapped_pages;
  }
  return sum;
}

void PagemapSweep::Forget(int index) {
  known_.erase(index);
  if (!jobs_.empty() && jobs_.front().index == index) progress_ = {};
  std::erase_if(jobs_, [&](const SweepJob& job) { return job.index == index; });
}

std::vector<FinishedSweep> PagemapSweep::Run(absl::Duration budget) {
  std::vector<FinishedSweep> finished;
  const absl::Duration cpu_start = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  const absl::Duration deadline = ReadClock(CLOCK_MONOTONIC) + 10 * budget + absl::Milliseconds(1);
  while (!jobs_.empty()) {
    SweepJob& job = jobs_.front();
    const absl::Duration cpu_before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
    bool alive = progress_.open || Open(job);
    const bool done = alive && progress_.next >= job.regions.size();
    if (alive && !done) alive = ReadPiece(job, job.regions[progress_.next++]);
    const absl::Duration cpu_now = ReadClock(CLOCK_THREAD_CPUTIME_ID);
    progress_.cost += cpu_now - cpu_before;
    cost_ += cpu_now - cpu_before;
    if (done) finished.push_back({job.index, Sum(job)});
    if (done || !alive) {
      jobs_.pop_front();
      progress_ = {};
    }
    if (cpu_now - cpu_start >= budget || ReadClock(CLOCK_MONOTONIC) >= deadline) break;
    if (alive && !done && cpu_now - cpu_before > kCheap) nanosleep(&kPause, nullptr);
  }
  return finished;
}

}  // namespace cowprof
