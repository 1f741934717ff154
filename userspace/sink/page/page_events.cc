// Words the marks and drops the surplus ones.
#include "sink/page/page_events.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/judge/hang_format.h"
#include "model/judge/post_mortem.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBytes = 400;  // of a text

std::string Who(int index, const RunModel& model) {
  const ProcessModel* process = model.Find(index);
  return process != nullptr ? NameOf(*process) : "a process";
}

std::string StartText(int index, const ProcessStarted& started, const RunModel& model) {
  const std::string who = Who(index, model);
  return started.origin == Origin::kForked ? absl::StrCat(who, " was forked by ", Who(started.parent, model))
                                           : absl::StrCat(who, " was there at the start");
}

std::string PythonText(int index, const PythonFound& python, const RunModel& model) {
  return absl::StrCat(Who(index, model), " runs Python ", python.version,
                      python.problem.empty() ? "" : absl::StrCat(", which can't be read: ", python.problem));
}

std::string SentText(int index, const SignalSent& sent, const RunModel& model) {
  return absl::StrCat(SignalName(sent.signal), " was sent to ", Who(index, model), " by ",
                      sent.sender == 0 ? "a process outside this container" : absl::StrCat("pid ", sent.sender));
}

std::string DeliveredText(int index, const SignalDelivered& delivered, const RunModel& model) {
  return absl::StrFormat("%s got %s at address 0x%x", Who(index, model), SignalName(delivered.signal),
                         delivered.address);
}

std::string HangText(int index, const HangsSeen& seen, const RunModel& model) {
  const ProcessModel* process = model.Find(index);
  const std::string who = process != nullptr ? HungName(*process) : "a process";
  return seen.hangs.empty() ? absl::StrCat(who, " went on after all")
                            : Printable(HangSentence(seen.hangs.front(), who), kMostBytes);
}

// "worker 4711 was killed by SIGKILL: the OOM killer, limit of cgroup /job"
std::string ExitText(int index, const RunModel& model, const Findings& findings) {
  const ProcessModel* process = model.Find(index);
  if (process == nullptr || !process->exit) return absl::StrCat(Who(index, model), " ended");
  const std::string& text = findings.EndOf(*process).text;
  if (process->exit->signaled) return absl::StrCat(NameOf(*process), " was ", text);
  return absl::StrCat(NameOf(*process), " ended: ", text);
}

}  // namespace

std::optional<PageEvents::Mark> PageEvents::MarkOf(const Event& event, const RunModel& model) {
  const int index = event.index;
  const auto mark = [&](Kind kind, std::string text) {
    return std::optional(Mark{.t = event.t, .kind = kind, .index = index, .text = std::move(text)});
  };
  return std::visit(
      Overloaded{
          [&](const ProcessStarted& started) { return mark(Kind::kProcess, StartText(index, started, model)); },
          [&](const ProcessExeced& execed) {
            return mark(Kind::kExec,
                        absl::StrCat(Who(index, model), " became ",
                                     Printable(execed.command.empty() ? execed.comm : execed.command, kMostBytes)));
          },
          [&](const ProcessExited& exited) {
            const bool killed = exited.status && ExitOf(*exited.status).signaled;
            return mark(killed ? Kind::kKilled : Kind::kExit, "");
          },
          [&](const SignalSent& sent) { return mark(Kind::kSignal, SentText(index, sent, model)); },
          [&](const SignalDelivered& delivered) { return mark(Kind::kSignal, DeliveredText(index, delivered, model)); },
          [&](const OomVictim&) { return mark(Kind::kOom, absl::StrCat("the OOM killer chose ", Who(index, model))); },
          [&](const Note& note) { return mark(Kind::kNote, Printable(note.text, kMostBytes)); },
          [&](const PythonFound& python) {
            return mark(Kind::kNote, Printable(PythonText(index, python, model), kMostBytes));
          },
          // Who a process is stands in its row.
          [](const DutyFound&) { return std::optional<Mark>(); },
          [](const RankFound&) { return std::optional<Mark>(); },
          // Both have a section of their own.
          [](const StartMethodsSeen&) { return std::optional<Mark>(); },
          [](const StartFailed&) { return std::optional<Mark>(); },
          [](const ForkHazardSeen&) { return std::optional<Mark>(); },
          [&](const HangsSeen& seen) { return mark(Kind::kHang, HangText(index, seen, model)); },
      },
      event.what);
}

void PageEvents::Add(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model) {
  for (const Event& event : sample.events) {
    if (std::optional<Mark> mark = MarkOf(event, model)) marks_.push_back(*std::move(mark));
  }
  for (const Alert& alert : raised) {
    marks_.push_back({.t = alert.t,
                      .kind = alert.over ? Kind::kAlertOver : Kind::kAlert,
                      .index = alert.index,
                      .text = Printable(alert.text, kMostBytes)});
  }
  if (marks_.size() > 2 * kMost) Thin();
}

// Drops marks of the least informative kind first, the latest before the earlier ones; then those of the next kind.
void PageEvents::Thin() {
  size_t surplus = SaturatingSubtract(marks_.size(), kMost);
  dropped_ += surplus;
  for (int kind = 0; surplus > 0; ++kind) {
    auto keep = std::remove_if(marks_.rbegin(), marks_.rend(), [&](const Mark& mark) {
      return static_cast<int>(mark.kind) == kind && surplus > 0 && surplus-- > 0;
    });
    marks_.erase(marks_.begin(), keep.base());
  }
}

void PageEvents::Write(const RunModel& model, const Findings& findings, Json* page) const {
  constexpr auto kNames =
      NamesFor<Kind>("process", "exit", "note", "exec", "signal", "alert", "alert-over", "hang", "oom", "killed");
  PageEvents kept = *this;
  kept.Thin();
  std::stable_sort(kept.marks_.begin(), kept.marks_.end(), [](const Mark& a, const Mark& b) { return a.t < b.t; });
  Json events = Json::array();
  for (const Mark& mark : kept.marks_) {
    const bool ends = mark.kind == Kind::kExit || mark.kind == Kind::kKilled;
    const ProcessModel* process = model.Find(mark.index);
    events.push_back({{"t", absl::ToDoubleSeconds(mark.t)},
                      {"kind", kNames[static_cast<size_t>(mark.kind)]},
                      {"index", process != nullptr ? Json(mark.index) : Json(nullptr)},
                      {"pid", process != nullptr ? Json(process->id.pid) : Json(nullptr)},
                      {"text", ends ? ExitText(mark.index, model, findings) : mark.text}});
  }
  (*page)["events"] = std::move(events);
  (*page)["events_dropped"] = kept.dropped_;
}

}  // namespace cowprof
