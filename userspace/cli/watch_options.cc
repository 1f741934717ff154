#include "cli/watch_options.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

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
      ->add_option(
          "-d,--folder", options->folder,
          "Where to write the recordings, made if it is missing: cowprof-HOST-JOB-RANK-PID-TIME.json (default: here)")
      ->type_name("FOLDER");
  command
      ->add_option_function<std::string>(
          "--keep",
          [options](const std::string& text) {
            const absl::StatusOr<KeepRule> keep = ParseKeep(text);
            if (!keep.ok()) throw CLI::ValidationError("--keep", std::string(keep.status().message()));
            options->keep = *keep;
          },
          "Remove recordings that ended more than AGE ago, and the oldest ended ones beyond SIZE in all; or all: remove none "
          "(default: 7d,2GiB)")
      ->type_name("AGE,SIZE");
  command->add_option("--at-most", options->at_most, "Record at most this many at once (default: 16)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostRecorders).description(""));
  command->add_flag("-q,--quiet", options->quiet, "Print failures only");
}

std::vector<std::string> WordsForRecorders(const CLI::App& watch) {
  std::vector<std::string> words;
  for (const char* name :
       {"--interval", "--every-copy", "--verify", "--without", "--label", "--alert-at", "--alert-eta", "--on-alert"}) {
    const CLI::Option* option = watch.get_option(name);
    if (option->get_items_expected_max() == 0 && option->count() > 0) words.emplace_back(name);
    if (option->get_items_expected_max() == 0) continue;
    for (const std::string& value : option->results()) words.push_back(absl::StrCat(name, "=", value));
  }
  return words;
}

std::string ParseWatched(const std::string& text, Watched* watched) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  const bool numbers = parts.size() == 3 && absl::SimpleAtoi(parts[0], &watched->start_ticks) &&
                       absl::SimpleAtoi(parts[1], &watched->lifeline) && absl::SimpleAtoi(parts[2], &watched->metrics);
  return numbers ? "" : "is internal, cowprof watch gives it";
}

}  // namespace cowprof
