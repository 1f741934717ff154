// Metrics as a sink: makes their text after a tick, at most once a second, and passes it to the process that writes it.
#ifndef COWPROF_SINK_METRICS_METRICS_SINK_H_
#define COWPROF_SINK_METRICS_METRICS_SINK_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "posix/clock.h"
#include "posix/process_use.h"
#include "sink/metrics/metrics.h"
#include "sink/metrics/metrics_file.h"
#include "sink/sink.h"

namespace cowprof {

class MetricsSink : public Sink {
 public:
  // `model`: of the recording; outlives the sink. `report` gets a sentence when the file can't be written.
  MetricsSink(std::unique_ptr<MetricsFile> file, const RunModel& model, std::function<void(const std::string&)> report)
      : file_(std::move(file)), report_(std::move(report)), model_(model) {}

  absl::Status Write(const Tick& tick) override {
    sampled_ = BootTime();
    tally_.Append(tick.sample, tick.raised, tick.model);
    findings_ = &tick.findings;
    if (tick.sample.t < next_) return absl::OkStatus();
    next_ = tick.sample.t + kLeastGap;
    Report(file_->Write(Text(/*recording=*/true)));
    return absl::OkStatus();
  }
  absl::Status Finish(absl::Duration, const std::string&) override {
    Report(file_->Finish(Text(/*recording=*/false)));
    return absl::OkStatus();  // what can't be written is no failure of the recording
  }

 private:
  static constexpr absl::Duration kLeastGap = absl::Milliseconds(900);  // ticks come a little early at times

  std::string Text(bool recording) {
    return MetricsText(model_, *findings_, {WallTimeOf(sampled_), ReadUse(stat_), recording}, &tally_);
  }
  void Report(const std::string& failure) const {
    if (!failure.empty()) report_(failure);
  }

  std::unique_ptr<MetricsFile> file_;
  std::function<void(const std::string&)> report_;
  MetricsTally tally_;
  Fd stat_ = OpenStat("self");
  absl::Duration sampled_ = BootTime();
  absl::Duration next_ = -absl::InfiniteDuration();
  const RunModel& model_;
  const Findings none_;
  const Findings* findings_ = &none_;  // or of the last tick, which outlive the sink
};

}  // namespace cowprof

#endif  // COWPROF_SINK_METRICS_METRICS_SINK_H_
