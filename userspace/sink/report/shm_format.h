// Shared memory in words: the table of `cowprof shm` and the section of the report. Pure.
#ifndef COWPROF_SINK_REPORT_SHM_FORMAT_H_
#define COWPROF_SINK_REPORT_SHM_FORMAT_H_

#include <sys/types.h>

#include <map>
#include <string>

#include "model/facts/run_model.h"
#include "model/facts/sample.h"

namespace cowprof {

// Several lines, each terminated. `names`: of owners, by pid; an owner without a name is shown as its pid.
std::string ShmText(const ShmSample& sample, size_t most_rows, const std::map<pid_t, std::string>& names);
// The same for the look that found most used; "" if that was less than 1 MiB, or there was no look.
std::string ShmSection(const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_SHM_FORMAT_H_
