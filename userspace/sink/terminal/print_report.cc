// Works on lines of the finished text: what is a table shows in the blanks that its lines have in common.
#include "sink/terminal/print_report.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "sink/terminal/columns.h"

namespace cowprof {
namespace {

constexpr size_t kLeastColumns = 40, kCodeIndent = 8;
constexpr size_t kShortestPath = 24;  // a path is not cut below that

using Lines = std::vector<std::string>;

size_t IndentOf(absl::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }
bool IsCode(absl::string_view line) {
  return IndentOf(line) >= kCodeIndent && !absl::StrContains(line.substr(IndentOf(line)), "  ");
}

// Where all lines of a table have three blanks or more, two are left.
void Squeeze(Lines* lines) {
  size_t widest = 0, indent = std::string::npos;
  for (const std::string& line : *lines) {
    widest = std::max(widest, line.size());
    indent = std::min(indent, IndentOf(line));
  }
  std::string common(widest, ' ');
  for (const std::string& line : *lines) {
    for (size_t i = 0; i < line.size(); ++i) {
      if (line[i] != ' ') common[i] = '#';
    }
  }
  // From the right, so that positions on the left stay valid.
  for (size_t end = widest; end > indent;) {
    const size_t start = common.find_last_not_of(' ', end - 1) + 1;  // npos + 1 is 0
    if (start >= indent && end - start > 2) {
      for (std::string& line : *lines) {
        if (line.size() > start + 2) line.erase(start + 2, end - start - 2);
      }
    }
    end = start == 0 ? 0 : start - 1;
  }
}

// Cuts the longest path of a line that is too long.
void CutPath(size_t columns, std::string* line) {
  const size_t over = ColumnsOf(*line) - columns;
  absl::string_view longest;
  for (const absl::string_view word : absl::StrSplit(*line, ' ')) {
    if (absl::StrContains(word, '/') && word.size() > longest.size()) longest = word;
  }
  const size_t whole = ColumnsOf(longest);
  if (whole <= kShortestPath) return;
  const size_t left = std::max(kShortestPath, whole - std::min(whole, over));
  // The end of a path says most.
  const std::string head = CutTo(longest, left / 3), tail = CutTo(longest, left - left / 3 + 1, Keep::kEnd);
  line->replace(longest.data() - line->data(), longest.size(), absl::StrCat(absl::StripSuffix(head, "…"), tail));
}

// Breaks at blanks. Later lines are indented by two more, and those of a comment are comments.
std::string Wrap(absl::string_view line, size_t columns) {
  const size_t indent = IndentOf(line);
  const bool comment = absl::StartsWith(line.substr(indent), "# ");
  const std::string hang = absl::StrCat(std::string(indent, ' '), comment ? "# " : "  ");
  Lines out;
  std::string rest(line);
  while (ColumnsOf(rest) > columns) {
    const std::string fits = CutTo(rest, columns + 1);  // "…" for the last column
    const size_t most = fits.size() - std::string("…").size();
    size_t at = rest.rfind(' ', most);
    if (at == std::string::npos || at <= hang.size()) at = rest.find(' ', most);  // a long word
    if (at == std::string::npos) break;
    out.push_back(rest.substr(0, rest.find_last_not_of(' ', at) + 1));
    const size_t next = rest.find_first_not_of(' ', at);
    rest = next == std::string::npos ? "" : absl::StrCat(hang, rest.substr(next));
  }
  if (!rest.empty()) out.push_back(rest);
  return absl::StrJoin(out, "\n");
}

}  // namespace

std::string FitText(absl::string_view text, size_t columns) {
  columns = std::max(columns, kLeastColumns);
  const auto too_long = [&](const std::string& line) { return ColumnsOf(line) > columns && !IsCode(line); };
  Lines all = absl::StrSplit(text, '\n'), out;
  for (size_t i = 0; i < all.size();) {
    const size_t begin = i;
    while (i < all.size() && !all[i].empty()) ++i;
    Lines block(all.begin() + begin, all.begin() + i);
    if (std::any_of(block.begin(), block.end(), too_long)) Squeeze(&block);
    for (std::string& line : block) {
      const bool comment = absl::StartsWith(line.substr(IndentOf(line)), "# ");
      if (too_long(line)) CutPath(columns, &line);
      if (too_long(line) || (comment && ColumnsOf(line) > columns)) line = Wrap(line, columns);
      out.push_back(std::move(line));
    }
    if (i < all.size()) out.emplace_back();
    ++i;
  }
  return absl::StrJoin(out, "\n");
}

std::string WithBoldTitles(absl::string_view text) {
  constexpr absl::string_view kBold = "\x1b[1m", kPlain = "\x1b[0m";
  Lines lines = absl::StrSplit(text, '\n');
  bool verdict = true, after_empty = false;
  for (std::string& line : lines) {
    verdict = verdict && !line.empty();
    const bool title = after_empty && IndentOf(line) == 2;
    after_empty = line.empty();
    if (!verdict && !title) continue;
    const size_t colon = line.find(": ");
    const size_t end = verdict || colon == std::string::npos ? line.size() : colon + 1;
    line = absl::StrCat(kBold, line.substr(0, end), kPlain, line.substr(end));
  }
  return absl::StrJoin(lines, "\n");
}

size_t ColumnsOfTerminal(int fd) {
  winsize size = {};
  if (!isatty(fd)) return 0;
  return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string LaidOut(const std::string& text, Colour colour, FILE* out) {
  const size_t columns = ColumnsOfTerminal(fileno(out));
  const std::string fitted = columns == 0 ? text : FitText(text, columns);
  return IsColoured(colour, out) ? WithBoldTitles(fitted) : fitted;
}

}  // namespace cowprof
