#include "model/judge/blame.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/numeric/int128.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "model/base_name.h"
#include "model/facts/ended_aggregate.h"
#include "model/library_name.h"

namespace cowprof {
namespace {

bool InScope(const ProcessModel& process, const Scope& scope) {
  if (scope.index) return process.index == *scope.index;
  if (!scope.workers_only) return true;
  return process.is_worker() && !absl::c_binary_search(scope.without, process.index);
}

// Sums copy sites by `key_of`.
template <typename Key, typename KeyOf, typename Fill>
std::vector<BlameRow> GroupBy(const RunModel& model, const Blame& blame, const KeyOf& key_of, const Fill& fill) {
  std::map<Key, CauseCounts> sums;
  for (const CopySiteShare& share : blame.copy_sites) {
    const CopySite& copy_site = model.copy_sites[share.copy_site];
    sums[key_of(copy_site)][static_cast<int>(copy_site.cause)] += share.copies;
  }
  std::vector<BlameRow> rows;
  for (const auto& [key, causes] : sums) {
    BlameRow row = {.causes = causes, .copies = Sum(causes)};
    fill(key, &row);
    row.share = blame.copies == 0 ? 0 : static_cast<double>(row.copies) / blame.copies;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const BlameRow& a, const BlameRow& b) { return a.copies > b.copies; });
  return rows;
}

// `Number` holds each copy site's copies, multiplied by `counted`.
template <typename Number>
void Scale(uint64_t counted, Number stood_for, absl::Span<CopySiteShare> sites) {
  std::vector<std::pair<Number, size_t>> remainders;
  remainders.reserve(sites.size());
  uint64_t rest = counted;
  for (CopySiteShare& site : sites) {
    const Number part = Number{site.copies} * counted, whole = part / stood_for;
    remainders.emplace_back(part - whole * stood_for, remainders.size());
    site.copies = static_cast<uint64_t>(whole);
    rest -= site.copies;
  }
  // The largest remainders first; of equal ones, those of the first copy sites.
  const auto before = [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  };
  const auto end = remainders.begin() + rest;
  if (end != remainders.end()) std::nth_element(remainders.begin(), end, remainders.end(), before);
  for (auto one = remainders.begin(); one != end; ++one) ++sites[one->second].copies;
}

}  // namespace

double Blame::Uncertainty(double share) const {
  if (!estimated || effective_samples <= 0) return 0;
  const double p = std::clamp(share, 0.0, 1.0);
  return 1.96 * std::sqrt(p * (1 - p) / effective_samples);
}

bool ScaleToCounted(uint64_t counted, absl::Span<CopySiteShare> sites) {
  absl::uint128 stood_for = 0;
  uint64_t most = 0;
  for (const CopySiteShare& site : sites) {
    stood_for += site.copies;
    most = std::max(most, site.copies);
  }
  if (stood_for == counted) return stood_for != 0;
  if (stood_for == 0) return false;
  const bool fits = absl::Uint128High64(stood_for) == 0 && absl::Uint128High64(absl::uint128(most) * counted) == 0;
  if (fits) {
    Scale<uint64_t>(counted, absl::Uint128Low64(stood_for), sites);
  } else {
    Scale(counted, stood_for, sites);
  }
  return true;
}

std::vector<CopySiteShare> CopiesByCopySite(const ProcessModel& process) {
  std::vector<CopySiteShare> shares;
  shares.reserve(process.copy_sites.size());
  for (const auto& [copy_site, count] : process.copy_sites) shares.push_back({copy_site, count.copies});
  if (!ScaleToCounted(process.counts.copies.value_or(0), absl::MakeSpan(shares))) shares.clear();
  return shares;
}

Blame BlameOf(const RunModel& model, const Scope& scope) {
  Blame blame;
  std::map<int, uint64_t> copies;  // by copy site
  double squares = 0, sampled = 0;
  const auto add = [&](const ProcessModel& process) {
    if (!InScope(process, scope)) return;
    const uint64_t counted = process.counts.copies.value_or(0);
    blame.copies += counted;
    uint64_t stood_for = 0;
    for (const auto& [copy_site, count] : process.copy_sites) stood_for += count.copies;
    if (stood_for == 0) return;
    // The copies since the last sample of each thread are not in the copy sites.
    const double scale = static_cast<double>(counted) / stood_for;
    blame.estimated |= stood_for < 0.99 * counted;
    for (const CopySiteShare& share : CopiesByCopySite(process)) copies[share.copy_site] += share.copies;
    for (const auto& [copy_site, count] : process.copy_sites) {
      sampled += count.copies * scale;
      squares += count.squares * scale * scale;
      blame.samples += count.samples;
      blame.estimated |= count.samples < count.copies;
    }
  };
  if (!scope.index) ForEachRow(model, add);
  // This is asked for each of thousands of processes: do not look through all of them each time.
  if (const ProcessModel* one = scope.index ? model.Find(*scope.index) : nullptr) add(*one);
  for (const auto& [copy_site, sum] : copies) blame.copy_sites.push_back({copy_site, sum});
  if (squares > 0) blame.effective_samples = sampled * sampled / squares;
  return blame;
}

