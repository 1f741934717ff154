// Diagnoses of processes that were killed, or that an OOM daemon ended; post_mortem.cc finds what each one died of.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/facts/bad_end.h"
#include "model/facts/shm.h"
#include "model/format.h"
#include "model/judge/alert.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/post_mortem.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr size_t kMostTold = 3;                              // of processes that died of the same cause
constexpr absl::Duration kShortlyBefore = absl::Minutes(1);  // a kill
constexpr double kSeen = 0.99, kConcluded = 0.8;             // by a probe; from counts that rose at the same time

// The kernel's OOM killer, or a daemon, for the same cause "oom-host".
enum class By { kKernel, kDaemon };

// Returns the processes whose end this diagnosis explains, such as "shm-full". In order of time.
std::vector<const ProcessModel*> EndedBy(absl::string_view cause, const Facts& facts, By by = By::kKernel) {
  std::vector<const ProcessModel*> ended;
  for (const ProcessModel& process : facts.model.processes) {
    const bool by_daemon = cause == "oom-host" && !process.oom;
    if (process.exit && facts.findings.EndOf(process).cause == cause && by_daemon == (by == By::kDaemon))
      ended.push_back(&process);
  }
  std::stable_sort(ended.begin(), ended.end(),
                   [](const ProcessModel* a, const ProcessModel* b) { return *a->ended < *b->ended; });
  return ended;
}

// Only the first few deaths are evidence: hundreds may have died.
Diagnosis FromDeaths(const Facts& facts, const char* id, By by = By::kKernel) {
  Diagnosis diagnosis;
  const std::vector<const ProcessModel*> dead = EndedBy(id, facts, by);
  if (dead.empty()) return diagnosis;
  const bool seen = facts.model.info.exactness != Exactness::kPageMap;
  diagnosis = {.id = id, .confidence = seen ? kSeen : kConcluded, .harm = Harm::kDeath};
  for (const ProcessModel* process : dead) {
    diagnosis.pids.push_back(process->id.pid);
    if (diagnosis.pids.size() > kMostTold) continue;
    const PostMortem& found = facts.findings.EndOf(*process);
    diagnosis.evidence.push_back(
        absl::StrCat(NameOf(*process, facts.model), " ended at ", HumanDuration(*process->ended), ": ", found.text));
    diagnosis.evidence.insert(diagnosis.evidence.end(), found.evidence.begin(), found.evidence.end());
  }
  if (dead.size() > kMostTold) diagnosis.evidence.push_back(absl::StrCat("and ", dead.size() - kMostTold, " more"));
  return diagnosis;
}

// "worker 4711", "worker 4711 and 3 others"
std::string Dead(const Diagnosis& diagnosis, const Facts& facts, By by = By::kKernel) {
  const std::string first = NameOf(*EndedBy(diagnosis.id, facts, by).front(), facts.model);
  const size_t others = diagnosis.pids.size() - 1;
  return others == 0 ? first : absl::StrCat(first, " and ", Plural(others, "other"));
}

// In use when the OOM killer chose. A probe does not read that of the host.
uint64_t UsedAt(const OomKill& kill, const RunModel& model) {
  const LimitModel* host = LimitOf(model, LimitKind::kHost);
  const bool known = kill.limit.used > 0 || kill.limit.kind != LimitKind::kHost || host == nullptr;
  return known ? kill.limit.used : host->peak;
}

bool IsPrivateMemoryKnown(const OomKill& kill, const RunModel& model) {
  return std::all_of(model.processes.begin(), model.processes.end(), [&](const ProcessModel& process) {
    return process.private_bytes || process.started > kill.t || (process.ended && *process.ended < kill.t);
  });
}

// In /dev/shm at its fullest, of what recorded processes made, map or hold open: others may use the same one. Bytes.
uint64_t SharedByRecorded(const RunModel& model) {
  if (!model.shm_peak) return 0;
  const auto is_recorded = [&](pid_t pid) {
    return absl::c_any_of(model.processes, [pid](const ProcessModel& process) { return process.id.pid == pid; });
  };
  uint64_t bytes = 0;
  for (const ShmSegment& segment : model.shm_peak->segments) {
    if (!IsOnMount(*model.shm_peak, segment)) continue;
    if (is_recorded(segment.creator) || absl::c_any_of(OwnersOf(segment), is_recorded)) bytes += segment.bytes;
  }
  return bytes;
}

