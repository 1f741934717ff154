// Draws the live view. The final report is report_text's.
#include "sink/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "model/alert_words.h"
#include "model/blame.h"
#include "model/diagnosis.h"
#include "model/words.h"
#include "sink/report.h"
#include "sink/report_forecast.h"

namespace cowprof {
namespace {

constexpr size_t kWorkersInLine = 8;

std::string NearestLimitWords(const Growth& growth) {
  const LimitGrowth* nearest = NearestLimit(growth);
  if (nearest == nullptr) return "no limit";
  return absl::StrFormat("%s at %.0f %%", NameOf(nearest->now.kind), 100 * *nearest->now.ratio());
}

std::string Rate(double copies_per_second, uint64_t page_bytes) {
  return absl::StrCat("+", HumanBytes(static_cast<uint64_t>(copies_per_second * page_bytes)), "/s");
}

// "refcount 95 %, data 3 %": the largest causes of what the workers copied, from 1 % on.
std::string CausesWords(const Growth& growth, size_t most) {
  const Totals workers = SumOf(growth, /*living_only=*/false, /*workers_only=*/true);
  std::vector<std::pair<uint64_t, int>> causes;
  for (int cause = 0; cause < kCauses; ++cause) {
    if (100 * workers.causes[cause] >= std::max<uint64_t>(workers.copies, 1))
      causes.emplace_back(workers.causes[cause], cause);
  }
  std::sort(causes.rbegin(), causes.rend());
  std::vector<std::string> words;
  for (const auto& [copies, cause] : causes) {
    if (words.size() == most) break;
    words.push_back(absl::StrFormat("%s %.0f %%", NameOf(static_cast<Cause>(cause)), 100.0 * copies / workers.copies));
  }
  return absl::StrJoin(words, ", ");
}

// The lines of Python that copied most: "  71.2 %  coco.py:41  CocoDataset.__getitem__".
std::vector<std::string> LineRows(const Growth& growth, size_t most) {
  std::vector<std::string> lines;
  const Blame blame = BlameOf(growth, {.workers_only = true});
  for (const BlameRow& row : ByLine(growth, blame)) {
    if (lines.size() == most) break;
    if (row.frame.file.empty() || row.share < 0.01) continue;
    lines.push_back(absl::StrFormat("  %5.1f %%  %s:%d  %s", 100 * row.share, Printable(row.frame.file), row.frame.line,
                                    Printable(row.frame.function)));
  }
  return lines;
}

std::vector<const ProcessGrowth*> LivingWorkers(const Growth& growth) {
  std::vector<const ProcessGrowth*> workers;
  for (const ProcessGrowth& process : growth.processes) {
    if (process.role == Role::kWorker && !process.ended) workers.push_back(&process);
  }
  return workers;
}

// The latest of each limit and rule, unless it is over.
std::vector<std::string> AlertsThatStand(const Growth& growth) {
  std::map<std::tuple<AlertRule, LimitKind, std::string>, const Alert*> latest;
  for (const Alert& alert : growth.alerts) latest[{alert.rule, alert.kind, alert.name}] = &alert;
  std::vector<std::string> lines;
  for (const auto& [key, alert] : latest) {
    if (!alert->over) lines.push_back(AlertLine(*alert));
  }
  return lines;
}

// Broken at blanks, so that no line has more than `columns` characters, if the words allow it.
std::vector<std::string> Wrap(absl::string_view text, size_t columns) {
  std::vector<std::string> lines = {""};
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns) lines.emplace_back();
    absl::StrAppend(&lines.back(), lines.back().empty() ? "" : " ", word);
  }
  return lines;
}

std::string Cut(std::string line, size_t columns) {
  if (line.size() > columns) line.resize(columns);
  return line;
}

class LineTerminal : public Sink {
 public:
  LineTerminal(FILE* out, bool ticks) : out_(out), ticks_(ticks), colour_(isatty(fileno(out)) && !getenv("NO_COLOR")) {}
  absl::Status Write(const Sample& sample, const Growth& growth) override {
    for (const Alert& alert : sample.alerts) {
      const char* const red = colour_ && !alert.over ? "\x1b[1;31m" : "";
      absl::FPrintF(out_, "%s%scowprof: %s%s\n", alert.over ? "" : "!!! ", red, AlertLine(alert),
                    *red ? "\x1b[0m" : "");
    }
    if (ticks_) absl::FPrintF(out_, "%s\n", TickLine(growth));
    fflush(out_);
    return absl::OkStatus();
  }
  absl::Status Finish(absl::Duration, const std::string&, const Growth&) override { return absl::OkStatus(); }

 private:
  FILE* out_;
  bool ticks_, colour_;
};

// Uses the alternate screen, so that the terminal is as it was afterwards.
class ScreenTerminal : public Sink {
 public:
  explicit ScreenTerminal(FILE* out) : out_(out) { Put("\x1b[?1049h\x1b[?25l"); }
  ~ScreenTerminal() override { Leave(); }
  absl::Status Write(const Sample&, const Growth& growth) override {
    winsize size = {};
    if (ioctl(fileno(out_), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) size = {.ws_row = 24, .ws_col = 80};
    std::string text = "\x1b[H";
    for (absl::string_view line : absl::StrSplit(Screen(growth, size.ws_col, size.ws_row - 1), '\n')) {
      absl::StrAppend(&text, line, "\x1b[K\r\n");
    }
    Put(absl::StrCat(text, "\x1b[J"));
    return absl::OkStatus();
  }
  absl::Status Finish(absl::Duration, const std::string&, const Growth&) override {
    Leave();
    return absl::OkStatus();
  }

 private:
  void Put(const std::string& text) {
    fwrite(text.data(), 1, text.size(), out_);
    fflush(out_);
  }
  void Leave() {
    if (!std::exchange(left_, true)) Put("\x1b[?25h\x1b[?1049l");
  }
  FILE* out_;
  bool left_ = false;
};

class QuietTerminal : public Sink {
 public:
  absl::Status Write(const Sample&, const Growth&) override { return absl::OkStatus(); }
  absl::Status Finish(absl::Duration, const std::string&, const Growth&) override { return absl::OkStatus(); }
};

}  // namespace

