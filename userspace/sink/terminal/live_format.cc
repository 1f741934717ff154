// See live_words.h.
#include "sink/live_words.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/saturated.h"
#include "model/words.h"

namespace cowprof {

std::string RateWords(double copies_per_second, uint64_t page_bytes) {
  return absl::StrCat("+", HumanBytes(SaturatedCount(copies_per_second * page_bytes)), "/s");
}

std::string CausesWords(const Growth& growth, size_t most) {
  const Totals workers = SumOf(growth, /*living_only=*/false, /*workers_only=*/true);
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

std::vector<const ProcessGrowth*> LivingWorkers(const Growth& growth) {
  std::vector<const ProcessGrowth*> workers;
  for (const ProcessGrowth& process : growth.processes) {
    if (process.role == Role::kWorker && !process.ended) workers.push_back(&process);
  }
  return workers;
}

}  // namespace cowprof
