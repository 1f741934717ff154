// Runs the parts in their order: programs before causes, causes before pages and copy sites.
#include "attribution/attribution.h"

#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

bool HasForked(const std::vector<Event>& events) {
  return std::any_of(events.begin(), events.end(), [](const Event& event) {
    const auto* started = event.As<ProcessStarted>();
    return started != nullptr && started->origin == Origin::kForked;
  });
}

bool HasOomVictim(const std::vector<Event>& events) {
  return std::any_of(events.begin(), events.end(), [](const Event& event) { return event.Is<OomVictim>(); });
}

bool WasKilled(const FollowedProcess& process) { return process.exit_status && WIFSIGNALED(*process.exit_status); }

}  // namespace

Attribution::Attribution(const ProcFs& proc, const AttributionOptions& options, FaultSource* faults)
    : options_(options),
      faults_(faults),
      programs_(proc, faults),
      causes_(&programs_, faults),
      copy_sites_(&programs_, &causes_, faults),
      flags_(&programs_),
      identities_(proc, &programs_) {
  faults_->LogPages(true);
}

void Attribution::Attribute(const std::vector<FollowedProcess>& processes, const Pull& pull, bool last,
                            Sample* sample) {
  const absl::Duration t = sample->t;
  schedule_.Tick(t, HasForked(sample->events));
  const bool again = schedule_.may_tick(), news = faults_->TakeNews(again);
  if (again && (news || t >= programs_.next_urgent_look())) schedule_.SpendTick();
  for (Event& event : options_.causes ? programs_.Learn(processes, t) : std::vector<Event>())
    sample->events.push_back(std::move(event));
  causes_.Judge(processes, pull, sample);
  LogPages(pull.pages, options_.page_bytes, programs_, causes_, &page_runs_);
  flags_.Read(processes, t, sample);
  identities_.Read(processes, t, sample);
  // Report what a process copied with its end, so that its state can be dropped. After a kill, report everything: there
  // may be no next time.
  absl::flat_hash_set<int> ended;  // by index
  bool all = last || schedule_.copy_sites_due(t) || HasOomVictim(sample->events), killed = false;
  for (const FollowedProcess& process : processes) {
    const Member* member = process.exited_ns != 0 ? programs_.Find(process.serial) : nullptr;
    if (member == nullptr) continue;
    ended.insert(member->index);
    all |= member->index == 0;
    killed |= WasKilled(process);
  }
  if (!all && killed && schedule_.may_tell_all()) {
    schedule_.SpendKill();
    all = true;
  }
  if (news || all || !ended.empty()) ReadCopySites();
  if (all || !ended.empty() || schedule_.pages_due(t)) TellPages(sample);
  if (all || !ended.empty()) copy_sites_.Tell(all ? nullptr : &ended, sample);
  if (!all) return;
  StopLogWhenFull(sample);
  schedule_.ToldCopySites(t);
}

void Attribution::ReadCopySites() {
  const absl::StatusOr<std::vector<CopySiteRow>> rows = faults_->PullCopySites();
  if (!rows.ok()) return;
  copy_sites_.Read(*rows);
  // The last rows of processes that ended before this tick have been read.
  const Programs::Forgotten forgotten = programs_.ForgetEnded();
  causes_.Forget(forgotten.images);
  copy_sites_.Forget(forgotten);
  flags_.Forget(forgotten.serials);
  identities_.Forget(forgotten.serials);
}

void Attribution::TellPages(Sample* sample) {
  sample->pages = page_runs_.Take();
  schedule_.ToldPages(sample->t);
}

void Attribution::StopLogWhenFull(Sample* sample) {
  if (!page_runs_.full() || !std::exchange(logging_pages_, false)) return;
  faults_->LogPages(false);
  sample->events.push_back(
      {.t = sample->t,
       .what = Note{absl::StrCat("the map of copied pages ends here, after ", CopiedPageRuns::kMostPages,
                                 " pages; copies are counted and explained as before")}});
}

absl::Duration Attribution::next_extra_tick() const {
  return schedule_.may_tick() ? programs_.next_urgent_look() : absl::InfiniteDuration();
}

}  // namespace cowprof
