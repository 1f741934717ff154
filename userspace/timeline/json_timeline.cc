// Writes rows, the bulk of a file, directly as text, and rare records through nlohmann_json.
#include "timeline/json_timeline.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "timeline/json_alerts.h"
#include "timeline/json_copy_sites.h"
#include "timeline/json_events.h"
#include "timeline/json_fields.h"
#include "timeline/json_limits.h"
#include "timeline/json_losses.h"
#include "timeline/json_shm.h"

namespace cowprof {
namespace {

// ---- Columns of a process row, in order; the header lists their names ----

struct Column {
  const char* name;
  Count FaultCounts::*count;
  Count ProcFigures::*figure;
};

constexpr Column kColumns[] = {
    {"faults", &FaultCounts::faults, nullptr},
    {"kernel_faults", &FaultCounts::kernel_faults, nullptr},
    {"write_protect_faults", &FaultCounts::write_protect_faults, nullptr},
    {"copies", &FaultCounts::copies, nullptr},
    {"kernel_copies", &FaultCounts::kernel_copies, nullptr},
    {"zero_upgrades", &FaultCounts::zero_upgrades, nullptr},
    {"zero_fill_pages", &FaultCounts::zero_fill_pages, nullptr},
    {"file_copies", &FaultCounts::file_copies, nullptr},
    {"shm_pages", &FaultCounts::shm_pages, nullptr},
    {"swap_ins", &FaultCounts::swap_ins, nullptr},
    {"anon_pages", nullptr, &ProcFigures::anon_pages},
    {"file_pages", nullptr, &ProcFigures::file_pages},
    {"shmem_pages", nullptr, &ProcFigures::shmem_pages},
    {"swap_pages", nullptr, &ProcFigures::swap_pages},
    {"virtual_pages", nullptr, &ProcFigures::virtual_pages},
    {"cpu_ms", nullptr, &ProcFigures::cpu_ms},
    {"descriptors", nullptr, &ProcFigures::descriptors},
    {"threads", nullptr, &ProcFigures::threads},
};

const Count& CellOf(const ProcessSample& process, const Column& column) {
  return column.count != nullptr ? process.counts.*column.count : process.proc.*column.figure;
}
Count& CellOf(ProcessSample& process, const Column& column) {
  return column.count != nullptr ? process.counts.*column.count : process.proc.*column.figure;
}

std::string Seconds(absl::Duration t) { return absl::StrFormat("%.6f", absl::ToDoubleSeconds(t)); }

constexpr size_t kMaxUnwrittenEvents = 100'000;  // kept while the disk is full: about 30 MB
constexpr uint64_t kMaxProcesses = 10'000'000;   // in one recording; cowprof writes fewer

// ---- Rows of a sample ----

void AppendCell(const Count& count, std::string* out) {
  if (count) {
    absl::StrAppend(out, ",", *count);
  } else {
    absl::StrAppend(out, ",null");
  }
}

void AppendRow(const ProcessSample& process, std::string* out) {
  absl::StrAppend(out, "[", process.index);
  for (const Column& column : kColumns) AppendCell(CellOf(process, column), out);
  absl::StrAppend(out, "]");
}

void AppendCauses(int index, const CauseCounts& causes, std::string* out) {
  absl::StrAppend(out, "[", index);
  for (const uint64_t copies : causes) absl::StrAppend(out, ",", copies);
  absl::StrAppend(out, "]");
}

void AppendFlag(int index, const std::optional<bool>& on, std::string* out) {
  absl::StrAppend(out, "[", index);
  AppendCell(on ? Count(*on) : std::nullopt, out);
  absl::StrAppend(out, "]");
}

void AppendLoaderWorker(int index, const std::optional<LoaderWorker>& worker, std::string* out) {
  absl::StrAppend(out, "[", index);
  AppendCell(worker ? Count(worker->worker_id) : std::nullopt, out);
  AppendCell(worker ? Count(worker->num_workers) : std::nullopt, out);
  AppendCell(worker ? worker->batch : std::nullopt, out);
  absl::StrAppend(out, "]");
}

// nullopt: not such a worker, or not any more.
std::optional<LoaderWorker> DecodeLoaderWorker(const Json& row) {
  const Count worker_id = CountAt(row, 1), num_workers = CountAt(row, 2);
  if (!worker_id || !num_workers) return std::nullopt;
  return LoaderWorker{.worker_id = *worker_id, .num_workers = *num_workers, .batch = CountAt(row, 3)};
}

void AppendName(int index, const std::optional<Framework>& framework, std::string* out) {
  absl::StrAppend(out, "[", index, ",", framework ? absl::StrCat("\"", NameOf(*framework), "\"") : "null", "]");
}

CauseCounts DecodeCauses(const Json& row) {
  CauseCounts causes = {};
  for (int cause = 0; cause < kCauses; ++cause) causes[cause] = CountAt(row, cause + 1).value_or(0);
  return causes;
}

void AppendRollup(int index, const RollupFigures& rollup, std::string* out) {
  absl::StrAppend(out, "[", index, ",", Seconds(rollup.t), ",", rollup.rss_bytes, ",", rollup.pss_bytes, ",",
                  rollup.private_bytes, ",", rollup.anonymous_bytes, ",", rollup.swap_bytes, ",",
                  absl::ToInt64Microseconds(rollup.cost), "]");
}

void AppendSweep(int index, const SweepFigures& sweep, std::string* out) {
  absl::StrAppend(out, "[", index, ",", Seconds(sweep.begin), ",", Seconds(sweep.end), ",", sweep.full ? 1 : 0, ",",
                  sweep.private_pages, ",", sweep.shared_pages, ",", sweep.diverged_pages, ",", sweep.same_pages);
  absl::StrAppend(out, ",", sweep.new_pages, ",", sweep.zero_pages, ",", sweep.swapped_pages, ",", sweep.regions, ",",
                  absl::ToInt64Microseconds(sweep.cost), "]");
}

constexpr const char* kRollupColumns[] = {"index",           "t",          "rss_bytes", "pss_bytes", "private_bytes",
                                          "anonymous_bytes", "swap_bytes", "cost_us"};
constexpr const char* kSweepColumns[] = {"index",         "begin",          "end",        "full",      "private_pages",
                                         "shared_pages",  "diverged_pages", "same_pages", "new_pages", "zero_pages",
                                         "swapped_pages", "regions",        "cost_us"};

RollupFigures DecodeRollup(const Json& row) {
  return {.t = Rounded(DoubleAt(row, 1)),
          .rss_bytes = CountAt(row, 2).value_or(0),
          .pss_bytes = CountAt(row, 3).value_or(0),
          .private_bytes = CountAt(row, 4).value_or(0),
          .anonymous_bytes = CountAt(row, 5).value_or(0),
          .swap_bytes = CountAt(row, 6).value_or(0),
          .cost = MicrosecondsAt(row, 7)};
}

SweepFigures DecodeSweep(const Json& row) {
  return {.begin = Rounded(DoubleAt(row, 1)),
          .end = Rounded(DoubleAt(row, 2)),
          .full = CountAt(row, 3).value_or(0) != 0,
          .private_pages = CountAt(row, 4).value_or(0),
          .shared_pages = CountAt(row, 5).value_or(0),
          .diverged_pages = CountAt(row, 6).value_or(0),
          .same_pages = CountAt(row, 7).value_or(0),
          .new_pages = CountAt(row, 8).value_or(0),
          .zero_pages = CountAt(row, 9).value_or(0),
          .swapped_pages = CountAt(row, 10).value_or(0),
          .regions = CountAt(row, 11).value_or(0),
          .cost = MicrosecondsAt(row, 12)};
}

constexpr const char* kLimitColumns[] = {"limit", "used", "limit_value", "ratio", "failures", "kills"};

// Writes `,"key":[a,b]`, or nothing if there are no elements.
class List {
 public:
  List(const char* key, std::string* out) : key_(key), out_(out) {}
  ~List() {
    if (!first_) absl::StrAppend(out_, "]");
  }
  std::string* Next() {
    absl::StrAppend(out_, first_ ? absl::StrCat(",\"", key_, "\":[") : ",");
    first_ = false;
    return out_;
  }

