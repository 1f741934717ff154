#include "sink/terminal/live_format.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {

std::string FormatCopied(const Count& copies, uint64_t page_bytes) {
  return HumanBytes(copies ? Count(*copies * page_bytes) : std::nullopt);
}

std::string FormatRate(bool counted, double copies_per_second, uint64_t page_bytes) {
  if (!counted) return "-";
  return absl::StrCat("+", HumanBytes(SaturatingCast(copies_per_second * page_bytes)), "/s");
}

std::string FormatCauses(const Totals& workers, size_t most) {
  std::vector<std::pair<uint64_t, int>> causes;
  for (int cause = 0; cause < kCauses; ++cause) {
    if (100 * workers.causes[cause] >= std::max<uint64_t>(workers.copies, 1))
      causes.emplace_back(workers.causes[cause], cause);
  }
  std::sort(causes.rbegin(), causes.rend());
  std::vector<std::string> words;
  for (const auto& [copies, cause] : causes) {
    if (words.size() == most) break;
    words.push_back(absl::StrFormat("%s %.0f %%", NameOf(static_cast<Cause>(cause)), 100.0 * copies / workers.copies));
  }
  return absl::StrJoin(words, ", ");
}

std::vector<const ProcessModel*> LivingWorkers(const RunModel& model) {
  std::vector<const ProcessModel*> workers;
  for (const ProcessModel& process : model.processes) {
    if (process.is_worker() && !process.ended) workers.push_back(&process);
  }
  return workers;
}

}  // namespace cowprof
