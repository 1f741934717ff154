#include "model/judge/diagnosis.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/blame.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/fix_sketch.h"

namespace cowprof {
namespace {

Diagnosis Clean(const Facts& facts) {
  Diagnosis diagnosis = {.id = "clean", .confidence = 0.9};
  diagnosis.summary =
      facts.HasWorkers() ? "The workers share what they should." : "No worker was forked: nothing could be copied.";
  diagnosis.evidence = {absl::StrCat(facts.Bytes(facts.copies), " copied by all workers, at most ",
                                     facts.Bytes(facts.most_of_one), " by one")};
  return diagnosis;
}

constexpr Diagnosis (*kDiagnoses[])(const Facts&) = {
    OomCgroup,      OomHost,         SigbusFile,  ShmFullDeath,                  // diagnose_deaths.cc
    CowRefcount,    CowGcHeader,     CowData,     ParentUnshare,                 // diagnose_copies.cc
    PrivateBySpawn, NewMemoryGrowth, GcDisabled,  FileBacked,                    // diagnose_memory.cc
    ShmFull,        ShmNearFull,     ShmUnlinked, ShmLeaked,     FdExhaustion};  // diagnose_shm.cc

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
  const RunModel& model = run.model;
  for (const auto& diagnose : kDiagnoses) {
    Diagnosis diagnosis = diagnose(facts);
    if (!diagnosis.id.empty()) Add(std::move(diagnosis), &found);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Diagnosis& a, const Diagnosis& b) { return a.confidence > b.confidence; });
  // If kernel memory can't be read, it is not known whose limit an OOM kill served: not a finding, and not clean
  // either.
  const bool killed = std::any_of(model.processes.begin(), model.processes.end(),
                                  [](const ProcessModel& process) { return process.oom_victim && !process.oom; });
  // A worker that ended before its pages were looked at may have copied anything.
  const bool unseen = std::any_of(model.processes.begin(), model.processes.end(), [](const ProcessModel& process) {
    return process.role == Role::kWorker && !process.counts.copies;
  });
  if (found.empty() && findings.all.causes_known && !killed && !unseen) found.push_back(Clean(facts));
  const Container container = ContainerOf(findings.of_workers.by_type);
  for (Diagnosis& diagnosis : found) diagnosis.sketch = FixSketch(diagnosis.id, container);
  return found;
}

}  // namespace cowprof
