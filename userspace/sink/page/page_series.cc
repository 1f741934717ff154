#include "sink/page/page_series.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "timeline/json_limits.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kForecastsAnOctave = 64;  // between sample 2^n and 2^(n+1), if there are as many

Count Kib(const Count& bytes) { return bytes ? Count(*bytes / 1024) : std::nullopt; }
Count KnownKib(bool known, uint64_t bytes) { return known ? Count(bytes / 1024) : std::nullopt; }

// Rounds an estimate; unknown if it is infinite, NaN, negative or at least 1e18.
Count Whole(double value) {
  return std::isfinite(value) && value >= 0 && value < 1e18 ? Count(static_cast<uint64_t>(value + 0.5)) : std::nullopt;
}

Json SecondsOrNull(const std::optional<absl::Duration>& t) {
  return t ? Json(absl::ToDoubleSeconds(*t)) : Json(nullptr);
}
// With memory of its own that nobody saw come.
bool WasThere(const ProcessModel& process, const RunInfo& info) {
  return process.origin == Origin::kFoundAtAttach || (process.origin == Origin::kTarget && !info.started_target);
}
Json IndexOrNull(int index) { return index >= 0 ? Json(index) : Json(nullptr); }

// The number in RunModel::limits of the limit that is reached first.
Count NumberOfFirstLimit(const Forecast& forecast, const RunModel& model) {
  if (forecast.first_limit < 0) return std::nullopt;
  const LimitSample& first = forecast.limits[forecast.first_limit].now;
  const auto found = std::find_if(model.limits.begin(), model.limits.end(),
                                  [&](const LimitModel& limit) { return limit.now.key() == first.key(); });
  return found - model.limits.begin();
}

// Whether the forecast's sentence tells its plateau, or that the workers stay as they are.
bool TellsPlateau(const Forecast& forecast) {
  const bool levels_off = forecast.shape == Shape::kBounded || forecast.shape == Shape::kFlat;
  return levels_off && !forecast.grows && !forecast.ended && forecast.living_workers > 0 && forecast.workers_known;
}

}  // namespace

uint64_t MillisecondsOf(absl::Duration t) { return std::max<int64_t>(absl::ToInt64Milliseconds(t), 0); }

void PageSeries::CauseColumns::Add(const std::optional<CauseCounts>& causes) {
  for (int cause = 0; cause < kCauses; ++cause) {
    Column& column = columns[cause];
    if (column.size() == 0 && causes && (*causes)[cause] > 0) column = none;
    if (column.size() > 0 || (causes && (*causes)[cause] > 0))
      column.Add(causes ? Count((*causes)[cause]) : std::nullopt);
  }
  none.Add(causes ? Count(0) : std::nullopt);
  if (causes) last = *causes;
}

void PageSeries::CauseColumns::FillTo(size_t size) {
  if (none.size() >= size) return;  // as the others are
  for (Column& column : columns) {
    if (column.size() > 0) column.FillTo(size);
  }
  none.FillTo(size);
}

void PageSeries::CauseColumns::Halve(size_t first) {
  for (Column& column : columns) column.Halve(first);
  none.Halve(first);
}

// Each has the place of its index, unless some before it are not listed any more. Then it most often follows that of
// the row before.
PageSeries::ProcessColumns& PageSeries::ColumnsOf(int index) {
  const auto is_at = [&](size_t place) { return place < processes_.size() && processes_[place].index == index; };
  ++last_;
  if (is_at(static_cast<size_t>(index))) last_ = static_cast<size_t>(index);
  if (!is_at(last_)) {
    const auto found = std::lower_bound(processes_.begin(), processes_.end(), index,
                                        [](const Listed& one, int wanted) { return one.index < wanted; });
    last_ = found - processes_.begin();
    if (!is_at(last_)) processes_.insert(found, {index, std::make_unique<ProcessColumns>()});
  }
  return *processes_[last_].columns;
}

