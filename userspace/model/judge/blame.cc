// See blame.h.
#include "model/blame.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/numeric/int128.h"
#include "model/fold.h"

namespace cowprof {
namespace {

bool InScope(const ProcessGrowth& process, const Scope& scope) {
  if (scope.index) return process.index == *scope.index;
  return !scope.workers_only || process.role == Role::kWorker;
}

// Sums places by what `key_of` makes of them.
template <typename Key, typename KeyOf, typename Fill>
std::vector<BlameRow> GroupBy(const Growth& growth, const Blame& blame, const KeyOf& key_of, const Fill& fill) {
  std::map<Key, CauseCounts> sums;
  for (const PlaceShare& share : blame.places) {
    const Place& place = growth.places[share.place];
    sums[key_of(place)][static_cast<int>(place.cause)] += share.copies;
  }
  std::vector<BlameRow> rows;
  for (const auto& [key, causes] : sums) {
    BlameRow row = {.causes = causes, .copies = std::accumulate(causes.begin(), causes.end(), uint64_t{0})};
    fill(key, &row);
    row.share = blame.copies == 0 ? 0 : static_cast<double>(row.copies) / blame.copies;
    rows.push_back(std::move(row));
  }
  std::stable_sort(rows.begin(), rows.end(), [](const BlameRow& a, const BlameRow& b) { return a.copies > b.copies; });
  return rows;
}

}  // namespace

double Blame::Uncertainty(double share) const {
  if (!estimated || effective_samples <= 0) return 0;
  const double p = std::clamp(share, 0.0, 1.0);
  return 1.96 * std::sqrt(p * (1 - p) / effective_samples);
}

std::vector<PlaceShare> CopiesByPlace(const ProcessGrowth& process) {
  const uint64_t counted = process.counts.copies.value_or(0);
  absl::uint128 stood_for = 0;
  for (const auto& [place, count] : process.places) stood_for += count.copies;
  if (stood_for == 0) return {};
  std::vector<PlaceShare> shares;
  std::vector<std::pair<absl::uint128, size_t>> remainders;
  uint64_t rest = counted;
  for (const auto& [place, count] : process.places) {
    const absl::uint128 part = absl::uint128(count.copies) * counted;
    remainders.emplace_back(part % stood_for, shares.size());
    shares.push_back({place, static_cast<uint64_t>(part / stood_for)});
    rest -= shares.back().copies;
  }
  std::stable_sort(remainders.begin(), remainders.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  for (uint64_t i = 0; i < rest; ++i) ++shares[remainders[i].second].copies;
  return shares;
}

Blame BlameOf(const Growth& growth, const Scope& scope) {
  Blame blame;
  std::map<int, uint64_t> copies;  // by place
  double squares = 0, sampled = 0;
  const auto add = [&](const ProcessGrowth& process) {
    if (!InScope(process, scope)) return;
    const uint64_t counted = process.counts.copies.value_or(0);
    blame.copies += counted;
    uint64_t stood_for = 0;
    for (const auto& [place, count] : process.places) stood_for += count.copies;
    if (stood_for == 0) return;
    // The copies since the last sample of each thread are not in the places.
    const double scale = static_cast<double>(counted) / stood_for;
    blame.estimated |= stood_for < 0.99 * counted;
    for (const PlaceShare& share : CopiesByPlace(process)) copies[share.place] += share.copies;
    for (const auto& [place, count] : process.places) {
      sampled += count.copies * scale;
      squares += count.squares * scale * scale;
      blame.samples += count.samples;
      blame.estimated |= count.samples < count.copies;
    }
  };
  if (!scope.index) ForEachRow(growth, add);
  // Of each of thousands of processes this is asked for: all of them are not looked through each time.
  if (const ProcessGrowth* one = scope.index ? growth.Find(*scope.index) : nullptr) add(*one);
  for (const auto& [place, sum] : copies) blame.places.push_back({place, sum});
  if (squares > 0) blame.effective_samples = sampled * sampled / squares;
  return blame;
}

std::vector<BlameRow> ByType(const Growth& growth, const Blame& blame) {
  return GroupBy<std::string>(
      growth, blame, [](const Place& place) { return place.type; },
      [](const std::string& type, BlameRow* row) { row->type = type; });
}

std::vector<BlameRow> ByLine(const Growth& growth, const Blame& blame) {
  return GroupBy<std::tuple<std::string, std::string, int>>(
      growth, blame,
      [&](const Place& place) {
        const Frame frame = place.frames.empty() ? Frame{} : growth.frames[place.frames.front()];
        return std::make_tuple(frame.file, frame.function, frame.line);
      },
      [](const auto& key, BlameRow* row) {
        row->frame = {std::get<0>(key), std::get<1>(key), std::get<2>(key)};
      });
}

std::vector<BlameRow> ByNative(const Growth& growth, const Blame& blame) {
  return GroupBy<std::pair<std::string, std::string>>(
      growth, blame, [](const Place& place) { return std::make_pair(place.module, place.symbol); },
      [](const auto& key, BlameRow* row) { std::tie(row->module, row->symbol) = key; });
}

std::vector<RegionRow> ByRegion(const Growth& growth, const Scope& scope) {
  std::vector<RegionRow> rows(growth.regions.size());
  uint64_t all = 0;
  for (size_t i = 0; i < rows.size(); ++i) rows[i].region = &growth.regions[i].region;
  ForEachRow(growth, [&](const ProcessGrowth& process) {
    for (const auto& [number, count] : process.regions) {
      RegionRow& row = rows[number];
      const bool owns = growth.regions[number].index == process.index;
      if (owns) row.pages = count.private_pages + count.shared_pages;
      if (!InScope(process, scope)) continue;
      row.still_shared_pages += count.shared_pages;
      if (!owns && process.copied_pages.empty()) row.copied_pages += count.diverged_pages;
    }
    if (!InScope(process, scope)) return;
    for (const auto& [number, pages] : process.copied_pages) rows[number].copied_pages += pages;
  });
  std::erase_if(rows, [](const RegionRow& row) { return row.pages == 0 && row.copied_pages == 0; });
  for (const RegionRow& row : rows) all += row.copied_pages;
  for (RegionRow& row : rows) row.share = all == 0 ? 0 : static_cast<double>(row.copied_pages) / all;
  std::stable_sort(rows.begin(), rows.end(), [](const RegionRow& a, const RegionRow& b) {
    return std::tie(b.copied_pages, a.region->start) < std::tie(a.copied_pages, b.region->start);
  });
  return rows;
}

std::optional<VerifyFigures> VerifiedPages(const Growth& growth) {
  VerifyFigures sum;
  ForEachRow(growth, [&](const ProcessGrowth& process) {
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

std::vector<PlaceShare> ByPlace(const Blame& blame) {
  std::vector<PlaceShare> places = blame.places;
  std::stable_sort(places.begin(), places.end(),
                   [](const PlaceShare& a, const PlaceShare& b) { return a.copies > b.copies; });
  return places;
}

}  // namespace cowprof
