#include "model/judge/remedies.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "model/estimate/unpickle_cost.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/packing.h"
#include "model/judge/start_methods.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr uint64_t kWorthSaying = 1 << 20;  // bytes
constexpr double kMostUnpickled = 1.5;      // of the estimate, where the walk gives no upper end

Estimate Of(const Saving& saving) {
  return {.low = static_cast<double>(saving.low),
          .best = static_cast<double>(saving.best),
          .high = static_cast<double>(saving.high)};
}

const Diagnosis* Find(const Findings& findings, absl::string_view id) {
  const auto found =
      absl::c_find_if(findings.diagnoses, [&](const Diagnosis& diagnosis) { return diagnosis.id == id; });
  return found == findings.diagnoses.end() ? nullptr : &*found;
}

using Remedies = std::vector<Remedy>;

std::string MicrosecondsText(const Estimate& seconds) {
  const auto figure = [](double value) {
    value *= 1e6;
    return absl::StrFormat("%.*f", value < 1 ? 2 : value < 10 ? 1 : 0, value);
  };
  return absl::StrCat("about ", figure(seconds.best), " µs (", figure(seconds.low), " to ", figure(seconds.high), ")");
}

std::string AverageText(double value) {
  return value < 0.1   ? "<0.1"
         : value < 100 ? absl::StrFormat("%.3g", std::round(value * 10) / 10)
                       : HumanCount(std::llround(value));
}

// "1 dict, 8 str or bytes, 2 int": what the average item holds, its keys included.
std::string KindsText(const PickleItems& items) {
  const PickleMix& mix = items.mix;
  std::vector<std::string> parts;
  for (const auto& [count, name] :
       std::initializer_list<std::pair<uint64_t, absl::string_view>>{{mix.dicts, "dict"},
                                                                     {mix.lists, "list"},
                                                                     {mix.tuples, "tuple"},
                                                                     {mix.sets, "set"},
                                                                     {mix.instances, "object with attributes"},
                                                                     {mix.texts, "str or bytes"},
                                                                     {mix.numbers, "int"},
                                                                     {mix.floats, "float"},
                                                                     {mix.arrays, "array"},
                                                                     {mix.reduced, "object of another kind"},
                                                                     {mix.again, "None, bool or repeated object"}}) {
    if (count > 0) parts.push_back(absl::StrCat(AverageText(static_cast<double>(count) / items.sampled), " ", name));
  }
  return absl::StrJoin(parts, ", ");
}

void AddUnpickling(const Facts& facts, Remedy* remedy) {
  const PickleItems* const items = ItemsOf(facts);
  if (items == nullptr) return;
  remedy->obstacle = WhyNotPacked(facts);
  const std::optional<SecondsRange> time = ItemTimeOf(*items, facts.start_methods()->look.python);
  if (time && time->high) {
    remedy->cost_seconds_per_item = Estimate{.low = time->low, .best = time->best, .high = *time->high};
    remedy->cost = absl::StrCat(
        "Each access unpickles its item: ", MicrosecondsText(*remedy->cost_seconds_per_item), " for one of the ",
        HumanCount(items->count), " of ", Printable(items->path), ". This is based on what ",
        HumanCount(items->sampled), " of them hold on average (", KindsText(*items),
        ") and on rates for such versions of Python, measured on another host; `cowprof pickle PID` measures "
        "unpickling on this one.");
  }
  if (const uint64_t packed = PackedBytes(facts); packed > 0)
    absl::StrAppend(&remedy->cost, " The buffer takes about ", HumanBytes(packed), ".");
  // A tensor's memory is not counted: torch's pickler shares it, pickle.dumps() writes it.
  if (items->mix.tensors > 0) {
    absl::StrAppend(&remedy->cost,
                    " A tensor that is a view is pickled with all that it is a view of: pickle its clone().");
  }
}

