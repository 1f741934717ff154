#include "sink/report/remedies_format.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/saturating.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

std::string Signed(double bytes) {
  return absl::StrCat(bytes < 0 ? "-" : "", HumanBytes(SaturatingCast(std::abs(bytes))));
}

// JSON's numbers are whole here, whatever a recording says.
int64_t Whole(double bytes) { return std::llround(std::clamp(bytes, -0x1p62, 0x1p62)); }

}  // namespace

Json RemediesJson(const std::vector<Remedy>& remedies) {
  Json rows = Json::array();
  for (const Remedy& remedy : remedies) {
    const std::optional<Estimate>&saves = remedy.saves, &seconds = remedy.cost_seconds_per_item;
    rows.push_back(
        {{"id", remedy.id},
         {"action", remedy.action},
         {"saves_bytes",
          saves ? Json{{"low", Whole(saves->low)}, {"best", Whole(saves->best)}, {"high", Whole(saves->high)}}
                : Json(nullptr)},
         {"saves", SavesText(remedy)},
         {"saves_copied_bytes", OrNull(remedy.saves_copying)},
         {"cost", TextOrNull(remedy.cost)},
         {"cost_seconds_per_item",
          seconds ? Json{{"low", seconds->low}, {"best", seconds->best}, {"high", seconds->high}} : Json(nullptr)},
         {"rests_on", remedy.rests_on},
         {"obstacle", TextOrNull(remedy.obstacle)}});
  }
  return rows;
}

std::string SavesText(const Remedy& remedy) {
  if (remedy.lifts_limit) return "nothing: lifts the limit";
  if (!remedy.saves) return "unknown";
  const Estimate& saves = *remedy.saves;
  if (saves.low == 0 && saves.high == 0) return "nothing";
  if (saves.high <= 0) return absl::StrCat("costs ", Signed(-saves.high), " to ", Signed(-saves.low));
  return saves.low == saves.high ? Signed(saves.high) : absl::StrCat(Signed(saves.low), " to ", Signed(saves.high));
}

std::string RemediesText(const std::vector<Remedy>& remedies) {
  if (remedies.empty()) return "";
  std::string out = "\n  what each remedy would have saved of the workers' peak\n";
  for (const Remedy& remedy : remedies) {
    absl::StrAppendFormat(&out, "  %-26s %s\n", SavesText(remedy), remedy.action);
    if (!remedy.obstacle.empty()) absl::StrAppendFormat(&out, "  %26s but: %s\n", "", remedy.obstacle);
    if (remedy.cost_seconds_per_item) absl::StrAppendFormat(&out, "  %26s costs: %s\n", "", remedy.cost);
    if (remedy.saves_copying)
      absl::StrAppendFormat(&out, "  %26s saves the time of copying %s\n", "", HumanBytes(*remedy.saves_copying));
  }
  return out + "  (--json says what each figure rests on, and what it costs)\n";
}

}  // namespace cowprof
