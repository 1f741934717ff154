// Consults the page map before every read.
#include "python/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/container/fixed_array.h"
#include "absl/container/flat_hash_set.h"
#include "source/pagemap_entry.h"

namespace cowprof {
namespace {

constexpr uint64_t kMaxRunPages = 512;  // per read of a pagemap, which holds mmap_lock meanwhile
constexpr uint64_t kMaxSkippedPages = 32;
constexpr absl::Duration kLookAgain = absl::Seconds(10);

Fd OpenFile(const ProcFs& proc, pid_t pid, const char* name) {
  return Fd(open(proc.PathOf(pid, name).c_str(), O_RDONLY | O_CLOEXEC));
}

}  // namespace

PresentMemory::PresentMemory(pid_t pid, const ProcFs& proc)
    : page_bytes_(sysconf(_SC_PAGESIZE)),
      memory_(OpenFile(proc, pid, "mem")),
      pagemap_(OpenFile(proc, pid, "pagemap")) {}

bool PresentMemory::ReadEntries(uint64_t first, absl::Span<uint64_t> entries) const {
  const ssize_t got = pread(pagemap_.fd(), entries.data(), entries.size() * sizeof(uint64_t), first * sizeof(uint64_t));
  std::fill(entries.begin() + std::max<ssize_t>(got, 0) / sizeof(uint64_t), entries.end(), 0);
  return got > 0;
}

bool PresentMemory::ReadUnchecked(uint64_t address, absl::Span<char> bytes) const {
  return bytes.empty() || pread(memory_.fd(), bytes.data(), bytes.size(), static_cast<off_t>(address)) ==
                              static_cast<ssize_t>(bytes.size());
}

bool PresentMemory::Read(uint64_t address, absl::Span<char> bytes) const {
  ReadRequest request = {address, bytes};
  PresentMemory::ReadMany(absl::MakeSpan(&request, 1));
  return request.ok;
}

void PresentMemory::ReadMany(absl::Span<ReadRequest> requests) const {
  const auto first_page = [&](size_t i) { return requests[i].address / page_bytes_; };
  const auto end_page = [&](size_t i) {
    const uint64_t end = requests[i].address + requests[i].bytes.size();
    if (end < requests[i].address) return first_page(i) + 1;  // wraps around: a kernel address, never readable
    return end == requests[i].address ? first_page(i) : (end - 1) / page_bytes_ + 1;
  };
  std::vector<uint64_t> entries;
  for (size_t i = 0, next = 0; i < requests.size(); i = next) {
    const uint64_t first = first_page(i);
    uint64_t end = end_page(i);
    for (next = i + 1; next < requests.size() && first_page(next) >= first &&
                       first_page(next) <= end + kMaxSkippedPages && end_page(next) <= first + kMaxRunPages;
         ++next) {
      end = std::max(end, end_page(next));
    }
    entries.resize(end - first);
    ReadEntries(first, absl::MakeSpan(entries));
    for (size_t j = i; j < next; ++j) {
      requests[j].ok = std::all_of(entries.begin() + (first_page(j) - first), entries.begin() + (end_page(j) - first),
                                   [](uint64_t entry) { return entry & kPagePresent; }) &&
                       ReadUnchecked(requests[j].address, requests[j].bytes);
    }
  }
}

bool ProcessMemory::Read(uint64_t address, absl::Span<char> bytes) const {
  if (bytes.empty()) return true;
  const uint64_t last = address + bytes.size() - 1;
  if (last < address || !IsUserAddress(last)) return false;
  const uint64_t first = address / page_bytes_;
  absl::FixedArray<uint64_t> entries(last / page_bytes_ - first + 1);
  if (!ReadEntries(first, absl::MakeSpan(entries))) return false;
  for (size_t i = 0; i < entries.size(); ++i) {
    const bool is_there = entries[i] & (kPagePresent | kPageSwapped);
    if (!is_there && !files_->Have(proc_, pid_, (first + i) * page_bytes_)) return false;
  }
  return ReadUnchecked(address, bytes);
}

AddressRanges RangesOfFiles(const std::vector<Mapping>& mappings) {
  absl::flat_hash_set<std::pair<uint64_t, uint64_t>> with_code;
  for (const Mapping& mapping : mappings) {
    if (mapping.executable && mapping.inode != 0) with_code.insert({mapping.device, mapping.inode});
  }
  AddressRanges ranges;
  for (const Mapping& mapping : mappings) {
    const bool has = !mapping.shared && with_code.contains({mapping.device, mapping.inode});
    if (has) ranges.emplace_back(mapping.begin, mapping.end);
  }
  return ranges;
}

bool ProgramFiles::Have(const ProcFs& proc, pid_t pid, uint64_t address, absl::Duration now) {
  if (now - looked_ >= kLookAgain) {
    const absl::StatusOr<std::vector<Mapping>> mappings = proc.ReadMaps(pid);
    if (mappings.ok()) {
      looked_ = now;
      ranges_ = RangesOfFiles(*mappings);
    }
  }
  const auto behind =
      std::partition_point(ranges_.begin(), ranges_.end(), [&](const auto& range) { return range.second <= address; });
  return behind != ranges_.end() && behind->first <= address;
}

}  // namespace cowprof
