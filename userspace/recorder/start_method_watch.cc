#include "recorder/start_method_watch.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "posix/clock.h"

namespace cowprof {
namespace {

constexpr int kMostLooks = 6;
constexpr int kMostStarted = 64;  // in a recording: those that fail as they start mostly all do
constexpr absl::Duration kBetweenLooks = absl::Seconds(1), kLongestLook = absl::Seconds(10);
constexpr absl::Duration kWaitForLast = absl::Milliseconds(500);  // in a tick, however many have failed

bool IsForkserver(const std::string& command) {
  return absl::StrContains(command, "from multiprocessing.forkserver import");
}
// What multiprocessing starts before it pickles an object for the first worker, by its command line: resource_tracker
// (semaphore_tracker up to 3.7), forkserver; and the workers of spawn.
bool IsHelper(const std::string& command) {
  return absl::StrContains(command, "from multiprocessing.resource_tracker import") ||
         absl::StrContains(command, "from multiprocessing.semaphore_tracker import") || IsForkserver(command);
}
bool IsSpawned(const std::string& command) { return absl::StrContains(command, "from multiprocessing.spawn import"); }

}  // namespace

void StartMethodWatch::LookAt(int parent, const ProcessId& worker, bool pickling, absl::Duration t) {
  const auto id = pythons_.find(parent);
  if (id == pythons_.end() || looks_ >= kMostLooks) return;
  ++looks_;
  waiting_.reset();
  asked_ = t;
  next_look_ = t + kLongestLook;  // unless it is told before
  indexes_[id->second] = parent;
  if (pickling) {
    scout_->LookAtPickling(id->second);
  } else {
    scout_->Look(id->second, worker);
  }
}

// Ranks have loaders that are alike: what one of them sends is enough.
void StartMethodWatch::LookWhenDue(int parent, const ProcessId& worker, absl::Duration t) {
  if (loader_of_ && *loader_of_ != parent) return;
  if (t >= next_look_) {
    LookAt(parent, worker, /*pickling=*/false, t);
  } else {
    waiting_ = {parent, worker};
  }
}

void StartMethodWatch::Ask(const Event& event, const LivingProcess& process, const Processes& processes) {
  const LivingProcess* const parent = processes.Find(process.parent);
  if (const auto* python = event.As<PythonFound>()) {
    if (!python->problem.empty()) return;
    if (started_.contains(process.index) && watched_started_ < kMostStarted) {
      ++watched_started_;
      indexes_[process.id] = process.index;
      scout_->WatchStarted(process.id);
    }
    if (helpers_.contains(process.index)) return;
    pythons_[process.index] = process.id;
    indexes_[process.id] = process.index;
    scout_->Watch(process.id);
    // It was attached to: what it has may be gone when it starts workers, or it has forked some already.
    if (process.origin != Origin::kForked && !execed_.contains(process.index)) {
      const std::vector<const LivingProcess*> living = processes.by_index();
      const auto worker = std::find_if(living.begin(), living.end(), [&](const LivingProcess* one) {
        return one->parent == process.id && one->space != one->index;
      });
      LookAt(process.index, worker == living.end() ? ProcessId{} : (*worker)->id, /*pickling=*/false, event.t);
    }
  } else if (const auto* execed = event.As<ProcessExeced>()) {
    const bool helper = IsHelper(execed->command), spawned = IsSpawned(execed->command);
    execed_.insert(process.index);
    if (helper || spawned) helpers_.insert(process.index);
    if (spawned || IsForkserver(execed->command)) started_.insert(process.index);
    // It starts workers now: the next one may fail.
    if (spawned && parent != nullptr && pythons_.contains(parent->index)) scout_->Watch(parent->id);
    if (parent != nullptr && (helper || (spawned && !found_ && event.t >= next_look_))) {
      LookAt(parent->index, {}, /*pickling=*/true, event.t);
    } else if (parent != nullptr && spawned && found_) {
      LookWhenDue(parent->index, {}, event.t);
    }
  } else if (parent != nullptr && process.origin == Origin::kForked && process.space != process.index) {
    // Still the parent's program: not a command that it runs.
    if (pythons_.contains(parent->index)) pythons_[process.index] = process.id;
    LookWhenDue(parent->index, process.id, event.t);
  }
}

void StartMethodWatch::Add(std::vector<ScoutReport> reports, absl::Duration t, Sample* sample) {
  for (ScoutReport& report : reports) {
    const auto index = indexes_.find(report.id);
    if (index == indexes_.end()) continue;
    if (const auto* seen = std::get_if<StartMethodsSeen>(&report.what)) {
      // The few looks that are left should last for a while.
      next_look_ = std::max(t, asked_ + (found_ ? kBetweenLooks * (1 << std::max(looks_ - 1, 0)) : kBetweenLooks));
      if (found_ && seen->look.root.empty()) continue;  // nothing new
      found_ |= !seen->look.root.empty();
      if (seen->look.of_loader.value_or(false)) loader_of_ = index->second;
    }
    Event event = {.t = t, .index = index->second};
    std::visit([&](auto& what) { event.what = std::move(what); }, report.what);
    sample->events.push_back(std::move(event));
  }
}

void StartMethodWatch::Run(const std::vector<FollowedProcess>& followed, const Processes& processes, Sample* sample) {
  if (scout_->gone()) return;
  absl::flat_hash_map<int, const LivingProcess*> living;  // by index; only if it is needed
  for (const Event& event : sample->events) {
    if (!event.Is<PythonFound>() && !event.Is<ProcessExeced>() && !event.Is<ProcessStarted>()) continue;
    if (living.empty()) {
      for (const LivingProcess* process : processes.by_index()) living[process->index] = process;
    }
    const auto process = living.find(event.index);
    if (process != living.end()) Ask(event, *process->second, processes);
  }
  Add(scout_->Take(), sample->t, sample);
  if (waiting_ && sample->t >= next_look_) {
    const Waiting due = *std::exchange(waiting_, std::nullopt);
    if (found_) LookWhenDue(due.parent, due.worker, sample->t);
  }
  const absl::Duration end = BootTime() + kWaitForLast;
  for (const FollowedProcess& process : followed) {
    if (process.exited_ns == 0) continue;
    // One that ended well, or was killed, has nothing more to tell.
    const bool failed =
        process.exit_status && WIFEXITED(*process.exit_status) && WEXITSTATUS(*process.exit_status) != 0;
    const absl::Duration most = failed ? std::max(end - BootTime(), absl::ZeroDuration()) : absl::ZeroDuration();
    if (indexes_.contains(process.id)) Add(scout_->TakeLast(process.id, most), sample->t, sample);
    indexes_.erase(process.id);
    if (const LivingProcess* ended = processes.Find(process.id)) {
      pythons_.erase(ended->index);
      helpers_.erase(ended->index);
      started_.erase(ended->index);
      execed_.erase(ended->index);
    }
  }
}

}  // namespace cowprof
