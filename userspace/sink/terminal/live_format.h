// Short texts about a recording, for the tick line and the live screen. Pure.
#ifndef COWPROF_SINK_TERMINAL_LIVE_FORMAT_H_
#define COWPROF_SINK_TERMINAL_LIVE_FORMAT_H_

#include <string>
#include <vector>

#include "model/facts/run_model.h"

namespace cowprof {

std::string FormatCopied(const Count& copies, uint64_t page_bytes);  // "312.4 MiB"; "-" if they can't be counted
std::string FormatRate(bool counted, double copies_per_second, uint64_t page_bytes);  // "+12.1 MiB/s"; the same
// "refcount 95 %, data 3 %": the largest causes of the workers' copies, down to 1 %.
std::string FormatCauses(const Totals& workers, size_t most);
std::vector<const ProcessModel*> LivingWorkers(const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_SINK_TERMINAL_LIVE_FORMAT_H_
