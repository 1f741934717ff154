// Diagnoses of memory that workers hold without a copy that was seen: what was pickled to them, and what was there
// before cowprof attached.
#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/grower.h"
#include "model/judge/growth.h"
#include "model/judge/start_methods.h"
#include "model/library_name.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr int kMostAbove = 64;  // processes; a recording may have a circle

// Returns the most that a process above this one had: who started it has the original of what was pickled. A forkserver
// has not: it forks for another process.
uint64_t MostAbove(const ProcessModel& process, const RunModel& model) {
  uint64_t most = 0;
  const ProcessModel* above = model.Find(process.parent);
  for (int i = 0; i < kMostAbove && above != nullptr; ++i) {
    if (above->role != Role::kForkserver) most = std::max(most, above->peak_private_bytes.value_or(0));
    above = model.Find(above->parent);
  }
  return most;
}

bool SplitByStack(const ProcessModel& process) { return !process.growth.empty(); }

// What a worker with a start method that pickles already had when cowprof attached, if that is more than libraries of
// this size need.
std::optional<uint64_t> OwnBeforeAttach(const ProcessModel& worker, const Facts& facts) {
  const uint64_t bytes = NeverShared(facts.model, worker);
  const std::vector<MemorySeries::Stretch>& stretches = facts.estimates.MemoryOf(worker.index).stretches;
  if (bytes == 0 || stretches.empty()) return std::nullopt;
  const bool sizeable = bytes >= stretches.front().file_pages * facts.page_bytes + kSizeableBytes;
  return sizeable ? std::optional(bytes) : std::nullopt;
}

// Returns what a worker had from its start on. By the stacks at its first touches: what it unpickled. Without stacks:
// the private memory in the middle of its life, if that is most of what it ever had (a leak has half by then), more
// than libraries of this size need (importing torch: 112 MiB, and as much of file pages), and not copied. Earlier is
// too soon: importing and unpickling take many seconds on a busy host.
std::optional<uint64_t> PrivateFromTheStart(const ProcessModel& worker, const Facts& facts) {
  if (worker.before_attach_bytes) return std::nullopt;  // nobody saw its start
  const uint64_t copied_bytes = worker.counts.copies.value_or(0) * facts.page_bytes;
  const uint64_t fresh = SaturatingSubtract(worker.peak_private_bytes.value_or(0), copied_bytes);
  if (const std::optional<Unpickled> unpickled = UnpickledIn(facts.model, worker, fresh))
    return unpickled->at_start >= kSizeableBytes ? std::optional(unpickled->at_start) : std::nullopt;
  const std::vector<MemorySeries::Stretch>& stretches = facts.estimates.MemoryOf(worker.index).stretches;
  const absl::Duration middle = worker.started + LifeOf(worker, facts.model) / 2;
  const auto at = std::find_if(stretches.begin(), stretches.end(), [&](const auto& one) { return one.t >= middle; });
  if (at == stretches.end()) return std::nullopt;
  const uint64_t bytes = at->private_bytes;
  const bool sizeable = bytes >= at->file_pages * facts.page_bytes + kSizeableBytes;
  const bool grew_later = worker.peak_private_bytes.value_or(0) > bytes + bytes / 2;
  const bool copied = 4 * copied_bytes > bytes;
  return sizeable && !grew_later && !copied ? std::optional<uint64_t>(bytes) : std::nullopt;
}

// Workers and ranks whose start method pickled much to them: seen at their start, or with much of their own at the
// attach.
struct PickledWorkers {
  std::vector<Grower> seen, before_attach;
  absl::string_view method;
  uint64_t most_above = 0;
};
PickledWorkers PickledWorkersOf(const Facts& facts) {
  PickledWorkers out;
  for (const ProcessModel& process : facts.model.processes) {
    const absl::string_view method = PicklingMethodOf(process);
    if (method.empty()) continue;
    const std::optional<uint64_t> seen = PrivateFromTheStart(process, facts);
    const std::optional<uint64_t> bytes = seen ? seen : OwnBeforeAttach(process, facts);
    const uint64_t above = MostAbove(process, facts.model);
    if (!bytes || 2 * above < *bytes) continue;
    out.method = method;
    out.most_above = std::max(out.most_above, above);
    const char* const when = !seen                   ? " of its own at the attach, of at most "
                             : SplitByStack(process) ? " unpickled at its start, of at most "
                                                     : " of its own halfway through its life, of at most ";
    (seen ? out.seen : out.before_attach)
        .push_back({&process, *bytes, 0,
                    absl::StrCat(HumanBytes(*bytes), when, HumanBytes(process.peak_private_bytes), "; ",
                                 facts.Bytes(process.counts.copies.value_or(0)), " copied")});
  }
  return out;
}