// New memory of the top contributor: what was pickled to it, what keeps rising, or what it loads and buffers.
std::string AdviceOnNewMemory(const ProcessModel& process, uint64_t bytes, const Facts& facts) {
  const uint64_t copied = process.inherited_copies() * facts.page_bytes;
  const Pickled pickled = PickledIn(facts.model, process, SaturatingSubtract(bytes, copied));
  if (process.is_worker() && !pickled.or_imported && pickled.bytes() > bytes / 2) {
    return pickled.at_start >= pickled.received
               ? "Most of the growth is new memory that was pickled to the worker as it was started: send it a path "
                 "instead, and map the file (numpy.memmap, Arrow)."
           : ReceivesTasks(process)
               ? "Most of the growth is new memory, arguments that were pickled and sent to the worker: send an index "
                 "or a path instead."
               : "Most of the growth is new memory that the worker received through a queue or pipe: limit how much "
                 "it keeps, or send an index or a path instead.";
  }
  const char* const more = facts.dataloader() ? ", or reduce the batch size and prefetch_factor." : ".";
  if (KeepsGrowing(process, facts))
    return absl::StrCat("Most of the growth is new memory that kept rising: look for a cache or a list that only grows",
                        more);
  const char* const what = !process.is_worker() ? "data that it loads, or a buffer"
                           : facts.dataloader()
                               ? "a shuffle buffer, decoded samples (batch_size, prefetch_factor), data "
                                 "or a model that each worker loads, times the number of workers"
                               : "what each worker loads or buffers, times the number of workers";
  return absl::StrCat("Most of the growth is new memory, which was not seen to rise steadily: ", what,
                      ". If it rises from item to item, look for a cache or a list that only grows.");
}

// Whether there is a finding on what workers copied.
bool CopiesAreTold(const Facts& facts) {
  for (const auto diagnose : {CowRefcount, TorchRefcount, CowGcHeader, CowData, AllocatorReuse})
    if (!diagnose(facts).id.empty()) return true;
  return false;
}

// Columns have no reference counts and no cached hashes. Against other causes the finding on them says what helps.
std::string AdviceOnCopies(const ProcessModel& process, const Facts& facts) {
  const std::string copies = "Most of the growth is copies of what the parent holds";
  const CauseCounts causes = process.causes.value_or(CauseCounts{});
  const auto mostly = [&](std::initializer_list<Cause> some) { return 2 * CopiesBy(some, causes) > Sum(causes); };
  if (!facts.native() && mostly({Cause::kRefcount, Cause::kHash})) {
    return absl::StrCat(copies, ": keep that in columns (numpy arrays, Arrow tables, tensors) instead of objects.",
                        CopiesAreTold(facts) ? " The findings on copies say which." : "");
  }
  const Diagnosis found = mostly({Cause::kNativeRefcount})         ? TorchRefcount(facts)
                          : mostly({Cause::kGcHeader})             ? CowGcHeader(facts)
                          : mostly({Cause::kData, Cause::kKernel}) ? CowData(facts)
                                                                   : Diagnosis{};
  if (!found.advice.empty()) return absl::StrCat(copies, ". ", found.advice[0]);
  return absl::StrCat(copies, ".", CopiesAreTold(facts) ? " The findings on copies say why." : "");
}

// What the last alert on that limit before a kill said grew: nothing that was recorded. Null: not so, or long before.
const Alert* OthersGrewBefore(const OomKill& kill, const Facts& facts) {
  const Alert* last = nullptr;
  for (const Alert& alert : facts.findings.alerts) {
    const bool of_it = alert.rule != AlertRule::kHang && alert.limit_key() == kill.limit.key();
    if (of_it && !alert.over && alert.t <= kill.t && kill.t - alert.t <= kShortlyBefore) last = &alert;
  }
  return last != nullptr && last->index < 0 && last->cause.empty() ? last : nullptr;
}

