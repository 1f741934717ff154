// The command line, one argument per line, and its values: ratios, durations, addresses, the words of a hook's command.
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "cli/alert_options.h"
#include "cli/options.h"
#include "cli/serve_options.h"
#include "fuzz.h"
#include "sink/hook/alert_hook.h"

namespace cowprof {
namespace {

void FuzzCommandLine(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, '\n');
  std::vector<const char*> argv = {"cowprof"};
  for (const std::string& word : words) argv.push_back(word.c_str());
  const ParsedOptions parsed = ParseOptions(static_cast<int>(argv.size()), argv.data());
  if (parsed.exit_now) {
    Require(parsed.exit_code == kDone || parsed.exit_code == kUsage, "done or a wrong command line");
    Require(!parsed.message.empty() && parsed.message.back() == '\n', "a message that ends its line");
    Require(parsed.exit_code == kDone || std::count(parsed.message.begin(), parsed.message.end(), '\n') == 1,
            "one line on a wrong command line");
    return;
  }
  Require(parsed.options.interval >= absl::Milliseconds(10) || parsed.options.command != "record", "an interval");
  Require(parsed.options.duration > absl::ZeroDuration(), "a duration");
}

void FuzzValue(const std::string& text) {
  const std::optional<double> ratio = ParseRatio(text);
  Require(!ratio || (*ratio > 0 && *ratio <= 1), "a ratio");
  const std::optional<absl::Duration> duration = ParseDuration(text);
  Require(!duration || (*duration > absl::ZeroDuration() && *duration < absl::InfiniteDuration()), "a duration");
  ServeAddress address;
  static_cast<void>(ParseServeAddress(text, &address));
  AlertSettings settings;
  static_cast<void>(ParseAlertRatios({text, "shm=" + text}, &settings));
  static_cast<void>(ParseAlertEtas({text, "shm=" + text}, &settings));
  const auto words = SplitWords(text);
  if (words.ok()) {
    for (const std::string& word : *words) Require(word.size() <= text.size(), "nothing is expanded");
  }
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const size_t parser = cowprof::PickOne(&input, 2);
  const std::string text = input.ConsumeRemainingBytesAsString();
  if (parser == 0) cowprof::FuzzCommandLine(text);
  if (parser == 1) cowprof::FuzzValue(text);
  return 0;
}
