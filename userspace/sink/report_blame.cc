// See report_blame.h.
#include "sink/report_blame.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/diagnosis.h"
#include "model/words.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRowsInText = 8;
constexpr size_t kTextColumns = 100;

// What every row of every table has.
Json WithCounts(Json json, const BlameRow& row, const Growth& growth, const Blame& blame) {
  json["copies"] = row.copies;
  json["bytes"] = row.copies * growth.info.page_bytes;
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
Json RowsJson(const std::vector<BlameRow>& rows, const Growth& growth, const Blame& blame, size_t most,
              const NameOf& name_of) {
  Json json = Json::array();
  for (const BlameRow& row : rows) {
    if (json.size() == most) break;
    Json name = name_of(row);
    if (!name.is_null() && row.copies > 0) json.push_back(WithCounts(std::move(name), row, growth, blame));
  }
  return json;
}

std::string Uncertain(const Blame& blame, double share) {
  return blame.estimated ? absl::StrFormat(" ± %.1f", 100 * blame.Uncertainty(share)) : "";
}

void AppendRows(absl::string_view title, const std::vector<std::pair<std::string, const BlameRow*>>& rows,
                const Growth& growth, const Blame& blame, std::string* out) {
  if (rows.empty()) return;
  absl::StrAppend(out, "\n  ", title, blame.estimated ? ", estimated from " : "",
                  blame.estimated ? HumanCount(blame.samples) + " samples" : "", "\n");
  for (size_t i = 0; i < std::min(rows.size(), kRowsInText); ++i) {
    const auto& [name, row] = rows[i];
    absl::StrAppendFormat(out, "  %5.1f %%%s %11s  %s\n", 100 * row->share, Uncertain(blame, row->share),
                          HumanBytes(row->copies * growth.info.page_bytes), name);
  }
}

// Breaks at blanks; the first line begins with `first`, the others with as many blanks.
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

}  // namespace

Json CausesJson(const CauseCounts& causes, bool known) {
  Json json = Json::object();
  for (int cause = 0; cause < kCauses; ++cause)
    json[NameOf(static_cast<Cause>(cause))] = known ? Json(causes[cause]) : Json(nullptr);
  return json;
}

Json TypesJson(const Growth& growth, const Blame& blame, size_t most) {
  return RowsJson(ByType(growth, blame), growth, blame, most,
                  [](const BlameRow& row) { return row.type.empty() ? Json(nullptr) : Json{{"type", row.type}}; });
}

Json LinesJson(const Growth& growth, const Blame& blame, size_t most) {
  return RowsJson(ByLine(growth, blame), growth, blame, most, [](const BlameRow& row) {
    if (row.frame.file.empty()) return Json(nullptr);
    return Json{{"file", row.frame.file}, {"function", row.frame.function}, {"line", row.frame.line}};
  });
}

Json NativeJson(const Growth& growth, const Blame& blame, size_t most) {
  return RowsJson(ByNative(growth, blame), growth, blame, most, [](const BlameRow& row) {
    if (row.module.empty()) return Json(nullptr);
    return Json{{"module", row.module}, {"symbol", row.symbol}};
  });
}

Json StacksJson(const Growth& growth, const Blame& blame, size_t most) {
  Json json = Json::array();
  for (const PlaceShare& share : ByPlace(blame)) {
    if (json.size() == most) break;
    const Place& place = growth.places[share.place];
    Json frames = Json::array();
    for (const int number : place.frames) {
      const Frame& frame = growth.frames[number];
      frames.push_back({frame.file, frame.function, frame.line});
    }
    json.push_back({{"cause", NameOf(place.cause)},
                    {"type", place.type},
                    {"module", place.module},
                    {"symbol", place.symbol},
                    {"frames", std::move(frames)},
                    {"copies", static_cast<uint64_t>(share.copies + 0.5)}});
  }
  return json;
}

Json DiagnosesJson(const Growth& growth) {
  Json json = Json::array();
  for (const Diagnosis& diagnosis : Diagnose(growth)) {
    json.push_back({{"id", diagnosis.id},
                    {"confidence", diagnosis.confidence},
                    {"summary", diagnosis.summary},
                    {"evidence", diagnosis.evidence},
                    {"advice", diagnosis.advice},
                    {"pids", diagnosis.pids}});
  }
  return json;
}

std::string BlameText(const Growth& growth) {
  const Totals workers = SumOf(growth, /*living_only=*/false, /*workers_only=*/true);
  if (!workers.causes_known) return "";
  std::string out;
  const Blame blame = BlameOf(growth, {.workers_only = true});
  if (workers.copies > 0) out += "\n  why the workers' pages were copied\n";
  for (int cause = 0; cause < kCauses; ++cause) {
    if (workers.causes[cause] == 0) continue;
    absl::StrAppendFormat(&out, "  %5.1f %% %11s  %s\n", 100.0 * workers.causes[cause] / workers.copies,
                          HumanBytes(workers.causes[cause] * growth.info.page_bytes), NameOf(static_cast<Cause>(cause)));
  }
  std::vector<std::pair<std::string, const BlameRow*>> types, lines;
  const std::vector<BlameRow> by_type = ByType(growth, blame), by_line = ByLine(growth, blame);
  for (const BlameRow& row : by_type) {
    if (!row.type.empty() && row.copies > 0) types.emplace_back(Printable(row.type), &row);
  }
  for (const BlameRow& row : by_line) {
    if (row.frame.file.empty() || row.copies == 0) continue;
    lines.emplace_back(absl::StrCat(Printable(row.frame.file), ":", row.frame.line, "  ", Printable(row.frame.function)), &row);
  }
  AppendRows("types of the objects that were written", types, growth, blame, &out);
  AppendRows("lines that ran", lines, growth, blame, &out);
  for (const Diagnosis& diagnosis : Diagnose(growth)) {
    absl::StrAppend(&out, "\n", Indented(absl::StrCat("  ", diagnosis.id, ": "), diagnosis.summary));
    for (const std::string& evidence : diagnosis.evidence) out += Indented("    - ", evidence);
    for (const std::string& advice : diagnosis.advice) out += Indented("    > ", advice);
  }
  return out;
}

}  // namespace cowprof
