// Lays out the screen in blocks of lines. Each gets the rows that it needs at least, in order of importance; then the
// rest is distributed in the same order.
#include "sink/terminal/screen.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/judge/alert_format.h"
#include "model/saturating.h"
#include "sink/report/report.h"
#include "sink/terminal/columns.h"
#include "sink/terminal/live_format.h"
#include "sink/terminal/terminal.h"

namespace cowprof {
namespace {

using Tone = ScreenLine::Tone;
using Lines = std::vector<ScreenLine>;

constexpr int kLeastColumns = 40, kLeastRows = 10;
constexpr size_t kMostPythonLines = 8;
constexpr double kAlarmingRatio = 0.9;

struct Block {
  Lines lines;
  size_t least = 1;
  size_t rows = 0;      // as distributed
  bool headed = false;  // its first line is a heading, useless alone
  bool text = false;    // sentences
};

Lines Wrapped(const std::string& text, int columns, Tone tone = Tone::kPlain) {
  Lines lines;
  for (std::string& line : WrapTo(text, columns)) lines.push_back({std::move(line), tone});
  return lines;
}

// "cowprof  12.3 s  python3 train.py" and, at the right end, the pid.
Lines Title(const RunModel& model, int columns) {
  const std::string pid = absl::StrCat("pid ", model.info.target.pid);
  const std::string left = absl::StrCat("cowprof  ", HumanDuration(model.t), "  ", Printable(model.info.command, 1000));
  return {{absl::StrCat(PadTo(left, columns - pid.size() - 2), "  ", pid), Tone::kStrong}};
}

Lines StandingAlerts(const std::vector<Alert>& alerts, int columns) {
  Lines lines;
  for (const Alert* alert : StandingOf(alerts)) {
    for (ScreenLine& line : Wrapped(absl::StrCat("!!! ", AlertLine(*alert)), columns, Tone::kAlarm))
      lines.push_back(std::move(line));
  }
  return lines;
}

std::string Quantity(const LimitSample& limit, const Count& value) { return HumanAmount(limit.kind, value); }

// "[######........]": full to `ratio`.
std::string Bar(double ratio, size_t columns) {
  const size_t inside = columns - 2, full = std::lround(std::clamp(ratio, 0.0, 1.0) * inside);
  return absl::StrCat("[", std::string(full, '#'), std::string(inside - full, '.'), "]");
}

// One limit per line, the fullest first; those that are not set last.
Lines LimitRows(const RunModel& model, int columns) {
  std::vector<const LimitModel*> limits;
  for (const LimitModel& limit : model.limits) limits.push_back(&limit);
  std::stable_sort(limits.begin(), limits.end(), [](const LimitModel* a, const LimitModel* b) {
    return a->now.ratio().value_or(-1) > b->now.ratio().value_or(-1);
  });
  const size_t bar = std::clamp(columns - 60, 8, 30);
  Lines lines;
  for (const LimitModel* limit : limits) {
    const LimitSample& now = limit->now;
    const std::optional<double> ratio = now.ratio();
    std::string line = absl::StrCat(
        PadTo(NameOf(now.kind), 10), " ",
        ratio ? absl::StrFormat("%s %3.0f %%", Bar(*ratio, bar), 100 * *ratio) : PadTo("no limit", bar + 6));
    absl::StrAppend(&line, "  ", Quantity(now, now.used));
    if (ratio) absl::StrAppend(&line, " of ", Quantity(now, now.limit));
    if (!now.name.empty()) absl::StrAppend(&line, "  ", Printable(now.name));
    lines.push_back({CutTo(line, columns), ratio && *ratio >= kAlarmingRatio ? Tone::kAlarm : Tone::kPlain});
  }
  return lines;
}

// The Python lines that copied most: " 71.2 %  coco.py:41  CocoDataset.__getitem__".
Lines PythonLines(const Findings& findings, int columns) {
  const std::string causes = FormatCauses(findings.workers, kCauses);
  if (causes.empty()) return {};
  Lines lines = {{CutTo(absl::StrCat("copied because of: ", causes), columns), Tone::kStrong}};
  for (const BlameRow& row : findings.of_workers.by_line) {
    if (lines.size() > kMostPythonLines) break;
    if (row.frame.file.empty() || row.share < 0.01) continue;
    const std::string name = Printable(row.frame.function);
    // The end of a path is its most informative part.
    const std::string position = absl::StrCat(Printable(row.frame.file, 1000), ":", row.frame.line);
    const size_t room = columns - 10, name_room = std::min(ColumnsOf(name), room / 2);
    const std::string where = CutTo(position, SaturatingSubtract(room, name_room + 2), Keep::kEnd);
    lines.push_back({absl::StrFormat(" %5.1f %%  %s  %s", 100 * row.share, where, CutTo(name, name_room))});
  }
  return lines;
}

// A row of the table. Narrow terminals show fewer cells.
std::string TableRow(const std::string& role, const std::string& pid, const std::vector<std::string>& figures,
                     int columns) {
  constexpr size_t kFigureColumns = 12;
  std::string row = absl::StrCat(PadTo(role, 8), PadLeft(pid, 8));
  for (const std::string& figure : figures) {
    if (row.size() + 2 + kFigureColumns > static_cast<size_t>(columns)) break;
    absl::StrAppend(&row, "  ", PadLeft(figure, kFigureColumns));
  }
  return row;
}

std::string RowOf(const ProcessModel& process, uint64_t page_bytes, int columns) {
  const Count& copies = process.counts.copies;
  return TableRow(
      NameOf(process.role), absl::StrCat(process.id.pid),
      {HumanBytes(process.private_bytes), FormatCopied(copies, page_bytes),
       FormatRate(copies.has_value(), process.copies_per_second, page_bytes), HumanBytes(process.still_shared_bytes)},
      columns);
}

std::string RowOf(const std::string& name, const Totals& sum, uint64_t page_bytes, int columns) {
  return TableRow(name, HumanCount(sum.processes),
                  {sum.private_known ? HumanBytes(sum.private_bytes) : "-",
                   sum.copies_known ? HumanBytes(sum.copies * page_bytes) : "-",
                   FormatRate(sum.copies_known, sum.copies_per_second, page_bytes),
                   sum.still_shared_known ? HumanBytes(sum.still_shared_bytes) : "-"},
                  columns);
}

// Heading, sum of the workers, parent, then the workers, those with most private memory first.
Lines Processes(const RunModel& model, const Totals& living_workers, int columns) {
  const uint64_t page_bytes = model.info.page_bytes;
  Lines lines = {{TableRow("", "pid", {"private", "copied", "now", "still shared"}, columns), Tone::kStrong},
                 {RowOf("workers", living_workers, page_bytes, columns)}};
  if (model.target() != nullptr) lines.push_back({RowOf(*model.target(), page_bytes, columns)});
  std::vector<const ProcessModel*> workers = LivingWorkers(model);
  std::stable_sort(workers.begin(), workers.end(), [](const ProcessModel* a, const ProcessModel* b) {
    return a->private_bytes.value_or(0) > b->private_bytes.value_or(0);
  });
  for (const ProcessModel* worker : workers) lines.push_back({RowOf(*worker, page_bytes, columns)});
  return lines;
}

Lines Footer(const RunModel& model, const std::string& page, int columns) {
  Lines lines;
  if (const std::string losses = LossesText(model.losses); !losses.empty())
    lines.push_back({CutTo(absl::StrCat("losses: ", losses), columns), Tone::kAlarm});
  lines.push_back(
      {CutTo(absl::StrCat(ExactnessText(model.info.exactness), "; Ctrl-C ends the recording"), columns), Tone::kQuiet});
  // A truncated address is useless.
  if (!page.empty() && page.size() <= static_cast<size_t>(columns)) lines.push_back({page, Tone::kQuiet});
  return lines;
}

// Distributes `rows` among the blocks in their order: first what each needs at least, then what each can fill. No
// heading gets the only row that is left.
void Share(size_t rows, const std::vector<Block*>& blocks) {
  for (const bool all : {false, true}) {
    for (Block* block : blocks) {
      const size_t wanted = all ? block->lines.size() : std::min(block->least, block->lines.size());
      const size_t more = std::min(SaturatingSubtract(wanted, block->rows), rows);
      if (block->headed && block->rows + more < 2) continue;
      block->rows += more;
      rows -= more;
    }
  }
}

// Appends as many lines as the block has rows. Under a heading, the last one says how many are missing; of sentences it
// shows that there is more.
void Lay(const Block& block, int columns, Lines* out) {
  if (block.headed && block.rows < 2) return;
  out->insert(out->end(), block.lines.begin(), block.lines.begin() + block.rows);
  if (block.headed && block.rows > 2 && block.rows < block.lines.size()) {
    out->back() = {CutTo(absl::StrCat("... and ", block.lines.size() - block.rows + 1, " more"), columns),
                   Tone::kQuiet};
  }
  if (block.text && block.rows > 0 && block.rows < block.lines.size())
    out->back().text = CutTo(absl::StrCat(out->back().text, "…"), columns);
}

}  // namespace

std::vector<ScreenLine> Screen(const RunModel& model, const Findings& findings, const ScreenFrame& frame) {
  const ScreenSize& size = frame.size;
  const int columns = size.columns;
  if (columns < kLeastColumns || size.rows < kLeastRows) return {{CutTo(TickLine(model, findings), columns)}};
  Block title = {Title(model, columns)};
  Block alerts = {StandingAlerts(findings.alerts, columns), 2, 0, /*headed=*/false, /*text=*/true};
  Block forecast = {Wrapped(absl::StrCat("Forecast: ", findings.forecast_told.sentence), columns), 2, 0,
                    /*headed=*/false, /*text=*/true};
  Block finding = {Wrapped(findings.headline.sentence, columns), 2, 0, /*headed=*/false, /*text=*/true};
  Block limits = {LimitRows(model, columns), 1};
  Block python = {PythonLines(findings, columns), 2, 0, /*headed=*/true};
  Block processes = {Processes(model, findings.living_workers, columns), 3, 0, /*headed=*/true};
  Block footer = {Footer(model, frame.page, columns), 1};
  // Empty lines separate the blocks if the screen has 24 rows or more.
  const std::vector<Block*> shown = {&title, &alerts, &forecast, &finding, &limits, &python, &processes, &footer};
  const auto filled = [&] {
    return std::count_if(shown.begin(), shown.end(), [](const Block* block) { return !block->lines.empty(); });
  };
  const size_t gaps = size.rows >= 24 ? filled() - 2 : 0;
  Share(size.rows - gaps, {&title, &footer, &alerts, &limits, &forecast, &finding, &processes, &python});
  Lines lines;
  for (const Block* block : shown) {
    if (block->rows == 0) continue;
    if (gaps > 0 && block != &title && block != &footer) lines.push_back({""});
    Lay(*block, columns, &lines);
  }
  return lines;
}

}  // namespace cowprof
