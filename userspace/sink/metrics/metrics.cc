// One Family a metric, in the order of docs/fleet.md. What is not known has no row, rather than a 0.
#include "sink/metrics/metrics.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/facts/roles.h"
#include "model/facts/shm.h"
#include "model/format.h"
#include "model/judge/run_figures.h"

namespace cowprof {
namespace {

constexpr const char *kGauge = "gauge", *kCounter = "counter";

// Present from the start, at 0, so that the first death is an increase.
constexpr const char* kExits[] = {"done",     "exit-status", "signal",      "oom",    "oom-cgroup",
                                  "oom-host", "shm-full",    "sigbus-file", "unknown"};

using Labels = std::vector<std::pair<absl::string_view, std::string>>;

std::string Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return absl::StrFormat("%.17g", value);
}
std::string Number(uint64_t value) { return absl::StrCat(value); }

class Text {
 public:
  explicit Text(const RunModel& model) {
    const RankFacts job = JobOf(model);
    const auto& given = model.info.identity.labels;
    const auto job_id = given.find("job_id");
    base_.emplace_back("job_id", job_id != given.end() ? job_id->second : job.job_id);
    const RankFacts& own = model.info.identity.rank;
    rank_ = own.source != RankSource::kNone && own.rank ? absl::StrCat(*own.rank) : "";
  }

  void Family(absl::string_view name, absl::string_view type, absl::string_view help) {
    name_ = absl::StrCat("cowprof_", name);
    head_ = absl::StrCat("# HELP ", name_, " ", help, "\n# TYPE ", name_, " ", type, "\n");
  }
  // A row with the rank of the target. "": an absent label.
  template <typename Value>
  void Row(Value value, const Labels& labels = {}, absl::string_view suffix = "") {
    RowOfRank(value, rank_, labels, suffix);
  }
  template <typename Value>
  void RowOfRank(Value value, absl::string_view rank, const Labels& labels, absl::string_view suffix = "") {
    absl::StrAppend(&text_, std::exchange(head_, ""), name_, suffix);
    std::string list;
    const auto add = [&](absl::string_view label, absl::string_view of_label) {
      if (!of_label.empty())
        absl::StrAppend(&list, list.empty() ? "{" : ",", label, "=\"", EscapeLabel(of_label), "\"");
    };
    for (const auto& [label, of_label] : base_) add(label, of_label);
    add("rank", rank);
    for (const auto& [label, of_label] : labels) add(label, of_label);
    absl::StrAppend(&text_, list, list.empty() ? " " : "} ", Number(value), "\n");
  }
  const std::string& text() const { return text_; }

