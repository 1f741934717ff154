// Spells cowprof.report/1. Fields that this version can't fill are present and null or empty.
#include <nlohmann/json.hpp>

#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/run_figures.h"
#include "model/judge/start_methods.h"
#include "sink/report/remedies_format.h"
#include "sink/report/report.h"
#include "sink/report/report_blame.h"
#include "sink/report/report_forecast.h"
#include "timeline/json_alerts.h"
#include "timeline/json_fields.h"
#include "timeline/json_fork_hazards.h"
#include "timeline/json_hangs.h"
#include "timeline/json_identity.h"
#include "timeline/json_limits.h"
#include "timeline/json_losses.h"
#include "timeline/json_shm.h"
#include "timeline/json_start_methods.h"

namespace cowprof {
namespace {

constexpr size_t kRowsOfProcess = 10, kRowsOfAll = 1000;

Count BytesOf(const Count& pages, const RunInfo& info) {
  return pages ? Count(*pages * info.page_bytes) : std::nullopt;
}

// Kernel time spent on copies, from the cost of one on this host.
Json CopySeconds(const Count& copies, const RunInfo& info) {
  if (!copies || info.copy_ns <= 0) return nullptr;
  return *copies * info.copy_ns / 1e9;
}

Json ExitJson(const ProcessModel& process, const PostMortem& found) {
  if (!process.exit) return nullptr;
  const Exit& exit = *process.exit;
  return {{"kind", exit.signaled ? "signaled" : "exited"},
          {"code", exit.code},
          {"signal", exit.signaled ? Json(SignalName(exit.signal)) : Json(nullptr)},
          {"cause", TextOrNull(found.cause)},
          {"text", found.text},
          {"evidence", found.evidence}};
}

Json SweepJson(const ProcessModel& process, uint64_t page_bytes) {
  if (!process.sweep) return nullptr;
  return {{"at", absl::ToDoubleSeconds(process.sweep->end)},
          {"private_bytes", process.sweep->private_pages * page_bytes},
          {"shared_bytes", process.sweep->shared_pages * page_bytes},
          {"diverged_bytes", process.sweep->diverged_pages * page_bytes},
          {"new_bytes", process.sweep->new_pages * page_bytes},
          {"full", process.sweep->full}};
}

Json RollupJson(const ProcessModel& process) {
  if (!process.rollup) return nullptr;
  return {{"at", absl::ToDoubleSeconds(process.rollup->t)},
          {"rss_bytes", process.rollup->rss_bytes},
          {"pss_bytes", process.rollup->pss_bytes},
          {"private_bytes", process.rollup->private_bytes}};
}

Json ProcessJson(const ProcessModel& process, const RunModel& model, const Findings& findings) {
  const uint64_t page_bytes = model.info.page_bytes;
  const FaultCounts& counts = process.counts;
  const RankFacts* rank = RankOf(process, model);
  Json json = {{"pid", process.id.pid},
               {"index", process.index},
               {"role", NameOf(process.role)},
               {"worker", process.is_worker()},
               {"label", LabelOf(process, model)},
               {"rank", OrNull(rank != nullptr ? rank->rank : std::nullopt)},
               {"local_rank", OrNull(LocalRankOf(process, model))},
               {"worker_id", OrNull(process.loader ? Count(process.loader->worker_id) : std::nullopt)},
               {"generation", process.generation < 0 ? Json(nullptr) : Json(process.generation)},
               {"batches", OrNull(process.batches)},
               {"parent_index", process.parent < 0 ? Json(nullptr) : Json(process.parent)},
               {"command", process.command.empty() ? process.comm : process.command},
               {"started_at", absl::ToDoubleSeconds(process.started)},
               {"ended_at", process.ended ? Json(absl::ToDoubleSeconds(*process.ended)) : Json(nullptr)}};
  const std::pair<const char*, Count> figures[] = {
      {"faults", counts.faults},
      {"kernel_faults", counts.kernel_faults},
      {"write_protect_faults", counts.write_protect_faults},
      {"copies", counts.copies},
      {"kernel_copies", counts.kernel_copies},
      {"gup_copies", process.gup_copies},
      {"reuses", counts.reuses()},
      {"zero_fills", counts.zero_fills()},
      {"zero_upgrades", counts.zero_upgrades},
      {"file_copies", counts.file_copies},
      {"shm_pages", counts.shm_pages},
      {"swap_ins", counts.swap_ins},
      {"copied_bytes", BytesOf(counts.copies, model.info)},
      {"private_bytes", process.private_bytes},
      {"peak_private_bytes", process.peak_private_bytes},
      {"pss_bytes", process.pss_bytes},
      {"still_shared_bytes", process.still_shared_bytes},
      {"ceiling_bytes", process.ceiling_bytes()},
      {"before_attach_bytes", process.before_attach_bytes},
  };
  for (const auto& [name, figure] : figures) json[name] = OrNull(figure);
  json["by_cause"] = CausesJson(process.causes.value_or(CauseCounts{}), process.causes.has_value());
  json["copy_seconds"] = CopySeconds(counts.copies, model.info);
  json["python"] = TextOrNull(process.python);
  json["collector_on"] = process.collector_on ? Json(*process.collector_on) : Json(nullptr);
  json["persistent_worker"] = process.persistent ? Json(*process.persistent) : Json(nullptr);
  if (const auto tables = findings.of_process.find(process.index); tables != findings.of_process.end()) {
    json["by_type"] = TypesJson(tables->second, model.info.page_bytes, kRowsOfProcess);
    json["by_line"] = LinesJson(tables->second, model.info.page_bytes, kRowsOfProcess);
  }
  json["page_map"] = SweepJson(process, page_bytes);
  json["smaps_rollup"] = RollupJson(process);
  json["exit"] = ExitJson(process, findings.EndOf(process));
  return json;
}

Json LimitJson(const LimitModel& limit) {
  Json json = LimitUseJson(limit.now);
  json["peak"] = limit.peak;
  json["ratio"] = RatioJson(limit.now);
  json["peak_ratio"] = limit.peak_ratio > 0 || limit.now.ratio() ? Json(limit.peak_ratio) : Json(nullptr);
  return json;
}

// As in the timeline, plus the pid of the process that grows.
Json AlertsJson(const RunModel& model, const Findings& findings) {
  Json alerts = Json::array();
  for (const Alert& alert : findings.alerts) {
    Json json = EncodeAlert(alert);
    json.erase("type");
    const ProcessModel* process = model.Find(alert.index);
    json["pid"] = process != nullptr ? Json(process->id.pid) : Json(nullptr);
    alerts.push_back(std::move(json));
  }
  return alerts;
}

Json LossesJson(const Losses& losses) {
  Json json = EncodeLosses(losses);
  json["maps_full"] = losses.processes_dropped + losses.regions_dropped;
  return json;
}

// Null as long as every process is listed.
Json UnlistedJson(const RunModel& model) {
  Totals sum;
  for (const ProcessModel& row : model.ended_aggregates) {
    sum.processes += row.stands_for;
    sum.copies += row.counts.copies.value_or(0);
    sum.copies_known |= row.counts.copies.has_value();
    sum.causes_known |= row.causes.has_value();
    if (row.causes) Add(*row.causes, &sum.causes);
  }
  if (sum.processes == 0) return nullptr;
  const Count copies = sum.copies_known ? Count(sum.copies) : std::nullopt;
  return {{"processes", sum.processes},
          {"copies", OrNull(copies)},
          {"copied_bytes", OrNull(BytesOf(copies, model.info))},
          {"by_cause", CausesJson(sum.causes, sum.causes_known)}};
}

// Empty if nobody looked; but rows that say why where the version of Python forbids it. Without a sentence if they are
// of what other processes than the workers would be sent.
Json SeenStartMethodsJson(const RunModel& model, Framework framework) {
  if (!model.start_methods) {
    const std::string why = WhyNotJudged(model.target() != nullptr ? model.target()->python : "");
    if (why.empty()) return Json::array();
    Json rows = StartMethodsJson({});
    for (Json& row : rows)
      row.update({{"why_unknown", why}, {"pid", nullptr}, {"at_seconds", nullptr}, {"sentence", nullptr}});
    return rows;
  }
  Json rows = StartMethodsJson(model.start_methods->look);
  const ProcessModel* process = model.Find(model.start_methods->index);
  const SeenStartMethods* const seen = SentToWorkers(model, framework);
  const std::string sentence = seen != nullptr ? StartMethodsSentence(seen->look) : "";
  for (Json& row : rows) {
    row["pid"] = process != nullptr ? Json(process->id.pid) : Json(nullptr);
    row["at_seconds"] = absl::ToDoubleSeconds(model.start_methods->t);
    row["sentence"] = TextOrNull(sentence);
  }
  return rows;
}

// Empty if no process with threads was seen to fork.
Json ForkHazardsJson(const RunModel& model) {
  Json rows = Json::array();
  for (const auto& [index, known] : model.fork_hazards) {
    const ProcessModel* process = model.Find(index);
    if (process == nullptr) continue;
    const ForkHazardSeen& seen = known.last;
    Json row = {{"pid", process->id.pid},
                {"forked_at", seen.child >= 0 ? Json(absl::ToDoubleSeconds(known.t)) : Json(nullptr)},
                {"forks", process->forks}};
    row.update(ForkHazardJson(seen));
    rows.push_back(std::move(row));
  }
  return rows;
}

// Those of processes that have ended, too; what went on after all is not among them.
Json SeenHangsJson(const RunModel& model) {
  std::vector<Hang> hangs;
  for (const ProcessModel& process : model.processes) {
    for (Hang hang : process.hangs) {
      hang.waited += process.ended.value_or(model.t) - process.hangs_at;
      hangs.push_back(std::move(hang));
    }
  }
  return HangsJson(hangs);
}

// Null if no worker was seen.
Json WorkerSlotsJson(const RunModel& model, const Findings& findings) {
  if (findings.workers.processes == 0) return nullptr;
  const Slots slots = SlotsOf(model);
  return {{"configured", OrNull(slots.configured)},
          {"living_at_once", model.most_living_workers},
          {"started", findings.workers.processes},
          {"ranks", slots.ranks > 0 ? Json(slots.ranks) : Json(nullptr)},
          {"living_at_once_of_a_rank", slots.ranks > 0 ? Json(slots.most_of_rank) : Json(nullptr)}};
}

// Null if the private memory of no worker was seen.
Json PeakJson(const RunModel& model, const PeakSplit& split) {
  const WorkersPeak& peak = model.workers_peak;
  if (peak.bytes == 0) return nullptr;
  return {{"at_seconds", absl::ToDoubleSeconds(peak.t)},
          {"bytes", peak.bytes},
          {"split",
           {{"copied", split.copied},
            {"pickled", split.pickled},
            {"new", split.fresh},
            {"before_attach", split.before_attach},
            {"inherited_freed", split.inherited_freed},
            {"left", split.left}}}};
}

}  // namespace

Json ReportJson(const RunModel& model, const Findings& findings, bool complete) {
  const Totals& totals = findings.all;
  const uint64_t page_bytes = model.info.page_bytes;
  const ProcessModel unknown = {.role = Role::kParent};
  const ProcessModel* const found = model.target();
  const ProcessModel& target = found != nullptr ? *found : unknown;
  const auto copies_of = [](const Totals& sum) { return sum.copies_known ? Count(sum.copies) : std::nullopt; };
  const Count copies = copies_of(totals), workers_copies = copies_of(findings.workers);
  const Blame& blame = findings.of_all.blame;
  const CauseEvidence& evidence = model.cause_evidence;
  Json workers = Json::array(), limits = Json::array();
  for (const ProcessModel& process : model.processes) {
    if (process.index > 0) workers.push_back(ProcessJson(process, model, findings));
  }
  for (const LimitModel& limit : model.limits) limits.push_back(LimitJson(limit));
  return {
      {"schema", "cowprof.report/1"},
      {"target",
       {{"pid", model.info.target.pid},
        {"command", model.info.command},
        {"python", TextOrNull(target.python)},
        {"start_method", StartMethodOf(model)},
        {"framework", findings.framework == Framework::kFork ? Json(nullptr) : Json(NameOf(findings.framework))}}},
      {"identity", IdentityJson(model.info.identity, JobOf(model))},
      {"headline", {{"diagnosis", findings.headline.diagnosis}, {"sentence", findings.headline.sentence}}},
      {"duration_seconds", absl::ToDoubleSeconds(model.t)},
      {"samples", model.samples},
      {"complete", complete},
      {"exactness",
       {{"copies", NameOf(model.info.exactness)},
        {"rung", model.info.rung},
        {"causes",
         {{"looked", evidence.looked},
          {"told_by_instruction", evidence.told},
          {"audited", evidence.audited},
          {"contradicted", evidence.contradicted}}},
        {"stacks", {{"samples", blame.samples}, {"estimated", blame.estimated}}},
        {"copy_ns", model.info.copy_ns > 0 ? Json(model.info.copy_ns) : Json(nullptr)}}},
      {"parent", ProcessJson(target, model, findings)},
      {"workers", std::move(workers)},
      {"unlisted", UnlistedJson(model)},
      {"worker_slots", WorkerSlotsJson(model, findings)},
      {"peak", PeakJson(model, findings.peak)},
      {"totals",
       {{"copies", OrNull(copies)},
        {"copied_bytes", OrNull(BytesOf(copies, model.info))},
        {"workers_copied_bytes", OrNull(BytesOf(workers_copies, model.info))},
        {"peak_workers_private_bytes", model.workers_peak.bytes},
        {"by_cause", CausesJson(totals.causes, totals.causes_known)},
        {"copy_seconds", CopySeconds(copies, model.info)}}},
      {"by_type", TypesJson(findings.of_all, page_bytes, kRowsOfAll)},
      {"by_line", LinesJson(findings.of_all, page_bytes, kRowsOfAll)},
      {"by_native", NativeJson(findings.of_all, page_bytes, kRowsOfAll)},
      {"by_region", RegionsJson(model, findings.regions, kRowsOfAll)},
      {"limits", std::move(limits)},
      {"nearest_limit", findings.nearest_limit >= 0 ? Json(findings.nearest_limit) : Json(nullptr)},
      {"shm", ShmReportJson(model)},
      {"forecast", ForecastJson(findings.forecast_told)},
      {"alerts", AlertsJson(model, findings)},
      {"diagnoses", DiagnosesJson(findings.diagnoses)},
      {"remedies", RemediesJson(findings.remedies)},
      {"start_methods", SeenStartMethodsJson(model, findings.framework)},
      {"fork_hazards", ForkHazardsJson(model)},
      {"hangs", SeenHangsJson(model)},
      {"verify", VerifyJson(findings.verified)},
      {"losses", LossesJson(model.losses)},
  };
}

}  // namespace cowprof
