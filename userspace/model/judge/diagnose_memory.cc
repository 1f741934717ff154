// Diagnoses of memory that grows without a copy: new memory, and mapped files.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "model/facts/bad_end.h"
#include "model/facts/ended_aggregate.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/forecast_format.h"
#include "model/judge/grower.h"
#include "model/judge/growth.h"
#include "model/judge/other_allocator.h"
#include "model/judge/post_mortem.h"
#include "model/judge/unexplained.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// Of new memory that goes on rising. What dies within its start-up has only grown, too: torch's takes 0.8 s.
constexpr uint64_t kLeastRiseBytes = 4 << 20;
constexpr absl::Duration kLeastRiseTime = absl::Milliseconds(1500);
// A process that forks no worker may take this long to load what it works on.
constexpr absl::Duration kLongestStart = absl::Minutes(2);

// Growth without bound that will meet a limit does more harm than what the same memory does today; but a limit that
// others fill is not met by this growth. "; the host's memory full in about 47 min"
std::string LimitText(const Facts& facts, Diagnosis* diagnosis) {
  const Forecast& forecast = facts.findings.forecast;
  if (forecast.first_limit < 0 || forecast.unbounded_bytes_per_second <= 0) return "";
  const LimitForecast& limit = forecast.limits[forecast.first_limit];
  if (!IsMemory(limit.now.kind) || !limit.eta) return "";
  if (forecast.unbounded_bytes_per_second < limit.per_second / 2) return "";
  diagnosis->harm = Harm::kLimit;
  return absl::StrCat("; ", FormatLimitEta(limit, /*with_bound=*/false, /*with_rate=*/false));
}

// What a steady growth has brought until `t`, if it began when the process did: a rise leaves out the first quarter of
// its life, which may be a start-up. At most `held`.
uint64_t GrownUntil(absl::Duration t, const Grower& grower, uint64_t held) {
  const double seconds = absl::ToDoubleSeconds(std::max(t - grower.process->started, absl::ZeroDuration()));
  return std::min(SaturatingCast(grower.per_second * seconds), held);
}

// Of the new memory of workers at their peak, what growth owns. What is to be compared with copies and with what was
// pickled has to be a part of the same peak.
uint64_t PartOfPeak(const std::vector<Grower>& growers, const RunModel& model) {
  const WorkersPeak& peak = model.workers_peak;
  uint64_t bytes = 0;
  for (const Grower& grower : growers) {
    const int index = grower.process->index;
    const auto fresh =
        std::lower_bound(peak.fresh_bytes.begin(), peak.fresh_bytes.end(), std::pair(index, uint64_t{0}));
    if (fresh == peak.fresh_bytes.end() || fresh->first != index) continue;  // not alive then
    const Pickled pickled = PickledIn(model, *grower.process, fresh->second);
    bytes += GrownUntil(peak.t, grower, fresh->second - (pickled.or_imported ? 0 : pickled.bytes()));
  }
  return bytes;
}

// nullopt: its new memory does not keep growing.
std::optional<Rise> RiseOf(const ProcessModel& process, const Facts& facts) {
  std::optional<Rise> rise = SustainedRise(facts.estimates.MemoryOf(process.index), process.ended.has_value());
  if (rise) rise = WithoutLoaded(facts.model, process, *rise);
  const bool counts = rise && rise->pages * facts.page_bytes >= kLeastRiseBytes && rise->duration >= kLeastRiseTime;
  return counts ? rise : std::nullopt;
}

// Returns what is said about a process whose new memory keeps growing.
std::optional<Grower> GrowerOf(const ProcessModel& process, const Facts& facts) {
  const std::optional<Rise> rise = RiseOf(process, facts);
  if (!rise) return std::nullopt;
  const uint64_t bytes = rise->pages * facts.page_bytes;
  std::optional<Culprit> culprit = CulpritOf(facts.model, process, *rise);
  const double per_second = bytes / std::max(absl::ToDoubleSeconds(rise->duration), 0.001);
  std::string text = absl::StrCat(HumanBytes(bytes), " of new memory in ", HumanDuration(rise->duration), ", ",
                                  HumanBytes(SaturatingCast(per_second)), " per second and not slowing down");
  if (process.counts.copies) absl::StrAppend(&text, "; in all it copied ", facts.Bytes(*process.counts.copies));
  if (culprit) absl::StrAppend(&text, "; ", CulpritText(*culprit, /*estimated=*/true, "first touched at"));
  return Grower{&process, bytes, per_second, std::move(text), std::move(culprit), rise->duration};
}

}  // namespace

