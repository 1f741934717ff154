// The options of a recording, of which some commands take a part.
#ifndef COWPROF_CLI_RECORDING_OPTIONS_H_
#define COWPROF_CLI_RECORDING_OPTIONS_H_

#include <string>
#include <vector>

#include "cli/options.h"

namespace CLI {
class App;
}

namespace cowprof {

inline constexpr const char* kOtherOptions = "Other";  // the group of --help, --version and the like

// Values of --alert-at and --alert-eta in order, to be parsed once all are known.
struct AlertValues {
  std::vector<std::string> ratios, etas;
};

// A sentence on what is wrong; "": nothing.
std::string ParsePid(const std::string& text, pid_t* out);

// All but alerts and metrics.
void AddRecordOptions(CLI::App* app, Options* options);
void AddInterval(CLI::App* app, Options* options);
// --without, --every-copy, --verify and --label.
void AddHow(CLI::App* app, Options* options);
void AddWithout(CLI::App* app, Options* options);
void AddColour(CLI::App* app, Options* options);
void AddAlertOptions(CLI::App* app, AlertValues* values, Options* options);
// `expands`: %h, %j and %r in names.
void AddMetricsOptions(CLI::App* app, Options* options, bool expands);

}  // namespace cowprof

#endif  // COWPROF_CLI_RECORDING_OPTIONS_H_
