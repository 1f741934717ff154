#include "model/judge/grower.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"

namespace cowprof {
namespace {

constexpr size_t kMostEvidence = 4;  // lines about single processes; so many tell as much as all

}  // namespace

std::string TakeCulprit(const std::vector<Grower>& growers, Diagnosis* diagnosis) {
  const auto most = std::max_element(growers.begin(), growers.end(),
                                     [](const Grower& a, const Grower& b) { return a.bytes < b.bytes; });
  if (most == growers.end() || !most->culprit) return "";
  if (!IsOfLibrary(most->culprit->frame)) diagnosis->culprit = most->culprit;
  return absl::StrCat("; ", CulpritText(*most->culprit, /*estimated=*/true, "first touched at"));
}

void AddGrowers(std::vector<Grower> growers, Diagnosis* diagnosis) {
  std::stable_sort(growers.begin(), growers.end(), [](const Grower& a, const Grower& b) { return a.bytes > b.bytes; });
  for (const Grower& grower : growers) {
    diagnosis->pids.push_back(grower.process->id.pid);
    if (diagnosis->pids.size() <= kMostEvidence)
      diagnosis->evidence.push_back(absl::StrCat("pid ", grower.process->id.pid, ": ", grower.text));
  }
  if (growers.size() > kMostEvidence)
    diagnosis->evidence.push_back(absl::StrCat("and ", growers.size() - kMostEvidence, " more"));
}

bool HaveNoPython(const std::vector<Grower>& growers) {
  return absl::c_all_of(growers, [](const Grower& grower) {
    const ProcessModel& process = *grower.process;
    return process.framework == Framework::kNative && process.python.empty() && process.python_problem.empty();
  });
}

uint64_t SumOf(const std::vector<Grower>& growers) {
  uint64_t bytes = 0;
  for (const Grower& grower : growers) bytes += grower.bytes;
  return bytes;
}

uint64_t MostOf(const std::vector<Grower>& growers) {
  uint64_t most = 0;
  for (const Grower& grower : growers) most = std::max(most, grower.bytes);
  return most;
}

std::string SumText(const std::vector<Grower>& growers, absl::string_view noun) {
  return absl::StrCat(HumanBytes(SumOf(growers)), " in ", Plural(growers.size(), noun));
}

absl::Duration LifeOf(const ProcessModel& process, const RunModel& model) {
  return process.ended.value_or(model.t) - process.started;
}

}  // namespace cowprof