// Of what was pickled to workers, by Pickled's field, at their peak.
uint64_t PickledAtPeak(const RunModel& model, uint64_t Pickled::*field) {
  uint64_t bytes = 0;
  for (const auto& [index, fresh] : model.workers_peak.fresh_bytes) {
    if (const ProcessModel* process = model.Find(index)) bytes += PickledIn(model, *process, fresh).*field;
  }
  return bytes;
}

// What they are: "worker", "rank" (torch.multiprocessing.spawn), or "process", if there are both.
absl::string_view ReceiverOf(const std::vector<Grower>& growers) {
  const auto is_rank = [](const Grower& grower) { return grower.process->role == Role::kRank; };
  return absl::c_all_of(growers, is_rank) ? "rank" : absl::c_any_of(growers, is_rank) ? "process" : "worker";
}

bool IsInWorkersPeak(const Grower& grower) { return grower.process->is_worker(); }

// Of those that the workers' peak leaves out, what as many had as lived at one time.
uint64_t BesideWorkersPeak(const std::vector<Grower>& growers, const RunModel& model) {
  uint64_t bytes = 0, ranks = 0;
  for (const Grower& grower : growers) {
    if (IsInWorkersPeak(grower)) continue;
    bytes += grower.bytes;
    ++ranks;
  }
  return ranks == 0 ? 0 : bytes / ranks * std::min(ranks, SlotsOf(model).ranks);
}

}  // namespace

Diagnosis PrivateBySpawn(const Facts& facts) {
  PickledWorkers found = PickledWorkersOf(facts);
  std::vector<Grower>& growers = found.seen.empty() ? found.before_attach : found.seen;
  if (growers.empty()) return {};
  const absl::string_view receiver = ReceiverOf(growers);
  const bool workers = receiver == "worker";
  const std::string receivers = absl::StrCat(receiver, receiver == "process" ? "es" : "s");
  const std::string number =
      growers.size() == 1 ? Plural(1, receiver) : absl::StrCat(HumanCount(growers.size()), " ", receivers);
  const uint64_t mean = SumOf(growers) / growers.size(), most = MostOf(growers);
  const std::string each =
      absl::StrCat(most > mean + mean / 4 ? absl::StrCat("up to ", HumanBytes(most)) : HumanBytes(mean), " each");
  const bool by_stack = !found.seen.empty() && SplitByStack(*growers[0].process);
  Diagnosis diagnosis = {.id = "private-by-spawn", .confidence = found.seen.empty() ? 0.8 : 0.9};
  const uint64_t at_start = PickledAtPeak(facts.model, &Pickled::at_start);
  diagnosis.bytes =
      at_start + BeforeAttachAtPeak(facts.model, /*never_shared=*/true) + BesideWorkersPeak(growers, facts.model);
  diagnosis.summary =
      found.seen.empty()
          ? absl::StrCat("The ", found.method,
                         " start method shares none of the program's memory: when cowprof attached, ", number,
                         " already had ", each, " of their own, pickled to them, imported or allocated")
          : absl::StrCat("The ", found.method, " start method gave each ", receiver,
                         " its own copy of what was pickled",
                         by_stack ? ": " : ", imported or allocated at its start: ", each, " in ",
                         workers && growers.size() == facts.findings.workers.processes ? facts.Workers() : number);
  // The workers of a rank may well share its memory.
  absl::StrAppend(&diagnosis.summary, ". This is not copy-on-write: ",
                  receiver == "rank" ? "ranks share none of the launcher's memory." : "there was no sharing to lose.");
  diagnosis.evidence.push_back(
      absl::StrCat("start method ", found.method, "; the program itself had at most ", HumanBytes(found.most_above)));
  if (by_stack && absl::c_all_of(growers, IsInWorkersPeak)) diagnosis.saves = SavingOf(at_start);
  if (!found.seen.empty()) growers.insert(growers.end(), found.before_attach.begin(), found.before_attach.end());
  AddGrowers(std::move(growers), &diagnosis);
  const std::optional<SeenStartMethods>& any = facts.model.start_methods;
  // A DataLoader sends nothing to ranks.
  const SeenStartMethods* seen = workers ? facts.start_methods() : any ? &*any : nullptr;
  if (!workers && seen != nullptr && seen->look.of_loader.value_or(false)) seen = nullptr;
  if (seen && !seen->look.root.empty()) {
    diagnosis.evidence.push_back(absl::StrCat("pickled, what each ", receiver, " is sent takes ", SentText(seen->look),
                                              ": ", Printable(seen->look.root)));
  }
  diagnosis.advice = {
      absl::StrCat(
          "Send the ", receivers, " a path instead of ",
          seen && !seen->look.root.empty() ? SentText(seen->look) : "the data",
          ", and open it in each: all share one copy of numpy.memmap, Arrow or another mapped file. Or share the "
          "data: torch tensors with share_memory_(), ",
          SharedMemoryOfPython(facts.model), "."),
  };
  // joblib's loky and torch.multiprocessing.spawn have no other start method.
  if (found.method == NameOf(StartMethod::kLoky) || !workers) return diagnosis;
  diagnosis.advice.push_back(
      absl::StrCat("The fork start method shares what the parent has (multiprocessing.get_context('fork')",
                   facts.dataloader() ? "; with DataLoader, multiprocessing_context='fork'" : "",
                   "), but is safe only while the parent has no threads and no CUDA context. Python "
                   "objects are then copied as they are read; numpy and Arrow buffers are not."));
  diagnosis.advice.push_back(
      "Python 3.14 made forkserver the default on Linux. What the forkserver imports before it forks is shared: "
      "multiprocessing.set_forkserver_preload().");
  return diagnosis;
}

