// Exit statuses of the cowprof command, and how a failure is reported: one line on stderr.
#ifndef COWPROF_POSIX_EXIT_STATUS_H_
#define COWPROF_POSIX_EXIT_STATUS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace cowprof {

// Part of the command line's interface: values never change.
enum ExitCode {
  kDone = 0,
  kInternalFailure = 1,
  kUsage = 2,
  kGateHit = 3,
  kNoProcess = 4,    // no such process, or no permission to read it
  kHostCannot = 5,   // the host supports nothing that this request needs
  kCannotWrite = 6,  // the output could not be written
};

// The line in which cowprof says something, with its newline.
std::string LineOf(absl::string_view sentence);
// Prints that line on stderr and returns `code`.
int Fail(ExitCode code, absl::string_view sentence);
// Prints `text` on stdout and returns kDone, or kCannotWrite after it has said why: all so far must have been written.
int PrintToStdout(absl::string_view text);

}  // namespace cowprof

#endif  // COWPROF_POSIX_EXIT_STATUS_H_
