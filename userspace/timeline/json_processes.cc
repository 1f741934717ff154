#include "timeline/json_processes.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "timeline/json_fields.h"
#include "timeline/plain_record.h"

namespace cowprof {
namespace {

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

// Without a loop, so that the compiler knows where each goes: most of a recording is these.
template <typename Row, size_t... column>
void DecodeRow(const Row& row, std::index_sequence<column...>, ProcessSample* process) {
  const auto set = [&](Count FaultCounts::*count, Count ProcFigures::*figure, size_t cell) {
    (count != nullptr ? process->counts.*count : process->proc.*figure) = CountAt(row, cell);
  };
  (set(kColumns[column].count, kColumns[column].figure, column + 1), ...);
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

void AppendCount(int index, const Count& count, std::string* out) {
  absl::StrAppend(out, "[", index);
  AppendCell(count, out);
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
                  absl::ToInt64Microseconds(sweep.cost));
  AppendCell(sweep.later_write_protect_faults, out);
  AppendCell(sweep.later_new_pages, out);
  AppendCell(sweep.anonymous_pages, out);
  absl::StrAppend(out, "]");
}

constexpr const char* kRollupColumns[] = {"index",           "t",          "rss_bytes", "pss_bytes", "private_bytes",
                                          "anonymous_bytes", "swap_bytes", "cost_us"};
constexpr const char* kSweepColumns[] = {"index",
                                         "begin",
                                         "end",
                                         "full",
                                         "private_pages",
                                         "shared_pages",
                                         "diverged_pages",
                                         "same_pages",
                                         "new_pages",
                                         "zero_pages",
                                         "swapped_pages",
                                         "regions",
                                         "cost_us",
                                         "later_write_protect_faults",
                                         "later_new_pages",
                                         "anon_pages"};  // anonymous_pages

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

template <typename Row>
absl::Duration SecondsAt(const Row& row, size_t i) {
  return Rounded(NumberAt<double>(row, i).value_or(0));
}

template <typename Row>
absl::Duration MicrosecondsAt(const Row& row, size_t i) {
  return absl::Microseconds(NumberAt<int64_t>(row, i).value_or(0));
}

template <typename Row>
CauseCounts DecodeCauses(const Row& row) {
  CauseCounts causes = {};
  for (int cause = 0; cause < kCauses; ++cause) causes[cause] = CountAt(row, cause + 1).value_or(0);
  return causes;
}

// nullopt: not such a worker, or not any more.
template <typename Row>
std::optional<LoaderWorker> DecodeLoaderWorker(const Row& row) {
  const Count worker_id = CountAt(row, 1), num_workers = CountAt(row, 2);
  if (!worker_id || !num_workers) return std::nullopt;
  return LoaderWorker{.worker_id = *worker_id, .num_workers = *num_workers, .batch = CountAt(row, 3)};
}

template <typename Row>
RollupFigures DecodeRollup(const Row& row) {
  return {.t = SecondsAt(row, 1),
          .rss_bytes = CountAt(row, 2).value_or(0),
          .pss_bytes = CountAt(row, 3).value_or(0),
          .private_bytes = CountAt(row, 4).value_or(0),
          .anonymous_bytes = CountAt(row, 5).value_or(0),
          .swap_bytes = CountAt(row, 6).value_or(0),
          .cost = MicrosecondsAt(row, 7)};
}

template <typename Row>
SweepFigures DecodeSweep(const Row& row) {
  return {.begin = SecondsAt(row, 1),
          .end = SecondsAt(row, 2),
          .full = CountAt(row, 3).value_or(0) != 0,
          .private_pages = CountAt(row, 4).value_or(0),
          .shared_pages = CountAt(row, 5).value_or(0),
          .diverged_pages = CountAt(row, 6).value_or(0),
          .same_pages = CountAt(row, 7).value_or(0),
          .new_pages = CountAt(row, 8).value_or(0),
          .zero_pages = CountAt(row, 9).value_or(0),
          .swapped_pages = CountAt(row, 10).value_or(0),
          .regions = CountAt(row, 11).value_or(0),
          .cost = MicrosecondsAt(row, 12),
          .later_write_protect_faults = CountAt(row, 13),
          .later_new_pages = CountAt(row, 14),
          .anonymous_pages = CountAt(row, 15)};
}

template <typename Row>
std::optional<Framework> DecodeFramework(const Row& row) {
  return EnumNamed<Framework>(TextAt(row, 1));
}

// nullopt: the row names no process, or one whose index cowprof does not write.
template <typename Row>
std::optional<int> IndexOf(const Row& row) {
  const Count index = CountAt(row, 0);
  return index && *index <= INT32_MAX ? std::optional(static_cast<int>(*index)) : std::nullopt;
}

// Finds processes by index in a list that is sorted by it. Rows mostly come in the same order.
class ProcessesByIndex {
 public:
  explicit ProcessesByIndex(std::vector<ProcessSample>* processes) : processes_(processes) {}
  // nullptr if there is no such process, or no index.
  ProcessSample* Find(const std::optional<int>& index) {
    if (!index) return nullptr;
    if (next_ >= processes_->size() || (*processes_)[next_].index != *index) {
      const auto found = std::lower_bound(processes_->begin(), processes_->end(), *index, IsBefore);
      if (found == processes_->end() || found->index != *index) return nullptr;
      next_ = found - processes_->begin();
    }
    return &(*processes_)[next_++];
  }
  // Adds empty ones.
  void Add(std::vector<int> indexes) {
    std::sort(indexes.begin(), indexes.end());
    indexes.erase(std::unique(indexes.begin(), indexes.end()), indexes.end());
    const size_t known = processes_->size();
    for (const int index : indexes) processes_->push_back({.index = index});
    if (known == 0 || indexes.empty() || (*processes_)[known - 1].index < indexes.front()) return;
    std::inplace_merge(processes_->begin(), processes_->begin() + known, processes_->end(),
                       [](const ProcessSample& a, const ProcessSample& b) { return a.index < b.index; });
  }

