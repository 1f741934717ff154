// Page maps with any entries, compared with any peer's, under any ranges: classified in memory, and swept through the
// files of a made-up /proc whose mappings also come from the input.
#include "attribution/regions.h"
#include "fixture_tree.h"
#include "fuzz.h"
#include "source/pagemap.h"
#include "source/pagemap_entry.h"

namespace cowprof {
namespace {

constexpr uint64_t kPageBytes = 4096;

// Mostly bits that have a meaning, and frames that occur on both sides.
std::vector<uint64_t> Entries(FuzzedDataProvider* input, size_t most) {
  std::vector<uint64_t> entries(input->ConsumeIntegralInRange<size_t>(0, most));
  for (uint64_t& entry : entries) {
    const uint8_t byte = input->ConsumeIntegral<uint8_t>();
    entry = byte == 0xff ? input->ConsumeIntegral<uint64_t>() : uint64_t{byte & 0xf0u} << 56 | (byte & 0xf);
    if (byte & 0x10) entry |= 1ull << 56;
  }
  return entries;
}

void FuzzClassify(FuzzedDataProvider* input) {
  const uint64_t zero_pfn = input->ConsumeIntegralInRange(0, 3);
  const std::vector<uint64_t> own = Entries(input, 512), peer = Entries(input, 512);
  const RegionPages pages = ClassifyPages(own, peer, zero_pfn);
  Require(pages.private_pages + pages.shared_pages + pages.zero_pages <= own.size(), "a page is counted once");
  Require(pages.diverged_pages + pages.same_pages + pages.new_pages <= pages.private_pages + pages.shared_pages,
          "only anonymous pages are compared");
  Require(pages.swapped_pages <= own.size(), "a page is counted once");
}

void FuzzSharing(FuzzedDataProvider* input) {
  const uint64_t first_page = input->ConsumeIntegralInRange<uint64_t>(0, 1ull << 35);
  std::vector<uint64_t> own = Entries(input, kPagesOfRegion), peer = Entries(input, kPagesOfRegion);
  if (!peer.empty()) peer.resize(own.size());
  FillInFrames(first_page, input->ConsumeBool(), absl::MakeSpan(own), absl::MakeSpan(peer));
  const RegionSharing sharing = SharingOf(0, own, peer, kStandInForZero);
  Require((sharing.shared & sharing.exclusive).none(), "a page is shared or not");
  Require((sharing.peer_exclusive & ~sharing.peer).none(), "a page that only the peer has is one of the peer's");
}

// A process and its peer, pids 12 and 13, in a /proc of files in memory.
class MadeUpProc {
 public:
  MadeUpProc() {
    for (const char* pid : {"12", "13"}) {
      const std::string folder = absl::StrCat("/", pid, "/");
      tree_.Write(folder + "stat", absl::StrCat(pid, " (x) S 1 1 1 0 -1 64 1 1 1 1 1 1 1 1 20 0 1 0 77 4096 1 1\n"));
      tree_.Link(folder + "pagemap", (pid[1] == '2' ? own_ : peer_).path());
      tree_.Link(folder + "maps", maps_.path());
    }
  }
  MemoryFile own_, peer_, maps_;
  FixtureTree tree_;
};

absl::string_view Bytes(const std::vector<uint64_t>& words) {
  return absl::string_view(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint64_t));
}

void FuzzSweep(FuzzedDataProvider* input) {
  static MadeUpProc proc;
  SweepJob job = {.serial = 0,
                  .process = {12, 770'000'000},
                  .peer = {input->ConsumeBool() ? 13 : 0, 770'000'000},
                  .full = input->ConsumeBool(),
                  .sample_diverged = input->ConsumeIntegralInRange<size_t>(0, 700),
                  .sharing = input->ConsumeBool(),
                  .has_children = input->ConsumeBool()};
  const uint64_t at = input->ConsumeIntegralInRange<uint64_t>(0, 1ull << 35) * kPageBytes;
  proc.own_.Clear();
  proc.peer_.Clear();
  const off_t offset = at / kPageBytes * sizeof(uint64_t);
  proc.own_.Write(Bytes(Entries(input, 1200)), offset);
  proc.peer_.Write(Bytes(Entries(input, 1200)), offset + input->ConsumeIntegralInRange(0, 16));
  for (int i = input->ConsumeIntegralInRange(0, 4); i > 0; --i)
    job.regions.push_back((at / kRegionBytes + input->ConsumeIntegralInRange(-2, 4)) * kRegionBytes);
  const std::string maps = input->ConsumeRemainingBytesAsString();
  proc.maps_.Set(maps);
  std::vector<Region> known;
  // As the kernel prints them: without overlaps.
  std::vector<Mapping> mappings = ParseMaps(maps);
  std::erase_if(mappings, [end = uint64_t{0}](const Mapping& mapping) mutable {
    if (mapping.begin < end || mapping.begin % kPageBytes != 0 || mapping.end % kPageBytes != 0) return true;
    end = mapping.end;
    return false;
  });
  const std::vector<AddressRange> ranges = NumberRegions(ClassifyMappings(mappings), &known);
  if (!ranges.empty()) job.ranges = std::make_shared<const std::vector<AddressRange>>(ranges);

  PagemapSweep sweep(ProcFs(proc.tree_.root()), kPageBytes, 0);
  sweep.Add(job);
  sweep.Add(job);
  for (int i = 0; i < 8 && !sweep.idle(); ++i) {
    for (const FinishedSweep& found : sweep.Run(absl::Milliseconds(1))) {
      uint64_t pages = 0;
      for (const RangePages& range : found.ranges) pages += range.private_pages + range.shared_pages;
      Require(pages <= found.figures.private_pages + found.figures.shared_pages, "ranges are parts of the total");
      Require(found.diverged_sample.size() <= std::min(found.diverged_met, uint64_t{kMaxDivergedSample}),
              "a sample is not larger than its population");
      Require(std::is_sorted(found.diverged_sample.begin(), found.diverged_sample.end()), "a sample is sorted");
    }
  }
  sweep.Forget(0);
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  switch (cowprof::PickOne(&input, 3)) {
    case 0:
      cowprof::FuzzClassify(&input);
      break;
    case 1:
      cowprof::FuzzSharing(&input);
      break;
    default:
      cowprof::FuzzSweep(&input);
  }
  return 0;
}
