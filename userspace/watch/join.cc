#include "watch/join.h"

#include <map>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace cowprof {
namespace {

constexpr absl::string_view kOurs = "cowprof_";

bool IsNameByte(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

absl::string_view TakeName(absl::string_view* text) {
  size_t end = 0;
  while (end < text->size() && IsNameByte((*text)[end])) ++end;
  const absl::string_view name = text->substr(0, end);
  text->remove_prefix(end);
  return name;
}

// A value with its closing quote: no quote in it, and a backslash only before '\\', '"' and 'n'.
bool TakeValue(absl::string_view* text) {
  for (size_t i = 0; i < text->size(); ++i) {
    const char c = (*text)[i];
    if (c == '"') {
      text->remove_prefix(i + 1);
      return true;
    }
    if (c != '\\') continue;
    ++i;
    if (i == text->size() || !absl::StrContains("\\\"n", (*text)[i])) return false;
  }
  return false;
}

// "{a="b",c="d"}", or nothing.
bool TakeLabels(absl::string_view* text) {
  if (!absl::ConsumePrefix(text, "{")) return true;
  do {
    const absl::string_view name = TakeName(text);
    if (name.empty() || name == "recorder" || !absl::ConsumePrefix(text, "=\"") || !TakeValue(text)) return false;
  } while (absl::ConsumePrefix(text, ","));
  return absl::ConsumePrefix(text, "}");
}

bool IsNumber(absl::string_view text) {
  double number;
  return !text.empty() && text.find_first_of(" \t") == text.npos &&
         (text == "NaN" || text == "+Inf" || text == "-Inf" || absl::SimpleAtod(text, &number));
}

// The series of a row of the family, its value taken away; "": not well-formed.
absl::string_view SeriesOf(absl::string_view row, absl::string_view family) {
  absl::string_view rest = row;
  absl::string_view suffix = TakeName(&rest);
  if (!absl::ConsumePrefix(&suffix, family)) return "";
  if (!suffix.empty() && suffix != "_bucket" && suffix != "_sum" && suffix != "_count") return "";
  if (!TakeLabels(&rest)) return "";
  const absl::string_view series = row.substr(0, row.size() - rest.size());
  return absl::ConsumePrefix(&rest, " ") && IsNumber(rest) ? series : "";
}

}  // namespace

bool ParseMetrics(absl::string_view text, std::vector<MetricFamily>* families) {
  std::set<absl::string_view> series, names;
  families->clear();
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty()) continue;
    absl::string_view rest = line;
    if (absl::ConsumePrefix(&rest, "# HELP ")) {
      const absl::string_view name = TakeName(&rest);
      if (!absl::StartsWith(name, kOurs) || !absl::StartsWith(rest, " ") || !names.insert(name).second) return false;
      families->push_back({std::string(name), absl::StrCat(line, "\n"), {}});
    } else if (absl::ConsumePrefix(&rest, "# TYPE ")) {
      if (families->empty() || TakeName(&rest) != families->back().name || !families->back().rows.empty() ||
          !absl::ConsumePrefix(&rest, " ") || TakeName(&rest).empty() || !rest.empty())
        return false;
      absl::StrAppend(&families->back().head, line, "\n");
    } else {
      const absl::string_view of = families->empty() ? "" : SeriesOf(line, families->back().name);
      if (of.empty() || !series.insert(of).second) return false;
      families->back().rows.emplace_back(line);
    }
  }
  return true;
}

bool SaysItHasEnded(const std::vector<MetricFamily>& families) {
  for (const MetricFamily& family : families) {
    if (family.name == "cowprof_recording") return family.rows.size() == 1 && absl::EndsWith(family.rows.front(), " 0");
  }
  return false;
}

std::string JoinMetrics(const std::vector<std::pair<std::string, const std::vector<MetricFamily>*>>& texts) {
  std::vector<const MetricFamily*> order;
  std::map<absl::string_view, std::string> rows;
  for (const auto& [recorder, families] : texts) {
    const std::string label = absl::StrCat("recorder=\"", recorder, "\"");
    for (const MetricFamily& family : *families) {
      const auto [found, is_new] = rows.try_emplace(family.name);
      if (is_new) order.push_back(&family);
      for (const std::string& row : family.rows) {
        absl::string_view rest = row;
        const absl::string_view name = TakeName(&rest);
        if (absl::ConsumePrefix(&rest, "{")) {
          absl::StrAppend(&found->second, name, "{", label, ",", rest, "\n");
        } else {
          absl::StrAppend(&found->second, name, "{", label, "}", rest, "\n");
        }
      }
    }
  }
  std::string text;
  for (const MetricFamily* family : order) absl::StrAppend(&text, family->head, rows[family->name]);
  return text;
}

}  // namespace cowprof
