// See page_events.h.
#include "sink/page_events.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/post_mortem.h"
#include "model/words.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBytes = 400;  // of a text

std::string Who(int index, const Growth& growth) {
  const ProcessGrowth* process = growth.Find(index);
  return process != nullptr ? NameOf(*process) : "a process";
}

std::string ProcessText(const Event& event, const Growth& growth) {
  const std::string who = Who(event.index, growth);
  return event.origin == Origin::kForked ? absl::StrCat(who, " was forked by ", Who(event.parent, growth))
                                         : absl::StrCat(who, " was there at the start");
}

std::string PythonText(const Event& event, const Growth& growth) {
  return absl::StrCat(Who(event.index, growth), " runs Python ", event.python,
                      event.text.empty() ? "" : absl::StrCat(", which can't be read: ", event.text));
}

std::string SignalText(const Event& event, const Growth& growth) {
  const std::string who = Who(event.index, growth);
  if (event.kind == EventKind::kSignalSent)
    return absl::StrCat(SignalName(event.signal), " was sent to ", who, " by ",
                        event.sender == 0 ? "a process outside of this container" : absl::StrCat("pid ", event.sender));
  return absl::StrFormat("%s got %s at address 0x%x", who, SignalName(event.signal), event.address);
}

// "worker 4711 was killed by SIGKILL: the OOM killer, limit of cgroup /job"
std::string ExitText(int index, const Growth& growth) {
  const ProcessGrowth* process = growth.Find(index);
  if (process == nullptr || !process->exit) return absl::StrCat(Who(index, growth), " ended");
  const std::string text = PostMortemOf(*process, growth).text;
  if (process->exit->signaled) return absl::StrCat(NameOf(*process), " was ", text);
  return absl::StrCat(NameOf(*process), " ended: ", text);
}

}  // namespace

PageEvents::Mark PageEvents::MarkOf(const Event& event, const Growth& growth) {
  Mark mark = {.t = event.t, .index = event.index};
  switch (event.kind) {
    case EventKind::kProcess:
      mark.kind = Kind::kProcess;
      mark.text = ProcessText(event, growth);
      break;
    case EventKind::kExec:
      mark.kind = Kind::kExec;
      mark.text = absl::StrCat(Who(event.index, growth), " became ",
                               Printable(event.command.empty() ? event.comm : event.command, kMostBytes));
      break;
    case EventKind::kExit:
      mark.kind = event.status && ExitOf(*event.status).signaled ? Kind::kKilled : Kind::kExit;
      break;
    case EventKind::kSignalSent:
    case EventKind::kSignalDelivered:
      mark.kind = Kind::kSignal;
      mark.text = SignalText(event, growth);
      break;
    case EventKind::kOomVictim:
      mark.kind = Kind::kOom;
      mark.text = absl::StrCat("the OOM killer chose ", Who(event.index, growth));
      break;
    case EventKind::kPython:
      mark.text = Printable(PythonText(event, growth), kMostBytes);
      break;
    case EventKind::kNote:
      mark.text = Printable(event.text, kMostBytes);
      break;
  }
  return mark;
}

void PageEvents::Add(const Sample& sample, const Growth& growth) {
  for (const Event& event : sample.events) marks_.push_back(MarkOf(event, growth));
  for (const Alert& alert : sample.alerts) {
    marks_.push_back({.t = alert.t,
                      .kind = alert.over ? Kind::kAlertOver : Kind::kAlert,
                      .index = alert.index,
                      .text = Printable(alert.text, kMostBytes)});
  }
  if (marks_.size() > 2 * kMost) Thin();
}

// Of the kind that says least the latest first, then of the next one.
void PageEvents::Thin() {
  size_t surplus = marks_.size() - std::min(marks_.size(), kMost);
  dropped_ += surplus;
  for (int kind = 0; surplus > 0; ++kind) {
    auto keep = std::remove_if(marks_.rbegin(), marks_.rend(), [&](const Mark& mark) {
      return static_cast<int>(mark.kind) == kind && surplus > 0 && surplus-- > 0;
    });
    marks_.erase(marks_.begin(), keep.base());
  }
}

void PageEvents::Write(const Growth& growth, Json* page) const {
  static constexpr std::array kNames = {"process", "exit",       "note", "exec",  "signal",
                                        "alert",   "alert-over", "oom",  "killed"};
  PageEvents kept = *this;
  kept.Thin();
  std::stable_sort(kept.marks_.begin(), kept.marks_.end(), [](const Mark& a, const Mark& b) { return a.t < b.t; });
  Json events = Json::array();
  for (const Mark& mark : kept.marks_) {
    const bool ends = mark.kind == Kind::kExit || mark.kind == Kind::kKilled;
    const ProcessGrowth* process = growth.Find(mark.index);
    events.push_back({{"t", absl::ToDoubleSeconds(mark.t)},
                      {"kind", kNames[static_cast<size_t>(mark.kind)]},
                      {"index", process != nullptr ? Json(mark.index) : Json(nullptr)},
                      {"pid", process != nullptr ? Json(process->id.pid) : Json(nullptr)},
                      {"text", ends ? ExitText(mark.index, growth) : mark.text}});
  }
  (*page)["events"] = std::move(events);
  (*page)["events_dropped"] = kept.dropped_;
}

}  // namespace cowprof