// Those that the model has summed up with others are not shown.
void PageSeries::ForgetUnlisted(const RunModel& model) {
  if (processes_.size() <= model.processes.size()) return;
  std::erase_if(processes_, [&](const Listed& one) { return model.Find(one.index) == nullptr; });
}

void PageSeries::AddProcess(const ProcessModel& process, size_t at) {
  // Minutes old, it could be below the private memory of now.
  const bool just_read = process.rollup && process.rollup->t > last_t_;
  const Count pss_bytes = just_read ? process.pss_bytes : std::nullopt;
  if (pss_bytes && !process.ended) {
    ++pss_processes_;
    pss_sum_bytes_ += *pss_bytes;
  }
  Row& row = waiting_.emplace_back();
  row.index = process.index;
  row.at = at;
  row.private_kib = Kib(process.private_bytes);
  row.pss_kib = Kib(pss_bytes);
  row.still_shared_kib = Kib(process.still_shared_bytes);
  row.copies = process.counts.copies;
  row.causes = process.causes;
}

void PageSeries::HandOver(const RunModel& model) {
  if (side_ == nullptr) {
    Write(&waiting_);
    ForgetUnlisted(model);
    return;
  }
  side_->WaitFor(handed_over_);
  ForgetUnlisted(model);
  writing_.swap(waiting_);
  handed_over_ = side_->Run([this] { Write(&writing_); });
}

void PageSeries::Settle() {
  if (side_ != nullptr) side_->WaitFor(handed_over_);
  Write(&waiting_);
}

void PageSeries::Write(std::vector<Row>* rows) {
  for (const Row& row : *rows) Write(row);
  rows->clear();
}

void PageSeries::Write(const Row& row) {
  ProcessColumns& columns = ColumnsOf(row.index);
  if (columns.copies.size() == 0) columns.first = row.at;
  const size_t before = row.at - columns.first;
  if (columns.copies.size() > before) return;  // a second row in the same sample
  // A sample without this process leaves a gap, not a shift.
  for (Column* column : {&columns.private_kib, &columns.pss_kib, &columns.still_shared_kib, &columns.copies})
    column->FillTo(before);
  columns.causes.FillTo(before);
  columns.private_kib.Add(row.private_kib);
  columns.pss_kib.Add(row.pss_kib);
  columns.still_shared_kib.Add(row.still_shared_kib);
  columns.copies.Add(row.copies);
  columns.causes.Add(row.causes);
}

void PageSeries::AddTotals(const RunModel& model) {
  const auto [living, all] = SumsOf(model);
  // Not by SumOf(), which adds up all that is known of each: this is asked at each sample.
  uint64_t workers = 0, workers_private_bytes = 0;
  bool workers_known = false;
  ForEachLately(model, [&](const ProcessModel& process) {
    if (process.ended || !process.is_worker()) return;
    ++workers;
    workers_known |= process.private_bytes.has_value();
    workers_private_bytes += process.private_bytes.value_or(0);
  });
  // If no process lives, no memory is held, and that is known.
  const bool none = living.processes == 0;
  totals_.private_kib.Add(KnownKib(none || living.private_known, living.private_bytes));
  workers_private_kib_.Add(KnownKib(workers == 0 || workers_known, workers_private_bytes));
  totals_.still_shared_kib.Add(KnownKib(none || living.still_shared_known, living.still_shared_bytes));
  totals_.pss_kib.Add(KnownKib(pss_processes_ > 0 && pss_processes_ == living.processes, pss_sum_bytes_));
  totals_.copies.Add(all.copies_known ? Count(all.copies) : std::nullopt);
  totals_.causes.Add(all.causes_known ? std::optional(all.causes) : std::nullopt);
}

