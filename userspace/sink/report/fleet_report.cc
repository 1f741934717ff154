#include "sink/report/fleet_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

std::string TextOrDash(const std::string& text) { return text.empty() ? "-" : text; }

std::string Wall(absl::Time t) { return absl::FormatTime(absl::RFC3339_full, t, absl::UTCTimeZone()); }

Json DeathJson(const FleetRow& row, const Death& death) {
  return {{"t", absl::ToDoubleSeconds(death.t)},
          {"wall", Wall(row.started + death.t)},
          {"boot_seconds", row.boot ? Json(absl::ToDoubleSeconds(*row.boot + death.t)) : Json(nullptr)},
          {"process", death.who},
          {"text", death.text},
          {"launcher", death.of_launcher},
          {"with_launcher", death.with_launcher}};
}

Json CulpritJson(const std::optional<Culprit>& culprit) {
  if (!culprit) return nullptr;
  return {{"file", culprit->frame.file},
          {"line", culprit->frame.line},
          {"function", culprit->frame.function},
          {"type", TextOrNull(culprit->type)}};
}

Json RowJson(const FleetRow& row, bool repeated) {
  Json deaths = Json::array(), launchers = Json::array(), workers = Json::array();
  for (const Death& death : row.deaths) deaths.push_back(DeathJson(row, death));
  for (const Death& death : row.launchers) launchers.push_back(DeathJson(row, death));
  for (const MemberFigures& worker : row.members)
    workers.push_back({{"name", worker.label},
                       {"copied_bytes", OrNull(worker.copied)},
                       {"peak_private_bytes", OrNull(worker.private_peak)}});
  Json peak = nullptr;
  if (row.peak.bytes > 0) {
    peak = {{"at_seconds", absl::ToDoubleSeconds(row.peak.t)},
            {"bytes", row.peak.bytes},
            {"split",
             {{"copied", row.split.copied},
              {"pickled", row.split.pickled},
              {"new", row.split.fresh},
              {"before_attach", row.split.before_attach},
              {"inherited_freed", row.split.inherited_freed},
              {"left", row.split.left}}}};
  }
  return {{"recording", row.path},
          {"host", TextOrNull(row.host)},
          {"boot_id", TextOrNull(row.boot_id)},
          {"job_id", TextOrNull(row.job_id)},
          {"rank", OrNull(row.rank)},
          {"local_rank", OrNull(row.local_rank)},
          {"pid", row.process.pid},
          {"command", row.command},
          {"started", Wall(row.started)},
          {"boot_seconds", row.boot ? Json(absl::ToDoubleSeconds(*row.boot)) : Json(nullptr)},
          {"duration_seconds", absl::ToDoubleSeconds(row.duration)},
          {"complete", row.complete},
          {"repeated", repeated},
          {"workers_at_once", row.workers},
          {"copied_bytes", OrNull(row.copied_bytes)},
          {"peak", std::move(peak)},
          {"forecast", {{"outlook", NameOf(row.outlook)}, {"sentence", TextOrNull(row.forecast)}}},
          {"headline", {{"diagnosis", row.headline.diagnosis}, {"sentence", row.headline.sentence}}},
          {"culprit", CulpritJson(row.culprit)},
          {"deaths", std::move(deaths)},
          {"launcher_deaths", std::move(launchers)},
          {"workers", std::move(workers)}};
}

std::string RowLine(const FleetRow& row, bool repeated, size_t name_width, size_t host_width) {
  const auto bytes = [](uint64_t value) { return value > 0 ? HumanBytes(value) : std::string("-"); };
  return absl::StrFormat("  %-*s  %-*s %7d %11s %11s %11s %11s %11s  %-11s %s%s%s%s\n", name_width, NameOf(row),
                         host_width, Printable(TextOrDash(row.host), 24), row.workers, HumanBytes(row.copied_bytes),
                         bytes(row.peak.bytes), bytes(row.split.copied), bytes(row.split.pickled),
                         bytes(row.split.fresh), NameOf(row.outlook), row.headline.diagnosis,
                         row.launchers.empty() ? "" : ", launcher died",
                         row.deaths.empty() ? ""
                                              ""
                                            : absl::StrCat(", ", row.deaths.size(), " died"),
                         repeated ? ", there twice" : "");
}

