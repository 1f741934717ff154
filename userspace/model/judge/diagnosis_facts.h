// What the diagnoses look at, and the list of them. A diagnosis is one pure function in a diagnose_*.cc; an empty id
// means that it does not apply.
#ifndef COWPROF_MODEL_JUDGE_DIAGNOSIS_FACTS_H_
#define COWPROF_MODEL_JUDGE_DIAGNOSIS_FACTS_H_

#include <string>
#include <vector>

#include "model/judge/diagnosis.h"
#include "model/judge/findings.h"

namespace cowprof {

// A forked interpreter copies 100 to 300 pages just by starting to run, a torch worker up to 1,300 (measured,
// docs/diagnoses.md), so less than this in a process is not a finding.
inline constexpr uint64_t kNoiseBytes = 8 << 20;
inline constexpr double kNoticeableShare = 0.1;  // of what the workers copied

// What the diagnoses look at: the workers' copies by cause, and the rest of the recording.
struct Facts {
  const RunModel& model;
  const Estimates& estimates;
  const Findings& findings;  // all but the diagnoses
  uint64_t page_bytes = 0;
  uint64_t copies = 0, most_of_one = 0;  // by workers that inherited memory
  CauseCounts causes = {};
  std::vector<pid_t> pids;  // of workers that copied more than noise

  uint64_t Of(Cause cause) const { return causes[static_cast<int>(cause)]; }
  std::string Bytes(uint64_t pages) const;
  bool Matters(uint64_t pages) const {
    return !pids.empty() && pages * page_bytes >= pids.size() * kNoiseBytes && pages >= kNoticeableShare * copies;
  }
  bool HasWorkers() const;
};
Facts FactsOf(const Run& run, const Findings& findings);

// A worker whose causes are known, and that has inherited memory.
bool HasInheritedMemory(const ProcessModel& process);

std::string Percent(double share);         // "63 %"
std::string LineText(const Frame& frame);  // "coco.py:41 in CocoDataset.__getitem__"; "" if unknown

// diagnose_copies.cc
Diagnosis CowRefcount(const Facts& facts);
Diagnosis CowGcHeader(const Facts& facts);
Diagnosis CowData(const Facts& facts);
Diagnosis ParentUnshare(const Facts& facts);

// diagnose_memory.cc
Diagnosis PrivateBySpawn(const Facts& facts);
Diagnosis NewMemoryGrowth(const Facts& facts);
Diagnosis GcDisabled(const Facts& facts);
Diagnosis FileBacked(const Facts& facts);
// diagnose_shm.cc
Diagnosis ShmFull(const Facts& facts);
Diagnosis ShmNearFull(const Facts& facts);
Diagnosis ShmUnlinked(const Facts& facts);
Diagnosis ShmLeaked(const Facts& facts);
Diagnosis FdExhaustion(const Facts& facts);
// diagnose_deaths.cc
Diagnosis OomCgroup(const Facts& facts);
Diagnosis OomHost(const Facts& facts);
Diagnosis SigbusFile(const Facts& facts);
Diagnosis ShmFullDeath(const Facts& facts);  // "shm-full", from the processes that died of it

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_DIAGNOSIS_FACTS_H_
