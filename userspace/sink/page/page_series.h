// The page's series with one value per sample: each process, the totals, limits, and the forecast at that time. Derives
// nothing: the figures come from RunModel, SumOf() and Judge().
#ifndef COWPROF_SINK_PAGE_PAGE_SERIES_H_
#define COWPROF_SINK_PAGE_PAGE_SERIES_H_

#include <array>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "model/judge/findings.h"
#include "sink/page/page_columns.h"
#include "sink/page/side_thread.h"

namespace cowprof {

class PageSeries {
 public:
  // `most_rows`: one row per process and sample. If there are more, only the later of each two samples is kept. `side`:
  // where rows are written to columns; null: in Add().
  explicit PageSeries(uint64_t most_rows, SideThread* side = nullptr) : most_rows_(most_rows), side_(side) {}
  // `run` already includes the sample.
  void Add(const Sample& sample, const Run& run);
  // Returns once all rows are in their columns. Call before Write() and processes() if there is a `side`.
  void Settle();
  // Sets times_ms, processes, totals, limits and forecasts. `forecast`: the current one.
  void Write(const RunModel& model, const Forecast& forecast, ColumnFile* file, nlohmann::ordered_json* page) const;
  // Of how many processes it keeps columns: of no more than the model lists.
  size_t processes() const { return processes_.size(); }

 private:
  // Cumulative, in copies.
  struct CauseColumns {
    std::array<Column, kCauses> columns;  // empty: the cause has not occurred, and its column would be `none`
    Column none;                          // 0 where causes are known
    CauseCounts last = {};
    void Add(const std::optional<CauseCounts>& causes);
    void FillTo(size_t size);
    void Halve(size_t first);
  };
  struct ProcessColumns {
    size_t first = 0;  // sample in which it appears
    Column private_kib, pss_kib, still_shared_kib, copies;
    CauseColumns causes;
  };
  // Of one process at sample `at`, still to be written to its columns.
  struct Row {
    int index = 0;
    size_t at = 0;
    Count private_kib, pss_kib, still_shared_kib, copies;
    std::optional<CauseCounts> causes;
  };
  struct Listed {
    int index = 0;
    std::unique_ptr<ProcessColumns> columns;  // a kilobyte
  };
  struct LimitColumns {
    Column used, limit;
  };
  struct ForecastRow {
    Count said_ms, low_kib, best_kib, high_kib, ceiling_kib, eta_s, limit_eta_s, limit;
  };
  struct ForecastColumns {
    Column said_ms, low_kib, best_kib, high_kib, ceiling_kib, eta_s, limit_eta_s, limit;
    void Add(const ForecastRow& row);
    void Halve();
  };
  ProcessColumns& ColumnsOf(int index);
  void AddProcess(const ProcessModel& process, size_t at);
  void HandOver(const RunModel& model);
  void Write(std::vector<Row>* rows);
  void Write(const Row& row);
  void ForgetUnlisted(const RunModel& model);
  void AddTotals(const RunModel& model);
  void AddLimits(const RunModel& model, size_t at);
  void Halve();
  static void Halve(size_t first, ProcessColumns* columns);
  static ForecastRow RowOf(const Forecast& forecast, const RunModel& model);
  static nlohmann::ordered_json ForecastsJson(const ForecastColumns& forecasts, ColumnFile* file);
  static nlohmann::ordered_json CausesJson(const CauseColumns& causes, ColumnFile* file);

  static constexpr size_t kRowsAtOnce = 2048;  // enough that waking the other thread costs next to nothing

  uint64_t most_rows_;
  SideThread* side_;
  std::vector<Row> waiting_, writing_;  // writing_ and processes_: the other thread's until it has done `handed_over_`
  uint64_t handed_over_ = 0;
  uint64_t samples_ = 0, every_ = 1, rows_ = 0;
  Column times_ms_;
  absl::Duration last_t_ = -absl::InfiniteDuration();  // of the last of them
  uint64_t pss_processes_ = 0, pss_sum_bytes_ = 0;     // of living processes, in this sample: whose PSS was just read
  std::vector<Listed> processes_;                      // in order of index
  size_t last_ = 0;                                    // the one that a row was last added to
  ProcessColumns totals_;
  Column workers_private_kib_;
  uint64_t peak_private_kib_ = 0;  // of all samples, also of those that have no row
  std::vector<LimitColumns> limits_;
  // Of all samples, except perhaps the last, whose row is not in the columns yet. A forecast costs milliseconds if many
  // pages are known: in a long recording it is made at every second, fourth... sample only, and holds until the next.
  ForecastColumns forecasts_;
  ForecastRow forecast_;
};

// The time of a sample in whole milliseconds, at least 0.
uint64_t MillisecondsOf(absl::Duration t);

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_SERIES_H_
