// What `cowprof doctor PID` says of a fork that has not happened yet, in words. Pure.
#ifndef COWPROF_SINK_REPORT_FORK_HAZARD_FORMAT_H_
#define COWPROF_SINK_REPORT_FORK_HAZARD_FORMAT_H_

#include <string>

#include "model/facts/fork_hazard.h"

namespace cowprof {

// Lines that begin with two spaces. `start_methods`: what spawn would send, one clause; "": unknown. `unread`: it runs
// a Python whose threads and locks can't be read.
std::string BeforeForkText(const ForkHazardSeen& seen, const std::string& start_methods, bool unread = false);

}  // namespace cowprof

#endif  // COWPROF_SINK_REPORT_FORK_HAZARD_FORMAT_H_
