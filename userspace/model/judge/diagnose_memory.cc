// Diagnoses of memory that grows, or is there from the start, without a copy: new memory, mapped files, and pickled
// data.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/facts/ended_aggregate.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// An interpreter and its libraries take less: a forked torch worker maps some 20 MiB of files just by running.
constexpr uint64_t kSizeableBytes = 32 << 20;
constexpr uint64_t kLeastRiseBytes = 4 << 20;  // of new memory that goes on rising
constexpr size_t kMostEvidence = 4;            // lines about single processes; so many tell as much as all

// What is said about one process, and its size; the largest come first.
struct Culprit {
  const ProcessModel* process;
  uint64_t bytes = 0;
  std::string text;
};

void AddCulprits(std::vector<Culprit> culprits, Diagnosis* diagnosis) {
  std::stable_sort(culprits.begin(), culprits.end(),
                   [](const Culprit& a, const Culprit& b) { return a.bytes > b.bytes; });
  for (const Culprit& culprit : culprits) {
    diagnosis->pids.push_back(culprit.process->id.pid);
    if (diagnosis->pids.size() <= kMostEvidence)
      diagnosis->evidence.push_back(absl::StrCat("pid ", culprit.process->id.pid, ": ", culprit.text));
  }
  if (culprits.size() > kMostEvidence)
    diagnosis->evidence.push_back(absl::StrCat("and ", culprits.size() - kMostEvidence, " more"));
}

std::string SumText(const std::vector<Culprit>& culprits) {
  uint64_t bytes = 0;
  for (const Culprit& culprit : culprits) bytes += culprit.bytes;
  return absl::StrCat(HumanBytes(bytes), " in ", culprits.size(), culprits.size() == 1 ? " process" : " processes");
}

absl::Duration LifeOf(const ProcessModel& process, const RunModel& model) {
  return process.ended.value_or(model.t) - process.started;
}

// Returns the workers whose new memory keeps growing. A worker that exited by itself long before the workers as a whole
// did has given it back, as after each epoch.
std::vector<Culprit> GrowingWorkers(const Facts& facts) {
  const RunModel& model = facts.model;
  absl::Duration first = model.t;
  ForEachRow(model, [&](const ProcessModel& process) {
    if (process.role == Role::kWorker) first = std::min(first, process.started);
  });
  std::vector<Culprit> growing;
  for (const ProcessModel& process : model.processes) {
    const bool gave_back = process.exit && !process.exit->signaled && LifeOf(process, model) < 0.6 * (model.t - first);
    if (process.role != Role::kWorker || gave_back) continue;
    const std::optional<Rise> rise = SustainedRise(facts.estimates.MemoryOf(process.index), process.ended.has_value());
    if (!rise || rise->pages * facts.page_bytes < kLeastRiseBytes) continue;
    const uint64_t bytes = rise->pages * facts.page_bytes;
    const double per_second = bytes / std::max(absl::ToDoubleSeconds(rise->duration), 0.001);
    std::string text = absl::StrCat(HumanBytes(bytes), " of new memory in ", HumanDuration(rise->duration), ", ",
                                    HumanBytes(SaturatingCast(per_second)), " per second and not slowing down");
    if (process.counts.copies) absl::StrAppend(&text, "; in all it copied ", facts.Bytes(*process.counts.copies));
    growing.push_back({&process, bytes, std::move(text)});
  }
  return growing;
}

// Returns "spawn", "forkserver", or "" for a worker that was forked from the program itself.
absl::string_view PicklingMethodOf(const ProcessModel& process) {
  if (process.role != Role::kWorker) return "";
  if (absl::StrContains(process.command, "multiprocessing.forkserver")) return "forkserver";
  return absl::StrContains(process.command, "--multiprocessing-fork") ? "spawn" : "";
}

// Returns the most that the program itself had: it has the original of what was pickled.
uint64_t MostOfOthers(const RunModel& model) {
  uint64_t most = 0;
  for (const ProcessModel& process : model.processes) {
    if (process.role != Role::kParent && process.role != Role::kOther) continue;
    most = std::max(most, process.peak_private_bytes.value_or(0));
  }
  return most;
}

