#include "model/judge/diagnosis.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/fix_sketch.h"
#include "model/judge/packing.h"
#include "model/judge/unexplained.h"

namespace cowprof {
namespace {

// Times as much.
constexpr uint64_t kFarMore = 4;

Diagnosis Clean(const Facts& facts) {
  Diagnosis diagnosis = {.id = "clean", .confidence = 0.9, .harm = Harm::kNone};
  diagnosis.summary = NothingToDo(facts);
  const std::string copied = facts.HasWorkers() ? absl::StrCat(facts.Bytes(facts.copies),
                                                               " copied by all workers, at "
                                                               "most ",
                                                               facts.Bytes(facts.most_of_one), " by one")
                                                : absl::StrCat(facts.Bytes(facts.findings.all.copies), " copied");
  diagnosis.evidence = {absl::StrCat(copied, "; starting alone costs up to ", HumanBytes(kNoiseBytes),
                                     " each, or 1 % of what was inherited (", HumanBytes(kMostNoiseBytes), " at most)",
                                     facts.copied_again == 0
                                         ? ""
                                         : absl::StrCat("; ", facts.Bytes(facts.copied_again),
                                                        " more by workers that fork processes themselves: each fork "
                                                        "shares again what they always write"))};
  return diagnosis;
}

constexpr Diagnosis (*kDiagnoses[])(const Facts&) = {
    OomCgroup,      OomHost,         OomDaemon,   SigbusFile, ShmFullDeath,                    // diagnose_deaths.cc
    CouldNotPickle,                                                                            // diagnose_start.cc
    ForkHang,                                                                                  // diagnose_hangs.cc
    CowRefcount,    TorchRefcount,   CowGcHeader, CowData,    AllocatorReuse,                  // diagnose_copies.cc
    ParentUnshare,                                                                             // diagnose_parent.cc
    PrivateBySpawn, NewMemoryGrowth, GcDisabled,  FileBacked, PickledArguments, BeforeAttach,  // diagnose_pickled.cc
    TrainerGrowth,                                                                             // diagnose_memory.cc
    ShmFull,        ShmNearFull,     ShmUnlinked, ShmLeaked,                                   // diagnose_shm.cc
    FdExhaustion,  // diagnose_descriptors.cc
    ForkHazards};  // diagnose_fork.cc

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

bool IsOneOf(std::initializer_list<absl::string_view> ids, const Diagnosis& diagnosis) {
  return absl::c_linear_search(ids, diagnosis.id);
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

// What fills the limit is another finding's, if there is one.
void TellLimit(const Facts& facts, std::vector<Diagnosis>* found) {
  if (!found->empty() && found->front().id == "file-backed") found->front().summary.insert(0, LimitAhead(facts));
}

}  // namespace

bool IsOfCopies(const Diagnosis& diagnosis) {
  return IsOneOf({"cow-refcount", "torch-refcount", "cow-gc-header", "cow-data"}, diagnosis);
}

bool IsOfGrowth(const Diagnosis& diagnosis) {
  return IsOneOf({"new-memory-growth", "gc-disabled", "trainer-growth"}, diagnosis);
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
    // "file-backed" stands beside a bad end, behind what may explain that.
    if (!UnexplainedMemory(facts).empty())
      std::erase_if(found, [](const Diagnosis& diagnosis) { return diagnosis.harm == Harm::kNone; });
    else if (ChildEndedBadly(run.model))
      std::stable_partition(found.begin(), found.end(),
                            [](const Diagnosis& diagnosis) { return diagnosis.harm == Harm::kPossible; });
    TellLimit(facts, &found);
    return found;
  }
  if (findings.all.copies_known && found.empty()) found.push_back(Clean(facts));
  // "clean" stands alone. The headline says that memory is well, here is why.
  if (findings.all.copies_known && found.front().harm == Harm::kPossible)
    absl::c_move(Clean(facts).evidence, std::back_inserter(found.front().evidence));
  const SeenStartMethods* const seen = facts.start_methods();
  const Container container = ContainerOf(facts.tables(), seen ? &seen->look : nullptr);
  for (Diagnosis& diagnosis : found) {
    const bool freezes = diagnosis.id == "cow-gc-header" ||  // or has ProcessPoolExecutor's initializer
                         (diagnosis.id == "gc-disabled" && facts.framework == Framework::kExecutor);
    // A sketch is what stands right before the call that starts workers, which does not run in a forkserver.
    const bool elsewhere =
        facts.from_forkserver && (diagnosis.id == "cow-gc-header" || diagnosis.id == "allocator-reuse");
    const bool helps = elsewhere                          ? false
                       : freezes                          ? !HasOlderPython(facts.model, 7)
                       : diagnosis.id == "cow-data"       ? OpensHandle(container) || ProgramWrites(facts)
                       : diagnosis.id == "cow-refcount"   ? WhyNotPacked(facts).empty()
                       : diagnosis.id == "torch-refcount" ? ReadsTensors(facts)
                       // The sketch sends tasks to a pool; it saves nothing of what a process is there to keep.
                       : diagnosis.id == "pickled-arguments" ? diagnosis.saves.has_value()
                                                             : true;
    if (helps)
      diagnosis.sketch =
          FixSketch(diagnosis.id, container, facts.framework, WorkersInherit(facts), AreReadByKey(facts));
  }
  if (!found.empty()) TellTogether(&found);
  // Copies that are a small part of what the workers hold come second.
  if (!found.empty() && IsOfCopies(found.front())) {
    const uint64_t copied = std::max(found.front().bytes, facts.model.workers_peak.copied_bytes);
    if (const std::string own = OwnOfWorkers(facts, kFarMore * copied); !own.empty())
      found.front().summary.insert(0, absl::StrCat(own, " "));
  }
  TellLimit(facts, &found);
  return found;
}

}  // namespace cowprof
