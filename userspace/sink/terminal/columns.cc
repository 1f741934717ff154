// Takes widths from glibc's wcwidth(3), with which most terminals agree.
#include "sink/terminal/columns.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace cowprof {
namespace {

// One character: its bytes and its columns.
struct Glyph {
  size_t bytes, columns;
};

// wcwidth() uses the thread's locale, which under sudo or in a container is often "C" and knows ASCII only. Names are
// UTF-8 in any locale.
int WidthOf(wchar_t point) {
  static const locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (utf8 == nullptr) return 1;
  const locale_t before = uselocale(utf8);
  const int width = wcwidth(point);
  uselocale(before);
  return std::max(width, 0);
}

Glyph FirstOf(absl::string_view text) {
  const unsigned char lead = text[0];
  if (lead < 0x80) return {1, 1};
  const size_t bytes = std::min<size_t>(lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2, text.size());
  wchar_t point = lead & (0xff >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i) point = point << 6 | (text[i] & 0x3f);
  return {bytes, static_cast<size_t>(WidthOf(point))};
}

// Returns the length in bytes of the longest prefix of `text` that fits in `columns`.
size_t Fitting(absl::string_view text, size_t columns) {
  size_t bytes = 0, used = 0;
  while (bytes < text.size()) {
    const Glyph glyph = FirstOf(text.substr(bytes));
    if (used + glyph.columns > columns) break;
    used += glyph.columns;
    bytes += glyph.bytes;
  }
  return bytes;
}

}  // namespace

size_t ColumnsOf(absl::string_view text) {
  size_t columns = 0;
  while (!text.empty()) {
    const Glyph glyph = FirstOf(text);
    columns += glyph.columns;
    text.remove_prefix(glyph.bytes);
  }
  return columns;
}

std::string CutTo(absl::string_view text, size_t columns, Keep keep) {
  const size_t whole = ColumnsOf(text);
  if (whole <= columns) return std::string(text);
  if (columns == 0) return "";
  if (keep == Keep::kStart) return absl::StrCat(text.substr(0, Fitting(text, columns - 1)), "…");
  // A wide character may lie across the cut: skip it whole.
  size_t skip = Fitting(text, whole - (columns - 1));
  if (ColumnsOf(text.substr(skip)) > columns - 1) skip += FirstOf(text.substr(skip)).bytes;
  return absl::StrCat("…", text.substr(skip));
}

std::string PadTo(absl::string_view text, size_t columns, Keep keep) {
  const std::string cut = CutTo(text, columns, keep);
  return absl::StrCat(cut, std::string(columns - ColumnsOf(cut), ' '));
}

std::string PadLeft(absl::string_view text, size_t columns) {
  const std::string cut = CutTo(text, columns);
  return absl::StrCat(std::string(columns - ColumnsOf(cut), ' '), cut);
}

std::vector<std::string> WrapTo(absl::string_view text, size_t columns) {
  std::vector<std::string> lines;
  for (absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!lines.empty() && ColumnsOf(lines.back()) + 1 + ColumnsOf(word) <= columns)
      absl::StrAppend(&lines.back(), " ", word);
    else
      lines.push_back(CutTo(word, columns));
  }
  return lines;
}

}  // namespace cowprof
