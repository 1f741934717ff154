// Options of the commands that hold recordings against each other or against bounds: diff, check, prove.
#ifndef COWPROF_CLI_COMPARE_OPTIONS_H_
#define COWPROF_CLI_COMPARE_OPTIONS_H_

#include <string>
#include <utility>
#include <vector>

#include "model/facts/enum_names.h"
#include "model/judge/budget.h"

namespace CLI {
class App;
}

namespace cowprof {

enum class OutputFormat { kText, kMarkdown, kGithub, kJunit, kJson };
template <>
inline constexpr auto kNamesOf<OutputFormat> = NamesFor<OutputFormat>("text", "markdown", "github", "junit", "json");

struct CompareOptions {
  std::vector<std::string> a, b;  // diff: recordings of each side
  OutputFormat format = OutputFormat::kText;
  Budget budget;    // check: of the command line
  std::string fix;  // prove: a command line
  std::vector<std::pair<std::string, std::string>> fix_environment;
  int runs = 1;             // prove: of each arm
  std::string budget_file;  // check; "": none was named
};

// `timeline`: that check reads; `output`: the folder of prove.
void AddCompareCommands(CLI::App* app, CompareOptions* options, std::string* timeline, std::string* output);
// `operands`: what stood after "--", if `separated`. Returns what is wrong, or "".
std::string FinishCompareOptions(const std::string& command, bool separated, const std::vector<std::string>& operands,
                                 CompareOptions* options);

}  // namespace cowprof

#endif  // COWPROF_CLI_COMPARE_OPTIONS_H_