// A limit that appears late was unknown before; one that is gone keeps its last value.
void PageSeries::AddLimits(const RunModel& model, size_t at) {
  limits_.resize(model.limits.size());
  for (size_t i = 0; i < model.limits.size(); ++i) {
    const LimitSample& limit = model.limits[i].now;
    limits_[i].used.FillTo(at);
    limits_[i].limit.FillTo(at);
    limits_[i].used.Add(limit.counts_bytes() ? limit.used / 1024 : limit.used);
    limits_[i].limit.Add(limit.counts_bytes() ? Kib(limit.limit) : limit.limit);
  }
}

void PageSeries::ForecastColumns::Add(const ForecastRow& row) {
  said_ms.Add(row.said_ms);
  low_kib.Add(row.low_kib);
  best_kib.Add(row.best_kib);
  high_kib.Add(row.high_kib);
  ceiling_kib.Add(row.ceiling_kib);
  eta_s.Add(row.eta_s);
  limit_eta_s.Add(row.limit_eta_s);
  limit.Add(row.limit);
}

void PageSeries::ForecastColumns::Halve() {
  for (Column* column : {&said_ms, &low_kib, &best_kib, &high_kib, &ceiling_kib, &eta_s, &limit_eta_s, &limit})
    column->Halve(0);
}

void PageSeries::Halve(size_t first, ProcessColumns* columns) {
  for (Column* column : {&columns->private_kib, &columns->pss_kib, &columns->still_shared_kib, &columns->copies})
    column->Halve(first);
  columns->causes.Halve(first);
}

// Unchanged rows take no room in a recording, but do here: idle workers for days, or a hostile file.
void PageSeries::Halve() {
  forecasts_.Add(forecast_);
  forecasts_.Halve();
  rows_ = 0;
  for (const auto& [index, columns] : processes_) {
    Halve(columns->first, columns.get());
    columns->first /= 2;
    rows_ += columns->copies.size();
  }
  Halve(0, &totals_);
  for (Column* column : {&times_ms_, &workers_private_kib_}) column->Halve(0);
  for (LimitColumns& limit : limits_) {
    limit.used.Halve(0);
    limit.limit.Halve(0);
  }
  every_ *= 2;
}

PageSeries::ForecastRow PageSeries::RowOf(const Forecast& forecast, const RunModel& model) {
  const bool told = TellsPlateau(forecast);
  const auto& plateau = forecast.plateau_bytes;
  const auto kib = [&](double Estimate::*height) {
    return told && plateau ? Whole((*plateau).*height / 1024) : std::nullopt;
  };
  ForecastRow row = {.said_ms = MillisecondsOf(model.t),
                     .low_kib = kib(&Estimate::low),
                     .best_kib = kib(&Estimate::best),
                     .high_kib = kib(&Estimate::high)};
  row.ceiling_kib = forecast.ceiling_bytes / 1024;
  if (const auto& eta = forecast.plateau_eta_seconds; told && eta) row.eta_s = Whole(eta->best);
  row.limit = NumberOfFirstLimit(forecast, model);
  if (row.limit) row.limit_eta_s = Whole(absl::ToDoubleSeconds(*forecast.limits[forecast.first_limit].eta));
  return row;
}

void PageSeries::Add(const Sample& sample, const Run& run) {
  const RunModel& model = run.model;
  peak_private_kib_ = run.estimates.forecast.peak_private_bytes / 1024;
  if (++samples_ % every_ != 0) return;
  const size_t at = times_ms_.size();
  times_ms_.Add(MillisecondsOf(sample.t));
  pss_processes_ = pss_sum_bytes_ = 0;
  for (const ProcessSample& row : sample.processes) {
    if (const ProcessModel* process = model.Find(row.index)) AddProcess(*process, at);
  }
  last_t_ = sample.t;
  if (side_ == nullptr || waiting_.size() >= kRowsAtOnce) HandOver(model);
  AddTotals(model);
  AddLimits(model, at);
  if (forecasts_.limit.size() < at) forecasts_.Add(forecast_);
  if (at % std::bit_floor(std::max<size_t>(at / kForecastsAnOctave, 1)) == 0)
    forecast_ = RowOf(Judge(run, Detail::kTick).forecast, model);
  rows_ += sample.processes.size();
  if (rows_ > most_rows_ && times_ms_.size() % 2 == 0) {
    Settle();
    Halve();
  }
}

