// Spells cowprof.report/1. Fields that this version can't fill are present and null or empty.
#include <nlohmann/json.hpp>

#include "model/fold.h"
#include "model/post_mortem.h"
#include "model/words.h"
#include "sink/json_alerts.h"
#include "sink/json_losses.h"
#include "sink/json_shm.h"
#include "sink/report.h"
#include "sink/report_blame.h"
#include "sink/report_forecast.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRowsOfProcess = 10, kRowsOfAll = 1000;

Json OrNull(const Count& count) { return count ? Json(*count) : Json(nullptr); }

Count BytesOf(const Count& pages, const RunInfo& info) {
  return pages ? Count(*pages * info.page_bytes) : std::nullopt;
}

// Kernel time spent in copies, by what one costs here.
Json CopySeconds(const Count& copies, const RunInfo& info) {
  if (!copies || info.copy_ns <= 0) return nullptr;
  return *copies * info.copy_ns / 1e9;
}

Json ExitJson(const ProcessGrowth& process, const Growth& growth) {
  if (!process.exit) return nullptr;
  const Exit& exit = *process.exit;
  const PostMortem found = PostMortemOf(process, growth);
  return {{"kind", exit.signaled ? "signaled" : "exited"},
          {"code", exit.code},
          {"signal", exit.signaled ? Json(SignalName(exit.signal)) : Json(nullptr)},
          {"cause", found.cause.empty() ? Json(nullptr) : Json(found.cause)},
          {"text", found.text},
          {"evidence", found.evidence}};
}

Json SweepJson(const ProcessGrowth& process, uint64_t page_bytes) {
  if (!process.sweep) return nullptr;
  return {{"at", absl::ToDoubleSeconds(process.sweep->end)},
          {"private_bytes", process.sweep->private_pages * page_bytes},
          {"shared_bytes", process.sweep->shared_pages * page_bytes},
          {"diverged_bytes", process.sweep->diverged_pages * page_bytes},
          {"new_bytes", process.sweep->new_pages * page_bytes},
          {"full", process.sweep->full}};
}

Json RollupJson(const ProcessGrowth& process) {
  if (!process.rollup) return nullptr;
  return {{"at", absl::ToDoubleSeconds(process.rollup->t)},
          {"rss_bytes", process.rollup->rss_bytes},
          {"pss_bytes", process.rollup->pss_bytes},
          {"private_bytes", process.rollup->private_bytes}};
}

Json ProcessJson(const ProcessGrowth& process, const Growth& growth) {
  const uint64_t page_bytes = growth.info.page_bytes;
  const FaultCounts& counts = process.counts;
  Json json = {{"pid", process.id.pid},
               {"index", process.index},
               {"role", NameOf(process.role)},
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
      {"reuses", counts.reuses()},
      {"zero_fills", counts.zero_fills()},
      {"zero_upgrades", counts.zero_upgrades},
      {"file_copies", counts.file_copies},
      {"shm_pages", counts.shm_pages},
      {"swap_ins", counts.swap_ins},
      {"copied_bytes", BytesOf(counts.copies, growth.info)},
      {"private_bytes", process.private_bytes},
      {"peak_private_bytes", process.peak_private_bytes},
      {"pss_bytes", process.pss_bytes},
      {"still_shared_bytes", process.still_shared_bytes},
      {"ceiling_bytes", process.ceiling_bytes()},
  };
  for (const auto& [name, figure] : figures) json[name] = OrNull(figure);
  json["by_cause"] = CausesJson(process.causes.value_or(CauseCounts{}), process.causes.has_value());
  json["copy_seconds"] = CopySeconds(counts.copies, growth.info);
  json["python"] = process.python.empty() ? Json(nullptr) : Json(process.python);
  json["collector_on"] = process.collector_on ? Json(*process.collector_on) : Json(nullptr);
  json["persistent_worker"] = process.persistent ? Json(*process.persistent) : Json(nullptr);
  if (!process.places.empty()) {
    const Blame blame = BlameOf(growth, {.index = process.index});
    json["by_type"] = TypesJson(growth, blame, kRowsOfProcess);
    json["by_line"] = LinesJson(growth, blame, kRowsOfProcess);
  }
  json["page_map"] = SweepJson(process, page_bytes);
  json["smaps_rollup"] = RollupJson(process);
  json["exit"] = ExitJson(process, growth);
  return json;
}

Json LimitJson(const LimitGrowth& limit) {
  const std::optional<double> ratio = limit.now.ratio();
  return {{"kind", NameOf(limit.now.kind)},
          {"name", limit.now.name},
          {"unit", limit.now.counts_bytes() ? "bytes" : "count"},
          {"limit", OrNull(limit.now.limit)},
          {"used", limit.now.used},
          {"peak", limit.peak},
          {"ratio", ratio ? Json(*ratio) : Json(nullptr)}};
}