// Returns the private memory of a worker in the middle of its life, if that is most of what it ever had (a leak has
// half by then), more than libraries of this size need (importing torch: 112 MiB, and as much of file pages), and not
// copied. Earlier is too soon: importing and unpickling take many seconds on a busy host.
std::optional<uint64_t> PrivateFromTheStart(const ProcessModel& worker, const Facts& facts) {
  const std::vector<MemorySeries::Stretch>& stretches = facts.estimates.MemoryOf(worker.index).stretches;
  const absl::Duration middle = worker.started + LifeOf(worker, facts.model) / 2;
  const auto at = std::find_if(stretches.begin(), stretches.end(), [&](const auto& one) { return one.t >= middle; });
  if (at == stretches.end()) return std::nullopt;
  const uint64_t bytes = at->private_bytes;
  const bool sizeable = bytes >= at->file_pages * facts.page_bytes + kSizeableBytes;
  const bool grew_later = worker.peak_private_bytes.value_or(0) > bytes + bytes / 2;
  const bool copied = 4 * worker.counts.copies.value_or(0) * facts.page_bytes > bytes;
  return sizeable && !grew_later && !copied ? std::optional<uint64_t>(bytes) : std::nullopt;
}

// Returns the rise of the resident file pages of a process, if its private memory hardly rose.
std::optional<uint64_t> FileRise(const ProcessModel& process, const Facts& facts) {
  const std::vector<MemorySeries::Stretch>& stretches = facts.estimates.MemoryOf(process.index).stretches;
  if (stretches.empty() || !process.private_bytes) return std::nullopt;
  const MemorySeries::Stretch& first = stretches.front();
  const bool forked = process.origin == Origin::kForked && !process.execed;
  const RunModel& model = facts.model;
  uint64_t before = first.file_pages, most = process.proc.file_pages.value_or(0);
  // A forked worker may have read all of a file before it is first seen, but it began with no more than its parent has.
  if (const ProcessModel* parent = model.Find(process.parent); forked && parent != nullptr)
    before = std::min(before, parent->proc.file_pages.value_or(before));
  for (const MemorySeries::Stretch& stretch : stretches) most = std::max(most, stretch.file_pages);
  const uint64_t bytes = SaturatingSubtract(most, before) * facts.page_bytes;
  const uint64_t private_before = forked ? 0 : first.private_bytes;
  const uint64_t private_rise = SaturatingSubtract(*process.peak_private_bytes, private_before);
  return bytes >= kSizeableBytes && 4 * private_rise <= bytes ? std::optional<uint64_t>(bytes) : std::nullopt;
}

}  // namespace

Diagnosis PrivateBySpawn(const Facts& facts) {
  std::vector<Culprit> culprits;
  absl::string_view method;
  const uint64_t most_of_others = MostOfOthers(facts.model);
  for (const ProcessModel& process : facts.model.processes) {
    const absl::string_view its_method = PicklingMethodOf(process);
    const std::optional<uint64_t> bytes = PrivateFromTheStart(process, facts);
    if (its_method.empty() || !bytes || 2 * most_of_others < *bytes) continue;
    method = its_method;
    culprits.push_back({&process, *bytes,
                        absl::StrCat(HumanBytes(*bytes), " of its own halfway through its life, of at most ",
                                     HumanBytes(process.peak_private_bytes), "; ",
                                     facts.Bytes(process.counts.copies.value_or(0)), " copied")});
  }
  if (culprits.empty()) return {};
  Diagnosis diagnosis = {.id = "private-by-spawn", .confidence = 0.9};
  diagnosis.summary = absl::StrCat("Each worker started with its own memory, which the ", method,
                                   " start method pickled to it or made it build again: ", SumText(culprits),
                                   ". This is not copy-on-write: there was no sharing to lose.");
  diagnosis.evidence.push_back(
      absl::StrCat("start method ", method, "; the program itself had at most ", HumanBytes(most_of_others)));
  AddCulprits(std::move(culprits), &diagnosis);
  diagnosis.advice = {
      "Send the workers a path instead of the data, and open it in each: all share one copy of numpy.memmap, Arrow or "
      "another mapped file. Or share the data: torch tensors with share_memory_(), multiprocessing.shared_memory.",
      "The fork start method shares what the parent has (multiprocessing.get_context('fork'); with DataLoader, "
      "multiprocessing_context='fork'), but is safe only while the parent has no threads and no CUDA context. Python "
      "objects are then copied as they are read; numpy and Arrow buffers are not.",
      "Python 3.14 made forkserver the default on Linux. What the forkserver imports before it forks is shared: "
      "multiprocessing.set_forkserver_preload()."};
  return diagnosis;
}

