#include "model/judge/diagnosis.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/blame.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/fix_sketch.h"
#include "model/judge/unexplained.h"

namespace cowprof {
namespace {

// New memory that stays is a worker's own business as long as it doesn't grow, but the reader sees it in the tables.
std::string Holdings(const Facts& facts) {
  uint64_t fresh = 0;
  for (const auto& [index, bytes] : facts.model.workers_peak.fresh_bytes) fresh += bytes;
  if (fresh <= facts.model.workers_peak.fresh_bytes.size() * kNoiseBytes) return "";
  return absl::StrCat(" They had at most ", HumanBytes(fresh),
                      " of new memory of their own; no lasting growth of it was seen in ", HumanDuration(facts.model.t),
                      ".");
}

// " It is bash, not Python. Python runs below it: process 23189 (python3), and 2 more." "": the target is Python, or
// not known.
std::string NoPython(const Facts& facts) {
  const ProcessModel* target = facts.model.target();
  if (target == nullptr || target->framework != Framework::kNative || target->comm.empty()) return "";
  std::string below;
  uint64_t more = 0;
  for (const ProcessModel& process : facts.model.processes) {
    if (process.index == 0 || process.ended || process.python.empty()) continue;
    if (below.empty()) {
      below = absl::StrCat(" Python runs below it: process ", process.id.pid, " (", Printable(process.comm), ")");
    } else {
      ++more;
    }
  }
  if (more > 0) absl::StrAppend(&below, ", and ", more, " more");
  return absl::StrCat(" It is ", Printable(target->comm), ", not Python.", below, below.empty() ? "" : ".");
}

Diagnosis Clean(const Facts& facts) {
  Diagnosis diagnosis = {.id = "clean", .confidence = 0.9, .harm = Harm::kNone};
  diagnosis.summary = facts.HasWorkers()
                          ? absl::StrCat("Nothing to do: the workers share what they should.", Holdings(facts))
                          : absl::StrCat(
                                "Nothing to do: no worker was forked, and no lasting growth of the process "
                                "was seen in ",
                                HumanDuration(facts.model.t), ".", NoPython(facts));
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
    OomCgroup,      OomHost,         SigbusFile,  ShmFullDeath, CouldNotPickle,                   // diagnose_deaths.cc
    ForkHang,                                                                                     // diagnose_hangs.cc
    CowRefcount,    TorchRefcount,   CowGcHeader, CowData,      AllocatorReuse,   ParentUnshare,  // diagnose_copies.cc
    PrivateBySpawn, NewMemoryGrowth, GcDisabled,  FileBacked,   PickledArguments, BeforeAttach,
    TrainerGrowth,                                                             // diagnose_memory.cc
    ShmFull,        ShmNearFull,     ShmUnlinked, ShmLeaked,    FdExhaustion,  // diagnose_shm.cc
    ForkHazards};                                                              // diagnose_fork.cc

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

}  // namespace

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
  const bool nothing = found.empty() || found.front().harm == Harm::kPossible;
  if (nothing && findings.all.copies_known) found.insert(found.begin(), Clean(facts));
  const std::optional<SeenStartMethods>& seen = run.model.start_methods;
  const Container container = ContainerOf(findings.of_workers, seen ? &seen->look : nullptr);
  for (Diagnosis& diagnosis : found) diagnosis.sketch = FixSketch(diagnosis.id, container, facts.framework);
  return found;
}

}  // namespace cowprof
