// What is said of shared memory in a run without a finding about it.
#include <map>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "model/facts/shm.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/post_mortem.h"
#include "model/judge/together.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr uint64_t kMuchShared = 64 << 20;

// Shared memory that processes, `only_workers` or all, added and kept, beyond what /dev/shm took up more: an anonymous
// mapping, a memfd or System V. It is nobody's private memory, so that no other figure has it. Bytes.
uint64_t SharedKeptBytes(const Facts& facts, bool only_workers) {
  const auto share = [&](const ProcessModel& process) {
    return process.is_worker() || !only_workers ? process.shared_kept_pages() : 0;
  };
  const LimitModel* const shm = LimitOf(facts.model, LimitKind::kShm);
  return SaturatingSubtract(MostTogether(facts.model, share).sum * facts.page_bytes, shm == nullptr ? 0 : shm->rise);
}

// "": it is not much.
std::string SharedKept(const Facts& facts) {
  const uint64_t bytes = SharedKeptBytes(facts, /*only_workers=*/false);
  if (bytes < kMuchShared) return "";
  const bool of_workers = 2 * SharedKeptBytes(facts, /*only_workers=*/true) >= bytes;
  const Forecast& forecast = facts.findings.forecast;
  return absl::StrCat(
      of_workers                         ? " The workers"
      : facts.findings.all.processes > 1 ? " All processes together"
                                         : " It",
      " added ", HumanBytes(bytes),
      " of shared memory that has no name in /dev/shm (MAP_SHARED without a file, memfd, System V, or a file on another "
      "tmpfs), and kept it",
      forecast.unnamed_bytes_per_second > 0
          ? absl::StrCat(forecast.ended ? "; it still grew at the end, by " : "; it still grows, by ",
                         HumanBytes(SaturatingCast(forecast.unnamed_bytes_per_second)), " per second")
          : "",
      ".");
}

// What each process alone maps or has open, by pid: segments without another owner. Bytes, at the latest look.
std::map<pid_t, uint64_t> HeldInShm(const RunModel& model) {
  std::map<pid_t, uint64_t> held;
  if (!model.shm) return held;
  for (const ShmSegment& segment : model.shm->segments) {
    const std::vector<pid_t> owners = OwnersOf(segment);
    if (owners.size() == 1 && IsOnMount(*model.shm, segment)) held[owners[0]] += segment.bytes;
  }
  return held;
}

const ProcessModel* LivingWith(pid_t pid, const RunModel& model) {
  const auto found = absl::c_find_if(model.processes, [&](const auto& one) { return one.id.pid == pid && !one.ended; });
  return found == model.processes.end() ? nullptr : &*found;
}

// " Shared memory (/dev/shm) keeps growing, by 8.1 MiB per second: ...": where that is most of what grows.
std::string ShmGrows(const Facts& facts) {
  const LimitModel* const shm = LimitOf(facts.model, LimitKind::kShm);
  if (shm == nullptr || !StillGrows(facts) || !GrowsByShm(facts.findings.forecast)) return "";
  const ProcessModel* most = nullptr;
  for (const auto& [pid, bytes] : HeldInShm(facts.model)) {
    if (2 * bytes >= shm->now.used) most = LivingWith(pid, facts.model);
  }
  const std::string holder =
      most == nullptr
          ? ""
          : absl::StrCat("; the ",
                         most->index == 0 ? absl::StrCat(facts.Target(), " (", most->id.pid, ")") : NameOf(*most),
                         " alone holds most of it");
  return absl::StrCat(" Shared memory (/dev/shm) keeps growing, by ",
                      HumanBytes(SaturatingCast(facts.findings.forecast.shm_bytes_per_second)),
                      " per second: ", HumanBytes(shm->now.used), " in use", holder,
                      facts.dataloader()
                          ? ". A batch that is kept, in a list or by a tensor that is a view of it, keeps "
                            "its shared memory."
                          : ".");
}

}  // namespace

std::string SharedMemoryOf(const Facts& facts) { return absl::StrCat(SharedKept(facts), ShmGrows(facts)); }

}  // namespace cowprof