Diagnosis NewMemoryGrowth(const Facts& facts) {
  std::vector<Culprit> growing = GrowingWorkers(facts);
  if (growing.empty()) return {};
  Diagnosis diagnosis = {.id = "new-memory-growth", .confidence = 0.85};
  diagnosis.summary = absl::StrCat("Workers allocate new memory and keep it, with no end in sight: ", SumText(growing),
                                   ". This is a leak or an unbounded cache, not copy-on-write.");
  AddCulprits(std::move(growing), &diagnosis);
  diagnosis.advice = {
      "Look for what a worker keeps from item to item: a dict or list of the data set that only grows, "
      "functools.lru_cache(maxsize=None), results that are appended, tensors that keep their graph (detach() them). "
      "Bound it or drop it. tracemalloc in worker_init_fn, or memray, names the line.",
      "gc.freeze(), numpy or Arrow layouts and another start method do not help: new memory was never shared.",
      "Until it is fixed, persistent_workers=False frees the memory at the end of each epoch; num_workers=0 shows "
      "whether the trainer grows the same way."};
  return diagnosis;
}

Diagnosis GcDisabled(const Facts& facts) {
  std::vector<Culprit> growing = GrowingWorkers(facts);
  std::erase_if(growing, [](const Culprit& worker) { return worker.process->collector_on.value_or(true); });
  if (growing.empty()) return {};
  Diagnosis diagnosis = {.id = "gc-disabled", .confidence = 0.9};
  diagnosis.summary =
      absl::StrCat("Python's cycle collector is off in workers whose new memory grows: ", SumText(growing),
                   ". Objects that refer to each other are never freed there.");
  const ProcessModel* parent = facts.model.Find(growing[0].process->parent);
  diagnosis.evidence.push_back("gc.isenabled() is False there, as read from the workers' memory");
  if (parent != nullptr && parent->collector_on)
    diagnosis.evidence.push_back(*parent->collector_on ? "it is on in their parent: the workers turned it off"
                                                       : "it is off in their parent, too: they inherited that");
  AddCulprits(std::move(growing), &diagnosis);
  diagnosis.advice = {
      "Call gc.enable() in the workers (worker_init_fn of the DataLoader), after gc.freeze() in the parent if "
      "collections copied too much; or gc.collect() now and then, such as at the end of a batch.",
      "Or break the cycles: use weakref for back references, keep no exception with its traceback, no closure that "
      "holds itself. If memory still grows with the collector on, it is in use, not garbage: see new-memory-growth."};
  return diagnosis;
}

Diagnosis FileBacked(const Facts& facts) {
  std::vector<Culprit> culprits;
  for (const ProcessModel& process : facts.model.processes) {
    if (process.role != Role::kWorker && process.role != Role::kParent) continue;
    const std::optional<uint64_t> bytes = FileRise(process, facts);
    if (!bytes) continue;
    culprits.push_back({&process, *bytes,
                        absl::StrCat("gained ", HumanBytes(*bytes), " of file pages (RssFile); at most ",
                                     HumanBytes(process.peak_private_bytes), " of its memory was private")});
  }
  if (culprits.empty()) return {};
  Diagnosis diagnosis = {.id = "file-backed", .confidence = 0.6};
  diagnosis.summary = absl::StrCat(
      "The resident size grows by pages of mapped files (numpy.memmap, Arrow, safetensors): ", SumText(culprits),
      ". They are page cache, shared by all that map the file, and reclaimed when memory is needed: not a leak.");
  AddCulprits(std::move(culprits), &diagnosis);
  diagnosis.advice = {
      "Nothing to do. Judge by private memory or PSS instead of RSS; in a cgroup such pages count as usage, but are "
      "reclaimed before anything is killed."};
  return diagnosis;
}

}  // namespace cowprof
