// The bounds of the page map: what becomes coarser, what is left out, and that it is counted.
#include "sink/page/page_map.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "page_reading.h"

namespace cowprof {
namespace {

TEST_CASE("page: too many runs of pages are told more coarsely before any is left out") {
  PageMap map(100, 100);
  // Neighbours, one after the other: in the end one run.
  for (uint64_t i = 0; i < 1000; ++i)
    map.Add({.t = absl::Seconds(i), .pages = {{1, Cause::kRefcount, i, 1}}, .regions = {{1, 0, i, 0, 0, 0, 0}}});
  ColumnFile file;
  OrderedJson json;
  PageMap::Write({}, map.Encode(), &file, &json);
  const PageReading page(absl::StrCat(json.dump(), "\n", absl::StrJoin(file.parts(), "")));
  uint64_t pages = 0;
  for (const uint64_t length : page.Numbers(json["pages"]["pages"])) pages += length;
  CHECK(pages == 1000);
  CHECK(json["pages_dropped"] == 0);
  CHECK(page.Numbers(json["pages"]["t_ms"]).back() == 999'000);
  CHECK(page.Numbers(json["region_counts"]["private_pages"]).back() == 999);
  CHECK(page.Numbers(json["region_counts"]["t_ms"]).size() <= 100);

  PageMap scattered(100, 100);
  for (uint64_t i = 0; i < 1000; ++i)
    scattered.Add({.t = absl::Seconds(i), .pages = {{1, Cause::kRefcount, 2 * i, 1}}});
  OrderedJson sparse;
  PageMap::Write({}, scattered.Encode(), &file, &sparse);
  const uint64_t left = sparse["pages"]["pages"][2], dropped = sparse["pages_dropped"];
  CHECK(left <= 100);
  CHECK(left + dropped == 1000);
  const PageReading times(absl::StrCat(sparse.dump(), "\n", absl::StrJoin(file.parts(), "")));
  const std::vector<uint64_t> t_ms = times.Numbers(sparse["pages"]["t_ms"]);
  REQUIRE(t_ms.size() == 63);
  // Coarser times would not have helped: one run in 16 is left, from the first to the last, at its own time.
  for (size_t i = 0; i < t_ms.size(); ++i) CHECK(t_ms[i] == 16'000 * i);
}

TEST_CASE("page: too many regions make neither the times of copies nor those of sweeps coarser") {
  constexpr int kWorkers = 8, kRegions = 50, kSweeps = 20;
  PageMap map(1000, 200);
  for (int t = 0; t < kSweeps; ++t) {
    Sample sample = {.t = absl::Seconds(t), .pages = {{1, Cause::kRefcount, static_cast<uint64_t>(2 * t), 1}}};
    for (int worker = 0; worker < kWorkers; ++worker) {
      for (int region = 0; region < kRegions; ++region)
        sample.regions.push_back({worker, region, static_cast<uint64_t>(t), 0, 0, 0, 0});
    }
    map.Add(sample);
  }
  ColumnFile file;
  OrderedJson json;
  PageMap::Write({}, map.Encode(), &file, &json);
  const PageReading page(absl::StrCat(json.dump(), "\n", absl::StrJoin(file.parts(), "")));
  CHECK(page.Numbers(json["pages"]["t_ms"]).size() == kSweeps);
  const auto column = [&](absl::string_view name) { return page.Numbers(json["region_counts"][std::string(name)]); };
  const std::vector<uint64_t> t_ms = column("t_ms"), index = column("index"), region = column("region");
  CHECK(t_ms.size() <= 200);
  CHECK(t_ms.size() + json["region_counts_dropped"].get<uint64_t>() <= kWorkers * kRegions * kSweeps);
  CHECK(json["region_counts_dropped"] > 0);
  CHECK(std::set<uint64_t>(t_ms.begin(), t_ms.end()).size() > 1);
  CHECK(t_ms.back() == 1000 * (kSweeps - 1));
  // Whole regions are left out, and of each worker some are left.
  std::set<std::pair<uint64_t, uint64_t>> at_all, at_last;
  for (size_t i = 0; i < t_ms.size(); ++i) {
    at_all.emplace(index[i], region[i]);
    if (t_ms[i] == t_ms.back()) at_last.emplace(index[i], region[i]);
  }
  CHECK(at_last == at_all);
  std::set<uint64_t> workers;
  for (const auto& [worker, of_worker] : at_all) workers.insert(worker);
  CHECK(workers.size() == kWorkers);
}

}  // namespace
}  // namespace cowprof
