// Diagnosis of processes that fork while they have threads: what may happen in a child, not what did.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "model/facts/bad_end.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/fork_hazards.h"
#include "model/judge/post_mortem.h"
#include "model/judge/start_methods.h"
#include "model/judge/unexplained.h"

namespace cowprof {
namespace {

struct Found {
  const ProcessModel* process = nullptr;
  const ForkHazardSeen* seen = nullptr;  // the look that shows the worst one
  std::vector<Hazard> hazards;
};

// Whether all children that it forked are workers of torch's DataLoader, which call torch.set_num_threads(1) before
// anything else.
bool ForksLoadersOnly(const RunModel& model, int index) {
  bool any = false;
  for (const ProcessModel& child : model.processes) {
    if (child.parent != index || child.origin != Origin::kForked || child.execed) continue;
    if (!child.loader && child.duty.duty != Duty::kLoader) return false;
    any = true;
  }
  return any;
}

Found FindHazards(const RunModel& model, const ProcessModel& process, const SeenForkHazard& known) {
  Found found = {.process = &process, .seen = &known.last, .hazards = HazardsOf(known.last)};
  if (known.last.locks.empty() && known.with_locks) {
    for (Hazard& hazard : HazardsOf(*known.with_locks)) {
      if (hazard.kind != HazardKind::kLock && hazard.kind != HazardKind::kImport) continue;
      found.seen = &*known.with_locks;
      found.hazards.push_back(std::move(hazard));
    }
  }
  // The error of a worker that uses CUDA is raised again in the trainer, which ends by it.
  const bool may_be_cuda = HasBadEnd(process, model) && !ChildEndedBadly(model);
  if (ForksLoadersOnly(model, process.index))
    std::erase_if(found.hazards, [may_be_cuda](const Hazard& hazard) {
      return hazard.kind == HazardKind::kOpenMp || (hazard.kind == HazardKind::kCuda && !may_be_cuda);
    });
  std::stable_sort(found.hazards.begin(), found.hazards.end(),
                   [](const Hazard& a, const Hazard& b) { return a.confidence > b.confidence; });
  return found;
}

std::string WhenSeen(const ForkHazardSeen& seen) {
  if (seen.child < 0) return "when cowprof attached";
  if (seen.delay >= absl::Seconds(1)) return absl::StrCat(HumanDuration(seen.delay), " after a fork");
  return absl::StrCat(std::max<int64_t>(1, absl::ToInt64Milliseconds(seen.delay)), " ms after a fork");
}

std::string AfterForkAdviceTo(int parent, const RunModel& model) {
  for (const ProcessModel& child : model.processes) {
    if (child.parent != parent || child.origin != Origin::kForked || child.execed) continue;
    if (std::string advice = AfterForkAdvice(child, model); !advice.empty()) return advice;
  }
  return "";
}

std::string Processes(uint64_t count) { return count == 1 ? "a process" : absl::StrCat(count, " processes"); }

}  // namespace

std::string AfterForkAdvice(const ProcessModel& worker, const RunModel& model) {
  const Framework framework = worker.framework.value_or(Framework::kFork);
  const bool uwsgi = worker.comm == "uwsgi";
  if (framework != Framework::kGunicorn && framework != Framework::kCelery && !uwsgi) return "";
  // What a worker forks has the same frames, and may be started in another way.
  const ProcessModel* server = model.Find(worker.parent);
  const ProcessModel* above = server == nullptr || server->execed ? nullptr : model.Find(server->parent);
  if (above != nullptr && (uwsgi ? above->comm == worker.comm : above->framework == worker.framework)) return "";
  constexpr absl::string_view kIn = "Start threads, and make clients and loggers, after the fork: in ";
  if (framework == Framework::kGunicorn) return absl::StrCat(kIn, "gunicorn's post_fork, or without --preload.");
  if (framework == Framework::kCelery) {
    return absl::StrCat(
        kIn, "a handler of Celery's worker_process_init; or use --pool=threads or --pool=solo, which don't fork.");
  }
  return absl::StrCat(kIn, "a function with uWSGI's @postfork, or with lazy-apps = true.");
}

Diagnosis ForkHazards(const Facts& facts) {
  std::vector<Found> all;
  for (const auto& [index, known] : facts.model.fork_hazards) {
    const ProcessModel* process = facts.model.Find(index);
    if (process == nullptr || process->forks == 0) continue;
    Found found = FindHazards(facts.model, *process, known);
    if (!found.hazards.empty()) all.push_back(std::move(found));
  }
  if (all.empty()) return {};
  std::stable_sort(all.begin(), all.end(), [](const Found& a, const Found& b) {
    return a.hazards.front().confidence > b.hazards.front().confidence;
  });
  const Found& worst = all.front();
  const Hazard& first = worst.hazards.front();
  Diagnosis diagnosis = {.id = "fork-hazard", .confidence = first.confidence, .harm = Harm::kPossible};
  diagnosis.summary = absl::StrCat("The ", NameOf(*worst.process), " forked ", Processes(worst.process->forks), "; ",
                                   WhenSeen(*worst.seen), " it had ", first.what, ": ", first.effect, ".");
  for (const Found& found : all) diagnosis.pids.push_back(found.process->id.pid);
  for (const Hazard& hazard : worst.hazards) {
    if (&hazard != &first) diagnosis.evidence.push_back(absl::StrCat("also ", hazard.what, ": ", hazard.effect));
  }
  for (std::string& line : ThreadLines(*worst.seen)) diagnosis.evidence.push_back(std::move(line));
  if (all.size() > 1)
    diagnosis.evidence.push_back(
        absl::StrCat("the same may be so of ", all.size() - 1, " more of its processes that fork"));
  if (diagnosis.evidence.empty())  // its threads could not be listed
    diagnosis.evidence.push_back(absl::StrCat("seen ", WhenSeen(*worst.seen), ": ", first.what));
  // To start workers before the threads is not possible there.
  if (worst.process->role == Role::kForkserver) {
    diagnosis.advice.push_back(InsteadOfPreloading());
    return diagnosis;
  }
  for (const Hazard& hazard : worst.hazards)
    diagnosis.advice.insert(diagnosis.advice.end(), hazard.advice.begin(), hazard.advice.end());
  if (std::string advice = AfterForkAdviceTo(worst.process->index, facts.model); !advice.empty()) {
    diagnosis.advice.push_back(std::move(advice));
    return diagnosis;
  }
  const SeenStartMethods* const seen = facts.start_methods();
  const bool judged = seen != nullptr && seen->index == worst.process->index;
  diagnosis.advice.push_back(OtherStartMethods(judged ? StartMethodsSentence(seen->look) : ""));
  return diagnosis;
}

}  // namespace cowprof
