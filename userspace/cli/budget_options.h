// The bounds that `check` is given: on the command line, and in a file (schema/budget.schema.json).
#ifndef COWPROF_CLI_BUDGET_OPTIONS_H_
#define COWPROF_CLI_BUDGET_OPTIONS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "model/judge/budget.h"

namespace CLI {
class App;
}

namespace cowprof {

void AddBudgetOptions(CLI::App* command, Budget* budget, std::string* file);

// Adds the bounds of a file's text to `budget`. `path` names it, and a baseline that it names is relative to it.
// Returns what is wrong with it, with the nearest key where one is unknown, or "". Never echoes its contents.
std::string ParseBudget(absl::string_view text, const std::string& path, Budget* budget);

}  // namespace cowprof

#endif  // COWPROF_CLI_BUDGET_OPTIONS_H_
