// `cowprof --attach PID` and `cowprof -- CMD`.
#include "recorder/record.h"

#include "cli/commands.h"

namespace cowprof {

int Record(const Options& options) { return RunRecording(options); }

}  // namespace cowprof
