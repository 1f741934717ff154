// The diagnosis of file descriptors that run out.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/post_mortem.h"

namespace cowprof {
namespace {

constexpr double kNear = 0.8, kAllButUsedUp = 0.95;
constexpr double kLeastRise = 0.02;  // of the bound; what does not rise is well as long as it is not all but used up

// The process with most descriptors of those that are near `bound` and had fewer before. The limit is that of the
// process nearest to its own: one that holds more has another.
const ProcessModel* NearestToBound(const RunModel& model, uint64_t bound, bool of_ended) {
  if (bound == 0) return nullptr;
  const ProcessModel* most = nullptr;
  for (const ProcessModel& process : model.processes) {
    if (of_ended && !process.ended) continue;
    const uint64_t peak = process.peak_descriptors.value_or(0);
    if (peak < kNear * bound || peak > bound) continue;
    if (peak < kAllButUsedUp * bound && process.descriptor_rise.descriptors() < kLeastRise * bound) continue;
    if (most == nullptr || peak > *most->peak_descriptors) most = &process;
  }
  return most;
}

constexpr auto kIsOfDescriptors = [](const auto& limit) { return limit.now.kind == LimitKind::kDescriptors; };

}  // namespace

Diagnosis FdExhaustion(const Facts& facts) {
  const RunModel& model = facts.model;
  const auto limit = absl::c_find_if(model.limits, kIsOfDescriptors);
  if (limit == model.limits.end()) return {};
  uint64_t bound = limit->now.limit.value_or(0);
  const bool rising = absl::c_any_of(facts.findings.forecast.limits, [](const LimitForecast& one) {
    return kIsOfDescriptors(one) && one.outlook == Outlook::kWillExceed;
  });
  const ProcessModel* near = NearestToBound(model, bound, /*of_ended=*/false);
  // Where that process is gone, the limit is another one's by now.
  if (const uint64_t then = limit->peak_limit.value_or(0); near == nullptr && then != bound) {
    near = NearestToBound(model, then, /*of_ended=*/true);
    if (near != nullptr) bound = then;
  }
  if (bound == 0) return {};
  const ProcessModel* const most = near != nullptr ? near : rising ? HolderOf(limit->now, model) : nullptr;
  if (most == nullptr) return {};
  const uint64_t peak = most->peak_descriptors.value_or(0);
  if (peak > bound) return {};
  const pid_t pid = most->id.pid;
  uint64_t held = 0;
  for (const std::optional<ShmSample>* look : {&model.shm, &model.shm_peak}) {
    if (!*look) continue;
    const auto holds = [pid](const ShmSegment& segment) {
      return segment.kind == SegmentKind::kTorch &&
             std::find(segment.opened_by.begin(), segment.opened_by.end(), pid) != segment.opened_by.end();
    };
    held = std::max<uint64_t>(held, std::count_if((*look)->segments.begin(), (*look)->segments.end(), holds));
  }
  Diagnosis diagnosis = {.id = "fd-exhaustion", .confidence = near ? 0.9 : 0.7, .harm = Harm::kLimit, .pids = {pid}};
  diagnosis.summary = absl::StrCat("The ", NameOf(*most), " used up to ", Percent(static_cast<double>(peak) / bound),
                                   " of its file descriptors", near ? "" : ", and their number is rising",
                                   ": once they are used up, open()", facts.dataloader() ? ", or the next batch," : "",
                                   " fails (Too many open files).");
  diagnosis.evidence = {absl::StrCat(HumanCount(peak), " of ", HumanCount(bound), " descriptors open (RLIMIT_NOFILE)")};
  if (held > 0) {
    diagnosis.evidence.push_back(
        absl::StrCat("at least ", HumanCount(held),
                     " of them are torch tensors in shared memory (file_descriptor strategy: one each)"));
  }
  if (held == 0 && !facts.dataloader()) {
    diagnosis.advice = {"Close unused files: ls -l /proc/PID/fd lists the open ones.",
                        "Raise the limit: ulimit -n 65536 before the start, docker run --ulimit nofile=65536."};
    return diagnosis;
  }
  diagnosis.advice = {
      "Do not keep tensors that came from workers: clone what you collect over an epoch (or turn it into numpy or "
      "numbers), so that the shared one is freed.",
      "Raise the limit: ulimit -n 65536 before the start, docker run --ulimit nofile=65536.",
      "Or call torch.multiprocessing.set_sharing_strategy('file_system'): it keeps no descriptors, but as many "
      "mappings (up to vm.max_map_count), and leaves names in /dev/shm behind when a run is killed."};
  return diagnosis;
}

}  // namespace cowprof
