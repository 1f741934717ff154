#include "recorder/fork_hazard_watch.h"

#include <algorithm>
#include <utility>

#include "recorder/fork_hazard_look.h"

namespace cowprof {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Seconds(1), kMostBetweenLooks = absl::Minutes(1);
constexpr uint64_t kLooksUntilSlower = 16;  // then the pause doubles: a recording of days stays small
constexpr uint64_t kMostAttachLooks = 8;    // processes

absl::Duration PauseAfter(uint64_t looks) {
  const uint64_t doublings = std::min<uint64_t>(looks / kLooksUntilSlower, 10);
  return std::min(kBetweenLooks * static_cast<int64_t>(uint64_t{1} << doublings), kMostBetweenLooks);
}

}  // namespace

bool ForkHazardWatch::TakeWake(absl::Duration t) {
  wakes_ = std::min(kMostWakes, wakes_ + kWakesPerSecond * absl::ToDoubleSeconds(t - last_t_));
  last_t_ = t;
  if (t < next_wake_ || wakes_ < 1) return false;
  wakes_ -= 1;
  next_wake_ = t + kBetweenLooks;
  return true;
}

void ForkHazardWatch::AfterForks(const Processes& processes, const Programs& programs, Sample* sample) {
  const size_t count = sample->events.size();  // looks add events
  for (size_t i = 0; i < count; ++i) {
    const Event& event = sample->events[i];
    if (event.Is<ProcessExeced>()) Forget(event.index);
    const auto* started = event.As<ProcessStarted>();
    if (started == nullptr) continue;
    if (started->origin != Origin::kForked) {
      if (attach_looks_ < kMostAttachLooks) waiting_[event.index] = {.child = {.t = event.t}, .children = {}};
      continue;
    }
    // Its own program by now: a command that it runs. Of several forks the last is the one that the look is close to.
    const LivingProcess* child = processes.Find(started->id);
    if (child == nullptr || child->space == child->index || started->parent < 0) continue;
    Fork& fork = waiting_[started->parent];
    fork.child = {event.index, started->id, event.t};
    if (fork.children.size() < kMostChildren) fork.children.push_back(fork.child);
  }
  if (waiting_.empty()) return;
  for (const LivingProcess* process : processes.by_index()) {
    const auto fork = waiting_.find(process->index);
    if (fork == waiting_.end() || fork->second.child.index < 0) continue;
    const Fork copy = fork->second;  // a look ends the waiting
    Look(*process, copy, processes, programs, false, sample);
  }
}

void ForkHazardWatch::AfterPrograms(const Processes& processes, const Programs& programs, Sample* sample) {
  if (waiting_.empty()) return;
  std::map<int, Fork> waiting = waiting_;
  for (const LivingProcess* process : processes.by_index()) {
    const auto fork = waiting.find(process->index);
    if (fork == waiting.end()) continue;
    Look(*process, fork->second, processes, programs, fork->second.child.index >= 0, sample);
    waiting.erase(fork);
  }
  for (const auto& [ended, unused] : waiting) Forget(ended);
}

const ForkSnapshot* ForkHazardWatch::SnapshotOf(int index) const {
  const auto found = at_fork_.find(index);
  return found == at_fork_.end() ? nullptr : &found->second;
}

// The last look tells most of the children whose forks were closest to it.
void ForkHazardWatch::KeepFor(const std::vector<Child>& children, const Known& known, const Processes& processes) {
  if (known.last == nullptr) return;
  for (const Child& child : children) {
    if (processes.Find(child.id) == nullptr) continue;
    const absl::Duration offset = known.last_end - child.t;
    const auto [kept, is_new] = at_fork_.try_emplace(child.index, ForkSnapshot{known.last, offset});
    if (!is_new && absl::AbsDuration(offset) < absl::AbsDuration(kept->second.offset))
      kept->second = {known.last, offset};
  }
}

void ForkHazardWatch::Look(const LivingProcess& process, const Fork& fork, const Processes& processes,
                           const Programs& programs, bool last_chance, Sample* sample) {
  Known& known = known_[process.index];
  const absl::Duration began = now_();
  std::vector<pid_t> tids = ListThreadIds(proc_, process.id.pid);
  const bool changed = tids != known.tids;
  // The threads of the last look still live, so they did at these forks.
  if (!changed) KeepFor(fork.children, known, processes);
  if (began < known.next_look) return;  // stays waiting
  if (tids.empty() || (tids.size() == 1 && !known.told) || (!changed && !known.has_python)) {
    if (changed) known.last.reset();
    known.tids = std::move(tids);
    waiting_.erase(process.index);
    return;
  }
  const std::shared_ptr<Program> program = programs.Of(process.id);
  // With a reason it may never become known.
  const bool unknown =
      program == nullptr || (program->python() == Program::Python::kNotKnownYet && program->reason().empty());
  if (unknown && !last_chance) return;
  const bool reads_python = !unknown && program->python() == Program::Python::kReadable;
  ProgramFiles files;
  const ProcessMemory memory(process.id.pid, proc_, &files);
  HazardSubject subject = {.pid = process.id.pid,
                           .memory = memory,
                           .python = reads_python ? &program->interpreter() : nullptr,
                           .tids = tids};
  std::optional<ProcessMemory> child_memory;
  const bool at_attach = fork.child.index < 0;
  if (!at_attach) {
    subject.child = fork.child.id.pid;
    subject.forked_ns = fork.child.id.start_ns;
    child_memory.emplace(fork.child.id.pid, proc_, &files);
    subject.child_memory = &*child_memory;
  }
  ForkHazardSeen seen = LookAtForkHazard(proc_, subject);
  waiting_.erase(process.index);
  if (at_attach) ++attach_looks_;
  seen.child = fork.child.index;
  known.last_end = now_();
  seen.delay = at_attach ? absl::ZeroDuration() : std::max(known.last_end - fork.child.t, absl::ZeroDuration());
  known.last = std::make_shared<const ForkHazardSeen>(seen);
  KeepFor(fork.children, known, processes);
  known.tids = std::move(tids);
  known.next_look = now_() + PauseAfter(++known.looks);
  known.has_python =
      std::any_of(seen.threads.begin(), seen.threads.end(), [](const HazardThread& thread) { return thread.python; });
  const bool worth = changed || (!seen.locks.empty() && seen.locks != known.locks);
  if (!worth || (seen.threads.empty() && !known.told && !seen.cuda)) return;
  known.told = true;
  known.locks = seen.locks;
  sample->events.push_back({.t = fork.child.t, .index = process.index, .what = std::move(seen)});
}

}  // namespace cowprof
