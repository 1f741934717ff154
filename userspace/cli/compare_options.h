// Options of the commands that hold recordings against each other or against bounds: diff, check.
#ifndef COWPROF_CLI_COMPARE_OPTIONS_H_
#define COWPROF_CLI_COMPARE_OPTIONS_H_

#include <string>
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
  Budget budget;            // check: of the command line
  std::string budget_file;  // check; "": none was named
};

// `timeline`: that check reads.
void AddCompareCommands(CLI::App* app, CompareOptions* options, std::string* timeline);
// `operands`: what stood after "--", if `separated`. Returns what is wrong, or "".
std::string FinishCompareOptions(const std::string& command, bool separated, const std::vector<std::string>& operands,
                                 CompareOptions* options);

}  // namespace cowprof

#endif  // COWPROF_CLI_COMPARE_OPTIONS_H_
