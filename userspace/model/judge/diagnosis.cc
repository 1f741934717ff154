#include "model/judge/diagnosis.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "model/format.h"
#include "model/judge/blame.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/fix_sketch.h"
#include "model/judge/grower.h"
#include "model/judge/growth.h"
#include "model/judge/unexplained.h"

namespace cowprof {
namespace {

constexpr size_t kMostBelow = 5, kMostOfCommand = 120;
constexpr uint64_t kManyBytes = 256 << 20;  // too much to call it nothing, even where each worker has little of it
constexpr absl::Duration kLongEnough = absl::Seconds(30);  // to see whether memory keeps growing

// "; about 97 % of it first touched at train.py:12 in load": of the new memory that workers held at their peak. "": no
// line of the program has most of it, or they touched much more than they kept.
std::string FirstTouched(const Facts& facts) {
  std::vector<const ProcessModel*> workers;
  Rise rise = {.begin = -absl::InfiniteDuration()};
  for (const auto& [index, bytes] : facts.model.workers_peak.fresh_bytes) {
    const ProcessModel* const worker = facts.model.Find(index);
    if (worker == nullptr) return "";
    workers.push_back(worker);
    rise.pages += bytes / facts.page_bytes;
    rise.zero_fills += worker->counts.zero_fills().value_or(0);
  }
  const std::optional<Culprit> culprit = CulpritOf(facts.model, workers, rise);
  if (!culprit || IsOfLibrary(culprit->frame)) return "";
  return absl::StrCat("; ", CulpritText(*culprit, /*estimated=*/true, "first touched at"));
}

// Whether a worker's new memory was seen for too short a time to tell whether it keeps growing.
bool StillRise(const Facts& facts) {
  return absl::c_any_of(facts.model.workers_peak.fresh_bytes, [&](const auto& one) {
    const ProcessModel* const worker = facts.model.Find(one.first);
    return one.second > kNoiseBytes && worker != nullptr && LifeOf(*worker, facts.model) < kLongEnough &&
           RoseAtTheEnd(facts.estimates.MemoryOf(one.first), worker->ended.has_value());
  });
}

// New memory that stays is a worker's own business as long as it doesn't grow, but the reader sees it in the tables.
std::string Holdings(const Facts& facts) {
  uint64_t fresh = 0;
  for (const auto& [index, bytes] : facts.model.workers_peak.fresh_bytes) fresh += bytes;
  const uint64_t before = BeforeAttachAtPeak(facts.model, /*never_shared=*/true);
  if (fresh + before <= facts.model.workers_peak.fresh_bytes.size() * kNoiseBytes) return "";
  return absl::StrCat(
      " They had at most ", HumanBytes(fresh + before), " of new memory of their own",
      before > 0 ? absl::StrCat(", ", HumanBytes(before), " of it before cowprof attached") : FirstTouched(facts),
      StillRise(facts) ? "; it was rising at the end, and whether it keeps growing can't be told from "
                       : "; no lasting growth of it was seen in ",
      HumanDuration(facts.model.t), ".");
}

// " Python runs below it: 23189 (python3 train.py), 23190 (python3 eval.py)." "": none does.
std::string PythonBelow(const Facts& facts) {
  std::vector<std::string> told;
  uint64_t more = 0;
  for (const ProcessModel& process : facts.model.processes) {
    const bool helps = process.role == Role::kHelper || process.role == Role::kForkserver;
    if (process.index == 0 || process.ended || process.python.empty() || helps) continue;
    if (told.size() == kMostBelow) {
      ++more;
    } else {
      told.push_back(absl::StrCat(process.id.pid, " (",
                                  Printable(process.command.empty() ? process.comm : process.command, kMostOfCommand),
                                  ")"));
    }
  }
  if (told.empty()) return "";
  return absl::StrCat(" Python runs below it: ", absl::StrJoin(told, ", "),
                      more > 0 ? absl::StrCat(", and ", more, " more") : "", ".");
}

// What the target is, and which Python below it may be the one that was meant. "": not known.
std::string TargetText(const Facts& facts) {
  const ProcessModel* target = facts.model.target();
  if (target == nullptr) return "";
  const std::string below = PythonBelow(facts);
  if (target->framework == Framework::kNative && !target->comm.empty())
    return absl::StrCat(" It is ", Printable(target->comm), ", not Python.", below);
  const bool alone = facts.findings.all.processes == 1 && !target->python.empty();
  return alone ? absl::StrCat(" It is Python ", Printable(target->python), " without child processes.") : below;
}

Diagnosis Clean(const Facts& facts) {
  Diagnosis diagnosis = {.id = "clean", .confidence = 0.9, .harm = Harm::kNone};
  diagnosis.summary = NothingToDo(facts);
  const std::string copied = facts.HasWorkers() ? absl::StrCat(facts.Bytes(facts.copies),
                                                               " copied by all workers, at "
                                                               "most ",
                                                               facts.Bytes(facts.most_of_one), " by one")
                                                : absl::StrCat(facts.Bytes(facts.findings.all.copies), " copied");
  diagnosis.evidence = {absl::StrCat(copied, "; up to ", HumanBytes(kNoiseBytes),
                                     " each, or 1 % of what was inherited, is what starting costs")};
  return diagnosis;
}

constexpr Diagnosis (*kDiagnoses[])(const Facts&) = {
    OomCgroup,      OomHost,         SigbusFile,  ShmFullDeath, CouldNotPickle,                  // diagnose_deaths.cc
    ForkHang,                                                                                    // diagnose_hangs.cc
    CowRefcount,    TorchRefcount,   CowGcHeader, CowData,      AllocatorReuse,                  // diagnose_copies.cc
    ParentUnshare,                                                                               // diagnose_parent.cc
    PrivateBySpawn, NewMemoryGrowth, GcDisabled,  FileBacked,   PickledArguments, BeforeAttach,  // diagnose_pickled.cc
    TrainerGrowth,                                                                               // diagnose_memory.cc
    ShmFull,        ShmNearFull,     ShmUnlinked, ShmLeaked,    FdExhaustion,                    // diagnose_shm.cc
    ForkHazards};                                                                                // diagnose_fork.cc

// Two functions may come to the same finding: report it once, with the evidence of both.
void Add(Diagnosis diagnosis, std::vector<Diagnosis>* found) {
  const auto same =
      std::find_if(found->begin(), found->end(), [&](const Diagnosis& other) { return other.id == diagnosis.id; });
  if (same == found->end()) {
    found->push_back(std::move(diagnosis));
  } else {
    same->evidence.insert(same->evidence.end(), diagnosis.evidence.begin(), diagnosis.evidence.end());
  }
}

bool IsOfCopies(const Diagnosis& diagnosis) {
  static constexpr absl::string_view kIds[] = {"cow-refcount", "torch-refcount", "cow-gc-header", "cow-data"};
  return std::find(std::begin(kIds), std::end(kIds), diagnosis.id) != std::end(kIds);
}

// As a part of another sentence: its first word is a proper name, or begins with a small letter.
std::string Clause(const std::string& sentence) {
  std::string clause(absl::StripSuffix(sentence, "."));
  if (!clause.empty() && !absl::StartsWith(clause, "Python")) clause[0] = absl::ascii_tolower(clause[0]);
  return clause;
}

// After a late attach the first sentence says both what was there and what was copied since, whichever is more. The
// cause of the first is not known; that of the second is, and so is what helps against it.
void TellTogether(std::vector<Diagnosis>* found) {
  Diagnosis& first = found->front();
  const bool of_copies = IsOfCopies(first);
  if (!of_copies && first.id != "before-attach") return;
  const auto other = std::find_if(found->begin() + 1, found->end(), [&](const Diagnosis& one) {
    return of_copies ? one.id == "before-attach" : IsOfCopies(one);
  });
  if (other == found->end()) return;
  if (of_copies) {
    first.summary = absl::StrCat(absl::StripSuffix(first.summary, "."), "; ", Clause(other->summary), ".");
    return;
  }
  first.summary = absl::StrCat(absl::StripSuffix(first.summary, "."), "; since then ", Clause(other->summary), ".");
  first.evidence.insert(first.evidence.begin(), other->evidence.front());
  first.evidence.push_back(
      "if the workers did the same before the attach, what they had then has the same cause; that was not seen");
  std::vector<std::string> advice = other->advice;
  advice.insert(advice.begin() + std::min<size_t>(advice.size(), 2), first.advice.front());
  first.advice = std::move(advice);
  first.culprit = other->culprit;
  first.sketch = other->sketch;
  // At best, what was there before had the same cause.
  if (other->saves) first.saves = {other->saves->low, other->saves->best, other->saves->high + first.bytes};
}

}  // namespace

std::string NothingToDo(const Facts& facts) {
  const std::string growth = GrowthOfOthers(facts);
  if (facts.HasWorkers()) {
    if (const uint64_t sum = facts.model.workers_peak.copied_bytes; sum >= kManyBytes) {
      return absl::StrCat("Each worker copied little, at most ", facts.Bytes(facts.most_of_one), ", but all together ",
                          HumanBytes(sum), ".", Holdings(facts), growth.empty() ? "" : " ", growth);
    }
    const bool well = growth.empty() && !StillRise(facts);
    return absl::StrCat(well ? "Nothing to do: the" : "The", " workers share what they should.", Holdings(facts),
                        growth.empty() ? "" : " ", growth);
  }
  if (!growth.empty()) return absl::StrCat("No worker was forked. ", growth, TargetText(facts));
  return absl::StrCat("Nothing to do: no worker was forked, and no lasting growth of the process was seen in ",
                      HumanDuration(facts.model.t), ".", TargetText(facts));
}

std::vector<Diagnosis> Diagnose(const Run& run, const Findings& findings) {
  std::vector<Diagnosis> found;
  const Facts facts = FactsOf(run, findings);
  for (const auto& diagnose : kDiagnoses) {
    Diagnosis diagnosis = diagnose(facts);
    if (!diagnosis.id.empty()) Add(std::move(diagnosis), &found);
  }
  std::stable_sort(found.begin(), found.end(), [](const Diagnosis& a, const Diagnosis& b) {
    return std::make_tuple(a.harm, b.bytes, b.confidence) < std::make_tuple(b.harm, a.bytes, a.confidence);
  });
  const bool blames = !found.empty() && found.front().harm < Harm::kNone;
  if (!blames && !Unexplained(facts).empty()) {
    std::erase_if(found, [](const Diagnosis& diagnosis) { return diagnosis.harm == Harm::kNone; });
    return found;
  }
  if (findings.all.copies_known && found.empty()) found.push_back(Clean(facts));
  // "clean" stands alone. The headline says that memory is well, here is why.
  if (findings.all.copies_known && found.front().harm == Harm::kPossible)
    absl::c_move(Clean(facts).evidence, std::back_inserter(found.front().evidence));
  const std::optional<SeenStartMethods>& seen = run.model.start_methods;
  const Container container = ContainerOf(findings.of_workers, seen ? &seen->look : nullptr);
  for (Diagnosis& diagnosis : found) {
    const bool python = diagnosis.id != "cow-data" || !WrittenByRuntime(facts);
    if (python) diagnosis.sketch = FixSketch(diagnosis.id, container, facts.framework);
  }
  if (!found.empty()) TellTogether(&found);
  return found;
}

}  // namespace cowprof
