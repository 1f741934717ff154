// Writes the lines of the live view; the screen is screen.cc's. The final report is report_text's.
#include "sink/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/alert_words.h"
#include "model/words.h"
#include "sink/live_words.h"
#include "sink/report.h"
#include "sink/report_forecast.h"
#include "sink/screen.h"
#include "sink/terminal_screen.h"

namespace cowprof {
namespace {

constexpr size_t kWorkersInLine = 8;

std::string NearestLimitWords(const Growth& growth) {
  const LimitGrowth* nearest = NearestLimit(growth);
  if (nearest == nullptr) return "no limit";
  return absl::StrFormat("%s at %.0f %%", NameOf(nearest->now.kind), 100 * *nearest->now.ratio());
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

// Takes the terminal with the first sample: what is said before that stays on it.
class ScreenTerminal : public Sink {
 public:
  ScreenTerminal(FILE* out, std::string page) : screen_(fileno(out)), page_(std::move(page)) {}
  absl::Status Write(const Sample&, const Growth& growth) override {
    Repaint(growth);
    return absl::OkStatus();
  }
  void Yield() override { screen_.Leave(); }
  void Repaint(const Growth& growth) override {
    if (screen_.in_foreground()) screen_.Show(Screen(growth, screen_.size(), page_));
  }
  absl::Status Finish(absl::Duration, const std::string&, const Growth&) override {
    screen_.Leave();
    return absl::OkStatus();
  }

 private:
  TerminalScreen screen_;
  std::string page_;
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
      Plural(workers.size(), "worker"), HumanBytes(all.copies * page_bytes),
      RateWords(living.copies_per_second, page_bytes), living.memory_known ? HumanBytes(living.private_bytes) : "-",
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

bool CanShowScreen(FILE* out) {
  const char* const terminal = getenv("TERM");
  return isatty(fileno(out)) && terminal != nullptr && *terminal != '\0' && absl::string_view(terminal) != "dumb";
}

std::unique_ptr<Sink> NewTerminal(TerminalMode mode, FILE* out, const std::string& page) {
  switch (mode) {
    case TerminalMode::kLines:
    case TerminalMode::kAlerts:
      return std::make_unique<LineTerminal>(out, mode == TerminalMode::kLines);
    case TerminalMode::kScreen:
      return std::make_unique<ScreenTerminal>(out, page);
    case TerminalMode::kQuiet:
      break;
  }
  return std::make_unique<QuietTerminal>();
}

}  // namespace cowprof
