// Short forms of what a recording says, for a line and for the screen. Pure.
#ifndef COWPROF_SINK_TERMINAL_LIVE_FORMAT_H_
#define COWPROF_SINK_TERMINAL_LIVE_FORMAT_H_

#include <string>
#include <vector>

#include "model/facts/run_model.h"

namespace cowprof {

std::string FormatRate(double copies_per_second, uint64_t page_bytes);  // "+12.1 MiB/s"
// "refcount 95 %, data 3 %": the largest causes of what the workers copied, from 1 % on.
std::string FormatCauses(const Totals& workers, size_t most);
std::vector<const ProcessModel*> LivingWorkers(const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_LIVE_FORMAT_H_
