// The order of judgement: sums first, then what rests on them.
#include "model/judge/findings.h"

#include "absl/algorithm/container.h"
#include "model/judge/diagnosis_facts.h"

namespace cowprof {
namespace {

int NearestLimit(const RunModel& model) {
  int nearest = -1;
  for (size_t i = 0; i < model.limits.size(); ++i) {
    const std::optional<double> ratio = model.limits[i].now.ratio();
    if (ratio && (nearest < 0 || *ratio > *model.limits[nearest].now.ratio())) nearest = static_cast<int>(i);
  }
  return nearest;
}

void JudgeTick(const Run& run, Findings* findings) {
  findings->all = SumOf(run.model, /*living_only=*/false, /*workers_only=*/false);
  findings->living = SumOf(run.model, /*living_only=*/true, /*workers_only=*/false);
  findings->workers = SumOf(run.model, /*living_only=*/false, /*workers_only=*/true);
  findings->living_workers = SumOf(run.model, /*living_only=*/true, /*workers_only=*/true);
  findings->forecast = ForecastOf(run.model, run.estimates.forecast);
  Heed(StandingOf(run.alerts), run.model.t, &findings->forecast);
  findings->nearest_limit = NearestLimit(run.model);
  findings->alerts = run.alerts;
}

void JudgeScreen(const Run& run, Findings* findings) {
  findings->of_workers = TablesOf(run.model, {.workers_only = true});
  for (const ProcessModel& process : run.model.processes) {
    if (process.ended) findings->ends.emplace(process.index, PostMortemOf(process, run.model));
  }
  findings->framework = FrameworkOf(run.model);
  findings->trains = Trains(run.model);
  findings->diagnoses = Diagnose(run, *findings);
  findings->forecast_told = findings->forecast;
  if (findings->forecast.unnamed_bytes_per_second > 0 || absl::c_any_of(findings->diagnoses, IsOfGrowth))
    HeedGrowth(&findings->forecast_told);
  findings->peak = PeakSplitOf(run.model);
  findings->headline = HeadlineOf(run, *findings);
  findings->verdict = Verdict(run.model, *findings);
}

void JudgeReport(const Run& run, Findings* findings) {
  findings->remedies = RemediesOf(run, *findings);
  findings->of_all = TablesOf(run.model, {});
  for (const ProcessModel& process : run.model.processes) {
    if (!process.copy_sites.empty())
      findings->of_process.emplace(process.index, TablesOf(run.model, {.index = process.index}));
  }
  findings->regions = ByRegion(run.model, {});
  findings->worker_regions = ByRegion(run.model, {.workers_only = true});
  findings->verified = VerifiedPages(run.model);
}

}  // namespace

const PostMortem& Findings::EndOf(const ProcessModel& process) const {
  static const PostMortem kRunning = {.text = "running"};
  const auto found = ends.find(process.index);
  return found == ends.end() ? kRunning : found->second;
}

Findings Judge(const Run& run, Detail detail) {
  Findings findings;
  JudgeTick(run, &findings);
  if (detail >= Detail::kScreen) JudgeScreen(run, &findings);
  if (detail >= Detail::kReport) JudgeReport(run, &findings);
  return findings;
}

}  // namespace cowprof
