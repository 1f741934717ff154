// What a recording consists of while it runs: set_up makes the parts, record.cc runs them.
#ifndef COWPROF_RECORDER_RECORDING_H_
#define COWPROF_RECORDER_RECORDING_H_

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/judge/alert.h"
#include "model/judge/findings.h"
#include "model/judge/run.h"
#include "posix/nonblocking_output.h"
#include "recorder/clock_jump.h"
#include "recorder/collector.h"
#include "recorder/event_loop.h"
#include "recorder/record.h"
#include "recorder/start_method_scout.h"
#include "recorder/target.h"
#include "serve/page_server.h"
#include "sink/hook/hook_process.h"
#include "sink/metrics/metrics_file.h"
#include "sink/sink.h"
#include "timeline/timeline_file.h"

namespace cowprof {

// The parts of a recording, in the order in which data passes through them.
struct Recording {
  RecordOptions options;
  EventLoop event_loop;
  NonblockingOutput out{STDOUT_FILENO}, err{STDERR_FILENO};  // for what is said while the recording runs
  std::optional<HeldProgram> program;
  RunInfo info;
  std::string why_not_exact;                // a sentence for the user; "": nothing to say
  absl::Duration start;                     // BootTime() at t = 0
  std::unique_ptr<StartMethodScout> scout;  // until the collector takes it
  std::unique_ptr<Collector> collector;     // until the recording has ended
  Run run;
  Findings findings;  // of the last tick
  std::unique_ptr<TimelineFile> timeline;
  std::vector<std::unique_ptr<Sink>> sinks;  // the first one writes the timeline
  AlertWatch watch;
  ClockJump clock_jump;
  std::unique_ptr<HookProcess> hook;          // or none
  std::unique_ptr<PageServer> page;           // or none
  std::unique_ptr<MetricsFile> metrics_file;  // until its sink takes it
  std::vector<std::string> notes;             // to be added to the next sample
};

// Prints a sentence on stderr, where it is not lost behind the live screen. If stderr is not read, it waits.
void Say(absl::string_view sentence, Recording* recording);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_RECORDING_H_
