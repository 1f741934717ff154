// Reads recordings of one job into rows. A recording of a launcher with several ranks is read twice: once to learn who
// belongs to which rank, once to judge each of them.
#ifndef COWPROF_CLI_FLEET_FILES_H_
#define COWPROF_CLI_FLEET_FILES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "model/judge/fleet.h"
#include "timeline/timeline_file.h"

namespace cowprof {

// A recording as it was read once: what RowsOf() needs of it.
struct WholeRecording {
  std::string path;
  Run run;
  RanksApart apart;
  MemoryCurve memory;
  bool complete = false, stopped_by_target = false;
  ReadingNote* note = nullptr;  // of the progress, if it is one of several
};
using OnSample = std::function<void(const Sample&, const std::vector<Alert>&, const Run&)>;
// `on_sample` is called after each sample was added; may be empty. The status is that of ReadTimeline().
absl::Status ReadRecording(const std::string& path, const OnSample& on_sample, WholeRecording* recording);
// Whether its ranks get a row each: it has some, and not one for each of thousands of jobs that it ran one by one.
bool TellsRanksApart(const WholeRecording& recording);
// A row for each rank, or one for all if they are not told apart; reads the recording again if it has several.
// `findings`: of the whole.
absl::StatusOr<std::vector<FleetRow>> RowsOf(const WholeRecording& recording, const Findings& findings);

struct FleetFiles {
  Fleet fleet;          // its notes also name the files that could not be read
  std::string problem;  // of what was named and can't be read, and of recordings in a folder; "": none
};
// Reads these, and the files named *.json of each folder, several at a time. InvalidArgument: none is a recording.
absl::StatusOr<FleetFiles> ReadFleet(const std::vector<std::string>& paths);

bool IsFolder(const std::string& path);
// An error if `output` is one of the recordings that a command with these operands reads.
absl::Status CheckIsNotRead(const std::string& output, const std::vector<std::string>& paths);

}  // namespace cowprof

#endif  // COWPROF_CLI_FLEET_FILES_H_
