#include "sink/compare/junit.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "model/format.h"

namespace cowprof {
namespace {

// Of an attribute or an element. XML 1.0 has no control characters, nor U+FFFE and U+FFFF, not even escaped.
std::string Escaped(absl::string_view text) {
  std::string clean = ValidUtf8(text);
  for (char& c : clean) {
    if (static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t') c = '?';
  }
  return absl::StrReplaceAll(clean, {{"&", "&amp;"},
                                     {"<", "&lt;"},
                                     {">", "&gt;"},
                                     {"\"", "&quot;"},
                                     {"'", "&apos;"},
                                     {"\n", "&#10;"},
                                     {"\xef\xbf\xbe", "?"},
                                     {"\xef\xbf\xbf", "?"}});
}

size_t CountOf(const std::vector<JunitCase>& cases, CaseResult result) {
  return absl::c_count_if(cases, [&](const JunitCase& one) { return one.result == result; });
}

}  // namespace

std::string JunitXml(absl::string_view suite, const std::vector<JunitCase>& cases, absl::Duration time) {
  const std::string counts = absl::StrFormat("name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"%d\" time=\"%.3f\"",
                                             Escaped(suite), cases.size(), CountOf(cases, CaseResult::kFailed),
                                             CountOf(cases, CaseResult::kError), absl::ToDoubleSeconds(time));
  std::string out = absl::StrCat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites ", counts, ">\n  <testsuite ",
                                 counts, ">\n");
  for (const JunitCase& one : cases) {
    absl::StrAppend(&out, "    <testcase classname=\"", Escaped(suite), "\" name=\"", Escaped(one.name),
                    "\" time=\"0\"");
    if (one.result == CaseResult::kPassed) {
      out += "/>\n";
      continue;
    }
    const char* tag = one.result == CaseResult::kFailed ? "failure" : "error";
    absl::StrAppend(&out, ">\n      <", tag, " message=\"", Escaped(one.message), "\" type=\"", tag, "\">",
                    Escaped(one.detail), "</", tag, ">\n    </testcase>\n");
  }
  return out + "  </testsuite>\n</testsuites>\n";
}

std::string Annotation(absl::string_view level, absl::string_view file, int line, absl::string_view message) {
  const auto printable = [](absl::string_view text) { return Printable(text, absl::string_view::npos); };
  const std::string text = absl::StrReplaceAll(printable(message), {{"%", "%25"}});
  if (file.empty()) return absl::StrCat("::", level, "::", text, "\n");
  const std::string path = absl::StrReplaceAll(printable(file), {{"%", "%25"}, {":", "%3A"}, {",", "%2C"}});
  return absl::StrCat("::", level, " file=", path, ",line=", line, "::", text, "\n");
}

std::string MarkdownCell(absl::string_view text) {
  return absl::StrReplaceAll(Printable(text, 400), {{"&", "&amp;"},
                                                    {"<", "&lt;"},
                                                    {">", "&gt;"},
                                                    {"|", "\\|"},
                                                    {"`", "\\`"},
                                                    {"*", "\\*"},
                                                    {"_", "\\_"},
                                                    {"[", "\\["},
                                                    {"\\", "\\\\"},
                                                    {"#", "\\#"},
                                                    {"~", "\\~"},
                                                    {"!", "\\!"},
                                                    {"://", "\\://"},  // or a name would become a link
                                                    {"www.", "www\\."},
                                                    {"@", "\\@"}});
}

}  // namespace cowprof
