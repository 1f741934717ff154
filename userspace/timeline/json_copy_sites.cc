// Spells the keys of copy sites, regions and copied pages. Runs of pages are written per process and cause: [index,
// cause, first page, [pages, gap, pages, gap, ...]].
#include "timeline/json_copy_sites.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "timeline/json_fields.h"
#include "timeline/plain_record.h"

namespace cowprof {
namespace {

constexpr uint64_t kMostMissing = 16;              // in a row
constexpr size_t kMostFrames = 256;                // of a stack, which the recorder cuts at 128
constexpr size_t kMostBytesOfName = 4096;          // the recorder writes no longer path or symbol
constexpr uint64_t kMostPages = 1ull << 36;        // of an address space of 48 bits
constexpr uint64_t kMostRegionBytes = 1ull << 57;  // an address space with five levels of page tables

Json EncodePage(const std::vector<PageRun>& runs) {
  Json gaps = Json::array();
  uint64_t end = runs.front().first_page;
  for (const PageRun& run : runs) {
    if (run.first_page != runs.front().first_page) gaps.push_back(run.first_page - end);
    gaps.push_back(run.pages);
    end = run.first_page + run.pages;
  }
  return {runs.front().index, NameOf(runs.front().cause), runs.front().first_page, std::move(gaps)};
}

// Runs ascend within a record, but not necessarily across several records.
std::vector<std::vector<PageRun>> SplitWhereItFalls(const std::vector<PageRun>& runs) {
  std::vector<std::vector<PageRun>> parts;
  for (const PageRun& run : runs) {
    if (parts.empty() || run.first_page < parts.back().back().first_page + parts.back().back().pages)
      parts.emplace_back();
    parts.back().push_back(run);
  }
  return parts;
}

template <typename Row>
Cause CauseAt(const Row& row, size_t i) {
  return EnumNamed(TextAt(row, i), Cause::kUnknown);
}

// Calls `add` for the row of every number, with null for missing ones. cowprof leaves out none. Ignores a row after a
// large gap, which would let a hostile file of thirty bytes allocate a gigabyte.
template <typename Add>
void ForEachNumbered(const SampleRecord& record, const char* key, int* next, const Add& add) {
  ForEachRow(record, key, [&](const auto& row) {
    const Count number = CountAt(row, 0);
    if (!number || *number > kMostNumbers || *number > static_cast<uint64_t>(*next) + kMostMissing) return;
    while (*next < static_cast<int>(*number)) {
      add(Json());
      ++*next;
    }
    if (*next != static_cast<int>(*number)) return;
    add(row);
    ++*next;
  });
}

// Every frame and region may be shown a million times: of a longer name the beginning is enough.
template <typename Row>
std::string NameAt(const Row& row, size_t i) {
  std::string name = TextAt(row, i);
  if (name.size() <= kMostBytesOfName) return name;
  size_t end = kMostBytesOfName;
  while (end > kMostBytesOfName - 3 && (name[end] & 0xc0) == 0x80) --end;  // not within a character
  return name.substr(0, end);
}

template <typename Row>
std::vector<int> FramesAt(const Row& row, size_t i, int frames) {
  std::vector<int> numbers;
  for (const auto& number : ListAt(row, i)) {
    if (numbers.size() == kMostFrames) break;
    const std::optional<int> frame = NumberIn<int>(number);
    if (frame && *frame >= 0 && *frame < frames) numbers.push_back(*frame);
  }
  return numbers;
}

template <typename Row>
NumberedRegion DecodeRegion(const Row& row) {
  NumberedRegion region = {.index = static_cast<int>(std::min<uint64_t>(CountAt(row, 1).value_or(0), INT32_MAX))};
  const std::string kind = TextAt(row, 2);
  const uint64_t start = CountAt(row, 4).value_or(0);
  const uint64_t bytes = std::min({CountAt(row, 5).value_or(0), kMostRegionBytes, UINT64_MAX - start});
  region.region = {EnumNamed(kind, RegionKind::kOther), NameAt(row, 3), start, start + bytes};
  return region;
}

template <typename Row>
void DecodePages(const Row& row, Sample* sample) {
  const Count index = CountAt(row, 0), first = CountAt(row, 2);
  if (!index || !first || *index > INT32_MAX) return;
  const Cause cause = CauseAt(row, 1);
  uint64_t page = *first;
  bool gap = false;
  for (const auto& length : ListAt(row, 3)) {
    const Count pages = NumberIn<uint64_t>(length);
    if (!pages || *pages > kMostPages || page > kMostPages) return;
    if (!gap) sample->pages.push_back({static_cast<int>(*index), cause, page, *pages});
    page += *pages;
    gap = !gap;
  }
}

}  // namespace

void EncodeCopySites(const Sample& sample, CopySiteNumbers* numbers, std::string* out) {
  Json frames = Json::array(), new_copy_sites = Json::array(), copy_sites = Json::array(), pages = Json::array();
  for (const Frame& frame : sample.new_frames)
    frames.push_back({numbers->frames++, frame.file, frame.function, frame.line});
  for (const CopySite& copy_site : sample.new_copy_sites) {
    new_copy_sites.push_back({numbers->copy_sites++, NameOf(copy_site.cause), copy_site.type, copy_site.module,
                              copy_site.symbol, copy_site.frames});
  }
  for (const CopySiteCount& count : sample.copy_sites)
    copy_sites.push_back({count.index, count.copy_site, count.copies, count.samples, count.squares});
  Json new_growth = Json::array(), growth = Json::array();
  for (const GrowthSite& site : sample.new_growth_sites) new_growth.push_back({numbers->growth_sites++, site.frames});
  for (const GrowthCount& count : sample.growth)
    growth.push_back({count.index, count.site, count.pages, count.samples});
  std::map<std::pair<int, Cause>, std::vector<PageRun>> runs;
  for (const PageRun& run : sample.pages) runs[{run.index, run.cause}].push_back(run);
  for (const auto& [key, group] : runs) {
    for (const std::vector<PageRun>& rising : SplitWhereItFalls(group)) pages.push_back(EncodePage(rising));
  }
  Json new_regions = Json::array(), regions = Json::array(), verify = Json::array();
  for (const auto& [index, region] : sample.new_regions) {
    new_regions.push_back(
        {numbers->regions++, index, NameOf(region.kind), region.name, region.start, region.end - region.start});
  }
  for (const RegionCount& count : sample.regions) {
    regions.push_back({count.index, count.region, count.private_pages, count.shared_pages, count.diverged_pages,
                       count.same_pages, count.new_pages});
  }
  Json grown_regions = Json::array(), heads = Json::array();
  for (const GrownRegion& grown : sample.grown_regions) grown_regions.push_back({grown.region, grown.bytes});
  for (const RegionHeads& row : sample.heads) heads.push_back({row.region, row.pages, row.with_heads, row.heads});
  for (const ProcessSample& process : sample.processes) {
    if (const auto& v = process.verify)
      verify.push_back(
          {process.index, v->pages, v->identical, v->refcount_only, v->gc_header_only, v->hash_only, v->data});
  }
  const std::pair<const char*, const Json*> lists[] = {{"frames", &frames},
                                                       {"new_places", &new_copy_sites},
                                                       {"places", &copy_sites},
                                                       {"new_regions", &new_regions},
                                                       {"regions", &regions},
                                                       {"pages", &pages},
                                                       {"verify", &verify},
                                                       {"heads", &heads},
                                                       {"new_growth", &new_growth},
                                                       {"growth", &growth},
                                                       {"grown_regions", &grown_regions}};
  for (const auto& [key, list] : lists) {
    if (!list->empty()) absl::StrAppend(out, ",\"", key, "\":", Dump(*list));
  }
  if (const auto& evidence = sample.cause_evidence) {
    absl::StrAppend(out, ",\"cause_evidence\":",
                    Dump({{"looked", evidence->looked},
                          {"told", evidence->told},
                          {"audited", evidence->audited},
                          {"contradicted", evidence->contradicted}}));
  }
}

void DecodeCopySites(const SampleRecord& record, CopySiteNumbers* numbers, Sample* sample) {
  sample->new_frames.clear();
  sample->new_copy_sites.clear();
  sample->copy_sites.clear();
  sample->pages.clear();
  sample->cause_evidence.reset();
  ForEachNumbered(record, "frames", &numbers->frames, [&](const auto& row) {
    sample->new_frames.push_back({NameAt(row, 1), NameAt(row, 2), NumberAt<int>(row, 3).value_or(0)});
  });
  ForEachNumbered(record, "new_places", &numbers->copy_sites, [&](const auto& row) {
    sample->new_copy_sites.push_back({.cause = CauseAt(row, 1),
                                      .type = NameAt(row, 2),
                                      .module = NameAt(row, 3),
                                      .symbol = NameAt(row, 4),
                                      .frames = FramesAt(row, 5, numbers->frames)});
  });
  ForEachRow(record, "places", [&](const auto& row) {
    const Count index = CountAt(row, 0), copy_site = CountAt(row, 1);
    if (!index || !copy_site || *index > INT32_MAX || *copy_site >= static_cast<uint64_t>(numbers->copy_sites)) return;
    sample->copy_sites.push_back({static_cast<int>(*index), static_cast<int>(*copy_site), CountAt(row, 2).value_or(0),
                                  CountAt(row, 3).value_or(0), CountAt(row, 4).value_or(0)});
  });
  sample->new_growth_sites.clear();
  sample->growth.clear();
  ForEachNumbered(record, "new_growth", &numbers->growth_sites,
                  [&](const auto& row) { sample->new_growth_sites.push_back({FramesAt(row, 1, numbers->frames)}); });
  ForEachRow(record, "growth", [&](const auto& row) {
    const Count index = CountAt(row, 0), site = CountAt(row, 1);
    if (!index || !site || *index > INT32_MAX || *site >= static_cast<uint64_t>(numbers->growth_sites)) return;
    sample->growth.push_back(
        {static_cast<int>(*index), static_cast<int>(*site), CountAt(row, 2).value_or(0), CountAt(row, 3).value_or(0)});
  });
  sample->new_regions.clear();
  sample->regions.clear();
  ForEachNumbered(record, "new_regions", &numbers->regions,
                  [&](const auto& row) { sample->new_regions.push_back(DecodeRegion(row)); });
  ForEachRow(record, "regions", [&](const auto& row) {
    const Count index = CountAt(row, 0), region = CountAt(row, 1);
    if (!index || !region || *index > INT32_MAX || *region >= static_cast<uint64_t>(numbers->regions)) return;
    const auto cell = [&](size_t i) { return CountAt(row, i).value_or(0); };
    sample->regions.push_back(
        {static_cast<int>(*index), static_cast<int>(*region), cell(2), cell(3), cell(4), cell(5), cell(6)});
  });
  sample->grown_regions.clear();
  ForEachRow(record, "grown_regions", [&](const auto& row) {
    const Count region = CountAt(row, 0), bytes = CountAt(row, 1);
    if (!region || !bytes || *region >= static_cast<uint64_t>(numbers->regions)) return;
    sample->grown_regions.push_back({static_cast<int>(*region), std::min(*bytes, kMostRegionBytes)});
  });
  sample->heads.clear();
  ForEachRow(record, "heads", [&](const auto& row) {
    const Count region = CountAt(row, 0);
    if (!region || *region >= static_cast<uint64_t>(numbers->regions)) return;
    const auto cell = [&](size_t i) { return CountAt(row, i).value_or(0); };
    sample->heads.push_back({static_cast<int>(*region), cell(1), cell(2), cell(3)});
  });
  ForEachRow(record, "verify", [&](const auto& row) {
    const auto cell = [&](size_t i) { return CountAt(row, i).value_or(0); };
    const std::optional<int> index = NumberAt<int>(row, 0);
    if (!index) return;
    // Sorted by index.
    const auto process = std::lower_bound(sample->processes.begin(), sample->processes.end(), *index,
                                          [](const ProcessSample& one, int before) { return one.index < before; });
    if (process != sample->processes.end() && process->index == *index)
      process->verify = {cell(1), cell(2), cell(3), cell(4), cell(5), cell(6)};
  });
  ForEachRow(record, "pages", [&](const auto& row) { DecodePages(row, sample); });
  const auto evidence = record.json.find("cause_evidence");
  if (evidence == record.json.end() || !evidence->is_object()) return;
  sample->cause_evidence = {NumberOf<uint64_t>(*evidence, "looked"), NumberOf<uint64_t>(*evidence, "told"),
                            NumberOf<uint64_t>(*evidence, "audited"), NumberOf<uint64_t>(*evidence, "contradicted")};
}

Json NamesOfCopySiteColumns() {
  return {
      {"frames", {"frame", "file", "function", "line"}},
      {"new_places", {"place", "cause", "type", "module", "symbol", "frames"}},
      {"places", {"index", "place", "copies", "samples", "squares"}},
      {"new_regions", {"region", "index", "kind", "name", "start", "bytes"}},
      {"grown_regions", {"region", "bytes"}},
      {"regions", {"index", "region", "private_pages", "shared_pages", "diverged_pages", "same_pages", "new_pages"}},
      {"pages", {"index", "cause", "first_page", "pages_and_gaps"}},
      {"verify", {"index", "pages", "identical", "refcount_only", "gc_header_only", "hash_only", "data"}},
      {"heads", {"region", "pages", "with_heads", "heads"}},
      {"new_growth", {"growth_site", "frames"}},
      {"growth", {"index", "growth_site", "pages", "samples"}}};
}

}  // namespace cowprof