void AddBuffers(const Facts& facts, Remedies* out) {
  if (const Diagnosis* refcount = Find(facts.findings, "cow-refcount"); refcount != nullptr && refcount->saves) {
    out->push_back(
        {.id = "serialise",
         .action = "Pickle all items into one buffer (or use numpy or Arrow arrays) before the fork",
         .saves = Of(*refcount->saves),
         .cost = "Each access unpickles its item; `cowprof pickle PID` measures how long that takes.",
         .rests_on =
             "copies by reference counts at the peak, of which sketches of this kind left 4 to 17 %; items that "
             "a worker keeps are new memory"});
    AddUnpickling(facts, &out->back());
  }
  if (const Diagnosis* tensors = Find(facts.findings, "torch-refcount");
      tensors != nullptr && tensors->saves && ReadsTensors(facts)) {
    // With the small tensors go Python's objects for them.
    Estimate saves = Of(*tensors->saves);
    saves.high += facts.AtPeak({Cause::kRefcount});
    out->push_back(
        {.id = "stack-tensors",
         .action = "Keep one stacked tensor instead of many small ones (torch.stack, or torch.cat with offsets)",
         .saves = saves,
         .cost = "The tensors exist twice while they are stacked.",
         .rests_on = "copies by reference counts of C++ objects at the peak"});
  }
}

void AddCollector(const Facts& facts, Remedies* out) {
  const uint64_t bytes = facts.AtPeak({Cause::kGcHeader});
  if (bytes < kWorthSaying) return;
  const Estimate saves = Of(SavedByFreezing(facts));
  const char* const where = facts.BeforeTheFork("in the parent before the fork");
  const std::string rests_on =
      absl::StrCat("copies by the collector's headers at the peak; those of reference counts stay",
                   saves.low > 0 ? "" : ", and workers that read the same objects copy them all the same");
  if (!HasOlderPython(facts.model, 7)) {
    out->push_back(
        {.id = "gc-freeze",
         .action = absl::StrCat("gc.collect() and gc.freeze() ", where),
         .saves = saves,
         .cost = absl::StrCat("The collector never frees what was alive at gc.freeze(): not in the workers, and not in "
                              "the ",
                              facts.from_forkserver ? "forkserver." : "parent until that calls gc.unfreeze()."),
         .rests_on = rests_on});
  }
  out->push_back({.id = "gc-disable",
                  .action = absl::StrCat("gc.collect() and gc.disable() ", where),
                  .saves = Estimate{.low = 0, .best = saves.best, .high = saves.high},
                  .cost = "Cycles that the workers make are never freed, which can cost more than it saves.",
                  .rests_on = rests_on});
}

// What workers copy of files that they map, any start method lets them copy.
uint64_t CopiedOfMemory(const WorkersPeak& peak) {
  return SaturatingSubtract(peak.copied_bytes, peak.copied_of_files_bytes);
}

