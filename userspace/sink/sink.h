// Where samples leave: the seam between the loop and the ways of showing or keeping them. Nothing upstream knows which
// exist.
#ifndef COWPROF_SINK_SINK_H_
#define COWPROF_SINK_SINK_H_

#include <string>

#include "absl/status/status.h"
#include "model/growth.h"
#include "model/sample.h"

namespace cowprof {

class Sink {
 public:
  virtual ~Sink() = default;
  // One tick; `growth` has the sample in it already.
  virtual absl::Status Write(const Sample& sample, const Growth& growth) = 0;
  // Gives the terminal, if the sink has it, to whoever wants to say something; the next Write() takes it again.
  virtual void Yield() {}
  // The terminal has another size, or belongs to cowprof again: shows what Write() showed last.
  virtual void Repaint(const Growth&) {}
  // Once, after the last sample. `reason`: "target ended", "interrupted", "duration reached".
  virtual absl::Status Finish(absl::Duration t, const std::string& reason, const Growth& growth) = 0;
};

}  // namespace cowprof

#endif  // COWPROF_SINK_SINK_H_
