// Looks from the first moment on, then ever more rarely: a worker that is spawned may import for many seconds before it
// is what it will be.
#include "attribution/identities.h"

#include <algorithm>
#include <utility>

namespace cowprof {
namespace {

constexpr absl::Duration kShortestGap = absl::Milliseconds(50), kLongestGap = absl::Minutes(1);
// As long as a process that was spawned may take to import what it needs.
constexpr absl::Duration kGapAtStart = absl::Milliseconds(250), kLongestStart = absl::Seconds(30);
// A batch's number is out of date by a twentieth of the worker's life at most, or by the shortest gap. None can be read
// between two batches.
constexpr absl::Duration kShortestGapOfBatches = absl::Milliseconds(100), kLongestGapOfBatches = absl::Seconds(30);
constexpr absl::Duration kGapToFirstBatch = absl::Milliseconds(50);
// Between two ticks.
constexpr absl::Duration kYoung = absl::Milliseconds(300);
constexpr int kMostLooksBetween = 16;

bool IsReadable(const Member& member) { return member.program->python() == Program::Python::kReadable; }

}  // namespace

const Identities::State* Identities::StateOf(const ProcessId& id) const {
  const auto serial = serials_.find(id);
  const auto state = serial == serials_.end() ? states_.end() : states_.find(serial->second);
  return state == states_.end() ? nullptr : &state->second;
}

void Identities::Read(const std::vector<FollowedProcess>& processes, absl::Duration now, Sample* sample) {
  for (Event& event : std::exchange(pending_.events, {})) sample->events.push_back(std::move(event));
  absl::flat_hash_set<ProcessId> forking;
  std::vector<std::pair<const FollowedProcess*, const Member*>> living;
  for (const FollowedProcess& process : processes) {
    const auto known = states_.find(process.serial);
    if (known == states_.end()) forking.insert(process.parent);
    const Member* member = programs_->Find(process.serial);
    if (member == nullptr || process.exited_ns != 0) continue;
    if (known == states_.end() || known->second.image != member->program->image()) Begin(process, *member, now, sample);
    living.emplace_back(&process, member);
  }
  // A new child has what its parent set in its environment, and the frame that the parent was in: look at the parent
  // first.
  for (const auto& [process, member] : living) {
    if (!forking.contains(process->id)) continue;
    LookAtEnvironment(*member, now, sample);
    if (IsReadable(*member)) LookForWork(*member, StateOf(process->parent), now, sample);
  }
  for (const auto& [process, member] : living) {
    const State& state = states_.at(member->serial);
    if (IsReadable(*member) && (now >= state.next_look || (state.loader && now >= state.next_batch)))
      LookAt(*member, StateOf(process->parent), now, sample);
  }
  PlanLook(now);
  absl::flat_hash_map<int, std::pair<const Member*, const State*>> read;  // by index
  for (const FollowedProcess& process : processes) {
    const Member* member = programs_->Find(process.serial);
    const auto state = states_.find(process.serial);
    if (member != nullptr) read[member->index] = {member, state == states_.end() ? nullptr : &state->second};
  }
  for (ProcessSample& row : sample->processes) {
    const auto [member, state] = read[row.index];
    if (member == nullptr) continue;
    if (state != nullptr) {
      row.framework = state->framework;
      row.persistent = state->persistent;
      row.loader = state->loader;
    }
    // Not kept: a program that starts maps Python a moment after its first look.
    if (member->program->python() == Program::Python::kNone) row.framework = Framework::kNative;
  }
}

// A process that called exec has the environment that the kernel shows; one that was forked has its parent's.
void Identities::Begin(const FollowedProcess& process, const Member& member, absl::Duration now, Sample* sample) {
  const State* const parent = StateOf(process.parent);
  State state = {.image = member.program->image(), .parent = process.parent, .first_look = now, .next_look = now};
  if (const auto known = states_.find(process.serial); known != states_.end()) {
    state.rank = known->second.rank;
    state.rank_told = known->second.rank_told;
  } else if (parent != nullptr) {
    state.rank = parent->rank;
  }
  RankFacts rank;
  if (parent != nullptr && parent->image == state.image) {
    state.environment = parent->environment;
    rank = parent->rank;
  } else {
    // An exec keeps the environment as a rule: what a Lightning training starts after its end is still its own.
    rank = RankFactsOf(ParseEnvironment(proc_.ReadHead(process.id.pid, "environ", kMaxEnvironmentBytes)), state.rank);
  }
  states_[process.serial] = std::move(state);
  serials_[process.id] = process.serial;
  TellRank(member, rank, now, sample);
}

void Identities::LookAt(const Member& member, const State* parent, absl::Duration now, Sample* sample) {
  State& state = states_.at(member.serial);
  if (now >= state.next_look) {
    const absl::Duration life = now - state.first_look;
    const bool starting = state.duty && state.duty->found.duty == Duty::kUnknown && life < kLongestStart;
    state.next_look = now + (starting ? kGapAtStart : std::clamp(life / 8, kShortestGap, kLongestGap));
    LookAtEnvironment(member, now, sample);
    LookForWork(member, parent, now, sample);
  }
  if (!state.duty || state.duty->found.duty != Duty::kLoader) return;
  if (!state.persistent) {
    state.persistent =
        PersistentWorkers(member.program->interpreter(), member.program->MemoryOf(member.id.pid), state.duty->frame);
  }
  LookAtBatch(member, now, &state);
}

void Identities::LookAtBatch(const Member& member, absl::Duration now, State* state) {
  const bool seen = state->loader && state->loader->batch;
  state->next_batch = now + std::clamp((now - state->first_look) / 20, seen ? kShortestGapOfBatches : kGapToFirstBatch,
                                       kLongestGapOfBatches);
  std::optional<LoaderWorker> worker =
      ReadLoader(member.program->interpreter(), member.program->MemoryOf(member.id.pid), state->duty->frame,
                 &state->loader_locals);
  if (!worker) return;
  if (!worker->batch && state->loader) worker->batch = state->loader->batch;  // it waits for the next one
  state->loader = worker;
}

bool Identities::State::is_young(absl::Duration now) const {
  return now - first_look < kYoung && (!duty || duty->found.duty == Duty::kUnknown);
}

void Identities::LookBetweenTicks(absl::Duration now) {
  int looks = 0;  // at frames
  for (auto& [serial, state] : states_) {
    const bool young = state.is_young(now) && now >= state.next_look && looks < kMostLooksBetween;
    if (!young && !(state.loader && now >= state.next_batch)) continue;
    const Member* member = programs_->Find(serial);
    if (member == nullptr || member->program->image() != state.image || !IsReadable(*member)) {
      state.next_batch = absl::InfiniteDuration();  // until the next tick has looked
    } else if (young) {
      ++looks;
      LookAt(*member, StateOf(state.parent), now, &pending_);
    } else {
      LookAtBatch(*member, now, &state);
    }
  }
  PlanLook(now);
}

// One look for all that are due soon.
void Identities::PlanLook(absl::Duration now) {
  next_look_ = absl::InfiniteDuration();
  for (const auto& [serial, state] : states_) {
    if (state.loader) next_look_ = std::min(next_look_, state.next_batch);
    if (state.is_young(now)) next_look_ = std::min(next_look_, state.next_look);
  }
  next_look_ = std::max(next_look_, now + kShortestGap);
}

// What a process is for does not change once it is known; then its framework does not either.
void Identities::LookForWork(const Member& member, const State* parent, absl::Duration now, Sample* sample) {
  State& state = states_.at(member.serial);
  const bool known = state.duty && state.duty->found.duty != Duty::kUnknown;
  if (known && (state.framework || now < state.next_look_for_framework)) return;
  Work work = FindWork(member.program->interpreter(), member.program->MemoryOf(member.id.pid));
  state.next_look_for_framework = now + std::clamp(now - state.first_look, kShortestGap, kLongestGap);
  // The last one found counts: a process that was just forked still has the frames that its parent was in.
  if (work.framework) state.framework = work.framework;
  std::optional<DutyFrame> duty = std::move(work.duty);
  if (known || !duty) return;
  // The frame of the parent, which was working when it forked this process.
  const bool inherited = parent != nullptr && parent->image == state.image && parent->duty &&
                         parent->duty->frame.frame == duty->frame.frame && duty->frame.frame != 0;
  if (inherited) duty->found.duty = Duty::kUnknown;
  // Workers of a server that forks without a bootstrap have its frames, too.
  if (parent != nullptr && parent->image == state.image && parent->duty &&
      parent->duty->found.configured == duty->found.configured)
    duty->found.configured.reset();
  const bool is_new = !state.duty || !(state.duty->found == duty->found);
  state.duty = std::move(duty);
  if (is_new && !(state.duty->found == DutyFound{}))
    sample->events.push_back({.t = now, .index = member.index, .what = state.duty->found});
}

void Identities::LookAtEnvironment(const Member& member, absl::Duration now, Sample* sample) {
  State& state = states_.at(member.serial);
  if (!IsReadable(member)) return;
  if (!state.environment) {
    const uint64_t address = member.program->EnvironAddress(member.id.pid);
    if (address == 0) return;
    state.environment.emplace(address);
  }
  const std::optional<JobVariables> variables = state.environment->ReadChanged(member.program->MemoryOf(member.id.pid));
  if (variables) TellRank(member, RankFactsOf(*variables, state.rank), now, sample);
}

// Without an event a process has its parent's rank.
void Identities::TellRank(const Member& member, const RankFacts& rank, absl::Duration now, Sample* sample) {
  State& state = states_.at(member.serial);
  const bool is_new = !(state.rank == rank) || (!state.rank_told && rank.source != RankSource::kNone);
  state.rank = rank;
  if (!is_new) return;
  state.rank_told = true;
  sample->events.push_back({.t = now, .index = member.index, .what = RankFound{rank}});
}

void Identities::Forget(const absl::flat_hash_set<uint32_t>& serials) {
  for (const uint32_t serial : serials) states_.erase(serial);
  absl::erase_if(serials_, [&](const auto& entry) { return serials.contains(entry.second); });
}

}  // namespace cowprof
