#include "timeline/json_processes.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr uint64_t kMaxProcesses = 10'000'000;  // in one recording; cowprof writes fewer

// The columns of a row of `processes`, in order.
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

void AppendFramework(int index, const std::optional<Framework>& framework, std::string* out) {
  absl::StrAppend(out, "[", index, ",", framework ? absl::StrCat("\"", NameOf(*framework), "\"") : "null", "]");
}

void AppendRollup(int index, const RollupFigures& rollup, std::string* out) {
  absl::StrAppend(out, "[", index, ",", SecondsText(rollup.t), ",", rollup.rss_bytes, ",", rollup.pss_bytes, ",",
                  rollup.private_bytes, ",", rollup.anonymous_bytes, ",", rollup.swap_bytes, ",",
                  absl::ToInt64Microseconds(rollup.cost), "]");
}

void AppendSweep(int index, const SweepFigures& sweep, std::string* out) {
  absl::StrAppend(out, "[", index, ",", SecondsText(sweep.begin), ",", SecondsText(sweep.end), ",", sweep.full ? 1 : 0,
                  ",", sweep.private_pages, ",", sweep.shared_pages, ",", sweep.diverged_pages, ",", sweep.same_pages);
  absl::StrAppend(out, ",", sweep.new_pages, ",", sweep.zero_pages, ",", sweep.swapped_pages, ",", sweep.regions, ",",
                  absl::ToInt64Microseconds(sweep.cost), "]");
}

constexpr const char* kRollupColumns[] = {"index",           "t",          "rss_bytes", "pss_bytes", "private_bytes",
                                          "anonymous_bytes", "swap_bytes", "cost_us"};
constexpr const char* kSweepColumns[] = {"index",         "begin",          "end",        "full",      "private_pages",
                                         "shared_pages",  "diverged_pages", "same_pages", "new_pages", "zero_pages",
                                         "swapped_pages", "regions",        "cost_us"};

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

CauseCounts DecodeCauses(const Json& row) {
  CauseCounts causes = {};
  for (int cause = 0; cause < kCauses; ++cause) causes[cause] = CountAt(row, cause + 1).value_or(0);
  return causes;
}

// nullopt: not such a worker, or not any more.
std::optional<LoaderWorker> DecodeLoaderWorker(const Json& row) {
  const Count worker_id = CountAt(row, 1), num_workers = CountAt(row, 2);
  if (!worker_id || !num_workers) return std::nullopt;
  return LoaderWorker{.worker_id = *worker_id, .num_workers = *num_workers, .batch = CountAt(row, 3)};
}

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

std::optional<Framework> DecodeFramework(const Json& row) {
  return row.is_array() && row.size() > 1 && row[1].is_string() ? EnumNamed<Framework>(row[1].get<std::string>())
                                                                : std::nullopt;
}

// nullopt: the row names no process, or one whose index cowprof does not write.
std::optional<int> IndexOf(const Json& row) {
  const Count index = CountAt(row, 0);
  return index && *index <= kMaxProcesses ? std::optional(static_cast<int>(*index)) : std::nullopt;
}

// The process that a row is about; nullptr: none of these.
ProcessSample* ProcessOf(const Json& row, std::map<int, ProcessSample>* processes) {
  const std::optional<int> index = IndexOf(row);
  const auto found = index ? processes->find(*index) : processes->end();
  return found == processes->end() ? nullptr : &found->second;
}
ProcessSample* ProcessOf(const Json& row, std::vector<ProcessSample>* processes) {
  const std::optional<int> index = IndexOf(row);
  const auto found = std::find_if(processes->begin(), processes->end(),
                                  [&](const ProcessSample& process) { return process.index == index; });
  return found == processes->end() ? nullptr : &*found;
}

// Calls `decode` with each row of a list and the process that it is about.
template <typename Processes, typename Decode>
void ForEachProcess(const Json& record, const char* key, Processes* processes, const Decode& decode) {
  for (const Json& row : ListOf(record, key)) {
    if (ProcessSample* process = ProcessOf(row, processes)) decode(row, process);
  }
}

