#include "sink/report/report_blame.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "model/format.h"
#include "timeline/json_alerts.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr size_t kRowsInText = 8;
constexpr size_t kTextColumns = 100;
constexpr double kLeastShare = 0.01;  // of all copies; less is not worth a line
constexpr size_t kAdviceFirst = 3;    // pieces of the first diagnosis's advice before the tables, at most
constexpr size_t kLinesFirst = 25;    // before the tables, at most: the verdict, what to do, the code

// Adds what every row of every table has.
Json WithCounts(Json json, const BlameRow& row, uint64_t page_bytes, const Blame& blame) {
  json["copies"] = row.copies;
  json["bytes"] = row.copies * page_bytes;
  json["share"] = row.share;
  if (blame.estimated) {
    json["estimated"] = true;
    json["share_uncertainty"] = blame.Uncertainty(row.share);
  }
  Json causes = Json::object();
  for (int cause = 0; cause < kCauses; ++cause) {
    if (row.causes[cause] > 0) causes[NameOf(static_cast<Cause>(cause))] = row.causes[cause];
  }
  json["by_cause"] = std::move(causes);
  return json;
}

template <typename NameOf>
Json RowsJson(const std::vector<BlameRow>& rows, const Blame& blame, uint64_t page_bytes, size_t most,
              const NameOf& name_of) {
  Json json = Json::array();
  for (const BlameRow& row : rows) {
    if (json.size() == most) break;
    Json name = name_of(row);
    if (!name.is_null() && row.copies > 0) json.push_back(WithCounts(std::move(name), row, page_bytes, blame));
  }
  return json;
}

std::string Uncertain(const Blame& blame, double share) {
  return blame.estimated ? absl::StrFormat(" ± %.1f", 100 * blame.Uncertainty(share)) : "";
}

void AppendRows(absl::string_view title, const std::vector<std::pair<std::string, const BlameRow*>>& rows,
                const RunModel& model, const Blame& blame, std::string* out) {
  const auto told = [&](const BlameRow& row) {
    return row.share >= std::max(kLeastShare, blame.Uncertainty(row.share));
  };
  if (rows.empty() || !told(*rows.front().second)) return;  // most copied first
  absl::StrAppend(out, "\n  ", title, blame.estimated ? ", estimated from " : "",
                  blame.estimated ? HumanCount(blame.samples) + " samples" : "", "\n");
  for (size_t i = 0; i < std::min(rows.size(), kRowsInText) && told(*rows[i].second); ++i) {
    const auto& [name, row] = rows[i];
    absl::StrAppendFormat(out, "  %5.1f %%%s %11s  %s\n", 100 * row->share, Uncertain(blame, row->share),
                          HumanBytes(row->copies * model.info.page_bytes), name);
  }
}

// One line per file and per other kind of region: there are many arenas. Most copied first.
std::string RegionsText(const RunModel& model, const std::vector<RegionRow>& rows) {
  struct Group {
    uint64_t regions = 0, pages = 0, copied = 0;
    std::string name;
  };
  std::map<std::pair<RegionKind, std::string>, Group> groups;
  uint64_t all = 0;
  for (const RegionRow& row : rows) {
    const Region& region = model.regions[row.region].region;
    const bool named = region.kind == RegionKind::kFile;
    Group& group = groups[{region.kind, named ? region.name : ""}];
    ++group.regions;
    group.pages += row.pages;
    group.copied += row.copied_pages;
    group.name = named ? region.name : absl::StrCat(NameOf(region.kind), group.regions > 1 ? "s" : "");
    all += row.copied_pages;
  }
  std::vector<Group> sorted;
  for (const auto& [key, group] : groups) {
    if (group.copied > 0) sorted.push_back(group);
  }
  if (sorted.empty()) return "";
  std::stable_sort(sorted.begin(), sorted.end(), [](const Group& a, const Group& b) { return a.copied > b.copied; });
  std::string out = "\n  parts of the address space that the duplicated pages are in\n";
  for (size_t i = 0; i < std::min(sorted.size(), kRowsInText); ++i) {
    const Group& group = sorted[i];
    if (group.copied < kLeastShare * all) break;
    absl::StrAppendFormat(&out, "  %5.1f %% %11s  %s%s\n", 100.0 * group.copied / all,
                          HumanBytes(group.copied * model.info.page_bytes),
                          group.regions > 1 ? HumanCount(group.regions) + " " : "", Printable(group.name));
  }
  return out;
}

// Breaks lines at blanks. The first begins with `first`, the others with as many blanks.
std::string Indented(absl::string_view first, absl::string_view text) {
  std::string out(first), line;
  const std::string indent(first.size(), ' ');
  while (!text.empty()) {
    size_t end = text.size();
    if (end > kTextColumns - first.size()) {
      end = text.rfind(' ', kTextColumns - first.size());
      if (end == absl::string_view::npos || end == 0) end = std::min(text.find(' '), text.size());
    }
    absl::StrAppend(&out, text.substr(0, end), "\n");
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!text.empty()) out += indent;
  }
  return out;
}