bool KeepsGrowing(const ProcessModel& process, const Facts& facts) { return RiseOf(process, facts).has_value(); }

namespace {

// A process that ended well long before all of its kind did, the first of which started at `first`, has given its
// memory back: as a worker after each epoch, or at the end of `with Pool()`, which sends SIGTERM.
bool GaveBack(const ProcessModel& process, absl::Duration first, const RunModel& model) {
  return process.exit && LifeOf(process, model) < 0.6 * (model.t - first) && !HasBadEnd(process, model);
}

absl::Duration FirstStartOfWorkers(const RunModel& model) {
  absl::Duration first = model.t;
  ForEachRow(model, [&](const ProcessModel& process) {
    if (process.is_worker()) first = std::min(first, process.started);
  });
  return first;
}

// Whether there were such workers, which may have grown: GrowingWorkers() leaves them out.
bool SomeGaveBack(const RunModel& model) {
  const absl::Duration first = FirstStartOfWorkers(model);
  bool some = false;
  ForEachRow(model, [&](const ProcessModel& process) {
    some |= process.is_worker() && (process.index < 0 || GaveBack(process, first, model));  // < 0: an aggregate
  });
  return some;
}

// Returns the workers whose new memory keeps growing.
std::vector<Grower> GrowingWorkers(const Facts& facts) {
  const RunModel& model = facts.model;
  const absl::Duration first = FirstStartOfWorkers(model);
  std::vector<Grower> growing;
  for (const ProcessModel& process : model.processes) {
    if (!process.is_worker() || GaveBack(process, first, model)) continue;
    if (std::optional<Grower> grower = GrowerOf(process, facts)) growing.push_back(*std::move(grower));
  }
  return growing;
}

// "within 12 s, 3.2 MiB per second"
std::string RateOf(const std::vector<Grower>& growers) {
  double per_second = 0;
  absl::Duration longest;
  for (const Grower& grower : growers) {
    per_second += grower.per_second;
    longest = std::max(longest, grower.duration);
  }
  return absl::StrCat("within ", HumanDuration(longest), ", ", HumanBytes(SaturatingCast(per_second)), " per second");
}

// Returns the rise of the resident file pages of a process, if its private memory hardly rose.
std::optional<uint64_t> FileRise(const ProcessModel& process, const Facts& facts) {
  const std::vector<MemorySeries::Stretch>& stretches = facts.estimates.MemoryOf(process.index).stretches;
  if (stretches.empty() || !process.peak_private_bytes) return std::nullopt;
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

// How the framework replaces workers that have grown.
const char* UntilItIsFixed(Framework framework, bool persistent) {
  switch (framework) {
    case Framework::kDataLoader:
      return persistent ? "Until it is fixed, persistent_workers=False frees the memory at the end of each epoch; "
                          "num_workers=0 shows whether the trainer grows the same way."
                        : "The memory is freed at the end of each epoch, with the workers. num_workers=0 shows whether "
                          "the trainer grows the same way.";
    case Framework::kPool:
      return "Until it is fixed, multiprocessing.Pool(maxtasksperchild=N) replaces a worker after N tasks.";
    case Framework::kExecutor:
      return "Until it is fixed, ProcessPoolExecutor(max_tasks_per_child=N) replaces a worker after N tasks (Python "
             "3.11 and later, not with fork).";
    case Framework::kGunicorn:
      return "Until it is fixed, gunicorn's --max-requests N replaces a worker after N requests (--max-requests-jitter: "
             "not all at once).";
    case Framework::kCelery:
      return "Until it is fixed, Celery's worker_max_memory_per_child replaces workers that have grown, and "
             "worker_max_tasks_per_child those that have run N tasks.";
    default:
      return "Until it is fixed, replace the workers now and then: what they hold is freed when they end.";
  }
}

// tracemalloc does not see what C code allocates, and glibc's malloc may keep hundreds of MiB of what was freed.
std::string IfNothingIsKept(const Facts& facts) {
  const std::string other = OtherAllocatorOf(facts.model), own = AdviceOnOwnAllocators(facts.model);
  if (!other.empty()) {
    return absl::StrCat(
        "If tracemalloc shows nothing that grows, it is C code of a library, whose objects may have to be closed "
        "(video readers), or freed memory that ",
        other, " keeps.", own);
  }
  return absl::StrCat(
      "If tracemalloc shows nothing that grows: call ctypes.CDLL(None).malloc_trim(0) now and then. If that ends "
      "the growth, malloc kept what was freed: start the program with MALLOC_ARENA_MAX=2 and "
      "MALLOC_TRIM_THRESHOLD_=65536 in its environment, or with jemalloc.",
      own, own.empty() ? " If not," : " If none of this helps,",
      " it is C code of a library: close its objects (video readers).");
}

}  // namespace

bool WorkersKeepGrowing(const Facts& facts) {
  const absl::Duration first = FirstStartOfWorkers(facts.model);
  return absl::c_any_of(facts.model.processes, [&](const ProcessModel& process) {
    return process.is_worker() && !GaveBack(process, first, facts.model) && KeepsGrowing(process, facts);
  });
}

Diagnosis NewMemoryGrowth(const Facts& facts) {
  const std::vector<Grower> growing = GrowingWorkers(facts);
  if (growing.empty()) return {};
  Diagnosis diagnosis = {.id = "new-memory-growth", .confidence = 0.85, .bytes = PartOfPeak(growing, facts.model)};
  const bool persistent = absl::c_any_of(growing, [](auto& one) { return one.process->persistent.value_or(true); });
  // In this time a worker may load its own data, as an initializer of a Pool does.
  const bool young =
      absl::c_all_of(growing, [&](const Grower& one) { return LifeOf(*one.process, facts.model) < kLongestStart; });
  diagnosis.summary =
      absl::StrCat("A leak in the workers, an unbounded cache, or freed memory that the allocator keeps",
                   young ? ", unless they still load their data" : "",
                   "; not copy-on-write: they allocate new memory and keep it, ", SumText(growing, "worker"), " ",
                   RateOf(growing), TakeCulprit(growing, &diagnosis), LimitText(facts, &diagnosis), ".");
  AddGrowers(growing, &diagnosis);
  if (facts.native() || HaveNoPython(growing)) {
    diagnosis.advice = {
        "Look for what a worker keeps from task to task: an unbounded cache, a list that only grows. A heap profiler "
        "(heaptrack, jemalloc's) names the place. If nothing is kept, the allocator keeps what was freed: with "
        "glibc's, malloc_trim(0) and MALLOC_ARENA_MAX=2 help.",
        "How the memory of the parent is laid out does not matter: new memory was never shared."};
    return diagnosis;
  }
  diagnosis.advice = {
      absl::StrCat(
          "Look for what a worker keeps from item to item: a dict or list that only grows, "
          "functools.lru_cache(maxsize=None), results that are appended, a queue that is filled faster than it "
          "is emptied",
          facts.dataloader() ? ", tensors that keep their graph (detach() them)" : "", ". Bound it or drop it. ",
          diagnosis.culprit ? "The line above allocates it; " : "", "memray --native, or tracemalloc",
          facts.dataloader() ? " in worker_init_fn" : " in the worker", ", ",
          diagnosis.culprit ? "names the callers." : "names the line."),
      IfNothingIsKept(facts), UntilItIsFixed(facts.framework, persistent),
      "gc.freeze(), numpy or Arrow layouts and another start method do not help against this growth: new memory was "
      "never shared."};
  return diagnosis;
}

Diagnosis GcDisabled(const Facts& facts) {
  std::vector<Grower> growing = GrowingWorkers(facts);
  std::erase_if(growing, [](const Grower& worker) { return worker.process->collector_on.value_or(true); });
  if (growing.empty()) return {};
  // The cause comes before what it causes.
  Diagnosis diagnosis = {.id = "gc-disabled", .confidence = 0.9, .bytes = PartOfPeak(growing, facts.model) + 1};
  diagnosis.summary = absl::StrCat(
      "Python's cycle collector is off in workers whose new memory grows, so objects that "
      "refer to each other are never freed: ",
      SumText(growing, "worker"), " ", RateOf(growing), TakeCulprit(growing, &diagnosis), LimitText(facts, &diagnosis),
      ".");
  const ProcessModel* parent = facts.model.Find(growing[0].process->parent);
  diagnosis.evidence.push_back("gc.isenabled() is False there, as read from the workers' memory");
  if (parent != nullptr && parent->collector_on)
    diagnosis.evidence.push_back(*parent->collector_on ? "it is on in their parent: the workers turned it off"
                                                       : "it is off in their parent, too: they inherited that");
  AddGrowers(std::move(growing), &diagnosis);
  diagnosis.advice = {
      absl::StrCat(
          "Call gc.enable() in the workers", facts.dataloader() ? " (worker_init_fn of the DataLoader)" : "",
          HasOlderPython(facts.model, 7) ? "" : ", after gc.freeze() in the parent if collections copied too much",
          "; or gc.collect() now and then, such as at the end of a batch."),
      "Or break the cycles: use weakref for back references, keep no exception with its traceback, no closure that "
      "holds itself. If memory still grows with the collector on, it is in use, not garbage: see new-memory-growth."};
  return diagnosis;
}

Diagnosis FileBacked(const Facts& facts) {
  std::vector<Grower> growers;
  for (const ProcessModel& process : facts.model.processes) {
    if (!process.is_worker() && process.role != Role::kParent) continue;
    const std::optional<uint64_t> bytes = FileRise(process, facts);
    if (!bytes) continue;
    growers.push_back({&process, *bytes, 0,
                       absl::StrCat("gained ", HumanBytes(*bytes), " of file pages (RssFile); at most ",
                                    HumanBytes(process.peak_private_bytes), " of its memory was private")});
  }
  if (growers.empty()) return {};
  Diagnosis diagnosis = {.id = "file-backed", .confidence = 0.6, .harm = Harm::kNone};
  const std::string held = MuchHeld(facts);
  const bool well = held.empty() && HoldLittle(facts) && !StillGrows(facts) &&
                    facts.findings.forecast.first_limit < 0 && EndsSentence(facts.model, facts.findings).empty();
  diagnosis.summary = absl::StrCat(
      well ? "Nothing to do: what grows is the resident size" : "The resident size grows", ", by pages of mapped files",
      facts.native() ? "" : " (numpy.memmap, LMDB, Arrow, safetensors)", ": ",
      growers.size() == 1
          ? absl::StrCat(HumanBytes(growers[0].bytes), " in 1 process")
          : absl::StrCat("up to ", HumanBytes(MostOf(growers)), " in each of ", growers.size(), " processes"),
      ". They are page cache, shared by all that map the file, and reclaimed when memory is needed: not a leak.", held);
  AddGrowers(std::move(growers), &diagnosis);
  diagnosis.advice = {
      "Judge by private memory or PSS instead of RSS; in a cgroup such pages count as usage, but the kernel reclaims "
      "them before it kills anything. Kubernetes' evictions count those that are read again and again (active_file)."};
  return diagnosis;
}

namespace {

constexpr char kLeakOrStart[] = "a leak, or freed memory that the allocator keeps, unless it still loads its data";

// A process other than a worker that keeps growing.
struct Growing {
  Grower grower;
  bool has_workers = false;
  bool settled = false;  // what loads its data at the start grows as a leak does, until it is done
};

// Who forks workers has loaded its data by then; another process, after some time.
Growing GrowingOf(Grower grower, const Facts& facts) {
  const ProcessModel& process = *grower.process;
  bool has_workers = false;
  absl::Duration first_fork = facts.model.t;
  ForEachRow(facts.model, [&](const ProcessModel& worker) {
    if (!worker.is_worker() || (process.index != 0 && worker.parent != process.index)) return;
    has_workers = true;
    first_fork = std::min(first_fork, worker.started);
  });
  const absl::Duration life = LifeOf(process, facts.model);
  return {.grower = std::move(grower),
          .has_workers = has_workers,
          .settled = has_workers ? first_fork - process.started <= life / 4 : life >= kLongestStart};
}

// The one that grew most; rather one that has settled.
std::optional<Growing> MostGrowing(const Facts& facts) {
  std::optional<Growing> most;
  for (const ProcessModel& process : facts.model.processes) {
    if (process.is_worker() || GaveBack(process, absl::ZeroDuration(), facts.model)) continue;
    std::optional<Grower> grower = GrowerOf(process, facts);
    if (!grower || grower->bytes < kSizeableBytes) continue;
    Growing one = GrowingOf(*std::move(grower), facts);
    const auto key = [](const Growing& growing) { return std::pair(growing.settled, growing.grower.bytes); };
    if (!most || key(one) > key(*most)) most = std::move(one);
  }
  return most;
}

// "The trainer itself", "The process 4711 (python3)"
std::string SubjectOf(const ProcessModel& process, const Facts& facts) {
  if (process.index == 0) return absl::StrCat("The ", facts.HasWorkers() ? facts.Target() : "process", " itself");
  return absl::StrCat("The ", NameOf(process), " (",
                      process.duty.duty == Duty::kManager ? "multiprocessing's Manager" : Printable(process.comm), ")");
}

}  // namespace

std::string GrowthOfOthers(const Facts& facts) {
  const std::optional<Growing> growing = MostGrowing(facts);
  if (!growing) return "";
  const std::vector<Grower> growers = {growing->grower};
  Diagnosis unused;
  return absl::StrCat(SubjectOf(*growing->grower.process, facts), " allocated ", HumanBytes(SumOf(growers)),
                      " of new memory ", RateOf(growers), ", and kept it", TakeCulprit(growers, &unused), ": ",
                      kLeakOrStart, ".");
}

Diagnosis TrainerGrowth(const Facts& facts) {
  std::optional<Growing> growing = MostGrowing(facts);
  if (!growing || !growing->settled) return {};
  const ProcessModel& process = *growing->grower.process;
  const uint64_t copied = process.inherited_copies() * facts.page_bytes;
  const uint64_t fresh = SaturatingSubtract(process.peak_private_bytes.value_or(0), copied);
  Diagnosis diagnosis = {
      .id = "trainer-growth", .confidence = 0.8, .bytes = GrownUntil(facts.model.t, growing->grower, fresh)};
  const std::vector<Grower> growers = {std::move(growing->grower)};
  const bool over = process.ended || facts.findings.forecast.ended;
  // Workers that only copy grow, too.
  const std::string others = !growing->has_workers       ? absl::StrCat(": ", kLeakOrStart, ". It")
                             : WorkersKeepGrowing(facts) ? over ? ", as did its workers: it" : ", as do its workers: it"
                             : SomeGaveBack(facts.model) ? " by new memory: it"
                                                         : " by new memory, unlike its workers: it";
  diagnosis.summary =
      absl::StrCat(SubjectOf(process, facts), over ? " kept growing" : " keeps growing", others, " allocated ",
                   HumanBytes(SumOf(growers)), " of new memory ", RateOf(growers), ", and kept it",
                   TakeCulprit(growers, &diagnosis), LimitText(facts, &diagnosis), ".");
  AddGrowers(growers, &diagnosis);
  const bool native = facts.native() || HaveNoPython(growers);
  diagnosis.advice = {absl::StrCat(
      "Look for what it keeps from step to step: ",
      !native && facts.dataloader() && (process.index > 0 || !facts.target_only_launches())
          ? "a loss that holds its graph (use loss.item()), "
          : "",
      "outputs or metrics that are appended to a list, logs, an unbounded cache, a queue "
      "that is filled faster than it is emptied",
      native                                    ? ""
      : facts.framework == Framework::kPool     ? ", results of Pool.imap() that arrive faster than they are fetched"
      : facts.framework == Framework::kExecutor ? ", the input of Executor.map(), which is taken all at once"
                                                : "",
      ".")};
  if (native) {
    diagnosis.advice.push_back("A heap profiler (heaptrack, jemalloc's) names the place.");
  } else {
    diagnosis.advice.push_back("memray --native or tracemalloc in that process names the line.");
    diagnosis.advice.push_back(IfNothingIsKept(facts));
  }
  return diagnosis;
}

}  // namespace cowprof
