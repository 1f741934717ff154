#include "cli/export_options.h"

#include <CLI/CLI.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cowprof {

void AddExportCommand(CLI::App* app, ExportFormat* format, std::string* timeline, std::string* output) {
  CLI::App* command = app->add_subcommand("export", "Write a recording in the format of another tool");
  command
      ->add_option_function<std::string>(
          "FORMAT",
          [format](const std::string& text) {
            const std::optional<ExportFormat> named = EnumNamed<ExportFormat>(text);
            if (!named)
              throw CLI::ValidationError(
                  "FORMAT", absl::StrCat("'", text, "' is not one of ", absl::StrJoin(kNamesOf<ExportFormat>, ", ")));
            *format = *named;
          },
          "What to write: pprof, speedscope and folded have the copies by stack, perfetto and csv all processes over "
          "time")
      ->required()
      ->type_name(absl::StrJoin(kNamesOf<ExportFormat>, "|"));
  command->add_option("TIMELINE", *timeline, "Recording made by cowprof")->required()->type_name("FILE");
  command
      ->add_option("-o,--output", *output,
                   "Where to write it; - for stdout (default: TIMELINE with .pb.gz, .pftrace, .speedscope.json, "
                   ".folded or .csv)")
      ->type_name("FILE");
}

}  // namespace cowprof
