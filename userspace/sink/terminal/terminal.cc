// One sink for each TerminalMode, and the line of a tick. screen.cc lays out the screen; report_text.cc writes the
// final report.
#include "sink/terminal/terminal.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "model/judge/alert_format.h"
#include "posix/exit_status.h"
#include "sink/report/report.h"
#include "sink/report/report_forecast.h"
#include "sink/terminal/columns.h"
#include "sink/terminal/live_format.h"
#include "sink/terminal/print_report.h"
#include "sink/terminal/screen.h"
#include "sink/terminal/terminal_screen.h"

namespace cowprof {
namespace {

constexpr size_t kWorkersInLine = 8;
constexpr double kLeastOfInterval = 0.9;  // between two lines; ticks are never quite on time

std::string FormatNearestLimit(const RunModel& model, int nearest) {
  if (nearest < 0) return "no limit";
  const LimitSample& now = model.limits[nearest].now;
  return absl::StrFormat("%s at %.0f %%", NameOf(now.kind), 100 * *now.ratio());
}

class LineTerminal : public Sink {
 public:
  LineTerminal(NonblockingOutput* out, bool ticks, bool coloured) : out_(out), ticks_(ticks), coloured_(coloured) {}
  absl::Status Write(const Tick& tick) override {
    for (const Alert& alert : tick.raised)
      out_->Put(absl::StrCat(Shares(tick.model.info) ? "\n" : "", AlertText(alert)));
    // Ticks that an event or an alert asked for come between those of the interval.
    const RunModel& model = tick.model;
    if (ticks_ && (!last_line_ || model.t - *last_line_ >= kLeastOfInterval * model.info.interval)) {
      OfferLine(TickLine(model, tick.findings));
      last_line_ = model.t;
    }
    return absl::OkStatus();
  }
  absl::Status Finish(absl::Duration, const std::string&) override {
    out_->Offer("");  // the verdict says more
    return absl::OkStatus();
  }

 private:
  // Whether the program may have left the cursor at the end of a progress bar.
  bool Shares(const RunInfo& info) const { return info.started_target && ColumnsOfTerminal(out_->fd()) > 0; }
  std::string AlertText(const Alert& alert) const {
    const char* const red = coloured_ && !alert.over ? "\x1b[1;31m" : "";
    return absl::StrCat(alert.over ? "" : "!!! ", red,
                        "cowprof: ", Fitted(AlertLine(alert), /*before=*/sizeof("!!! cowprof: ")),
                        *red ? "\x1b[0m" : "", "\n");
  }
  // While nobody reads, only the latest tick waits.
  void OfferLine(const std::string& line) {
    out_->Flush();
    skipped_ = out_->offer_waits() ? skipped_ + 1 : 0;
    const std::string skipped = LineOf(absl::StrCat(Plural(skipped_, "line"), " skipped: nobody read them"));
    const size_t columns = ColumnsOfTerminal(out_->fd());
    out_->Offer(absl::StrCat(skipped_ == 0 ? "" : skipped, columns == 0 ? line : CutTo(line, columns), "\n"));
  }
  // What follows `before` columns of a line.
  std::string Fitted(const std::string& text, size_t before) const {
    const size_t columns = ColumnsOfTerminal(out_->fd());
    return columns == 0 ? text : FitText(text, columns - std::min(columns, before));
  }

  NonblockingOutput* out_;
  bool ticks_, coloured_;
  std::optional<absl::Duration> last_line_;
  uint64_t skipped_ = 0;  // before the line that waits
};

// Takes the terminal at the first sample, so that earlier messages stay on it.
class ScreenTerminal : public Sink {
 public:
  ScreenTerminal(NonblockingOutput* out, bool coloured, std::string page)
      : screen_(out, coloured), page_(std::move(page)) {}
  Detail detail() const override { return Detail::kScreen; }
  absl::Status Write(const Tick& tick) override {
    Repaint(tick.model, tick.findings);
    return absl::OkStatus();
  }
  void Yield() override { screen_.Leave(); }
  void Repaint(const RunModel& model, const Findings& findings) override {
    if (screen_.in_foreground()) screen_.Show(Screen(model, findings, {screen_.size(), page_}));
  }
  absl::Status Finish(absl::Duration, const std::string&) override {
    screen_.Leave();
    return absl::OkStatus();
  }

 private:
  TerminalScreen screen_;
  std::string page_;
};

class QuietTerminal : public Sink {
 public:
  absl::Status Write(const Tick&) override { return absl::OkStatus(); }
  absl::Status Finish(absl::Duration, const std::string&) override { return absl::OkStatus(); }
};

}  // namespace

std::string TickLine(const RunModel& model, const Findings& findings) {
  const uint64_t page_bytes = model.info.page_bytes;
  const Totals &all = findings.all, &living = findings.living;
  const std::vector<const ProcessModel*> workers = LivingWorkers(model);
  const Count copies = all.copies_known ? Count(all.copies) : std::nullopt;
  std::string line = absl::StrFormat("%8s  %s  copied %s (%s)  private %s  still shared %s  %s", HumanDuration(model.t),
                                     Plural(workers.size(), "worker"), FormatCopied(copies, page_bytes),
                                     FormatRate(all.copies_known, living.copies_per_second, page_bytes),
                                     living.private_known ? HumanBytes(living.private_bytes) : "-",
                                     living.still_shared_known ? HumanBytes(living.still_shared_bytes) : "-",
                                     FormatNearestLimit(model, findings.nearest_limit));
  if (const std::string far = FormatForecast(findings.forecast); !far.empty()) absl::StrAppend(&line, "  ", far);
  if (const std::string causes = FormatCauses(findings.workers, 1); !causes.empty())
    absl::StrAppend(&line, "  ", causes);
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(workers.size(), kWorkersInLine); ++i)
    parts.push_back(absl::StrCat(workers[i]->id.pid, " ", FormatCopied(workers[i]->counts.copies, page_bytes)));
  if (workers.size() > kWorkersInLine) parts.push_back("...");
  if (!parts.empty()) absl::StrAppend(&line, "  [", absl::StrJoin(parts, ", "), "]");
  return line;
}

bool CanShowScreen(FILE* out) {
  const char* const terminal = getenv("TERM");
  // Where it is not our controlling terminal (setsid), or its foreground is hidden by a pid namespace,
  // the screen could never tell that it is in the foreground.
  return tcgetpgrp(fileno(out)) > 0 && terminal != nullptr && *terminal != '\0' &&
         absl::string_view(terminal) != "dumb";
}

std::unique_ptr<Sink> NewTerminal(TerminalMode mode, NonblockingOutput* out, bool coloured, const std::string& page) {
  switch (mode) {
    case TerminalMode::kLines:
    case TerminalMode::kAlerts:
      return std::make_unique<LineTerminal>(out, mode == TerminalMode::kLines, coloured);
    case TerminalMode::kScreen:
      return std::make_unique<ScreenTerminal>(out, coloured, page);
    case TerminalMode::kQuiet:
      break;
  }
  return std::make_unique<QuietTerminal>();
}

}  // namespace cowprof