namespace {

// Whether multiprocessing is seen to have started the workers. Servers (gunicorn, Celery, uWSGI) and programs that call
// fork() themselves have no start method to choose.
bool StartedByMultiprocessing(const Facts& facts) {
  switch (facts.framework) {
    case Framework::kDataLoader:
    case Framework::kPool:
    case Framework::kExecutor:
      return true;
    case Framework::kFork:  // multiprocessing.Process, by the stacks that were seen
      return absl::c_any_of(facts.model.frames, [](const Frame& frame) {
        return EndsInFile(frame.file, "/multiprocessing/process.py") && absl::EndsWith(frame.function, "_bootstrap");
      });
    default:
      return false;
  }
}

bool IsOfUwsgi(const ProcessModel& process) { return process.is_worker() && process.comm == "uwsgi"; }

}  // namespace

// What the other start methods would cost is a figure or nothing.
std::string SpawnAdvice(const Facts& facts) {
  const bool started = StartedByMultiprocessing(facts);
  const bool served = facts.framework != Framework::kFork || absl::c_any_of(facts.model.processes, IsOfUwsgi);
  if (facts.from_forkserver || (!started && served)) return "";
  const SeenStartMethods* const seen = facts.start_methods();
  const std::string sentence = seen ? StartMethodsSentence(seen->look) : "";
  if (sentence.empty()) {
    if (!started || facts.pids_are_ranks) return "";
    return "What the spawn start method would send to each worker was not found: `cowprof pickle PID --object NAME` "
           "says how much that is, and what can't be sent.";
  }
  return absl::StrCat("Other start methods share nothing: ", sentence, " (", Printable(seen->look.root),
                      "). Globals are not sent: each worker makes them again.");
}

bool WorkersInherit(const Facts& facts) {
  return absl::c_any_of(facts.model.workers_peak.fresh_bytes, [&](const auto& fresh) {
    const ProcessModel* process = facts.model.Find(fresh.first);
    return process != nullptr && PicklingMethodOf(*process).empty();
  });
}

bool ReceivesTasks(const ProcessModel& process) {
  const std::optional<Framework> framework = process.framework;
  return process.role == Role::kPool || framework == Framework::kPool || framework == Framework::kExecutor ||
         framework == Framework::kJoblib || framework == Framework::kCelery;
}

