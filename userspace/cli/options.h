// Every flag and subcommand, and nothing else knows them. Parse is pure but for the text it prints for --help; a wrong
// command line is one sentence and exit status 2.
#ifndef COWPROF_OPTIONS_H_
#define COWPROF_OPTIONS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/alert.h"
#include "serve_options.h"

namespace cowprof {

// Exit statuses, fixed by the command line's contract.
enum ExitCode {
  kDone = 0,
  kInternalFailure = 1,
  kUsage = 2,
  kGateHit = 3,
  kNoProcess = 4,    // no such process, or no right to look
  kHostCannot = 5,   // the host can do nothing at all for this request
  kCannotWrite = 6,  // the output
};

struct Options {
  std::string command = "record";    // name of a subcommand
  pid_t attach = 0;                  // 0: none
  std::vector<std::string> program;  // after "--": what to start
  std::string output;                // "": the command's default
  absl::Duration duration = absl::InfiniteDuration();
  absl::Duration interval = absl::Seconds(1);
  bool quiet = false, live = false, json = false;
  std::optional<ServeAddress> serve;  // none: no page
  bool every_copy = false, verify = false;
  std::vector<std::string> without;  // rungs that must not be used
  AlertSettings alerts;
  std::string on_alert;  // command line; "": none
  bool fail_on_alert = false;
  std::string timeline;        // report, view
  std::string other_timeline;  // view: to compare with; "": none
  pid_t pid = 0;               // doctor, shm; 0: none
  int workers = 0;             // doctor: how many the process is about to fork; 0: not asked
};

struct ParsedOptions {
  Options options;
  bool exit_now = false;  // --help, --version, or a wrong command line: `exit_code` says which
  int exit_code = kDone;
  std::string message;  // for stdout where exit_code is kDone, for stderr otherwise
};
ParsedOptions ParseOptions(int argc, const char* const* argv);

}  // namespace cowprof

#endif  // COWPROF_OPTIONS_H_
