// See diagnosis.h.
#include "model/diagnosis.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "model/blame.h"
#include "model/diagnosis_facts.h"
#include "model/fix_sketch.h"
#include "model/words.h"

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

// Two ways may lead to one finding: it is told once, with the evidence of both.
void Add(Diagnosis diagnosis, std::vector<Diagnosis>* found) {
  const auto same =
      std::find_if(found->begin(), found->end(), [&](const Diagnosis& other) { return other.id == diagnosis.id; });
  if (same == found->end()) {
    found->push_back(std::move(diagnosis));
  } else {
    same->evidence.insert(same->evidence.end(), diagnosis.evidence.begin(), diagnosis.evidence.end());
  }
}

const char* WordsOf(Cause cause) {
  constexpr const char* kWords[] = {"reference counts",
                                    "the collector's headers",
                                    "pymalloc's book-keeping",
                                    "bytecode that specialises itself",
                                    "cached hashes",
                                    "data",
                                    "released objects",
                                    "writes of the kernel",
                                    "unknown"};
  return kWords[static_cast<int>(cause)];
}

}  // namespace

std::vector<Diagnosis> Diagnose(const Growth& growth) {
  std::vector<Diagnosis> found;
  const Facts facts = FactsOf(growth);
  for (const auto& diagnose : kDiagnoses) {
    Diagnosis diagnosis = diagnose(facts);
    if (!diagnosis.id.empty()) Add(std::move(diagnosis), &found);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const Diagnosis& a, const Diagnosis& b) { return a.confidence > b.confidence; });
  const bool causes_known = SumOf(growth, /*living_only=*/false, /*workers_only=*/false).causes_known;
  // Where kernel memory can't be read nobody knows whose limit an OOM kill served: no finding, and not clean either.
  const bool killed = std::any_of(growth.processes.begin(), growth.processes.end(),
                                  [](const ProcessGrowth& process) { return process.oom_victim && !process.oom; });
  // One that ended before its pages were looked at may have copied anything.
  const bool unseen = std::any_of(growth.processes.begin(), growth.processes.end(), [](const ProcessGrowth& process) {
    return process.role == Role::kWorker && !process.counts.copies;
  });
  if (found.empty() && causes_known && !killed && !unseen) found.push_back(Clean(facts));
  const Container container = ContainerOf(ByType(growth, facts.blame));
  for (Diagnosis& diagnosis : found) diagnosis.sketch = FixSketch(diagnosis.id, container);
  return found;
}

std::string TopFinding(const Growth& growth) {
  const Blame blame = BlameOf(growth, {.workers_only = true});
  if (blame.copies * growth.info.page_bytes <= kNoiseBytes) return "";
  std::map<std::tuple<Cause, std::string, std::string>, double> groups;
  for (const PlaceShare& share : blame.places) {
    const Place& place = growth.places[share.place];
    Frame frame = place.frames.empty() ? Frame{} : growth.frames[place.frames.front()];
    frame.file.erase(0, frame.file.rfind('/') + 1);  // one sentence has no room for the folder
    groups[{place.cause, place.type, LineText(frame)}] += share.copies;
  }
  const auto largest =
      std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (largest == groups.end()) return "";
  const auto& [cause, type, line] = largest->first;
  return absl::StrCat(Percent(largest->second / blame.copies), " of ",
                      HumanBytes(blame.copies * growth.info.page_bytes), ": ", WordsOf(cause),
                      type.empty() ? "" : absl::StrCat(" of ", Printable(type)),
                      line.empty() ? "" : absl::StrCat(", at ", line), blame.estimated ? " (estimated)." : ".");
}

}  // namespace cowprof