std::string TickLine(const Growth& growth) {
  const uint64_t page_bytes = growth.info.page_bytes;
  const Totals all = SumOf(growth, /*living_only=*/false, /*workers_only=*/false);
  const Totals living = SumOf(growth, /*living_only=*/true, /*workers_only=*/false);
  const std::vector<const ProcessGrowth*> workers = LivingWorkers(growth);
  std::string line = absl::StrFormat(
      "%8s  %s  copied %s (%s)  private %s  still shared %s  %s", HumanDuration(growth.t),
      Plural(workers.size(), "worker"), HumanBytes(all.copies * page_bytes), Rate(living.copies_per_second, page_bytes),
      living.memory_known ? HumanBytes(living.private_bytes) : "-",
      living.memory_known ? HumanBytes(living.still_shared_bytes) : "-", NearestLimitWords(growth));
  if (const std::string far = ForecastWords(ForecastOf(growth)); !far.empty()) absl::StrAppend(&line, "  ", far);
  if (const std::string causes = CausesWords(growth, 1); !causes.empty()) absl::StrAppend(&line, "  ", causes);
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(workers.size(), kWorkersInLine); ++i) {
    parts.push_back(
        absl::StrCat(workers[i]->id.pid, " ", HumanBytes(workers[i]->counts.copies.value_or(0) * page_bytes)));
  }
  if (workers.size() > kWorkersInLine) parts.push_back("...");
  if (!parts.empty()) absl::StrAppend(&line, "  [", absl::StrJoin(parts, ", "), "]");
  return line;
}

std::string Screen(const Growth& growth, int columns, int rows) {
  const uint64_t page_bytes = growth.info.page_bytes;
  std::vector<std::string> lines = {
      absl::StrCat("cowprof  ", Printable(growth.info.command, columns), "  pid ", growth.info.target.pid),
      absl::StrCat(HumanDuration(growth.t), "  ", ExactnessText(growth.info.exactness), "  Ctrl-C ends the recording"),
      ""};
  for (const std::string& alert : AlertsThatStand(growth)) {
    for (std::string& line : Wrap(alert, columns)) lines.push_back(std::move(line));
  }
  const LimitGrowth* nearest = NearestLimit(growth);
  for (const std::string& sentence : {CopiesSentence(growth), TopFinding(growth),
                                      nearest != nullptr ? LimitSentence(*nearest) : "No limit is set.",
                                      absl::StrCat("Forecast: ", ForecastOf(growth).sentence)}) {
    if (sentence.empty()) continue;
    for (std::string& line : Wrap(sentence, columns)) lines.push_back(std::move(line));
  }
  if (std::string causes = CausesWords(growth, kCauses); !causes.empty()) {
    lines.insert(lines.end(), {"", absl::StrCat("  why: ", causes)});
    for (std::string& line : LineRows(growth, 3)) lines.push_back(std::move(line));
  }
  lines.push_back("");
  lines.push_back(
      absl::StrFormat("  %-10s %8s %11s %13s %11s %12s", "", "pid", "copied", "now", "private", "still shared"));
  const auto add_row = [&](const ProcessGrowth& process) {
    lines.push_back(absl::StrFormat("  %-10s %8d %11s %13s %11s %12s", NameOf(process.role), process.id.pid,
                                    HumanBytes(process.counts.copies.value_or(0) * page_bytes),
                                    Rate(process.copies_per_second, page_bytes), HumanBytes(process.private_bytes),
                                    HumanBytes(process.still_shared_bytes)));
  };
  if (growth.target() != nullptr) add_row(*growth.target());
  std::vector<const ProcessGrowth*> workers = LivingWorkers(growth);
  const size_t room = std::max<int>(rows - static_cast<int>(lines.size() + growth.limits.size()) - 3, 1);
  for (size_t i = 0; i < std::min(workers.size(), room); ++i) add_row(*workers[i]);
  if (workers.size() > room) lines.push_back(absl::StrCat("  ... and ", workers.size() - room, " more workers"));
  lines.push_back("");
  for (const LimitGrowth& limit : growth.limits) {
    const std::string of = limit.now.counts_bytes() ? HumanBytes(limit.now.limit) : HumanCount(limit.now.limit);
    const std::string used = limit.now.counts_bytes() ? HumanBytes(limit.now.used) : HumanCount(limit.now.used);
    lines.push_back(
        absl::StrFormat("  %-14s %11s of %11s  %s", NameOf(limit.now.kind), used, of, Printable(limit.now.name, 40)));
  }
  if (lines.size() > static_cast<size_t>(rows)) lines.resize(std::max(rows, 1));
  for (std::string& line : lines) line = Cut(std::move(line), columns);
  return absl::StrJoin(lines, "\n");
}

std::unique_ptr<Sink> NewTerminal(TerminalMode mode, FILE* out) {
  switch (mode) {
    case TerminalMode::kLines:
    case TerminalMode::kAlerts:
      return std::make_unique<LineTerminal>(out, mode == TerminalMode::kLines);
    case TerminalMode::kScreen:
      return std::make_unique<ScreenTerminal>(out);
    case TerminalMode::kQuiet:
      break;
  }
  return std::make_unique<QuietTerminal>();
}

}  // namespace cowprof
