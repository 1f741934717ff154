// Every flag and subcommand; nothing else knows them. ParseOptions() is pure: it returns the text for --help, and for a
// wrong command line one sentence and exit status 2.
#ifndef COWPROF_CLI_OPTIONS_H_
#define COWPROF_CLI_OPTIONS_H_

#include <sys/types.h>

#include <string>

#include "cli/compare_options.h"
#include "cli/export_options.h"
#include "posix/exit_status.h"
#include "recorder/record.h"
#include "watch/watch.h"

namespace cowprof {

// view: what two recordings are.
enum class ViewAs { kByContent, kCompare, kJob };

// What the flags of `record` ask for, and the operands of the other commands. `output` and `without` are used by
// several.
struct Options : RecordOptions {
  std::string command = "record";  // name of a subcommand
  bool json = false;
  std::string timeline;                // check, export
  std::vector<std::string> timelines;  // report, view
  ViewAs view_as = ViewAs::kByContent;
  pid_t pid = 0;           // doctor, shm, pickle; 0: none
  std::string object;      // pickle: the expression that names it; "": what workers get
  bool time = true;        // pickle: run the interpreter to measure how fast it pickles
  CompareOptions compare;  // diff, check
  int workers = 0;         // doctor: how many workers the process is about to fork; 0: not given
  std::string shell;       // completions
  bool open = true;        // demo: show the page where there is a desktop
  ExportFormat export_format = ExportFormat::kPprof;
  WatchOptions watch;
};

struct ParsedOptions {
  Options options;
  bool exit_now = false;  // --help, --version, or a wrong command line: `exit_code` says which
  int exit_code = kDone;
  std::string message;  // for stdout if exit_code is kDone, otherwise for stderr
};
ParsedOptions ParseOptions(int argc, const char* const* argv);

}  // namespace cowprof

#endif  // COWPROF_CLI_OPTIONS_H_