namespace {

// What the parents of these workers hold, at most, if each worker has more than twice as much of its own: what it
// copied it inherited. nullopt: they may hold that much. Bytes.
std::optional<uint64_t> LessInParents(const std::vector<Grower>& workers, const Facts& facts) {
  uint64_t most = 0;
  for (const Grower& worker : workers) {
    const ProcessModel* const parent = facts.model.Find(worker.process->parent);
    if (parent == nullptr || !parent->first_anon_pages) return std::nullopt;
    const uint64_t held = std::max(parent->first_anonymous_pages(), parent->anonymous_pages()) * facts.page_bytes;
    if (worker.bytes <= 2 * held) return std::nullopt;
    most = std::max(most, held);
  }
  return most;
}

// How to take items from memory that all workers share.
std::string SharedItemsAdvice(const Facts& facts, absl::string_view send) {
  const std::string instead =
      absl::StrCat(send, " an index, a range or a path instead of the data, and let the workers take the item from ");
  if (!WorkersInherit(facts)) {
    return absl::StrCat(
        instead, "a mapped file (numpy.memmap, Arrow, joblib.load with mmap_mode='r'): they inherit no globals.");
  }
  const bool pool = facts.framework == Framework::kPool || facts.framework == Framework::kExecutor;
  return absl::StrCat(
      instead, "one buffer that they inherited (a global that is set ",
      pool                                    ? "before the pool is made"
      : facts.framework == Framework::kCelery ? "at import, or in a handler of Celery's worker_init"
                                              : "before the workers are forked",
      ": numpy, Arrow, or all items pickled; Python objects would be copied as they are read) or from a mapped "
      "file.");
}

// What every task needs. "": no place for that is known.
std::string OnceAdvice(const Facts& facts) {
  const std::string memory = absl::StrCat(" (", SharedMemoryOfPython(facts.model), ", numpy.memmap).");
  switch (facts.framework) {
    case Framework::kExecutor:
      if (HasOlderPython(facts.model, 7)) return "";  // it has no initializer
      [[fallthrough]];
    case Framework::kPool:
      return absl::StrCat("Pass what every task needs to the pool's initializer, once, as a path or shared memory",
                          memory);
    case Framework::kCelery:
      return absl::StrCat(
          "Open what every task needs once in each worker, in a handler of Celery's worker_process_init: a mapped file "
          "or shared memory",
          memory);
    case Framework::kFork:
      return absl::StrCat("Give each worker what all its tasks need once, as it starts: a path or shared memory",
                          memory);
    default:
      return "";
  }
}

// The words for what processes received that need not have been tasks: a replay buffer, a writer of images.
void TellReceived(const Facts& facts, size_t growers, absl::string_view each, Diagnosis* diagnosis) {
  diagnosis->summary = absl::StrCat("What ", Plural(growers, "worker"), " received through ",
                                    growers == 1 ? "a queue or pipe" : "queues or pipes", " took about ",
                                    HumanBytes(diagnosis->bytes), growers == 1 ? " in it" : " in them", " at the peak",
                                    growers == 1 ? "" : absl::StrCat(", ", each), ". This is not copy-on-write.");
  diagnosis->advice = {
      "Limit how much received data is kept (a replay buffer, gathered results, a write queue), in bytes rather than "
      "items, or keep it in a file.",
      SharedItemsAdvice(facts, "If it is data that was there before the workers started, send")};
}

}  // namespace

