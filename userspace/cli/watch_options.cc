#include "cli/watch_options.h"

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cowprof {
namespace {

constexpr const char* kDefaultKeep = "7d,2GiB";
constexpr int kMostRecorders = 256;

}  // namespace

void AddWatchOptions(CLI::App* command, WatchOptions* options) {
  options->keep = *ParseKeep(kDefaultKeep);
  command
      ->add_option_function<std::string>(
          "--match",
          [options](const std::string& text) {
            absl::StatusOr<CommandPattern> pattern = CommandPattern::Compile(text);
            if (!pattern.ok()) throw CLI::ValidationError("--match", std::string(pattern.status().message()));
            options->match = *std::move(pattern);
          },
          "Also record programs whose command line matches, such as masters of prefork servers")
      ->type_name("REGEX");
  command
      ->add_option("-d,--folder", options->folder,
                   "Where to write the recordings: cowprof-HOST-JOB-RANK-PID-TIME.json (default: here)")
      ->type_name("FOLDER");
  command
      ->add_option_function<std::string>(
          "--keep",
          [options](const std::string& text) {
            const absl::StatusOr<KeepRule> keep = ParseKeep(text);
            if (!keep.ok()) throw CLI::ValidationError("--keep", std::string(keep.status().message()));
            options->keep = *keep;
          },
          "Remove recordings that ended longer ago, and the oldest ones beyond this size in all; or all: remove none "
          "(default: 7d,2GiB)")
      ->type_name("AGE,SIZE");
  command->add_option("--at-most", options->at_most, "Record at most this many at once (default: 16)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostRecorders).description(""));
  command->add_flag("-q,--quiet", options->quiet, "Print failures only");
}

}  // namespace cowprof
