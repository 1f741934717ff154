// Where samples leave: the interface between the recording loop and what shows or stores them. Nothing upstream knows
// which sinks exist.
#ifndef COWPROF_SINK_SINK_H_
#define COWPROF_SINK_SINK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/judge/findings.h"

namespace cowprof {

// One tick, as the loop passes it to the sinks.
struct Tick {
  const Sample& sample;
  const RunModel& model;  // already includes the sample
  const Findings& findings;
  const std::vector<Alert>& raised;  // on this sample; the last ones of `findings.alerts`
};

class Sink {
 public:
  virtual ~Sink() = default;
  // How much of the findings the sink shows at a tick.
  virtual Detail detail() const { return Detail::kTick; }
  virtual absl::Status Write(const Tick& tick) = 0;
  // Releases the terminal, if the sink has it, so that a message can be printed; the next Write() takes it again.
  virtual void Yield() {}
  // Shows again what Write() showed last: the terminal was resized, or belongs to cowprof again.
  virtual void Repaint(const RunModel&, const Findings&) {}
  // Call once, after the last sample. `reason`: "target ended", "interrupted", "duration reached", ...
  virtual absl::Status Finish(absl::Duration t, const std::string& reason) = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_SINK_H_
