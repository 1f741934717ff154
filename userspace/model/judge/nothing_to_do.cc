// The first sentence of a run in which memory is well: what there is all the same.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "model/format.h"
#include "model/judge/blame.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/forecast_format.h"
#include "model/judge/grower.h"
#include "model/judge/growth.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr size_t kMostBelow = 5, kMostOfCommand = 120;
constexpr uint64_t kManyBytes = 256 << 20;  // too much to call it nothing, even where each worker has little of it
constexpr uint64_t kMuchShared = 64 << 20;
constexpr absl::Duration kLongestStart = absl::Seconds(30);  // of a program that puts itself into the background
constexpr absl::Duration kLongEnough = absl::Seconds(30);    // to see whether memory keeps growing

// "; about 97 % of it first touched at train.py:12 in load": of the new memory that workers held at their peak. "": no
// line of the program has most of it, or they touched much more than they kept.
std::string FirstTouched(const Facts& facts) {
  std::vector<const ProcessModel*> workers;
  Rise rise = {.begin = -absl::InfiniteDuration()};
  for (const auto& [index, bytes] : facts.model.workers_peak.fresh_bytes) {
    const ProcessModel* const worker = facts.model.Find(index);
    if (worker == nullptr) return "";
    workers.push_back(worker);
    rise.pages += bytes / facts.page_bytes;
    rise.zero_fills += worker->counts.zero_fills().value_or(0);
  }
  const std::optional<Culprit> culprit = CulpritOf(facts.model, workers, rise);
  if (!culprit || IsOfLibrary(culprit->frame)) return "";
  return absl::StrCat("; ", CulpritText(*culprit, /*estimated=*/true, "first touched at"));
}

// Whether a worker's new memory was seen for too short a time to tell whether it keeps growing.
bool StillRise(const Facts& facts) {
  return absl::c_any_of(facts.model.workers_peak.fresh_bytes, [&](const auto& one) {
    const ProcessModel* const worker = facts.model.Find(one.first);
    return one.second > kNoiseBytes && worker != nullptr && LifeOf(*worker, facts.model) < kLongEnough &&
           RoseAtTheEnd(facts.estimates.MemoryOf(one.first), worker->ended.has_value());
  });
}

// First writes to private mappings of files, by the workers that had most together.
uint64_t FileCopiesOf(const Facts& facts) {
  uint64_t copies = 0;
  for (const auto& [index, bytes] : facts.model.workers_peak.fresh_bytes) {
    if (const ProcessModel* const worker = facts.model.Find(index); worker != nullptr)
      copies += worker->counts.file_copies.value_or(0);
  }
  return copies;
}

// New memory that stays is a worker's own business as long as it doesn't grow, but the reader sees it in the tables.
std::string Holdings(const Facts& facts) {
  uint64_t fresh = 0;
  for (const auto& [index, bytes] : facts.model.workers_peak.fresh_bytes) fresh += bytes;
  const uint64_t before = BeforeAttachAtPeak(facts.model, /*never_shared=*/true);
  if (fresh + before <= facts.model.workers_peak.fresh_bytes.size() * kNoiseBytes) return "";
  const bool of_files = 2 * FileCopiesOf(facts) * facts.page_bytes >= fresh;
  return absl::StrCat(" They had at most ", HumanBytes(fresh + before), " of new memory of their own",
                      before > 0 ? absl::StrCat(", ", HumanBytes(before), " of it before cowprof attached")
                      : of_files ? ", most of it by writing to private mappings of files"
                                 : FirstTouched(facts),
                      StillRise(facts) || StillGrows(facts)
                          ? "; it was rising at the end, and whether it keeps growing can't be told from "
                          : "; no lasting growth of it was seen in ",
                      HumanDuration(facts.model.t), ".");
}

// " Python runs below it: 23189 (python3 train.py), 23190 (python3 eval.py)." "": none does.
std::string PythonBelow(const Facts& facts) {
  std::vector<std::string> told;
  uint64_t more = 0;
  for (const ProcessModel& process : facts.model.processes) {
    const bool helps = process.role == Role::kHelper || process.role == Role::kForkserver;
    if (process.index == 0 || process.ended || process.python.empty() || helps) continue;
    if (told.size() == kMostBelow) {
      ++more;
    } else {
      told.push_back(absl::StrCat(process.id.pid, " (",
                                  Printable(process.command.empty() ? process.comm : process.command, kMostOfCommand),
                                  ")"));
    }
  }
  if (told.empty()) return "";
  return absl::StrCat(" Python runs below it: ", absl::StrJoin(told, ", "),
                      more > 0 ? absl::StrCat(", and ", more, " more") : "", ".");
}

