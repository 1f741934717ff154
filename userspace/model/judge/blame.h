// What copied how much: copy sites summed by type, by line and by native code. If only one copy in a few was looked at,
// a figure is an estimate and says how good it is. Pure.
#ifndef COWPROF_MODEL_JUDGE_BLAME_H_
#define COWPROF_MODEL_JUDGE_BLAME_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "model/facts/run_model.h"

namespace cowprof {

// What is summed: every process, the workers, or one process.
struct Scope {
  std::optional<int> index;
  bool workers_only = false;
  std::vector<int> without = {};  // of the workers, those with these indexes, which are in order
};

// Copies at one site, scaled to all copies that were counted.
struct CopySiteShare {
  int copy_site = 0;  // number in RunModel::copy_sites
  uint64_t copies = 0;
  bool operator==(const CopySiteShare&) const = default;
};
// Of one process, in the order of copy sites: whole copies that sum to what was counted (largest remainders). All
// tables of the report and the page are sums of these. Empty if no copy site is known.
std::vector<CopySiteShare> CopiesByCopySite(const ProcessModel& process);
// The same, in place, of a process that has copied `counted` pages: `sites` has how many each site's samples stand for.
// False: none is known.
bool ScaleToCounted(uint64_t counted, absl::Span<CopySiteShare> sites);

struct Blame {
  uint64_t copies = 0;  // all of the scope, exact
  std::vector<CopySiteShare> copy_sites;
  bool estimated = false;  // a sample stood for several copies, or 1 % of the copies have no site
  uint64_t samples = 0;
  double effective_samples = 0;  // Kish: square of the sum of the weights / sum of their squares

  // Half the width of the interval that holds the true share in 19 of 20 cases: 1.96 * sqrt(p (1 - p) / n). 0 if exact.
  double Uncertainty(double share) const;
  bool operator==(const Blame&) const = default;
};
Blame BlameOf(const RunModel& model, const Scope& scope);

// The line of the program that made copies, or touched new memory, with this stack: its innermost Python frame that is
// neither of the standard library nor of an installed package. `via`: the package that this line called, if the copy
// was made in there. A process that multiprocessing started runs nothing of the program but what is called from its
// bootstrap: if that is all library, the line is the innermost one. No file: no Python ran.
struct ProgramLine {
  Frame frame;
  std::string via;
  auto operator<=>(const ProgramLine&) const = default;
};
ProgramLine LineOf(const RunModel& model, const std::vector<int>& frames);
// The same, with the frame as its number in RunModel::frames; -1: no Python ran.
struct NumberedLine {
  int frame = -1;
  std::string via;
};
NumberedLine NumberedLineOf(const RunModel& model, const std::vector<int>& frames);

// One row of a table; `share` of all copies of the scope.
struct BlameRow {
  std::string type;            // by type; "": not an object
  Frame frame;                 // by line; no file: not a Python line
  std::string via;             // by line: the library that this line called, and that made the copy; "": none
  std::string module, symbol;  // by native code
  CauseCounts causes = {};
  uint64_t copies = 0;
  double share = 0;
  bool operator==(const BlameRow&) const = default;
};
// Largest first; ties by name.
std::vector<BlameRow> ByType(const RunModel& model, const Blame& blame);
std::vector<BlameRow> ByLine(const RunModel& model, const Blame& blame);  // see LineOf
std::vector<BlameRow> ByNative(const RunModel& model, const Blame& blame);
// One row per region that has pages. `copied_pages`: page by page as the probes reported; from the page map if they
// could not.
struct RegionRow {
  int region = 0;      // number in RunModel::regions
  uint64_t pages = 0;  // that the owner of the address space has there; its workers inherited them at their forks
  uint64_t copied_pages = 0;        // by the processes of the scope
  uint64_t still_shared_pages = 0;  // of the processes of the scope, at their last sweep
  double share = 0;                 // of all copied pages of the scope
  bool operator==(const RegionRow&) const = default;
};
std::vector<RegionRow> ByRegion(const RunModel& model, const Scope& scope);  // most copied first
// The sum over the workers; nullopt if nothing was compared.
std::optional<VerifyFigures> VerifiedPages(const RunModel& model);
// All tables of one scope.
struct BlameTables {
  Blame blame;
  std::vector<BlameRow> by_type, by_line, by_native;
  bool operator==(const BlameTables&) const = default;
};
BlameTables TablesOf(const RunModel& model, const Scope& scope);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_BLAME_H_