 private:
  Labels base_;
  std::string rank_, name_, head_, text_;
};

// ---- Workers ----

void AddWorkers(const RunModel& model, const MetricsTally& tally, Text* text) {
  uint64_t living = 0;
  for (const ProcessModel& process : model.processes) living += process.is_worker() && !process.ended;
  text->Family("workers", kGauge, "Living workers.");
  text->Row(living);
  text->Family("worker_starts_total", kCounter, "Workers that have started.");
  text->Row(tally.starts());
  std::map<std::string, uint64_t> exits = tally.exits();
  for (const char* cause : kExits) exits.try_emplace(cause, 0);
  text->Family("worker_exits_total", kCounter,
               "Workers that have ended, by cause: done, exit-status, signal, or the id of a diagnosis.");
  for (const auto& [cause, count] : exits) text->Row(count, {{"cause", cause}});

  const auto add = [&](const auto& value_of) {
    for (const auto& [index, name] : tally.workers()) {
      if (const Count value = value_of(*model.Find(index)))
        text->RowOfRank(*value, name.rank, {{"worker", name.worker}});
    }
  };
  text->Family("worker_copied_bytes_total", kCounter, "Memory that the worker has copied on write.");
  add([&](const ProcessModel& process) -> Count {
    if (!process.counts.copies) return std::nullopt;
    return *process.counts.copies * model.info.page_bytes;
  });
  text->Family("worker_private_bytes", kGauge, "Private memory of the worker.");
  add([](const ProcessModel& process) { return process.private_bytes; });
  text->Family("worker_shared_bytes", kGauge, "Memory that the worker still shares and can still copy.");
  add([](const ProcessModel& process) { return process.still_shared_bytes; });
  text->Family("worker_batches_total", kCounter, "Batches that the worker was seen to begin, at least.");
  add([](const ProcessModel& process) { return process.batches; });
}

void AddPeaks(const MetricsTally& tally, Text* text) {
  text->Family("worker_peak_private_bytes", "histogram", "Most private memory of each worker that has ended.");
  uint64_t sum = 0;
  for (size_t i = 0; i < kPeakBuckets; ++i) {
    sum += tally.peaks()[i];
    const bool last = i + 1 == kPeakBuckets;
    text->Row(sum, {{"le", last ? "+Inf" : absl::StrCat(uint64_t{1} << (20 + 2 * i))}}, "_bucket");
  }
  text->Row(tally.peak_sum(), {}, "_sum");
  text->Row(sum, {}, "_count");
}

// ---- The run ----

void AddRun(const RunModel& model, const RecorderState& recorder, Text* text) {
  const ProcessModel* target = model.target();
  text->Family("build_info", kGauge, "Always 1; the version of cowprof.");
  text->Row(uint64_t{1}, {{"version", model.info.version}});
  text->Family("target_info", kGauge, "Always 1; what is recorded, and how copies are counted.");
  text->Row(uint64_t{1}, {{"python", target != nullptr ? target->python : ""},
                          {"start_method", StartMethodOf(model)},
                          {"rung", model.info.rung},
                          {"exactness", NameOf(model.info.exactness)}});
  text->Family("recording", kGauge, "1 while cowprof records, 0 once it has ended.");
  text->Row(uint64_t{recorder.recording});
  text->Family("last_sample_timestamp_seconds", kGauge, "When the last sample was taken, in Unix time.");
  text->Row(absl::ToDoubleSeconds(recorder.sampled - absl::UnixEpoch()));
}

void AddCopies(const RunModel& model, const MetricsTally& tally, Text* text) {
  const uint64_t page_bytes = model.info.page_bytes;
  text->Family("copied_bytes_total", kCounter, "Memory that all workers have copied on write, by what was written.");
  if (tally.causes()) {
    for (const Cause cause : kAll<Cause>)
      text->Row((*tally.causes())[static_cast<size_t>(cause)] * page_bytes, {{"cause", NameOf(cause)}});
  } else if (tally.copies()) {
    text->Row(*tally.copies() * page_bytes, {{"cause", NameOf(Cause::kUnknown)}});
  }
  text->Family("copy_seconds_total", kCounter,
               "Kernel time that these copies took, by the cost of one that was measured on this host.");
  if (tally.copies() && model.info.copy_ns > 0)
    text->Row(static_cast<double>(*tally.copies()) * model.info.copy_ns / 1e9);
  text->Family("new_bytes_total", kCounter, "New private memory that all workers have touched, freed or not.");
  if (tally.new_pages()) text->Row(*tally.new_pages() * page_bytes);
}

// `level` counts limits of one kind; of cgroups, 0 is the innermost.
std::vector<std::string> LevelsOf(const RunModel& model) {
  std::map<LimitKind, int> seen;
  std::vector<std::string> levels;
  for (const LimitModel& limit : model.limits) levels.push_back(absl::StrCat(seen[limit.now.kind]++));
  return levels;
}

void AddLimits(const RunModel& model, const Forecast& forecast, Text* text) {
  const std::vector<std::string> levels = LevelsOf(model);
  const auto labels = [&](size_t i) {
    return Labels{{"limit", NameOf(model.limits[i].now.kind)}, {"level", levels[i]}};
  };
  text->Family("limit_bytes", kGauge, "A limit of the target.");
  for (size_t i = 0; i < model.limits.size(); ++i) {
    const LimitSample& limit = model.limits[i].now;
    if (limit.limit && limit.counts_bytes()) text->Row(*limit.limit, labels(i));
  }
  text->Family("limit_used_bytes", kGauge, "What is used of the limit, without what the kernel can take back.");
  for (size_t i = 0; i < model.limits.size(); ++i) {
    if (model.limits[i].now.counts_bytes()) text->Row(model.limits[i].now.used, labels(i));
  }
  text->Family("limit_eta_seconds", kGauge, "Time until the limit is met, by the forecast; absent if it is not met.");
  for (const LimitForecast& ahead : forecast.limits) {
    const auto is_ahead = [&](const LimitModel& limit) { return limit.now.key() == ahead.now.key(); };
    const auto found = std::find_if(model.limits.begin(), model.limits.end(), is_ahead);
    if (!ahead.eta || forecast.ended || found == model.limits.end()) continue;
    text->Row(absl::ToDoubleSeconds(*ahead.eta), labels(found - model.limits.begin()));
  }
  text->Family("forecast_plateau_bytes", kGauge,
               "Private memory that the workers will come to; low and high are its interval.");
  if (forecast.plateau_bytes) {
    text->Row(forecast.plateau_bytes->low, {{"bound", "low"}});
    text->Row(forecast.plateau_bytes->best, {{"bound", "best"}});
    text->Row(forecast.plateau_bytes->high, {{"bound", "high"}});
  }
  text->Family("ceiling_bytes", kGauge, "The most that all processes can own by copying alone.");
  if (forecast.ceiling_bytes > 0) text->Row(forecast.ceiling_bytes);
}

void AddShm(const RunModel& model, Text* text) {
  text->Family("shm_used_bytes", kGauge, "Used bytes of the /dev/shm that the target sees.");
  if (model.shm) text->Row(model.shm->used_bytes);
  text->Family("shm_leaked_bytes", kGauge, "Of these, segments without a living owner.");
  if (model.shm_whole) text->Row(TotalOf(StillLeaked(*model.shm_whole, *model.shm)).bytes);
}

void AddAlerts(const RunModel& model, const MetricsTally& tally, Text* text) {
  text->Family("alerts_total", kCounter, "Alerts that cowprof has raised.");
  std::map<std::pair<std::string, std::string>, uint64_t> alerts = tally.alerts();
  // As with exits: so that the first alert is an increase.
  alerts.try_emplace({"", NameOf(AlertRule::kHang)}, 0);
  for (const LimitModel& limit : model.limits) {
    if (!limit.now.limit) continue;
    for (const AlertRule rule : {AlertRule::kRatio, AlertRule::kEta})
      alerts.try_emplace({NameOf(limit.now.kind), NameOf(rule)}, 0);
  }
  for (const auto& [of, count] : alerts) text->Row(count, {{"limit", of.first}, {"rule", of.second}});
  text->Family("oom_kills_total", kCounter, "Processes that the OOM killer has chosen.");
  text->Row(tally.oom_kills());
}

void AddRecorder(const Losses& losses, const std::optional<ProcessUse>& use, Text* text) {
  text->Family("lost_events_total", kCounter, "Events that the probes lost; 0 on a healthy run.");
  text->Row(losses.lost_events());
  text->Family("self_cpu_seconds_total", kCounter, "CPU time that the recorder has used.");
  if (use) text->Row(use->cpu_seconds);
  text->Family("self_resident_bytes", kGauge, "Resident memory of the recorder.");
  if (use) text->Row(use->resident_bytes);
}

}  // namespace

std::string EscapeLabel(absl::string_view value) {
  std::string escaped;
  for (const char c : ValidUtf8(value)) {
    switch (c) {
      case '\\':
        escaped += "\\\\";
        break;
      case '"':
        escaped += "\\\"";
        break;
      case '\n':
        escaped += "\\n";
        break;
      case '\0':
        escaped += "\\\\x00";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string MetricsText(const RunModel& model, const Findings& findings, const RecorderState& recorder,
                        MetricsTally* tally) {
  tally->Update(model, findings.workers);
  Text text(model);
  AddRun(model, recorder, &text);
  AddWorkers(model, *tally, &text);
  AddPeaks(*tally, &text);
  AddCopies(model, *tally, &text);
  AddLimits(model, findings.forecast, &text);
  AddShm(model, &text);
  AddAlerts(model, *tally, &text);
  AddRecorder(model.losses, recorder.use, &text);
  return text.text();
}

}  // namespace cowprof