// What helps depends on what the memory was: shared memory, inherited pages and why they were copied, pages of files,
// or other new memory of the top contributor.
std::vector<std::string> AdviceAgainst(const OomKill& kill, const Facts& facts) {
  const RunModel& model = facts.model;
  const Framework framework = facts.framework;
  std::vector<std::string> advice;
  const uint64_t used = UsedAt(kill, model);
  if (kill.recorded_bytes < kMostOfIt * used) {
    if (const uint64_t shared = SharedByRecorded(model); shared >= kMostOfIt * used && shared <= used) {
      return {absl::StrCat(
          "Shared memory (", Printable(model.shm_peak->mount), ") of the recorded processes held up to ",
          HumanBytes(shared), " of ", HumanBytes(used), " in use: keep less in it",
          framework == Framework::kDataLoader ? ", by fewer workers, a smaller prefetch_factor or batch_size." : ".")};
    }
    // The mount's usage is read at every tick. Looks, which know the owners, are rare, and list only the largest
    // segments.
    if (const LimitModel* shm = LimitOf(model, LimitKind::kShm);
        shm != nullptr && shm->peak >= kMostOfIt * used && shm->peak <= used) {
      return {absl::StrCat("Shared memory (", Printable(shm->now.name), ") held up to ", HumanBytes(shm->peak), " of ",
                           HumanBytes(used), " in use. If that was this job's, keep less in it.")};
    }
    if (IsPrivateMemoryKnown(kill, model)) {
      if (kill.limit.kind == LimitKind::kHost) return {};  // OomHost() and OomDaemon() say it
      return {
          "The recorded processes explain less than half of what was in use: find what else counts against this "
          "limit."};
    }
  }
  if (OthersGrewBefore(kill, facts) != nullptr) {
    advice.push_back("What grew last was outside the recorded processes: find what else counts against this limit.");
  }
  const ProcessModel* const found = model.Find(kill.top_contributor);
  if (found == nullptr) return advice;
  const ProcessModel& top_contributor = *found;
  // Not against its new pages: most of these may have been given back since.
  const uint64_t half = kill.top_contributor_bytes / model.info.page_bytes / 2;
  const bool copied = top_contributor.shared_copies() > half;
  if (SaturatingSubtract(top_contributor.copies_of_files, top_contributor.before_sharing().of_files) > half) {
    advice.push_back(
        "Most of the growth is pages of files that it maps privately and writes to. Where no write is meant, map the "
        "file for reading (mode=\"r\").");
  } else if (copied) {
    advice.push_back(AdviceOnCopies(top_contributor, facts));
  } else {
    advice.push_back(AdviceOnNewMemory(top_contributor, kill.top_contributor_bytes, facts));
  }
  if (top_contributor.is_worker() && top_contributor.role != Role::kRank)
    advice.push_back(
        absl::StrCat("Use fewer workers: each can grow like this one.",
                     copied && framework == Framework::kDataLoader ? " num_workers=0 needs none of it." : ""));
  return advice;
}

// "cgroup /job hit its limit of 1.0 GiB", of each cgroup whose limit killed one of them.
std::string LimitsHit(const Diagnosis& diagnosis, const Facts& facts) {
  std::vector<std::string> told;
  for (const ProcessModel* process : EndedBy(diagnosis.id, facts)) {
    if (!process->oom) continue;
    const LimitSample& limit = process->oom->limit;
    std::string text = absl::StrCat(FormatLimit(limit), " hit its limit of ", HumanBytes(limit.limit));
    if (std::find(told.begin(), told.end(), text) == told.end()) told.push_back(std::move(text));
  }
  const size_t more = told.size() > kMostTold ? told.size() - kMostTold : 0;
  told.resize(told.size() - more);
  if (more > 0) told.push_back(absl::StrCat(more, " more did"));
  return absl::StrJoin(told, ", ");
}

const OomKill& FirstKill(const Diagnosis& diagnosis, const Facts& facts) {
  return *EndedBy(diagnosis.id, facts).front()->oom;
}

}  // namespace

Diagnosis OomCgroup(const Facts& facts) {
  Diagnosis diagnosis = FromDeaths(facts, "oom-cgroup");
  if (diagnosis.id.empty()) return diagnosis;
  const OomKill& kill = FirstKill(diagnosis, facts);
  diagnosis.summary =
      absl::StrCat("The kernel's OOM killer killed ", Dead(diagnosis, facts), ": ", LimitsHit(diagnosis, facts), ".");
  diagnosis.advice = AdviceAgainst(kill, facts);
  if (const Alert* alert = OthersGrewBefore(kill, facts)) {
    diagnosis.evidence.push_back(absl::StrCat("at ", HumanDuration(alert->t), ", with ", HumanBytes(alert->used),
                                              " in use, what grew was outside the recorded processes"));
  }
  diagnosis.advice.push_back(
      absl::StrContains(kill.limit.name, "slurm")
          ? "Or raise the limit: --mem or --mem-per-cpu of the Slurm job."
          : "Or raise the limit: docker run --memory, resources.limits.memory of the pod, MemoryMax= of the unit.");
  return diagnosis;
}

