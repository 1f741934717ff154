// Everything that cowprof concludes from a run, judged once: at every tick while it is recorded, or when a recording is
// read. Report, page, live screen and alerts only format it, so that they cannot disagree. Pure.
#ifndef COWPROF_MODEL_JUDGE_FINDINGS_H_
#define COWPROF_MODEL_JUDGE_FINDINGS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/facts/framework.h"
#include "model/judge/blame.h"
#include "model/judge/diagnosis.h"
#include "model/judge/forecast.h"
#include "model/judge/headline.h"
#include "model/judge/post_mortem.h"
#include "model/judge/remedies.h"
#include "model/judge/run.h"

namespace cowprof {

// How much is judged. Each level has all of the one before it, and costs more.
enum class Detail {
  kTick,    // sums, the forecast, the nearest limit: what a line of the terminal and an alert need
  kScreen,  // plus what copied, what is wrong and what died: what a person watches
  kReport,  // plus every table
};

// What the private memory of the workers was at their peak (RunModel::workers_peak). Bytes, which sum to it.
struct PeakSplit {
  uint64_t copied = 0;
  uint64_t pickled = 0;              // unpickled at the start, or received by workers that a pool runs
  uint64_t fresh = 0;                // other new memory, imports included
  uint64_t before_attach = 0;        // private when cowprof attached, for whatever reason
  uint64_t left = 0;                 // inherited, and the others that shared it have ended or freed it
  uint64_t inherited_freed = 0;      // copied, but free in the parent: allocated again by the worker
  bool pickled_or_imported = false;  // `pickled` has what some workers imported: their stacks were not sampled
  bool operator==(const PeakSplit&) const = default;
};

struct Findings {
  // From Detail::kTick on.
  Totals all, living, workers, living_workers;
  Forecast forecast;
  int nearest_limit = -1;     // number in RunModel::limits of the one with the highest ratio now; -1: none is set
  std::vector<Alert> alerts;  // all that were raised so far

  // From Detail::kScreen on.
  BlameTables of_workers;
  std::map<int, PostMortem> ends;    // by index, of the processes that have ended
  std::vector<Diagnosis> diagnoses;  // most harmful first
  Forecast forecast_told;            // what is said of `forecast` where a diagnosis may contradict it (HeedGrowth)
  PeakSplit peak;
  Headline headline;
  Framework framework = Framework::kFork;  // FrameworkOf(); kFork: nothing else is known
  bool trains = false;                     // has a DataLoader, or ranks
  std::string verdict;  // the headline, and a few sentences: the workers' peak, the nearest limit, the forecast

  // With Detail::kReport only.
  std::vector<Remedy> remedies;  // the largest gain first
  BlameTables of_all;
  std::map<int, BlameTables> of_process;           // by index, if copy sites are known
  std::vector<RegionRow> regions, worker_regions;  // most copied first
  std::optional<VerifyFigures> verified;           // the sum over the workers

  bool operator==(const Findings&) const = default;
  const PostMortem& EndOf(const ProcessModel& process) const;
};

Findings Judge(const Run& run, Detail detail = Detail::kReport);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FINDINGS_H_
