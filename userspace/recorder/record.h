// Runs one recording from start to verdict. Owns the options of a recording; cli/options.h owns their flags.
#ifndef COWPROF_RECORDER_RECORD_H_
#define COWPROF_RECORDER_RECORD_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/judge/alert.h"
#include "posix/colour.h"
#include "serve/serve_address.h"

namespace cowprof {

// What `cowprof watch` tells a recorder that it starts.
struct Watched {
  uint64_t start_ticks = 0;  // of the process to attach to: its pid may be another's by now
  int lifeline = -1;         // descriptor of a pipe; its end of file ends the recording
  int metrics = -1;          // descriptor of a socket that takes what --metrics-file would write; -1: none
};

struct RecordOptions {
  pid_t attach = 0;                  // 0: start `program` instead
  std::vector<std::string> program;  // command to start and record
  std::string output;                // "": cowprof-PID.json
  std::string metrics_file;          // "": none
  bool expand_names = false;         // both may have %h, %j, %r and %%: see ExpandName()
  std::map<std::string, std::string> labels;
  absl::Duration duration = absl::InfiniteDuration();
  absl::Duration interval = absl::Seconds(1);
  bool quiet = false, live = false;
  bool verdict = true;  // print it at the end, unless `quiet`
  Colour colour = Colour::kAuto;
  std::optional<ServeAddress> serve;           // absent: no page
  std::optional<ServeAddress> metrics_listen;  // absent: no endpoint
  bool every_copy = false, verify = false;
  std::vector<std::string> without;  // capabilities and rungs that must not be used
  AlertSettings alerts;
  std::string on_alert;  // command line to run at each alert; "": none
  bool fail_on_alert = false;
  std::optional<Watched> watched;  // absent: a user started it
};

// Returns the exit status. Every failure has been reported on stderr by then.
int RunRecording(const RecordOptions& options);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_RECORD_H_