// Spawn and forkserver: nothing is copied, and each worker makes anew what the parent has.
void AddStartMethods(const Facts& facts, Remedies* out) {
  const SeenStartMethods* const seen = facts.start_methods();
  if (!seen || seen->look.root.empty() || !seen->look.held || SpawnAdvice(facts).empty()) return;
  const PickleSize& held = *seen->look.held;
  double inherited = 0, workers = 0;
  for (const auto& [index, fresh] : facts.model.workers_peak.fresh_bytes) {
    const ProcessModel* process = facts.model.Find(index);
    // Not of those that were spawned or that a forkserver forked: they are sent all that already.
    const bool sent = process != nullptr && !PicklingMethodOf(*process).empty();
    if (process == nullptr || sent || process->execed || !process->parent_anon_pages) return;
    inherited = std::max<double>(inherited, *process->parent_anon_pages * facts.page_bytes);
    ++workers;
  }
  if (workers == 0) return;
  const double copied = CopiedOfMemory(facts.model.workers_peak);
  // A worker holds what it was sent, and what it imports anew: at most the rest of what the parent had at the fork.
  const double imports = std::max(0.0, inherited - held.best);
  const double most = held.high ? *held.high : kMostUnpickled * held.best;
  const Estimate saves = {.low = copied - workers * (imports + most),
                          .best = copied - workers * (imports + held.best),
                          .high = copied - workers * held.low};
  const PickleVerdict verdict = VerdictOf(seen->look);
  const PickleFailure* first = FirstFailure(seen->look);
  std::string obstacle;
  if (verdict == PickleVerdict::kWillFail)
    obstacle = first == nullptr
                   ? "can't be pickled"
                   : absl::StrCat("fails at ", Printable(first->path), " (a ", Printable(first->type), ")");
  if (verdict == PickleVerdict::kUnknown)
    obstacle = absl::StrCat("whether it can be pickled is unknown: ", WhyUnknown(seen->look));
  out->push_back({.id = "spawn",
                  .action = "The start method spawn or forkserver instead of fork",
                  .saves = saves,
                  .cost = absl::StrCat("Each start of a worker sends ", SentText(seen->look), "."),
                  .rests_on = absl::StrCat("what a worker would be sent takes about ", HumanBytes(held.best),
                                           "; what it imports anew, at most the rest of the ",
                                           HumanBytes(SaturatingCast(inherited)), " that the parent had at the fork"),
                  .obstacle = obstacle});
}

void AddFewerWorkers(const Facts& facts, Remedies* out) {
  const WorkersPeak& peak = facts.model.workers_peak;
  const size_t workers = peak.fresh_bytes.size();
  // How many processes a native server forks, such as redis, is often not a setting.
  if (workers < 2 || peak.bytes < kWorthSaying || facts.native()) return;
  // What each of them had at its own peak, brought to what they had together.
  double least = HUGE_VAL, most = 0, sum = 0, least_fresh = HUGE_VAL;
  for (const auto& [index, fresh] : peak.fresh_bytes) {
    least_fresh = std::min<double>(least_fresh, fresh);
    const ProcessModel* process = facts.model.Find(index);
    // How many ranks there are is not a setting of memory.
    if (process == nullptr || !process->peak_private_bytes || process->role == Role::kRank) return;
    const double own = *process->peak_private_bytes;
    least = std::min(least, own);
    most = std::max(most, own);
    sum += own;
  }
  if (sum <= 0) return;
  const double scale = peak.bytes / sum;
  // What one has read, the others would read instead where all share an epoch, a queue or a map(), and would copy it.
  const double low = std::min(least_fresh, least * scale), high = most * scale;
  out->push_back(
      {.id = "fewer-workers",
       .action = absl::StrCat("One worker fewer (", workers - 1, " instead of ", workers, ")"),
       .saves = Estimate{.low = low, .best = (low + high) / 2, .high = high},
       .cost = absl::StrCat(facts.dataloader() ? "Loading" : "Work",
                            " takes correspondingly longer if the program waits for it."),
       .rests_on = "what the workers had each at their peak; least where the others copy what one leaves to them"});
}

void AddPersistent(const Facts& facts, Remedies* out) {
  uint64_t again = 0;
  bool renewed = false;
  for (const ProcessModel& process : facts.model.processes) {
    if (process.role != Role::kWorker || process.persistent != false || process.generation < 1) continue;
    renewed = true;
    again += process.counts.copies.value_or(0) * facts.page_bytes;
  }
  if (!renewed || again < kWorthSaying) return;
  out->push_back({.id = "persistent-workers",
                  .action = "DataLoader(..., persistent_workers=True)",
                  .saves = Estimate{},
                  .saves_copying = again,
                  .cost = "Workers that live longer can copy more: the peak may rise up to the ceiling.",
                  .rests_on = "what the workers of later epochs copied once more"});
}

