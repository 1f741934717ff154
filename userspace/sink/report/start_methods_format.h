// What spawn and forkserver would fail at, in words: the output of `cowprof pickle`. Pure.
#ifndef COWPROF_SINK_REPORT_START_METHODS_FORMAT_H_
#define COWPROF_SINK_REPORT_START_METHODS_FORMAT_H_

#include <string>

#include "model/facts/count.h"
#include "model/facts/start_methods.h"

namespace cowprof {

// `fork_bytes`: what a forked worker can copy at most: the anonymous memory of the process.
std::string StartMethodsText(const PickleLook& look, const Count& fork_bytes);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_START_METHODS_FORMAT_H_
