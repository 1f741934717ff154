// Where samples leave: the seam between the loop and the ways of showing or keeping them. Nothing upstream knows which
// exist.
#ifndef COWPROF_SINK_SINK_H_
#define COWPROF_SINK_SINK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "model/judge/findings.h"

namespace cowprof {

// One tick, as the loop hands it on.
struct Tick {
  const Sample& sample;
  const RunModel& model;  // has the sample in it already
  const Findings& findings;
  const std::vector<Alert>& raised;  // on this sample; the last ones of `findings.alerts`
};

class Sink {
 public:
  virtual ~Sink() = default;
  // How much of the findings it shows at a tick.
  virtual Detail detail() const { return Detail::kTick; }
  virtual absl::Status Write(const Tick& tick) = 0;
  // Gives the terminal, if the sink has it, to whoever wants to say something; the next Write() takes it again.
  virtual void Yield() {}
  // The terminal has another size, or belongs to cowprof again: shows what Write() showed last.
  virtual void Repaint(const RunModel&, const Findings&) {}
  // Once, after the last sample. `reason`: "target ended", "interrupted", "duration reached".
  virtual absl::Status Finish(absl::Duration t, const std::string& reason) = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_SINK_H_