namespace {

// Where a worker's own frames begin: those outside it are its parent's, from before the fork.
bool BeginsWorker(const std::string& library, const Frame& frame) {
  if (library == "gunicorn") return frame.function.ends_with("spawn_worker");  // Arbiter
  return EndsInFile(frame.file, "/multiprocessing/process.py") && frame.function.ends_with("_bootstrap");
}

// As pip writes them to a folder of programs, to call a function of a package: /usr/local/bin/gunicorn.
bool IsConsoleScript(const Frame& frame) {
  const std::string name(BaseName(frame.file));
  return frame.function == "<module>" && name.find('.') == std::string::npos &&
         absl::EndsWith(frame.file, absl::StrCat("/bin/", name));
}

}  // namespace

NumberedLine NumberedLineOf(const RunModel& model, const std::vector<int>& frames) {
  if (frames.empty()) return {};
  std::string via;
  for (const int number : frames) {
    const Frame& frame = model.frames[number];
    const std::string library = LibraryOf(frame.file, frame.function);
    if (library.empty() && IsConsoleScript(frame)) break;
    if (library.empty()) return {number, via};
    if (BeginsWorker(library, frame)) break;
    via = library;
  }
  return {frames.front(), ""};
}

ProgramLine LineOf(const RunModel& model, const std::vector<int>& frames) {
  NumberedLine line = NumberedLineOf(model, frames);
  if (line.frame < 0) return {};
  return {model.frames[line.frame], std::move(line.via)};
}

std::vector<BlameRow> ByType(const RunModel& model, const Blame& blame) {
  return GroupBy<std::string>(
      model, blame, [](const CopySite& copy_site) { return copy_site.type; },
      [](const std::string& type, BlameRow* row) { row->type = type; });
}

std::vector<BlameRow> ByLine(const RunModel& model, const Blame& blame) {
  return GroupBy<ProgramLine>(
      model, blame, [&](const CopySite& copy_site) { return LineOf(model, copy_site.frames); },
      [](const ProgramLine& line, BlameRow* row) {
        row->frame = line.frame;
        row->via = line.via;
      });
}

std::vector<BlameRow> ByNative(const RunModel& model, const Blame& blame) {
  return GroupBy<std::pair<std::string, std::string>>(
      model, blame, [](const CopySite& copy_site) { return std::make_pair(copy_site.module, copy_site.symbol); },
      [](const auto& key, BlameRow* row) { std::tie(row->module, row->symbol) = key; });
}

std::vector<RegionRow> ByRegion(const RunModel& model, const Scope& scope) {
  std::vector<RegionRow> rows(model.regions.size());
  uint64_t all = 0;
  for (size_t i = 0; i < rows.size(); ++i) rows[i].region = static_cast<int>(i);
  ForEachRow(model, [&](const ProcessModel& process) {
    // Most copies of GUP are on no page that the probes reported.
    const bool swept = !process.regions.empty() && 2 * process.gup_copies > process.counts.copies.value_or(0);
    const bool by_probes = !process.copied_pages.empty() && !swept;
    for (const auto& [number, count] : process.regions) {
      RegionRow& row = rows[number];
      const bool owns = model.regions[number].index == process.index;
      if (owns) row.pages = count.private_pages + count.shared_pages;
      if (!InScope(process, scope)) continue;
      row.still_shared_pages += count.shared_pages;
      if (!owns && !by_probes) row.copied_pages += count.diverged_pages;
    }
    if (!InScope(process, scope) || !by_probes) return;
    process.copied_pages.ForEach([&](int number, uint64_t pages) { rows[number].copied_pages += pages; });
  });
  std::erase_if(rows, [](const RegionRow& row) { return row.pages == 0 && row.copied_pages == 0; });
  for (const RegionRow& row : rows) all += row.copied_pages;
  for (RegionRow& row : rows) row.share = all == 0 ? 0 : static_cast<double>(row.copied_pages) / all;
  const auto start = [&](const RegionRow& row) { return model.regions[row.region].region.start; };
  std::stable_sort(rows.begin(), rows.end(), [&](const RegionRow& a, const RegionRow& b) {
    return std::make_tuple(b.copied_pages, start(a)) < std::make_tuple(a.copied_pages, start(b));
  });
  return rows;
}

std::optional<VerifyFigures> VerifiedPages(const RunModel& model) {
  VerifyFigures sum;
  ForEachRow(model, [&](const ProcessModel& process) {
    if (!process.verify) return;
    sum.pages += process.verify->pages;
    sum.identical += process.verify->identical;
    sum.refcount_only += process.verify->refcount_only;
    sum.gc_header_only += process.verify->gc_header_only;
    sum.hash_only += process.verify->hash_only;
    sum.data += process.verify->data;
  });
  return sum.pages == 0 ? std::nullopt : std::optional<VerifyFigures>(sum);
}

BlameTables TablesOf(const RunModel& model, const Scope& scope) {
  BlameTables tables = {.blame = BlameOf(model, scope)};
  tables.by_type = ByType(model, tables.blame);
  tables.by_line = ByLine(model, tables.blame);
  tables.by_native = ByNative(model, tables.blame);
  return tables;
}

}  // namespace cowprof
