#include "sink/marks.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/format.h"
#include "model/judge/hang_format.h"
#include "model/judge/post_mortem.h"

namespace cowprof {
namespace {

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
  return absl::StrCat(Who(index, model), " runs Python", python.version.empty() ? "" : " ", python.version,
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

std::optional<Mark> MarkOf(const Event& event, const RunModel& model) {
  const int index = event.index;
  const auto mark = [&](MarkKind kind, std::string text) {
    return std::optional(Mark{.t = event.t, .kind = kind, .index = index, .text = std::move(text)});
  };
  return std::visit(
      Overloaded{
          [&](const ProcessStarted& started) { return mark(MarkKind::kProcess, StartText(index, started, model)); },
          [&](const ProcessExeced& execed) {
            return mark(MarkKind::kExec,
                        absl::StrCat(Who(index, model), " became ",
                                     Printable(execed.command.empty() ? execed.comm : execed.command, kMostBytes)));
          },
          [&](const ProcessExited& exited) {
            const bool killed = exited.status && ExitOf(*exited.status).signaled;
            return mark(killed ? MarkKind::kKilled : MarkKind::kExit, "");
          },
          [&](const SignalSent& sent) { return mark(MarkKind::kSignal, SentText(index, sent, model)); },
          [&](const SignalDelivered& delivered) {
            return mark(MarkKind::kSignal, DeliveredText(index, delivered, model));
          },
          [&](const OomVictim&) {
            return mark(MarkKind::kOom, absl::StrCat("the OOM killer chose ", Who(index, model)));
          },
          [&](const Note& note) { return mark(MarkKind::kNote, Printable(note.text, kMostBytes)); },
          [&](const PythonFound& python) {
            return mark(MarkKind::kNote, Printable(PythonText(index, python, model), kMostBytes));
          },
          // Who a process is stands in its row.
          [](const DutyFound&) { return std::optional<Mark>(); },
          [](const RankFound&) { return std::optional<Mark>(); },
          // So does what it died of.
          [](const LastErrorSeen&) { return std::optional<Mark>(); },
          // Both have a section of their own.
          [](const StartMethodsSeen&) { return std::optional<Mark>(); },
          [](const StartFailed&) { return std::optional<Mark>(); },
          [](const ForkHazardSeen&) { return std::optional<Mark>(); },
          [&](const HangsSeen& seen) { return mark(MarkKind::kHang, HangText(index, seen, model)); },
      },
      event.what);
}

Mark MarkOf(const Alert& alert) {
  return {.t = alert.t,
          .kind = alert.over ? MarkKind::kAlertOver : MarkKind::kAlert,
          .index = alert.index,
          .text = Printable(alert.text, kMostBytes)};
}

std::string TextOf(const Mark& mark, const RunModel& model, const Findings& findings) {
  const bool ends = mark.kind == MarkKind::kExit || mark.kind == MarkKind::kKilled;
  return ends ? ExitText(mark.index, model, findings) : mark.text;
}

}  // namespace cowprof