// The code before and after; the page and the JSON have the faster variant, too. Indents each line; drops empty ones.
// An empty line goes before each comment that begins a part or, if `tight`, before the second one only.
std::string SketchText(const std::string& sketch, bool tight) {
  std::string out;
  for (const absl::string_view line :
       absl::StrSplit(sketch.substr(0, sketch.find("\n\n# faster")), '\n', absl::SkipEmpty())) {
    const bool begins = absl::StartsWith(line, "#") && !(tight && out.empty());
    absl::StrAppend(&out, begins ? "\n" : "", "        ", line, "\n");
  }
  return out;
}

size_t LinesIn(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

// What of the first diagnosis's remedy stands before the tables; what does not fit there comes with the finding.
struct First {
  size_t advice = 0;
  std::string text;    // of it
  std::string sketch;  // "": not here
};
First FirstOf(const Findings& findings) {
  First first;
  if (findings.diagnoses.empty()) return first;
  const Diagnosis& diagnosis = findings.diagnoses.front();
  if (diagnosis.advice.empty() || diagnosis.harm >= Harm::kNone) return first;
  // The verdict, the empty line and the title before the advice, and the empty line before the tables.
  size_t left = kLinesFirst - 4;
  std::string sketch = SketchText(diagnosis.sketch, /*tight=*/true);
  std::string advice = Indented("    > ", diagnosis.advice[0]);
  if (LinesIn(sketch) + LinesIn(advice) <= left) first.sketch = std::move(sketch);
  left -= std::min(left, LinesIn(first.sketch));
  while (first.advice < std::min(diagnosis.advice.size(), kAdviceFirst)) {
    advice = Indented("    > ", diagnosis.advice[first.advice]);
    if (first.advice > 0 && LinesIn(advice) > left) break;
    left -= std::min(left, LinesIn(advice));
    first.text += advice;
    ++first.advice;
  }
  if (!first.sketch.empty() && left > 0) first.sketch = SketchText(diagnosis.sketch, /*tight=*/false);
  return first;
}

// The diagnosis whose code is printed with the findings; null: none. That of a death or a limit has none: what took the
// memory is a finding behind it.
const Diagnosis* SketchedBelow(const Findings& findings) {
  const First first = FirstOf(findings);
  if (first.advice == 0 || !first.sketch.empty()) return nullptr;
  for (const Diagnosis& diagnosis : findings.diagnoses) {
    if (!diagnosis.sketch.empty()) return &diagnosis;
    if (diagnosis.harm >= Harm::kMemory) break;  // they are sorted
  }
  return nullptr;
}

// ", saves about 36.7 MiB to 45.9 MiB"
std::string SavesText(const Diagnosis& diagnosis) {
  if (!diagnosis.saves || diagnosis.saves->high == 0) return "";
  const Saving& saves = *diagnosis.saves;
  if (saves.low == 0 || saves.low == saves.high)
    return absl::StrCat(", saves ", saves.low == 0 ? "at most " : "", HumanBytes(saves.high));
  return absl::StrCat(", saves about ", HumanBytes(saves.low), " to ", HumanBytes(saves.high));
}

}  // namespace

Json CausesJson(const CauseCounts& causes, bool known) {
  Json json = Json::object();
  for (int cause = 0; cause < kCauses; ++cause)
    json[NameOf(static_cast<Cause>(cause))] = known ? Json(causes[cause]) : Json(nullptr);
  return json;
}

Json TypesJson(const BlameTables& tables, uint64_t page_bytes, size_t most) {
  return RowsJson(tables.by_type, tables.blame, page_bytes, most, [](const BlameRow& row) {
    return row.type.empty() ? Json(nullptr) : Json{{"type", row.type}};
  });
}

Json LinesJson(const BlameTables& tables, uint64_t page_bytes, size_t most) {
  return RowsJson(tables.by_line, tables.blame, page_bytes, most, [](const BlameRow& row) {
    if (row.frame.file.empty()) return Json(nullptr);
    return Json{{"file", row.frame.file},
                {"function", row.frame.function},
                {"line", row.frame.line},
                {"via", TextOrNull(row.via)}};
  });
}

Json NativeJson(const BlameTables& tables, uint64_t page_bytes, size_t most) {
  return RowsJson(tables.by_native, tables.blame, page_bytes, most, [](const BlameRow& row) {
    if (row.module.empty()) return Json(nullptr);
    return Json{{"module", row.module}, {"symbol", row.symbol}};
  });
}

Json RegionsJson(const RunModel& model, const std::vector<RegionRow>& rows, size_t most) {
  Json json = Json::array();
  for (const RegionRow& row : rows) {
    if (json.size() == most) break;
    const Region& region = model.regions[row.region].region;
    json.push_back({{"kind", NameOf(region.kind)},
                    {"name", region.name},
                    {"start", region.start},
                    {"bytes", region.end - region.start},
                    {"pages", row.pages},
                    {"copied_pages", row.copied_pages},
                    {"still_shared_pages", row.still_shared_pages},
                    {"share", row.share}});
  }
  return json;
}

