// What spawn and forkserver would fail at, in words: the output of `cowprof pickle`. Pure.
#ifndef COWPROF_SINK_REPORT_START_METHODS_FORMAT_H_
#define COWPROF_SINK_REPORT_START_METHODS_FORMAT_H_

#include <string>

#include "model/facts/start_methods.h"
#include "model/judge/start_costs.h"

namespace cowprof {

std::string StartMethodsText(const PickleLook& look, const StartCostFacts& facts);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_START_METHODS_FORMAT_H_
