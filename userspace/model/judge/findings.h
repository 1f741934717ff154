// Everything that cowprof concludes from a run, judged once: at every tick while it is recorded, or when a recording is
// read. Report, page, live screen and alerts only format it, so that they cannot disagree. Pure.
#ifndef COWPROF_MODEL_JUDGE_FINDINGS_H_
#define COWPROF_MODEL_JUDGE_FINDINGS_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/judge/blame.h"
#include "model/judge/diagnosis.h"
#include "model/judge/forecast.h"
#include "model/judge/post_mortem.h"
#include "model/judge/run.h"

namespace cowprof {

// How much is judged. Each level has all of the one before it, and costs more.
enum class Detail {
  kTick,    // sums, the forecast, the nearest limit: what a line of the terminal and an alert need
  kScreen,  // plus what copied, what is wrong and what died: what a person watches
  kReport,  // plus every table
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
  std::vector<Diagnosis> diagnoses;  // highest confidence first
  // The largest group of copies that agree in cause, type and line: "63 % of 4.1 GiB: reference counts of str, at
  // coco.py:41 in CocoDataset.__getitem__."; "" if no cause is known or next to nothing was copied.
  std::string largest_group;
  std::string verdict;  // a few sentences: what was copied, the largest group, the nearest limit, the forecast

  // With Detail::kReport only.
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
