#include "cli/compare_options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/budget_options.h"

namespace cowprof {
namespace {

void AddFormat(CLI::App* command, CompareOptions* options) {
  command
      ->add_option_function<std::string>(
          "--format",
          [options](const std::string& text) {
            const std::optional<OutputFormat> format = EnumNamed<OutputFormat>(text);
            if (!format)
              throw CLI::ValidationError(
                  "--format", absl::StrCat("'", text, "' is not one of ", absl::StrJoin(kNamesOf<OutputFormat>, ", ")));
            options->format = *format;
          },
          "How to print it: text (the default), markdown for a pull request, github for annotations, junit, json")
      ->type_name("text|markdown|github|junit|json");
  command->add_flag_callback(
      "--json", [options] { options->format = OutputFormat::kJson; }, "Same as --format json");
}

}  // namespace

void AddCompareCommands(CLI::App* app, CompareOptions* options, std::string* timeline) {
  CLI::App* diff =
      app->add_subcommand("diff", "Compare two recordings of one program, or several of each side: A1 A2 -- B1 B2");
  diff->add_option("RECORDINGS", options->a, "Recording before, recording after")->required()->type_name("A B");
  AddFormat(diff, options);
  CLI::App* check = app->add_subcommand(
      "check", "Hold a recording against bounds: status 3 if one is broken, 2 if one can't be decided");
  check->add_option("TIMELINE", *timeline, "Recording made by cowprof")->required()->type_name("FILE");
  AddBudgetOptions(check, &options->budget, &options->budget_file);
  AddFormat(check, options);
}

std::string FinishCompareOptions(const std::string& command, bool separated, const std::vector<std::string>& operands,
                                 CompareOptions* options) {
  if (command != "diff") return "";
  if (separated) {
    options->b = operands;
    return operands.empty() ? "nothing after '--'; give the recordings after the change, as in: cowprof diff A1 A2 -- "
                              "B1 B2"
                            : "";
  }
  if (options->a.size() != 2)
    return absl::StrCat("diff compares two recordings, and got ", options->a.size(),
                        "; for several of each side, separate them: cowprof diff A1 A2 -- B1 B2");
  options->b = {options->a[1]};
  options->a.pop_back();
  return "";
}

}  // namespace cowprof
