// The table of commands. Each is in a file of its own name, reports any failure in one line on stderr, and returns an
// exit status.
#ifndef COWPROF_CLI_COMMANDS_H_
#define COWPROF_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cli/options.h"
#include "model/judge/run_figures.h"

namespace cowprof {

int Record(const Options& options);
int Report(const Options& options);
int View(const Options& options);
int Doctor(const Options& options);
int Shm(const Options& options);
int Pickle(const Options& options);
int FindHang(const Options& options);
int Completions(const Options& options);
int Demo(const Options& options);
int DiffRecordings(const Options& options);
int CheckRecording(const Options& options);
int Prove(const Options& options);
int ExportRecording(const Options& options);
int WatchHost(const Options& options);
int ServePage(const Options& options);  // internal: --serve starts it

struct Diff;
// For diff and prove.
std::string FormatDiff(const Diff& diff, OutputFormat format);

// The figures of a recording, for diff and check. The status is that of ReadTimeline().
absl::StatusOr<RunFigures> ReadFigures(const std::string& path);

inline constexpr struct {
  absl::string_view name;
  int (*run)(const Options&);
  bool looks_at_processes;  // the others need no capabilities and drop them
} kCommands[] = {{"record", Record, true},
                 {"report", Report, false},
                 {"view", View, false},
                 {"diff", DiffRecordings, false},
                 {"check", CheckRecording, false},
                 {"prove", Prove, true},
                 {"export", ExportRecording, false},
                 {"doctor", Doctor, true},
                 {"shm", Shm, true},
                 {"pickle", Pickle, true},
                 {"hang", FindHang, true},
                 {"watch", WatchHost, true},
                 {"completions", Completions, false},
                 {"demo", Demo, true},
                 {"serve-page", ServePage, false}};

// Makes one page of a recording, or of two to compare. `diff`: the comparison that it shows, if there are more
// recordings than these two.
absl::Status WritePage(const std::vector<std::string>& timelines, const std::string& path, const Diff* diff = nullptr);

}  // namespace cowprof

#endif  // COWPROF_CLI_COMMANDS_H_