// What the target is, and which Python below it may be the one that was meant. "": not known.
std::string TargetText(const Facts& facts) {
  const ProcessModel* target = facts.model.target();
  if (target == nullptr) return "";
  const std::string below = PythonBelow(facts);
  if (target->framework == Framework::kNative && !target->comm.empty())
    return absl::StrCat(" It is ", Printable(target->comm), ", not Python.", below);
  const bool alone = facts.findings.all.processes == 1 && !target->python.empty();
  return alone ? absl::StrCat(" It is Python ", Printable(target->python), " without child processes.") : below;
}

// Shared memory that workers added and kept, beyond what /dev/shm took up more: an anonymous mapping, a memfd or System
// V. It is nobody's private memory, so that no other figure has it.
std::string SharedKept(const Facts& facts) {
  uint64_t pages = 0;
  for (const ProcessModel& process : facts.model.processes) {
    if (process.is_worker())
      pages += std::min(process.counts.shm_pages.value_or(0), process.proc.shmem_pages.value_or(0));
  }
  const auto before =
      absl::c_find_if(facts.model.info.limits, [](const auto& limit) { return limit.kind == LimitKind::kShm; });
  const LimitModel* const most = LimitOf(facts.model, LimitKind::kShm);
  const uint64_t at_start = before == facts.model.info.limits.end() ? 0 : before->used;
  const uint64_t named = most == nullptr ? 0 : SaturatingSubtract(most->peak, at_start);
  const uint64_t bytes = SaturatingSubtract(pages * facts.page_bytes, named);
  if (bytes < kMuchShared) return "";
  return absl::StrCat(
      " They added ", HumanBytes(bytes),
      " of shared memory that has no name in /dev/shm (MAP_SHARED without a file, memfd, System V, or a file on another "
      "tmpfs), and kept it.");
}

// A program that puts itself into the background ends at once, as a recording sees it. "": it did not.
std::string LeftRunning(const Facts& facts) {
  const ProcessModel* const target = facts.model.target();
  if (target == nullptr || !target->exit || target->exit->code != 0 || facts.model.t > kLongestStart) return "";
  const ProcessModel* first = nullptr;
  uint64_t living = 0;
  for (const ProcessModel& process : facts.model.processes) {
    if (process.ended || process.role == Role::kHelper || process.role == Role::kForkserver) continue;
    if (first == nullptr) first = &process;
    ++living;
  }
  if (first == nullptr) return "";
  return absl::StrCat("The target ended after ", HumanDuration(*target->ended), ", and the recording with it, but ",
                      living, living == 1 ? " process that it started was" : " processes that it started were",
                      " still running: `cowprof --attach ", first->id.pid, "` records what follows. ");
}

}  // namespace

std::string LimitAhead(const Facts& facts) {
  const LimitForecast* first = nullptr;
  for (const LimitForecast& limit : facts.findings.forecast.limits) {
    const bool counts = IsMemory(limit.now.kind) || limit.now.ratio().value_or(0) >= kHalfFull;
    if (counts && limit.eta && (first == nullptr || *limit.eta < *first->eta)) first = &limit;
  }
  if (first == nullptr) return "";
  std::string text = FormatLimitEta(*first, /*with_bound=*/true, /*with_rate=*/true, /*with_verb=*/true);
  text[0] = absl::ascii_toupper(text[0]);
  return absl::StrCat(text, ". ");
}

std::string NothingToDo(const Facts& facts) {
  const std::string left = absl::StrCat(LimitAhead(facts), LeftRunning(facts)), growth = GrowthOfOthers(facts);
  const bool met = facts.findings.forecast.first_limit >= 0;  // a limit, be it one that is nearly empty yet
  const bool well = !met && left.empty() && growth.empty() && !StillGrows(facts);
  if (!facts.HasWorkers()) {
    const std::string no_worker =
        !growth.empty() ? absl::StrCat("No worker was forked. ", growth)
        : StillGrows(facts)
            ? "No worker was forked. New memory comes without an end in sight, but too little so far to call it a leak."
            : absl::StrCat(well ? "Nothing to do: no" : "No", " worker was forked, and no lasting growth of the ",
                           "process was seen in ", HumanDuration(facts.model.t), ".");
    return absl::StrCat(left, no_worker, TargetText(facts));
  }
  const uint64_t copied = facts.model.workers_peak.copied_bytes;
  const std::string of_workers =
      copied >= kManyBytes
          ? absl::StrCat("Each worker copied little, at most ", facts.Bytes(facts.most_of_one), ", but all together ",
                         HumanBytes(copied), ".")
          : absl::StrCat(well && !StillRise(facts) ? "Nothing to do: the" : "The", " workers share what they should.");
  return absl::StrCat(left, of_workers, Holdings(facts), SharedKept(facts), growth.empty() ? "" : " ", growth);
}

}  // namespace cowprof