Diagnosis OomHost(const Facts& facts) {
  Diagnosis diagnosis = FromDeaths(facts, "oom-host");
  if (diagnosis.id.empty()) return diagnosis;
  const OomKill& kill = FirstKill(diagnosis, facts);
  diagnosis.summary = absl::StrCat("The kernel's OOM killer killed ", Dead(diagnosis, facts),
                                   ": no cgroup's limit was met; the host, or the part of it that the "
                                   "process may use (NUMA nodes), had no memory left.");
  diagnosis.advice = AdviceAgainst(kill, facts);
  if (absl::StrContains(facts.model.info.kernel, "microsoft")) {
    diagnosis.advice.push_back(
        "The host is WSL2's virtual machine, which has only a part of Windows' memory: raise memory= and swap= in the "
        "section [wsl2] of %UserProfile%\\.wslconfig, then call wsl --shutdown.");
  }
  diagnosis.advice.push_back(
      "Find what else is large on this host, and give the job its own cgroup with a limit: then it can be told apart "
      "from the others, and dies alone.");
  return diagnosis;
}

// The first signal has the figures of all: later ones leave out what had ended by then.
Diagnosis OomDaemon(const Facts& facts) {
  Diagnosis diagnosis = FromDeaths(facts, "oom-host", By::kDaemon);
  if (diagnosis.id.empty()) return diagnosis;
  const std::vector<const ProcessModel*> dead = EndedBy(diagnosis.id, facts, By::kDaemon);
  std::vector<std::string> daemons;
  for (const ProcessModel* process : dead) {
    const Killing killing = process->exit->signaled ? KillingSignal(*process) : OomDaemonRequest(*process);
    std::string daemon = Printable(killing.sent->sender_comm);
    if (!absl::c_linear_search(daemons, daemon)) daemons.push_back(std::move(daemon));
  }
  const bool killed = absl::c_all_of(dead, [](const ProcessModel* process) { return process->exit->signaled; });
  diagnosis.summary = absl::StrCat(absl::StrJoin(daemons, " and "), killed ? " killed " : " ended ",
                                   Dead(diagnosis, facts, By::kDaemon), " as memory ran short.");
  const ProcessModel* const first = *absl::c_min_element(
      dead, [](const ProcessModel* a, const ProcessModel* b) { return a->oom_daemon->t < b->oom_daemon->t; });
  diagnosis.advice = AdviceAgainst(*first->oom_daemon, facts);
  diagnosis.advice.push_back(absl::StrCat("Find what else is large on this host. Why ", daemons.front(),
                                          " acted is in its log: journalctl -t ", daemons.front(), "."));
  return diagnosis;
}

Diagnosis SigbusFile(const Facts& facts) {
  Diagnosis diagnosis = FromDeaths(facts, "sigbus-file");
  if (diagnosis.id.empty()) return diagnosis;
  diagnosis.summary = absl::StrCat("A mapped file could not be accessed, and the bus error killed ",
                                   Dead(diagnosis, facts), ". A full /dev/shm was not the cause.");
  diagnosis.advice = {
      "If the file was truncated: write the new version under another name and rename it over the old one; processes "
      "that map the old one keep it.",
      "If the disk is full: make room, or allocate the file in advance (posix_fallocate, numpy.save instead of a new "
      "memmap): then the error comes from there, with a message."};
  return diagnosis;
}

Diagnosis ShmFullDeath(const Facts& facts) {
  Diagnosis diagnosis = FromDeaths(facts, "shm-full");
  if (diagnosis.id.empty()) return diagnosis;
  const std::optional<std::string> size = LargerShm(facts.model), own = LargerShmOfContainer(facts.model);
  diagnosis.summary = absl::StrCat("/dev/shm had no room for a page that was written, and the bus error killed ",
                                   Dead(diagnosis, facts), ".");
  if (size) {
    diagnosis.advice.push_back(absl::StrCat(
        "Make it larger: ",
        own ? absl::StrCat("docker run --shm-size=", *own,
                           " (or --ipc=host), an emptyDir of medium Memory in Kubernetes, ")
            : "",
        "mount -o remount,size=", *size, " /dev/shm on a host.", own ? CountsAgainstMemory(facts.model) : ""));
  }
  diagnosis.advice.push_back(absl::StrCat(
      size ? "Keep" : kNoLargerShm, " less in it",
      facts.dataloader() ? ": fewer workers, a smaller prefetch_factor, smaller batches; num_workers=0 needs none."
                         : "."));
  return diagnosis;
}

}  // namespace cowprof