void AppendList(const char* title, const std::vector<std::string>& lines, std::string* out) {
  if (lines.empty()) return;
  absl::StrAppend(out, "\n  ", title, "\n");
  for (const std::string& line : lines) absl::StrAppend(out, "  ", line, "\n");
}

}  // namespace

Json FleetRowsJson(const Fleet& fleet) {
  Json rows = Json::array();
  for (size_t i = 0; i < fleet.rows.size(); ++i) rows.push_back(RowJson(fleet.rows[i], fleet.repeated[i]));
  return rows;
}

Json FleetJson(const Fleet& fleet) {
  Json first = nullptr;
  if (fleet.first) {
    first = DeathJson(fleet.rows[fleet.first->row], fleet.first->death);
    first["row"] = fleet.first->row;
    first["seconds_until_next"] =
        fleet.first->until_next ? Json(absl::ToDoubleSeconds(*fleet.first->until_next)) : Json(nullptr);
    first["next_row"] = fleet.first->until_next ? Json(fleet.first->next_row) : Json(nullptr);
    first["undecided"] = fleet.first->undecided;
  }
  Json deaths = Json::array();
  for (const auto& [row, death] : fleet.deaths) {
    deaths.push_back(DeathJson(fleet.rows[row], death));
    deaths.back()["row"] = row;
  }
  return {{"schema", "cowprof.fleet/1"},
          {"sentence", fleet.sentence},
          {"first_death", std::move(first)},
          {"deaths", std::move(deaths)},
          {"common", fleet.common},
          {"unlike", fleet.unlike},
          {"notes", fleet.notes},
          {"sums",
           {{"processes", fleet.processes},
            {"workers_at_once", fleet.workers},
            {"copied_bytes", OrNull(fleet.copied_bytes)},
            {"peak_bytes", fleet.peak_bytes}}},
          {"rows", FleetRowsJson(fleet)}};
}

std::string FleetRowsText(const Fleet& fleet) {
  size_t name_width = 5, host_width = 4;
  for (const FleetRow& row : fleet.rows) {
    name_width = std::max(name_width, NameOf(row).size());
    host_width = std::max(host_width, Printable(TextOrDash(row.host), 24).size());
  }
  std::string out;
  absl::StrAppendFormat(&out, "  %-*s  %-*s %7s %11s %11s %11s %11s %11s  %-11s %s\n", name_width, "", host_width,
                        "host", "workers", "copied", "peak", "of it copy", "pickled", "new", "forecast",
                        "first finding");
  for (size_t i = 0; i < fleet.rows.size(); ++i)
    out += RowLine(fleet.rows[i], fleet.repeated[i], name_width, host_width);
  absl::StrAppendFormat(&out, "  %-*s  %-*s %7d %11s %11s\n", name_width, "sum", host_width, "", fleet.workers,
                        HumanBytes(fleet.copied_bytes), HumanBytes(fleet.peak_bytes));
  return out;
}

std::string FleetText(const Fleet& fleet) {
  std::string out = absl::StrCat(fleet.sentence, "\n\n", FleetRowsText(fleet));
  std::vector<std::string> deaths;
  for (const auto& [number, death] : fleet.deaths) {
    const FleetRow& row = fleet.rows[number];
    deaths.push_back(absl::StrCat(absl::FormatTime("%H:%M:%E3S", row.started + death.t, absl::UTCTimeZone()), "  ",
                                  death.of_launcher ? "launcher" : NameOf(row),
                                  row.host.empty() ? "" : absl::StrCat(" on ", Printable(row.host, 24)), ": ",
                                  death.who, " ", death.text));
  }
  constexpr size_t kMostDeaths = 16;
  if (deaths.size() > kMostDeaths) {
    deaths[kMostDeaths - 1] = absl::StrCat("... and ", deaths.size() - kMostDeaths + 1, " more");
    deaths.resize(kMostDeaths);
  }
  AppendList("in common", fleet.common, &out);
  AppendList("unlike the rest", fleet.unlike, &out);
  AppendList("deaths (wall clock of each host, UTC)", deaths, &out);
  AppendList("notes", fleet.notes, &out);
  absl::StrAppend(&out, "\n  For one of them: cowprof report FILE, cowprof view FILE\n");
  return out;
}

}  // namespace cowprof
