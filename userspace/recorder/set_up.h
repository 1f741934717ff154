// Makes the parts of a recording before its loop runs. record.cc calls these in the order that they need.
#ifndef COWPROF_RECORDER_SET_UP_H_
#define COWPROF_RECORDER_SET_UP_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "model/facts/limit.h"
#include "recorder/recording.h"
#include "source/procfs.h"

namespace cowprof {

// What returns an int: kDone, or an exit status after the reason was printed.

// Call first, while cowprof has no descriptors that others must not share. Recording continues without it.
void StartScout(Recording* recording);
// Call before anything is started: refuses a command line that can't work.
int OpenHook(Recording* recording);
// Call before the probes are loaded, as it forks.
int StartMetricsFile(Recording* recording);
// Call before anything is started: refuses a port that is in use.
int OpenPage(Recording* recording);
// Replaces %h by the host, %j by the job's id (of --label, otherwise of the environment) and %r by the rank, each
// "none" if there is none, and %% by %. What is not safe in a file name becomes '_'.
std::string ExpandName(absl::string_view name, const RunIdentity& identity);
// Prints why the program did not start, and returns the status that a shell has for it.
int FailToStart(const absl::Status& status);
// Rows of the region table for a program that has only been started: it may fill the lowest of its memory limits.
uint64_t RegionsOfStarted(const std::vector<LimitSample>& limits);
// Forks the program that is to be recorded. It waits before its exec.
int StartProgram(Recording* recording);
// Loads the probes and makes the collector. Fills in what RunInfo says of the host and of the rung.
int Attach(const ProcFs& proc, pid_t target, Recording* recording);
// Completes RunInfo, creates the timeline, and opens the sinks. After Attach().
int OpenSinks(const ProcFs& proc, pid_t target, Recording* recording);
// Recording continues if the page can't be served. After OpenSinks().
void StartPage(Recording* recording);
// Prints a note, unless --quiet, and adds it to the next sample. "": does nothing.
void AddNote(std::string note, Recording* recording);
// Lets the recorder survive when memory runs out, as far as it can.
void ProtectSelf(const ProcFs& proc, Recording* recording);
// From now on the recorder reads data that the target chose: keep only the rights that this takes.
void GiveUp(Recording* recording);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_SET_UP_H_