// nullopt: unknown.
std::optional<bool> DecodeFlag(const Json& row) {
  const Count on = CountAt(row, 1);
  return on ? std::optional<bool>(*on != 0) : std::nullopt;
}

}  // namespace

void EncodeProcesses(const Sample& sample, std::map<int, ProcessSample>* written, std::string* out) {
  std::string causes, collectors, persistent, loaders, frameworks;
  {
    List rows("processes", out), cause_rows("causes", &causes), collector_rows("collectors", &collectors);
    List persistent_rows("persistent_workers", &persistent), loader_rows("loader_workers", &loaders);
    List framework_rows("frameworks", &frameworks);
    for (const ProcessSample& process : sample.processes) {
      ProcessSample& last = written->try_emplace(process.index, ProcessSample{.index = -1}).first->second;
      const bool same_causes = last.causes == process.causes || !process.causes;
      if (!same_causes) AppendCauses(process.index, *process.causes, cause_rows.Next());
      if (last.collector_on != process.collector_on)
        AppendFlag(process.index, process.collector_on, collector_rows.Next());
      if (last.persistent != process.persistent) AppendFlag(process.index, process.persistent, persistent_rows.Next());
      if (last.loader != process.loader) AppendLoaderWorker(process.index, process.loader, loader_rows.Next());
      if (last.framework != process.framework) AppendFramework(process.index, process.framework, framework_rows.Next());
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
    if (event.Is<ProcessExited>()) written->erase(event.index);
  }
}

void DecodeProcesses(const Json& record, std::map<int, ProcessSample>* processes, Sample* sample) {
  for (const Json& row : ListOf(record, "processes")) {
    const std::optional<int> index = IndexOf(row);
    if (!index) continue;
    ProcessSample& process = (*processes)[*index];
    process.index = *index;
    size_t cell = 1;
    for (const Column& column : kColumns) CellOf(process, column) = CountAt(row, cell++);
  }
  ForEachProcess(record, "causes", processes,
                 [](const Json& row, ProcessSample* process) { process->causes = DecodeCauses(row); });
  ForEachProcess(record, "collectors", processes,
                 [](const Json& row, ProcessSample* process) { process->collector_on = DecodeFlag(row); });
  ForEachProcess(record, "persistent_workers", processes,
                 [](const Json& row, ProcessSample* process) { process->persistent = DecodeFlag(row); });
  ForEachProcess(record, "loader_workers", processes,
                 [](const Json& row, ProcessSample* process) { process->loader = DecodeLoaderWorker(row); });
  ForEachProcess(record, "frameworks", processes,
                 [](const Json& row, ProcessSample* process) { process->framework = DecodeFramework(row); });
  sample->processes.clear();
  for (const auto& [index, process] : *processes) sample->processes.push_back(process);
  ForEachProcess(record, "rollups", &sample->processes,
                 [](const Json& row, ProcessSample* process) { process->rollup = DecodeRollup(row); });
  ForEachProcess(record, "sweeps", &sample->processes,
                 [](const Json& row, ProcessSample* process) { process->sweep = DecodeSweep(row); });
  for (const Event& event : sample->events) {
    if (event.Is<ProcessExited>()) processes->erase(event.index);
  }
}

Json NamesOfProcessColumns() {
  Json columns = Json::array({"index"});
  for (const Column& column : kColumns) columns.push_back(column.name);
  Json causes = Json::array({"index"});
  for (int cause = 0; cause < kCauses; ++cause) causes.push_back(NameOf(static_cast<Cause>(cause)));
  return {{"processes", columns}, {"causes", causes}, {"rollups", kRollupColumns}, {"sweeps", kSweepColumns}};
}

Json NamesOfPythonColumns() {
  return {{"collectors", {"index", "on"}},
          {"persistent_workers", {"index", "persistent"}},
          {"loader_workers", {"index", "worker_id", "num_workers", "batch"}},
          {"frameworks", {"index", "framework"}}};
}

}  // namespace cowprof