void AddMemmap(const Facts& facts, Remedies* out) {
  const Slots slots = SlotsOf(facts.model);
  const Diagnosis* refcount = Find(facts.findings, "cow-refcount");
  const SeenStartMethods* const seen = facts.start_methods();
  if (slots.ranks < 2 || refcount == nullptr || !refcount->saves || !seen || !seen->look.held) return;
  const PickleSize& held = *seen->look.held;
  const double others = slots.ranks - 1;
  Estimate saves = Of(*refcount->saves);
  saves.best += others * held.best;
  saves.high += others * held.high.value_or(held.best);
  out->push_back(
      {.id = "memmap",
       .action = "Write the items to one file that all ranks map (numpy.memmap, Arrow), on disk or in /dev/shm",
       .saves = saves,
       .cost = absl::StrCat("The file takes about ", HumanBytes(seen->look.bytes.best),
                            ", in /dev/shm of its limit, on disk as page cache that can be dropped."),
       .rests_on = absl::StrCat("copies by reference counts at the peak, and the data itself once instead of in "
                                "each of ",
                                slots.ranks, " ranks")});
}

void AddTrim(const Facts& facts, Remedies* out) {
  const uint64_t bytes = facts.findings.peak.inherited_freed;
  if (bytes < kWorthSaying || facts.native()) return;
  out->push_back({.id = "malloc-trim",
                  .action = absl::StrCat("ctypes.CDLL(\"libc.so.6\").malloc_trim(0) ",
                                         facts.BeforeTheFork("in the parent right before the fork")),
                  .saves = Estimate{},
                  .saves_copying = bytes,
                  .cost = "",
                  .rests_on = "inherited pages that were free at the fork: workers take as many new ones instead"});
}

void AddShm(const Facts& facts, Remedies* out) {
  if (Find(facts.findings, "shm-full") == nullptr && Find(facts.findings, "shm-near-full") == nullptr) return;
  for (const LimitModel& limit : facts.model.limits) {
    if (limit.now.kind != LimitKind::kShm || !limit.now.limit) continue;
    const std::optional<std::string> wanted = LargerShm(facts.model), own = LargerShmOfContainer(facts.model);
    if (!wanted) continue;
    out->push_back(
        {.id = "shm-size",
         .action =
             absl::StrCat("A larger /dev/shm: ", own ? absl::StrCat("--shm-size=", *own, " for a container, or ") : "",
                          "mount -o remount,size=", *wanted, " /dev/shm"),
         .saves = Estimate{},
         .lifts_limit = true,
         .cost = "What is in /dev/shm counts against the memory of the host and of its cgroup.",
         .rests_on =
             "twice what it holds or held, rounded up, as far as memory has room: it lifts the limit and saves nothing"});
    if (facts.model.info.shm_of_host) continue;
    out->push_back({.id = "ipc-host",
                    .action = "--ipc=host: the container uses the host's /dev/shm",
                    .saves = Estimate{},
                    .lifts_limit = true,
                    .cost = "Containers that do so see each other's segments.",
                    .rests_on = "it lifts the limit to the host's and saves nothing"});
  }
}

}  // namespace

std::vector<Remedy> RemediesOf(const Run& run, const Findings& findings) {
  const Facts facts = FactsOf(run, findings);
  Remedies out;
  AddShm(facts, &out);
  const bool forked = findings.workers.processes > 0 && facts.model.workers_peak.copied_bytes > 0;
  if (forked && !facts.native()) {
    AddBuffers(facts, &out);
    AddCollector(facts, &out);
    AddMemmap(facts, &out);
    if (CopiedOfMemory(facts.model.workers_peak) >= kWorthSaying) AddStartMethods(facts, &out);
    AddPersistent(facts, &out);
    AddTrim(facts, &out);
  }
  AddFewerWorkers(facts, &out);
  absl::c_stable_sort(out, [](const Remedy& a, const Remedy& b) {
    const auto key = [](const Remedy& remedy) {
      return std::pair(remedy.obstacle.empty(), remedy.saves ? remedy.saves->best : -HUGE_VAL);
    };
    return key(a) > key(b);
  });
  return out;
}

}  // namespace cowprof
