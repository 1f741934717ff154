#include "cli/compare_options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/budget_options.h"
#include "model/format.h"

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

void AddCompareCommands(CLI::App* app, CompareOptions* options, std::string* timeline, std::string* output) {
  CLI::App* diff =
      app->add_subcommand("diff", "Compare two recordings of one program, or several of each side: A1 A2 -- B1 B2");
  diff->add_option("A", options->a, "Recording before, recording after")->required()->type_name("FILE");
  AddFormat(diff, options);
  CLI::App* check = app->add_subcommand(
      "check", "Hold a recording against bounds: status 3 if one is broken, 2 if one can't be decided");
  check->add_option("TIMELINE", *timeline, "Recording made by cowprof")->required()->type_name("FILE");
  AddBudgetOptions(check, &options->budget, &options->budget_file);
  AddFormat(check, options);
  CLI::App* prove =
      app->add_subcommand("prove", "Record a program before and after a fix, and compare: -- and the program as it is");
  prove->add_option("--fix", options->fix, "The program with the fix: a command line, run without a shell")
      ->type_name("CMD");
  prove
      ->add_option_function<std::vector<std::string>>(
          "--fix-env",
          [options](const std::vector<std::string>& values) {
            for (const std::string& text : values) {
              const size_t equals = text.find('=');
              if (equals == 0 || equals == text.npos)
                throw CLI::ValidationError("--fix-env", absl::StrCat("'", text, "' is not NAME=VALUE"));
              options->fix_environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
            }
          },
          "A variable of the environment that is the fix; repeatable")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  prove->add_option("--runs", options->runs, "Recordings of each side (default: 1; copies are counted exactly)")
      ->type_name("N")
      ->check(CLI::Range(1, 100).description(""));
  prove
      ->add_option("-o,--output", *output, "Folder for the recordings, the page and the table (default: cowprof-proof)")
      ->type_name("FOLDER");
  AddFormat(prove, options);
}

std::string FinishCompareOptions(const std::string& command, bool separated, const std::vector<std::string>& operands,
                                 CompareOptions* options) {
  if (command != "diff") return "";
  if (separated) {
    options->b = operands;
    for (const std::string& operand : operands) {
      if (absl::StartsWith(operand, "--"))
        return absl::StrCat("'", Printable(operand),
                            "' comes after '--', where only recordings may stand; give options first, "
                            "as in: cowprof diff --format json A1 A2 -- B1 B2");
    }
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
