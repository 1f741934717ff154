// What one recording says that can be held against another recording, or against a bound. Pure.
#ifndef COWPROF_MODEL_JUDGE_RUN_FIGURES_H_
#define COWPROF_MODEL_JUDGE_RUN_FIGURES_H_

#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "model/facts/enum_names.h"
#include "model/judge/findings.h"

namespace cowprof {

// Of the workers together, except that shared memory is the host's. In bytes, except kCopyTime: seconds.
enum class Figure {
  kCopied,
  kCopiedPerBatch,
  kPrivatePeak,  // most private memory that they had at one time
  kPlateau,      // what they would have come to; only if it was still ahead when the recording ended
  kShmPeak,
  kCopyTime,  // kernel time spent on copies, by the cost of one that was measured on that host
};
template <>
inline constexpr auto kNamesOf<Figure> = NamesFor<Figure>("copied", "copied-per-batch", "private-peak", "plateau",
                                                          "shm-peak", "copy-seconds");

// Copies of one line of the program, or of one type, by the workers.
struct CopiedPart {
  uint64_t bytes = 0;
  double uncertainty = 0;    // bytes, half the width of the interval that holds the truth in 19 of 20 cases
  std::vector<int> numbers;  // of a line: its numbers, ascending. Empty: a type
  bool operator==(const CopiedPart&) const = default;
};
// A line goes by file, function and library: numbers change when code is edited.
struct PartName {
  std::string file, name, via;  // of a type only `name`
  auto operator<=>(const PartName&) const = default;
};
using CopiedParts = std::map<PartName, CopiedPart>;

// Of one worker or, of all its workers together, of one rank. Bytes.
struct MemberFigures {
  std::string label;  // "worker 1 of rank 0 (4242)", "rank 0"
  Count copied;
  Count private_peak;  // of a rank: the most that its workers had at one time
};

struct RunFigures {
  std::string path, command;
  bool complete = false;    // the recording was finished
  bool from_start = false;  // no worker had memory of its own when it began
  bool to_end = false;      // the target ended while it was recorded, or said itself when it had done what is recorded
  std::string death;        // of the target or a worker: "worker 4242 was killed by SIGKILL"; "": all ended well
  Exactness exactness = Exactness::kUnavailable;
  std::string rung;
  std::string version, kernel;  // of cowprof; uname -r
  int cpus = 0;
  std::string python;           // of the workers, else of the target: "3.13"; "": none
  std::string start_method;     // "fork", "spawn", "forkserver"; "none": no worker
  uint64_t workers = 0;         // of all ranks: configured or, where that is not known, that lived at once
  uint64_t ranks = 0;           // 0: no launcher
  Count batches;                // that the workers were seen to begin, at least; absent: not a DataLoader's
  uint64_t unseen_batches = 0;  // about as many more may have begun between the last look at a worker and its end
  bool several_epochs = false;  // in one worker: about how many of its batches were not seen is not known
  absl::Duration duration;
  uint64_t page_bytes = 4096;
  Losses losses;
  std::array<std::optional<double>, kCountOf<Figure>> figures;
  double shm_at_start = 0;   // bytes, whoever's
  double shm_of_others = 0;  // of these, what was certainly not the program's, and stayed
  bool shm_of_host = false;  // as RunInfo has it
  // Of workers that are known as a sum only, one row with the most that one of them has.
  std::vector<MemberFigures> workers_apart, ranks_apart;
  uint64_t workers_summed_up = 0;  // these: they are in no rank
  std::vector<LimitModel> limits;
  CopiedParts lines, types;
  CauseCounts causes = {};  // of the workers' copies
  std::vector<Diagnosis> diagnoses;
  std::vector<Remedy> remedies;
  std::string sentence;  // the headline

  // What a diagnosis needs to show.
  std::vector<std::string> without;  // left out, by --without
  std::string python_problem;        // why Python could not be read in the target or in a worker; "": it could
  bool ends_known = true;            // how the target and the workers ended, as far as they did
  bool shm_seen = false;             // /dev/shm was looked at

  std::optional<double> Get(Figure figure) const { return figures[static_cast<size_t>(figure)]; }
  // What it is at least. What is copied per batch is known from above only, since not all batches are seen. 0: not
  // known.
  std::optional<double> Least(Figure figure) const;
  // Whether the private memory of each worker was seen. If not, all together may have had more than the figure.
  bool SawAllPrivate() const;
};
// `path` names the recording for a reader.
RunFigures FiguresOf(const std::string& path, const Run& run, const Findings& findings, bool complete);

// Why the recording lacks what Python tells: causes, or the other part, were left out by --without, or Python was not
// read. "": it has it.
std::string WhyMissing(const RunFigures& run, absl::string_view part);

// Each worker that the model lists.
std::vector<MemberFigures> WorkersOf(const RunModel& model);
// How its workers were started: "fork", "spawn", "forkserver", or "none": no worker was seen.
const char* StartMethodOf(const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_RUN_FIGURES_H_
