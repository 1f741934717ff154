// Makes a recording in a process of its own, for commands that make several: a recorder gives up its rights for good.
#ifndef COWPROF_CLI_RECORD_IN_CHILD_H_
#define COWPROF_CLI_RECORD_IN_CHILD_H_

#include <string>
#include <utility>
#include <vector>

#include "recorder/record.h"

namespace cowprof {

// Returns the status that `cowprof -- CMD` would end with. `environment`: variables that the program gets besides.
int RecordInChild(const RecordOptions& options, const std::vector<std::pair<std::string, std::string>>& environment);

}  // namespace cowprof

#endif  // COWPROF_CLI_RECORD_IN_CHILD_H_