// As the timeline has them, and with the pid of the process that grows.
Json AlertsJson(const Growth& growth) {
  Json alerts = Json::array();
  for (const Alert& alert : growth.alerts) {
    Json json = EncodeAlert(alert);
    json.erase("type");
    const ProcessGrowth* process = growth.Find(alert.index);
    json["pid"] = process != nullptr ? Json(process->id.pid) : Json(nullptr);
    alerts.push_back(std::move(json));
  }
  return alerts;
}

const char* StartMethod(const Growth& growth) {
  bool forked = false, spawned = false, served = false;
  ForEachRow(growth, [&](const ProcessGrowth& process) {
    forked |= process.role == Role::kWorker && !process.execed;
    spawned |= process.role == Role::kWorker && process.command.find("--multiprocessing-fork") != std::string::npos;
    served |= process.role == Role::kForkserver;
  });
  return served ? "forkserver" : spawned ? "spawn" : forked ? "fork" : "none";
}

Json LossesJson(const Losses& losses) {
  Json json = EncodeLosses(losses);
  json["maps_full"] = losses.processes_dropped + losses.regions_dropped;
  return json;
}

// Null as long as every process is listed.
Json UnlistedJson(const Growth& growth) {
  Totals sum;
  for (const ProcessGrowth& row : growth.folded) {
    sum.processes += row.stands_for;
    sum.copies += row.counts.copies.value_or(0);
    sum.copies_known |= row.counts.copies.has_value();
    sum.causes_known |= row.causes.has_value();
    for (int cause = 0; row.causes && cause < kCauses; ++cause) sum.causes[cause] += (*row.causes)[cause];
  }
  if (sum.processes == 0) return nullptr;
  const Count copies = sum.copies_known ? Count(sum.copies) : std::nullopt;
  return {{"processes", sum.processes},
          {"copies", OrNull(copies)},
          {"copied_bytes", OrNull(BytesOf(copies, growth.info))},
          {"by_cause", CausesJson(sum.causes, sum.causes_known)}};
}

}  // namespace

Json ReportJson(const Growth& growth) {
  const Totals totals = SumOf(growth, /*living_only=*/false, /*workers_only=*/false);
  const ProcessGrowth unknown = {.role = Role::kParent};
  const ProcessGrowth& target = growth.target() != nullptr ? *growth.target() : unknown;
  const Count copies = totals.copies_known ? Count(totals.copies) : std::nullopt;
  const Blame blame = BlameOf(growth, {});
  const CauseEvidence& evidence = growth.cause_evidence;
  Json workers = Json::array(), limits = Json::array();
  for (const ProcessGrowth& process : growth.processes) {
    if (process.index > 0) workers.push_back(ProcessJson(process, growth));
  }
  for (const LimitGrowth& limit : growth.limits) limits.push_back(LimitJson(limit));
  const LimitGrowth* nearest = NearestLimit(growth);
  return {
      {"schema", "cowprof.report/1"},
      {"target",
       {{"pid", growth.info.target.pid},
        {"command", growth.info.command},
        {"python", target.python.empty() ? Json(nullptr) : Json(target.python)},
        {"start_method", StartMethod(growth)}}},
      {"duration_seconds", absl::ToDoubleSeconds(growth.t)},
      {"samples", growth.samples},
      {"exactness",
       {{"copies", NameOf(growth.info.exactness)},
        {"rung", growth.info.rung},
        {"causes",
         {{"looked", evidence.looked},
          {"told_by_instruction", evidence.told},
          {"audited", evidence.audited},
          {"contradicted", evidence.contradicted}}},
        {"stacks", {{"samples", blame.samples}, {"estimated", blame.estimated}}},
        {"copy_ns", growth.info.copy_ns > 0 ? Json(growth.info.copy_ns) : Json(nullptr)}}},
      {"parent", ProcessJson(target, growth)},
      {"workers", std::move(workers)},
      {"unlisted", UnlistedJson(growth)},
      {"totals",
       {{"copies", OrNull(copies)},
        {"copied_bytes", OrNull(BytesOf(copies, growth.info))},
        {"peak_workers_private_bytes", growth.peak_workers_private_bytes},
        {"by_cause", CausesJson(totals.causes, totals.causes_known)},
        {"copy_seconds", CopySeconds(copies, growth.info)}}},
      {"by_type", TypesJson(growth, blame, kRowsOfAll)},
      {"by_line", LinesJson(growth, blame, kRowsOfAll)},
      {"by_native", NativeJson(growth, blame, kRowsOfAll)},
      {"by_region", RegionsJson(growth, kRowsOfAll)},
      {"limits", std::move(limits)},
      {"nearest_limit", nearest != nullptr ? Json(nearest - growth.limits.data()) : Json(nullptr)},
      {"shm", ShmReportJson(growth)},
      {"forecast", ForecastJson(ForecastOf(growth))},
      {"alerts", AlertsJson(growth)},
      {"diagnoses", DiagnosesJson(growth)},
      {"verify", VerifyJson(growth)},
      {"losses", LossesJson(growth.losses)},
  };
}

}  // namespace cowprof
