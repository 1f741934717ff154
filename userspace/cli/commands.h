// The table of commands. Each stands in a file of its own name and returns an exit status; what went wrong it has said
// in one line on stderr by then.
#ifndef COWPROF_COMMANDS_H_
#define COWPROF_COMMANDS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "options.h"

namespace cowprof {

int Record(const Options& options);
int Report(const Options& options);
int View(const Options& options);
int Doctor(const Options& options);
int Shm(const Options& options);
int ServePage(const Options& options);  // of --serve, for nobody else

inline constexpr struct {
  absl::string_view name;
  int (*run)(const Options&);
  bool looks_at_processes;  // the others need no capability
} kCommands[] = {{"record", Record, true}, {"report", Report, false}, {"view", View, false},
                 {"doctor", Doctor, true}, {"shm", Shm, true},        {"serve-page", ServePage, false}};

// Prints "cowprof: `sentence`" on stderr and returns `code`.
int Fail(ExitCode code, absl::string_view sentence);

}  // namespace cowprof

#endif  // COWPROF_COMMANDS_H_