// Only the causes that occur.
Json PageSeries::CausesJson(const CauseColumns& causes, ColumnFile* file) {
  Json json = Json::object();
  for (int cause = 0; cause < kCauses; ++cause) {
    if (causes.last[cause] > 0) json[NameOf(static_cast<Cause>(cause))] = file->Refer(causes.columns[cause]);
  }
  return json;
}

Json PageSeries::ForecastsJson(const ForecastColumns& forecasts, ColumnFile* file) {
  return {{"said_ms", file->Append(forecasts.said_ms)},         {"low_kib", file->Append(forecasts.low_kib)},
          {"best_kib", file->Append(forecasts.best_kib)},       {"high_kib", file->Append(forecasts.high_kib)},
          {"ceiling_kib", file->Append(forecasts.ceiling_kib)}, {"eta_s", file->Append(forecasts.eta_s)},
          {"limit_eta_s", file->Append(forecasts.limit_eta_s)}, {"limit", file->Append(forecasts.limit)}};
}

void PageSeries::Write(const RunModel& model, const Forecast& forecast, ColumnFile* file, Json* page) const {
  static const ProcessColumns kNone;
  Json processes = Json::array(), limits = Json::array();
  auto listed = processes_.begin();
  for (const ProcessModel& process : model.processes) {
    while (listed != processes_.end() && listed->index < process.index) ++listed;
    const bool has_rows = listed != processes_.end() && listed->index == process.index;
    const ProcessColumns& columns = has_rows ? *listed->columns : kNone;
    processes.push_back({{"index", process.index},
                         {"pid", process.id.pid},
                         {"role", NameOf(process.role)},
                         {"worker", process.is_worker()},
                         {"label", LabelOf(process, model)},
                         {"name", process.command.empty() ? process.comm : process.command},
                         {"parent", IndexOrNull(process.parent)},
                         {"space", process.space},
                         {"was_there", WasThere(process, model.info)},
                         {"started", absl::ToDoubleSeconds(process.started)},
                         {"ended", SecondsOrNull(process.ended)},
                         {"first", columns.first},
                         {"private_kib", file->Refer(columns.private_kib)},
                         {"pss_kib", file->Refer(columns.pss_kib)},
                         {"still_shared_kib", file->Refer(columns.still_shared_kib)},
                         {"copies", file->Refer(columns.copies)},
                         {"causes", CausesJson(columns.causes, file)}});
  }
  for (size_t i = 0; i < limits_.size(); ++i) {
    const LimitSample& limit = model.limits[i].now;
    Json& one = limits.emplace_back(LimitNameJson(limit));
    one["limit"] = file->Refer(limits_[i].limit);
    one["used"] = file->Refer(limits_[i].used);
  }
  (*page)["times_ms"] = file->Refer(times_ms_);
  (*page)["processes"] = std::move(processes);
  (*page)["totals"] = {{"private_kib", file->Refer(totals_.private_kib)},
                       {"peak_private_kib", peak_private_kib_},
                       {"workers_private_kib", file->Refer(workers_private_kib_)},
                       {"still_shared_kib", file->Refer(totals_.still_shared_kib)},
                       {"pss_kib", file->Refer(totals_.pss_kib)},
                       {"copies", file->Refer(totals_.copies)},
                       {"causes", CausesJson(totals_.causes, file)}};
  (*page)["limits"] = std::move(limits);
  ForecastColumns forecasts = forecasts_;
  if (forecasts.limit.size() < times_ms_.size()) forecasts.Add(RowOf(forecast, model));
  (*page)["forecasts"] = ForecastsJson(forecasts, file);
}

}  // namespace cowprof