Diagnosis PickledArguments(const Facts& facts) {
  // What a worker was started with is an argument, too, unless it is a finding of its own.
  const bool started = PickledWorkersOf(facts).seen.empty();
  std::vector<Grower> growers;
  bool much = false;
  uint64_t of_tasks = 0;
  for (const auto& [index, fresh] : facts.model.workers_peak.fresh_bytes) {
    const ProcessModel* process = facts.model.Find(index);
    if (process == nullptr) continue;
    const Pickled pickled = PickledIn(facts.model, *process, fresh);
    const uint64_t bytes = pickled.received + (started && !pickled.or_imported ? pickled.at_start : 0);
    much |= pickled.received > kNoiseBytes;
    if (bytes == 0) continue;
    const bool has_tasks = ReceivesTasks(*process);
    of_tasks += has_tasks ? bytes : 0;
    growers.push_back(
        {process, bytes, 0,
         absl::StrCat(HumanBytes(bytes), " of its ", HumanBytes(fresh), " of new memory touched first while it ",
                      bytes > pickled.received ? "was started, or " : "",
                      has_tasks ? "read tasks from its queue; " : "read from a queue or pipe; ",
                      facts.Bytes(process->counts.copies.value_or(0)), " copied")});
  }
  if (!much) return {};
  const uint64_t sum = SumOf(growers), most = MostOf(growers), mean = sum / growers.size();
  Diagnosis diagnosis = {.id = "pickled-arguments", .confidence = 0.9, .bytes = sum};
  const bool tasks = 2 * of_tasks >= sum;
  const std::string each = most > mean + mean / 4 ? absl::StrCat("at most ", HumanBytes(most), " in one")
                                                  : absl::StrCat(HumanBytes(mean), " each");
  if (const uint64_t copies = CopiedByPickling(facts); copies > 0)
    diagnosis.evidence.push_back(absl::StrCat("in addition, the ", facts.Target(), " itself copied ",
                                              facts.Bytes(copies), " of what it shares with them while it pickled ",
                                              tasks ? "the arguments" : "what it sent"));
  const size_t receivers = growers.size();
  AddGrowers(std::move(growers), &diagnosis);
  if (!tasks) {
    TellReceived(facts, receivers, each, &diagnosis);
    return diagnosis;
  }
  diagnosis.summary =
      absl::StrCat("Arguments that were pickled and sent to ", Plural(receivers, "worker"), " took about ",
                   HumanBytes(sum), " in them at the peak, ", each, ". This is not copy-on-write.");
  diagnosis.advice = {SharedItemsAdvice(facts, "Send")};
  if (std::string once = OnceAdvice(facts); !once.empty()) diagnosis.advice.push_back(std::move(once));
  if (facts.framework != Framework::kCelery) {  // it sends a task by its name
    diagnosis.advice.push_back(
        "functools.partial and bound methods are pickled with everything that they hold, for each task.");
  }
  diagnosis.saves = SavingOf(diagnosis.bytes);
  return diagnosis;
}

Diagnosis BeforeAttach(const Facts& facts) {
  std::vector<Grower> growers;
  for (const ProcessModel& process : facts.model.processes) {
    if (!process.is_worker() || process.execed || !process.before_attach_bytes) continue;
    const uint64_t bytes = *process.before_attach_bytes - NeverShared(facts.model, process);
    if (bytes <= NoiseOf(process, facts.page_bytes)) continue;
    growers.push_back(
        {&process, bytes, 0,
         absl::StrCat(HumanBytes(bytes), " private at the attach, ", facts.Bytes(process.counts.copies.value_or(0)),
                      " copied since, ", HumanBytes(process.still_shared_bytes), " still shared")});
  }
  if (growers.empty()) return {};
  Diagnosis diagnosis = {
      .id = "before-attach", .confidence = 0.8, .bytes = BeforeAttachAtPeak(facts.model, /*never_shared=*/false)};
  diagnosis.summary =
      absl::StrCat("Before cowprof attached, ", Plural(growers.size(), "worker"), " already had ",
                   HumanBytes(SumOf(growers)), " of private memory, whose cause can no longer be determined");
  const std::optional<uint64_t> held = LessInParents(growers, facts);
  absl::StrAppend(&diagnosis.summary,
                  held ? absl::StrCat("; each has far more than its parent (", HumanBytes(*held),
                                      "), so most of it is new memory, unless the parent has freed as much since.")
                       : ".");
  AddGrowers(std::move(growers), &diagnosis);
  diagnosis.advice = {
      absl::StrCat(
          "Record from the first fork on: cowprof -- CMD, or attach before the parent forks. Then cowprof says ",
          facts.native() ? "why it was copied." : "which objects, which line and what to change."),
      facts.dataloader()
          ? "If the workers end with each epoch, keep this recording running: those of the next epoch are "
            "recorded from their fork."
          : "If the workers are replaced now and then, keep this recording running: new ones are recorded "
            "from their fork."};
  return diagnosis;
}

}  // namespace cowprof
