// What help and man page say of a command that its options don't.
#ifndef COWPROF_CLI_MANUAL_H_
#define COWPROF_CLI_MANUAL_H_

#include "cli/command_table.h"

namespace cowprof {

// Completes rows of options.cc: usage, details, examples and statuses.
void AddProse(std::vector<CommandRow>* table);

}  // namespace cowprof

#endif  // COWPROF_CLI_MANUAL_H_