 private:
  const char* key_;
  std::string* out_;
  bool first_ = true;
};

template <typename T>
void Prepend(const std::vector<T>& earlier, std::vector<T>* list) {
  list->insert(list->begin(), earlier.begin(), earlier.end());
}

}  // namespace

Json NamesOfColumns() {
  Json columns = Json::array({"index"});
  for (const Column& column : kColumns) columns.push_back(column.name);
  Json causes = Json::array({"index"});
  for (int cause = 0; cause < kCauses; ++cause) causes.push_back(NameOf(static_cast<Cause>(cause)));
  Json names = {{"processes", columns},
                {"causes", causes},
                {"rollups", kRollupColumns},
                {"sweeps", kSweepColumns},
                {"limits", kLimitColumns}};
  names["collectors"] = Json::array({"index", "on"});
  names["persistent_workers"] = Json::array({"index", "persistent"});
  names["loader_workers"] = Json::array({"index", "worker_id", "num_workers", "batch"});
  names["frameworks"] = Json::array({"index", "framework"});
  names.update(NamesOfCopySiteColumns());
  names.update(NamesOfSegmentColumns());
  return names;
}

void RecordEncoder::EncodeProcesses(const Sample& sample, std::string* out) {
  std::string causes, collectors, persistent, loaders, frameworks;
  {
    List rows("processes", out), cause_rows("causes", &causes), collector_rows("collectors", &collectors);
    List persistent_rows("persistent_workers", &persistent), loader_rows("loader_workers", &loaders);
    List framework_rows("frameworks", &frameworks);
    for (const ProcessSample& process : sample.processes) {
      ProcessSample& last = pending_.processes.try_emplace(process.index, ProcessSample{.index = -1}).first->second;
      const bool same_causes = last.causes == process.causes || !process.causes;
      if (!same_causes) AppendCauses(process.index, *process.causes, cause_rows.Next());
      if (last.collector_on != process.collector_on)
        AppendFlag(process.index, process.collector_on, collector_rows.Next());
      if (last.persistent != process.persistent) AppendFlag(process.index, process.persistent, persistent_rows.Next());
      if (last.loader != process.loader) AppendLoaderWorker(process.index, process.loader, loader_rows.Next());
      if (last.framework != process.framework) AppendName(process.index, process.framework, framework_rows.Next());
      const bool same = last.index == process.index && last.counts == process.counts && last.proc == process.proc;
      last = process;
      if (!same) AppendRow(process, rows.Next());
    }
  }
  absl::StrAppend(out, causes, collectors, persistent, loaders, frameworks);
  {
    List rows("rollups", out);
    for (const ProcessSample& process : sample.processes) {
      if (process.rollup) AppendRollup(process.index, *process.rollup, rows.Next());
    }
  }
  List rows("sweeps", out);
  for (const ProcessSample& process : sample.processes) {
    if (process.sweep) AppendSweep(process.index, *process.sweep, rows.Next());
  }
  for (const Event& event : sample.events) {
    if (event.Is<ProcessExited>()) pending_.processes.erase(event.index);
  }
}

// A limit's name is written once, in the first sample that has it.
void RecordEncoder::EncodeLimits(const Sample& sample, std::string* out) {
  Json named = Json::array();
  std::string rows;
  for (const LimitSample& limit : sample.limits) {
    const auto same = [&](const LimitSample& known) { return known.key() == limit.key(); };
    auto known = std::find_if(pending_.limits.begin(), pending_.limits.end(), same);
    const bool is_new = known == pending_.limits.end();
    if (is_new) {
      Json& one = named.emplace_back(Json{{"limit", pending_.limits.size()}});  // its number
      one.update(LimitNameJson(limit));
      known = pending_.limits.insert(known, limit);
    }
    if (!is_new && *known == limit) continue;
    *known = limit;
    absl::StrAppend(&rows, rows.empty() ? "[" : ",[", known - pending_.limits.begin(), ",", limit.used);
    AppendCell(limit.limit, &rows);
    absl::StrAppend(&rows, ",", limit.ratio() ? absl::StrFormat("%.4f", *limit.ratio()) : "null");
    if (limit.failures || limit.kills) {
      AppendCell(limit.failures, &rows);
      AppendCell(limit.kills, &rows);
    }
    absl::StrAppend(&rows, "]");
  }
  if (!named.empty()) absl::StrAppend(out, ",\"new_limits\":", Dump(named));
  if (!rows.empty()) absl::StrAppend(out, ",\"limits\":[", rows, "]");
}

std::string RecordEncoder::Encode(const Sample& latest, const std::vector<Alert>& raised) {
  pending_ = written_;
  Sample sample = latest;
  const std::vector<ProcessSample> ended = std::exchange(unwritten_.processes, {});
  Prepend(unwritten_.events, &sample.events);
  std::vector<Alert> alerts = raised;
  Prepend(unwritten_alerts_, &alerts);
  unwritten_alerts_ = alerts;
  Prepend(ended, &sample.processes);
  Prepend(unwritten_.new_frames, &sample.new_frames);
  Prepend(unwritten_.new_copy_sites, &sample.new_copy_sites);
  Prepend(unwritten_.copy_sites, &sample.copy_sites);
  Prepend(unwritten_.new_growth_sites, &sample.new_growth_sites);
  Prepend(unwritten_.growth, &sample.growth);
  Prepend(unwritten_.pages, &sample.pages);
  Prepend(unwritten_.new_regions, &sample.new_regions);
  Prepend(unwritten_.regions, &sample.regions);
  Prepend(unwritten_.heads, &sample.heads);
  if (!sample.cause_evidence) sample.cause_evidence = unwritten_.cause_evidence;
  if (!sample.shm) sample.shm = unwritten_.shm;
  unwritten_ = {.events = sample.events,
                .shm = sample.shm,
                .new_frames = sample.new_frames,
                .new_copy_sites = sample.new_copy_sites,
                .copy_sites = sample.copy_sites,
                .new_growth_sites = sample.new_growth_sites,
                .growth = sample.growth,
                .pages = sample.pages,
                .new_regions = sample.new_regions,
                .regions = sample.regions,
                .heads = sample.heads,
                .cause_evidence = sample.cause_evidence};
  unwritten_.events.resize(std::min(unwritten_.events.size(), kMaxUnwrittenEvents));
  std::set<int> exited;
  for (const Event& event : unwritten_.events) {
    if (event.Is<ProcessExited>()) exited.insert(event.index);
  }
  for (const ProcessSample& process : sample.processes) {
    if (exited.contains(process.index)) unwritten_.processes.push_back(process);
  }
  std::string out;
  for (const Event& event : sample.events) absl::StrAppend(&out, Dump(EncodeEvent(event)), ",\n");
  for (const Alert& alert : alerts) absl::StrAppend(&out, Dump(EncodeAlert(alert)), ",\n");
  absl::StrAppend(&out, "{\"t\":", Seconds(sample.t), ",\"type\":\"sample\"");
  EncodeProcesses(sample, &out);
  EncodeLimits(sample, &out);
  if (sample.shm) EncodeShm(*sample.shm, &out);
  EncodeCopySites(sample, &pending_.numbers, &out);
  if (!(sample.losses == pending_.losses)) absl::StrAppend(&out, ",\"losses\":", Dump(EncodeLosses(sample.losses)));
  pending_.losses = sample.losses;
  return absl::StrCat(out, "}");
}

void RecordEncoder::Commit() {
  written_ = pending_;
  unwritten_ = {};
  unwritten_alerts_.clear();
}

std::string EncodeEnd(absl::Duration t, absl::string_view reason) {
  return absl::StrCat("{\"t\":", Seconds(t), ",\"type\":\"end\",\"reason\":", Dump(Json(std::string(reason))), "}");
}

void RecordDecoder::DecodeProcesses(const nlohmann::ordered_json& record) {
  for (const Json& row : ListOf(record, "processes")) {
    const Count index = CountAt(row, 0);
    if (!index || *index > kMaxProcesses) continue;
    ProcessSample& process = processes_[static_cast<int>(*index)];
    process.index = static_cast<int>(*index);
    size_t cell = 1;
    for (const Column& column : kColumns) CellOf(process, column) = CountAt(row, cell++);
  }
  for (const Json& row : ListOf(record, "causes")) {
    const Count index = CountAt(row, 0);
    if (index && *index <= kMaxProcesses && processes_.contains(static_cast<int>(*index)))
      processes_[static_cast<int>(*index)].causes = DecodeCauses(row);
  }
  const auto decode_flags = [&](const char* key, std::optional<bool> ProcessSample::*flag) {
    for (const Json& row : ListOf(record, key)) {
      const Count index = CountAt(row, 0), on = CountAt(row, 1);
      if (index && *index <= kMaxProcesses && processes_.contains(static_cast<int>(*index)))
        processes_[static_cast<int>(*index)].*flag = on ? std::optional<bool>(*on != 0) : std::nullopt;
    }
  };
  decode_flags("collectors", &ProcessSample::collector_on);
  decode_flags("persistent_workers", &ProcessSample::persistent);
  for (const Json& row : ListOf(record, "loader_workers")) {
    const Count index = CountAt(row, 0);
    if (index && *index <= kMaxProcesses && processes_.contains(static_cast<int>(*index)))
      processes_[static_cast<int>(*index)].loader = DecodeLoaderWorker(row);
  }
  for (const Json& row : ListOf(record, "frameworks")) {
    const Count index = CountAt(row, 0);
    if (!index || *index > kMaxProcesses || !processes_.contains(static_cast<int>(*index))) continue;
    const std::string name = row.size() > 1 && row[1].is_string() ? row[1].get<std::string>() : "";
    std::optional<Framework>& framework = processes_[static_cast<int>(*index)].framework;
    framework.reset();
    for (const Framework known : kAll<Framework>) {
      if (name == NameOf(known)) framework = known;
    }
  }
  sample_.processes.clear();
  for (const auto& [index, process] : processes_) sample_.processes.push_back(process);
  const auto process_of = [&](const Json& row) -> ProcessSample* {
    const auto is_it = [&](const ProcessSample& process) { return CountAt(row, 0) == Count(process.index); };
    const auto found = std::find_if(sample_.processes.begin(), sample_.processes.end(), is_it);
    return found == sample_.processes.end() ? nullptr : &*found;
  };
  for (const Json& row : ListOf(record, "rollups")) {
    if (ProcessSample* process = process_of(row)) process->rollup = DecodeRollup(row);
  }
  for (const Json& row : ListOf(record, "sweeps")) {
    if (ProcessSample* process = process_of(row)) process->sweep = DecodeSweep(row);
  }
  for (const Event& event : sample_.events) {
    if (event.Is<ProcessExited>()) processes_.erase(event.index);
  }
}

void RecordDecoder::DecodeLimits(const nlohmann::ordered_json& record) {
  for (const Json& named : ListOf(record, "new_limits")) {
    if (!named.is_object()) continue;
    const LimitSample limit = DecodeLimit(named);
    limits_.push_back({.kind = limit.kind, .name = limit.name});  // "limit" is its number here
  }
  for (const Json& row : ListOf(record, "limits")) {
    const Count i = CountAt(row, 0);
    if (!i || *i >= limits_.size()) continue;
    limits_[*i].used = CountAt(row, 1).value_or(0);
    limits_[*i].limit = CountAt(row, 2);
    limits_[*i].failures = CountAt(row, 4);
    limits_[*i].kills = CountAt(row, 5);
  }
  sample_.limits = limits_;
}

absl::StatusOr<RecordDecoder::Result> RecordDecoder::Decode(absl::string_view record) {
  const Json json = Json::parse(record.begin(), record.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::DataLossError("a record is not a JSON object");
  const std::string type = TextOf(json, "type");
  if (type == "event") {
    events_.push_back(DecodeEvent(json));
    return Result::kMore;
  }
  if (type == "alert") alerts_.push_back(DecodeAlert(json));
  if (type == "end") return Result::kEnd;
  if (type != "sample") return Result::kMore;  // also ignores types that later versions add
  sample_.t = Rounded(NumberOf<double>(json, "t"));
  sample_.events = std::exchange(events_, {});
  raised_ = std::exchange(alerts_, {});
  DecodeProcesses(json);
  DecodeLimits(json);
  sample_.shm = DecodeShm(json);
  DecodeCopySites(json, &numbers_, &sample_);
  const auto losses = json.find("losses");
  if (losses != json.end() && losses->is_object()) sample_.losses = DecodeLosses(*losses);
  return Result::kSample;
}

}  // namespace cowprof