 private:
  static bool IsBefore(const ProcessSample& process, int index) { return process.index < index; }
  std::vector<ProcessSample>* processes_;
  size_t next_ = 0;
};

// Calls `decode` with each row of a list and the process that it is about.
template <typename Decode>
void ForEachProcess(const SampleRecord& record, const char* key, std::vector<ProcessSample>* processes,
                    const Decode& decode) {
  ProcessesByIndex by_index(processes);
  ForEachRow(record, key, [&](const auto& row) {
    if (ProcessSample* process = by_index.Find(IndexOf(row))) decode(row, process);
  });
}

// nullopt: unknown.
template <typename Row>
std::optional<bool> DecodeFlag(const Row& row) {
  const Count on = CountAt(row, 1);
  return on ? std::optional<bool>(*on != 0) : std::nullopt;
}

}  // namespace

void EncodeProcesses(const Sample& sample, std::map<int, ProcessSample>* written, std::string* out) {
  std::string causes, collectors, persistent, loaders, frameworks, gup, mappings;
  {
    List rows("processes", out), cause_rows("causes", &causes), collector_rows("collectors", &collectors);
    List persistent_rows("persistent_workers", &persistent), loader_rows("loader_workers", &loaders);
    List framework_rows("frameworks", &frameworks), gup_rows("gup_copies", &gup);
    List mapping_rows("mappings", &mappings);
    for (const ProcessSample& process : sample.processes) {
      ProcessSample& last = written->try_emplace(process.index, ProcessSample{.index = -1}).first->second;
      const bool same_causes = last.causes == process.causes || !process.causes;
      if (!same_causes) AppendCauses(process.index, *process.causes, cause_rows.Next());
      if (last.collector_on != process.collector_on)
        AppendFlag(process.index, process.collector_on, collector_rows.Next());
      if (last.persistent != process.persistent) AppendFlag(process.index, process.persistent, persistent_rows.Next());
      if (last.loader != process.loader) AppendLoaderWorker(process.index, process.loader, loader_rows.Next());
      if (last.framework != process.framework) AppendFramework(process.index, process.framework, framework_rows.Next());
      if (last.gup_copies != process.gup_copies) AppendCount(process.index, process.gup_copies, gup_rows.Next());
      if (last.mappings != process.mappings) AppendCount(process.index, process.mappings, mapping_rows.Next());
      const bool same = last.index == process.index && last.counts == process.counts && last.proc == process.proc;
      last = process;
      if (!same) AppendRow(process, rows.Next());
    }
  }
  absl::StrAppend(out, causes, collectors, persistent, loaders, frameworks, gup, mappings);
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

void DropEnded(Sample* sample) {
  absl::flat_hash_set<int> ended;
  for (const Event& event : sample->events) {
    if (event.Is<ProcessExited>()) ended.insert(event.index);
  }
  if (ended.empty()) return;
  std::erase_if(sample->processes, [&](const ProcessSample& process) { return ended.contains(process.index); });
}

void DecodeProcesses(const SampleRecord& record, std::vector<ProcessSample>* processes) {
  for (ProcessSample& process : *processes) {
    process.rollup.reset();
    process.sweep.reset();
    process.verify.reset();
  }
  ProcessesByIndex by_index(processes);
  std::vector<int> added;
  const auto decode = [](const auto& row, ProcessSample* process) {
    DecodeRow(row, std::make_index_sequence<std::size(kColumns)>(), process);
  };
  ForEachRow(record, "processes", [&](const auto& row) {
    const std::optional<int> index = IndexOf(row);
    if (ProcessSample* process = by_index.Find(index)) {
      decode(row, process);
    } else if (index) {
      added.push_back(*index);
    }
  });
  if (!added.empty()) {
    by_index.Add(std::move(added));
    ForEachProcess(record, "processes", processes, decode);
  }
  ForEachProcess(record, "causes", processes,
                 [](const auto& row, ProcessSample* process) { process->causes = DecodeCauses(row); });
  ForEachProcess(record, "collectors", processes,
                 [](const auto& row, ProcessSample* process) { process->collector_on = DecodeFlag(row); });
  ForEachProcess(record, "persistent_workers", processes,
                 [](const auto& row, ProcessSample* process) { process->persistent = DecodeFlag(row); });
  ForEachProcess(record, "loader_workers", processes,
                 [](const auto& row, ProcessSample* process) { process->loader = DecodeLoaderWorker(row); });
  ForEachProcess(record, "frameworks", processes,
                 [](const auto& row, ProcessSample* process) { process->framework = DecodeFramework(row); });
  ForEachProcess(record, "gup_copies", processes,
                 [](const auto& row, ProcessSample* process) { process->gup_copies = CountAt(row, 1); });
  ForEachProcess(record, "mappings", processes,
                 [](const auto& row, ProcessSample* process) { process->mappings = CountAt(row, 1); });
  ForEachProcess(record, "rollups", processes,
                 [](const auto& row, ProcessSample* process) { process->rollup = DecodeRollup(row); });
  ForEachProcess(record, "sweeps", processes,
                 [](const auto& row, ProcessSample* process) { process->sweep = DecodeSweep(row); });
}

Json NamesOfProcessColumns() {
  Json columns = Json::array({"index"});
  for (const Column& column : kColumns) columns.push_back(column.name);
  Json causes = Json::array({"index"});
  for (int cause = 0; cause < kCauses; ++cause) causes.push_back(NameOf(static_cast<Cause>(cause)));
  return {{"processes", columns},
          {"causes", causes},
          {"gup_copies", {"index", "pages"}},
          {"mappings", {"index", "mappings"}},
          {"rollups", kRollupColumns},
          {"sweeps", kSweepColumns}};
}

Json NamesOfPythonColumns() {
  return {{"collectors", {"index", "on"}},
          {"persistent_workers", {"index", "persistent"}},
          {"loader_workers", {"index", "worker_id", "num_workers", "batch"}},
          {"frameworks", {"index", "framework"}}};
}

}  // namespace cowprof