Json VerifyJson(const std::optional<VerifyFigures>& verified) {
  if (!verified) return nullptr;
  return {{"pages", verified->pages},
          {"identical", verified->identical},
          {"refcount_only", verified->refcount_only},
          {"gc_header_only", verified->gc_header_only},
          {"hash_only", verified->hash_only},
          {"data", verified->data}};
}

Json SavingJson(const std::optional<Saving>& saving) {
  if (!saving) return nullptr;
  return {{"low", saving->low}, {"best", saving->best}, {"high", saving->high}};
}

Json DiagnosesJson(const std::vector<Diagnosis>& diagnoses) {
  Json json = Json::array();
  for (const Diagnosis& diagnosis : diagnoses) {
    json.push_back({{"id", diagnosis.id},
                    {"confidence", diagnosis.confidence},
                    {"summary", diagnosis.summary},
                    {"evidence", diagnosis.evidence},
                    {"advice", diagnosis.advice},
                    {"pids", diagnosis.pids},
                    {"culprit", EncodeCulprit(diagnosis.culprit)},
                    {"saves_bytes", SavingJson(diagnosis.saves)},
                    {"sketch", TextOrNull(diagnosis.sketch)}});
  }
  return json;
}

std::string BlameText(const RunModel& model, const Findings& findings) {
  const Totals& workers = findings.workers;
  if (!workers.causes_known) return "";
  std::string out;
  const Blame& blame = findings.of_workers.blame;
  const auto bytes = [&](uint64_t copies) { return HumanBytes(copies * model.info.page_bytes); };
  if (workers.copies > 0)
    absl::StrAppend(&out, "\n  why the workers' pages were copied, ", bytes(workers.copies), " in all\n");
  std::vector<std::pair<uint64_t, int>> causes;
  for (int cause = 0; cause < kCauses; ++cause) {
    if (workers.causes[cause] >= std::max(1.0, kLeastShare * workers.copies))
      causes.emplace_back(workers.causes[cause], -cause);
  }
  std::sort(causes.rbegin(), causes.rend());
  for (const auto& [copies, cause] : causes) {
    absl::StrAppendFormat(&out, "  %5.1f %% %11s  %s\n", 100.0 * copies / workers.copies, bytes(copies),
                          NameOf(static_cast<Cause>(-cause)));
  }
  std::vector<std::pair<std::string, const BlameRow*>> types, lines;
  for (const BlameRow& row : findings.of_workers.by_type) {
    if (!row.type.empty() && row.copies > 0) types.emplace_back(Printable(row.type), &row);
  }
  for (const BlameRow& row : findings.of_workers.by_line) {
    if (row.frame.file.empty() || row.copies == 0) continue;
    lines.emplace_back(absl::StrCat(Printable(row.frame.file), ":", row.frame.line, "  ", Printable(row.frame.function),
                                    row.via.empty() ? "" : absl::StrCat(", via ", Printable(row.via))),
                       &row);
  }
  if (const std::optional<VerifyFigures>& verified = findings.verified) {
    absl::StrAppendFormat(&out,
                          "\n  %.1f %% of %s copied pages that were compared are byte for byte what they were before\n",
                          100.0 * verified->identical / verified->pages, HumanCount(verified->pages));
    absl::StrAppendFormat(&out, "  (only reference counts differ: %s, collector's headers: %s, hashes: %s, data: %s)\n",
                          HumanCount(verified->refcount_only), HumanCount(verified->gc_header_only),
                          HumanCount(verified->hash_only), HumanCount(verified->data));
  }
  AppendRows("types of objects on the copied pages", types, model, blame, &out);
  AppendRows("lines that copied them", lines, model, blame, &out);
  out += RegionsText(model, findings.worker_regions);
  return out;
}

std::string RemedyText(const Findings& findings) {
  const First first = FirstOf(findings);
  if (first.advice == 0) return "";
  const Diagnosis& diagnosis = findings.diagnoses.front();
  const bool code_below = SketchedBelow(findings) != nullptr;
  return absl::StrCat("\n  what to do", SavesText(diagnosis), code_below ? " (the code is below the tables)" : "", "\n",
                      first.text, first.sketch);
}

std::string FindingsText(const Findings& findings) {
  std::string out;
  const First first = FirstOf(findings);
  const Diagnosis* const sketched = SketchedBelow(findings);
  for (const Diagnosis& diagnosis : findings.diagnoses) {
    const bool is_first = &diagnosis == &findings.diagnoses.front();
    absl::StrAppend(&out, "\n", Indented(absl::StrCat("  ", diagnosis.id, ": "), diagnosis.summary));
    // One line: the JSON and the page have the rest.
    if (diagnosis.harm == Harm::kPossible) continue;
    for (const std::string& evidence : diagnosis.evidence) out += Indented("    - ", evidence);
    if (const std::string saves = SavesText(diagnosis); !is_first && !saves.empty())
      absl::StrAppend(&out, "    what to do", saves, "\n");
    // The beginning of the first one's advice stands at the top.
    for (size_t i = is_first ? first.advice : 0; i < diagnosis.advice.size(); ++i)
      out += Indented("    > ", diagnosis.advice[i]);
    if (&diagnosis == sketched) out += SketchText(diagnosis.sketch, /*tight=*/false);
  }
  return out;
}

}  // namespace cowprof
