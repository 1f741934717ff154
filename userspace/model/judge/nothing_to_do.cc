// The first sentence of a run in which memory is well: what there is all the same.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/blame.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/forecast_format.h"
#include "model/judge/grower.h"
#include "model/judge/growth.h"
#include "model/judge/together.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr size_t kMostBelow = 5, kMostOfCommand = 120;
constexpr uint64_t kManyBytes = 256 << 20;  // too much to call it nothing, even where each worker has little of it
constexpr uint64_t kMuchOfOne = 64 << 20;   // new memory of a worker
constexpr uint64_t kMuchOfRank = uint64_t{1} << 30;          // of data that workers share
constexpr absl::Duration kLongestStart = absl::Seconds(30);  // of a program that puts itself into the background

// What a worker that lived at the workers' peak had then that it never shared. Bytes.
struct NewMemory {
  const ProcessModel* worker;  // nullptr: summed up with others that have ended
  uint64_t fresh = 0;          // new memory
  uint64_t before = 0;         // from before the attach, by a start method that pickles
  uint64_t bytes() const { return fresh + before; }
};

std::vector<NewMemory> NewMemoryAtPeak(const Facts& facts) {
  std::vector<NewMemory> held;
  for (const auto& [index, bytes] : facts.model.workers_peak.fresh_bytes) {
    const ProcessModel* const worker = facts.model.Find(index);
    held.push_back({worker, bytes, worker == nullptr ? 0 : NeverSharedAtPeak(facts.model, *worker)});
  }
  return held;
}

uint64_t SumOf(const std::vector<NewMemory>& held) {
  return absl::c_accumulate(held, uint64_t{0}, [](uint64_t sum, const NewMemory& one) { return sum + one.bytes(); });
}

// "; about 97 % of it first touched at train.py:12 in load": of their new memory. "": no line of the program has most
// of it, or they touched much more than they kept.
std::string FirstTouched(const std::vector<NewMemory>& held, const Facts& facts) {
  std::vector<const ProcessModel*> workers;
  Rise rise = {.begin = -absl::InfiniteDuration()};
  for (const NewMemory& one : held) {
    if (one.worker == nullptr) return "";
    workers.push_back(one.worker);
    rise.pages += one.fresh / facts.page_bytes;
    rise.zero_fills += one.worker->counts.zero_fills().value_or(0);
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

// Whether most of it are first writes to private mappings of files.
bool IsOfFiles(const std::vector<NewMemory>& held, const Facts& facts) {
  uint64_t copies = 0, fresh = 0;
  for (const NewMemory& one : held) {
    copies += one.worker == nullptr ? 0 : one.worker->counts.file_copies.value_or(0);
    fresh += one.fresh;
  }
  return copies > 0 && 2 * copies * facts.page_bytes >= fresh;
}

// "; no lasting growth of it was seen in 12 s": of the workers' new memory. "": another sentence tells of the growth,
// theirs or that of another process.
std::string HowItGrew(const Facts& facts) {
  if (WorkersKeepGrowing(facts)) return "";
  const bool rose = StillRise(facts);
  if (!rose && StillGrows(facts) && !GrowthOfOthers(facts).empty()) return "";
  return absl::StrCat(rose || StillGrows(facts)
                          ? "; it was rising at the end, and whether it keeps growing can't be told from "
                          : "; no lasting growth of it was seen in ",
                      HumanDuration(facts.model.t));
}

// ", 20.0 MiB of it before cowprof attached; no lasting growth of it was seen in 12 s."
std::string Whence(const std::vector<NewMemory>& held, uint64_t before, const Facts& facts) {
  return absl::StrCat(before > 0 ? absl::StrCat(", ", HumanBytes(before), " of it before cowprof attached")
                      : IsOfFiles(held, facts) ? ", most of it by writing to private mappings of files"
                                               : FirstTouched(held, facts),
                      HowItGrew(facts), ".");
}

// New memory that stays is a worker's own business as long as it doesn't grow, but the reader sees it in the tables.
std::string Holdings(const Facts& facts) {
  const std::vector<NewMemory> held = NewMemoryAtPeak(facts);
  uint64_t fresh = 0;
  for (const NewMemory& one : held) fresh += one.fresh;
  const uint64_t before = BeforeAttachAtPeak(facts.model, /*never_shared=*/true);
  if (fresh + before <= held.size() * kNoiseBytes) return "";
  return absl::StrCat(" They had at most ", HumanBytes(fresh + before), " of new memory of their own",
                      Whence(held, before, facts));
}

// "spawn": all workers were started so, and inherited nothing. "": some inherited memory.
absl::string_view InheritNothing(const Facts& facts) {
  absl::string_view method;
  bool all = true;
  ForEachRow(facts.model, [&](const ProcessModel& process) {
    if (!process.is_worker()) return;
    const StartMethod start = process.duty.start;
    all &= start == StartMethod::kSpawn || start == StartMethod::kLoky;
    method = NameOf(start);
  });
  return all ? method : "";
}

// What all workers could share, in the words of what started them.
std::string HowToShare(const std::vector<NewMemory>& held, const Facts& facts) {
  if (const absl::string_view method = InheritNothing(facts); !method.empty())
    return absl::StrCat(" They share nothing (", method, ") but what is mapped from a file or put into shared memory.");
  if (facts.native()) return "";
  const bool served = absl::c_any_of(held, [](const NewMemory& one) {
    return one.worker != nullptr && one.worker->duty.start == StartMethod::kForkserver;
  });
  const char* const where = served                                      ? " (forkserver: by set_forkserver_preload())"
                            : facts.framework == Framework::kGunicorn   ? " (gunicorn: --preload)"
                            : facts.framework == Framework::kCelery     ? " (Celery: at import, or in worker_init)"
                            : facts.framework == Framework::kDataLoader ? " (in the Dataset's __init__)"
                                                                        : "";
  return absl::StrCat(" Modules, arrays and tensors that are loaded before the fork", where, " are shared",
                      facts.dataloader() ? "; shuffle buffers and caches are each worker's own." : ".");
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

// What processes below the target hold where none is a worker. "": it is not much.
std::string HeldBelow(const Facts& facts) {
  const Together held = MostTogether(facts.model, [](const ProcessModel& process) {
    const bool helps = process.role == Role::kHelper || process.role == Role::kForkserver;
    const uint64_t bytes = process.index == 0 || helps ? 0 : process.peak_private_bytes.value_or(0);
    return bytes > kNoiseBytes ? bytes : 0;
  });
  if (held.sum < kManyBytes) return "";
  const bool alone = held.processes == 1;
  return absl::StrCat(" ", held.processes, alone ? " process" : " processes", " that the target started had at most ",
                      HumanBytes(held.sum), " of private memory", alone ? "." : " together, which they do not share.");
}

// Ranks that each have their data in memory of their own, where it was read how much that is in one of them. Whether
// the others have the same data, nobody can tell. "": it is not so, or may be mapped from a file already.
std::string HeldByRanks(const Facts& facts) {
  const SeenStartMethods* const seen = facts.start_methods();
  const ProcessModel* const read = seen ? facts.model.Find(seen->index) : nullptr;
  if (read == nullptr || !IsTrainer(*read, facts.model) || !seen->look.held) return "";
  const uint64_t bytes = seen->look.held->best, ranks = SlotsOf(facts.model).ranks;
  if (bytes < kMuchOfRank || ranks < 2) return "";
  for (const ProcessModel& process : facts.model.processes) {
    const bool own = process.space == process.index && process.anonymous_pages() * facts.page_bytes >= bytes;
    const bool mapped = process.proc.file_pages.value_or(0) * facts.page_bytes >= bytes;
    if (mapped || (IsTrainer(process, facts.model) && !own)) return "";
  }
  return absl::StrCat(
      " Each of ", ranks, " ranks has memory of its own, and what one of them gives its workers takes about ",
      HumanBytes(bytes),
      " of it: if the other ranks hold the same, one file that all map (numpy.memmap, Arrow) would hold "
      "it once.");
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

// Each of them less than a finding. "": it is not much together, or another finding tells of copies.
std::string ManyCopiedLittle(const Facts& facts) {
  const uint64_t copied = facts.model.workers_peak.copied_bytes;
  if (copied < kManyBytes || !facts.pids.empty()) return "";
  return absl::StrCat("Each worker copied little",
                      facts.copied_again > 0 ? "" : absl::StrCat(", at most ", facts.Bytes(facts.most_of_one)),
                      ", but all together ", HumanBytes(copied), ".");
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

std::string OwnOfWorkers(const Facts& facts, uint64_t bytes) {
  std::vector<NewMemory> held = NewMemoryAtPeak(facts);
  const size_t all = held.size();
  std::erase_if(held, [](const NewMemory& one) { return one.bytes() < kMuchOfOne; });
  if (held.size() < 2 || SumOf(held) < kManyBytes || SumOf(held) <= bytes) return "";
  const auto least =
      absl::c_min_element(held, [](const NewMemory& a, const NewMemory& b) { return a.bytes() < b.bytes(); })->bytes();
  uint64_t before = 0;
  for (const NewMemory& one : held) before += one.before;
  const std::string whence = Whence(held, before, facts);
  const bool each = held.size() == all, may_leak = WorkersKeepGrowing(facts) || StillRise(facts) || StillGrows(facts);
  return absl::StrCat(each ? "Each of " : absl::StrCat(held.size(), " of "), Plural(all, "worker"), " had ",
                      HumanBytes(least), " or more of new memory of ", each ? "its" : "their", " own, ",
                      HumanBytes(SumOf(held)), " together", whence,
                      may_leak || IsOfFiles(held, facts) ? "" : HowToShare(held, facts));
}

bool HoldLittle(const Facts& facts) {
  return facts.model.workers_peak.copied_bytes < kManyBytes && SumOf(NewMemoryAtPeak(facts)) < kManyBytes &&
         facts.findings.forecast.unnamed_bytes_per_second == 0 && !StillRise(facts);
}

std::string MuchHeld(const Facts& facts) {
  std::string text;
  for (const std::string& held : {ManyCopiedLittle(facts), OwnOfWorkers(facts), GrowthOfOthers(facts)})
    absl::StrAppend(&text, held.empty() ? "" : " ", held);
  return text;
}

std::string TargetIsWorkerText(const Facts& facts) {
  if (!TargetIsWorker(facts.model)) return "";
  const ProcessModel& target = *facts.model.target();
  const bool of_loader = target.duty.duty == Duty::kLoader;
  return absl::StrCat("The target is itself a worker of a ", of_loader ? "DataLoader" : "pool",
                      ": attach to the process that started it (`ps -o ppid= -p ", target.id.pid,
                      "`) to see all workers and what they share.");
}

std::string NothingToDo(const Facts& facts) {
  const std::string left = absl::StrCat(LimitAhead(facts), LeftRunning(facts)), growth = GrowthOfOthers(facts);
  const bool met = facts.findings.forecast.first_limit >= 0;  // a limit, be it one that is nearly empty yet
  const std::string of_ranks = HeldByRanks(facts);
  const bool well = !met && left.empty() && growth.empty() && of_ranks.empty() && !StillGrows(facts);
  const std::string shared = SharedMemoryOf(facts);
  const Forecast& forecast = facts.findings.forecast;
  const bool shared_grows = forecast.unnamed_bytes_per_second > 0 || GrowsByShm(forecast);
  if (!facts.HasWorkers()) {
    const std::string held = HeldBelow(facts);
    const std::string worker = TargetIsWorkerText(facts);
    if (!worker.empty()) return absl::StrCat(left, worker, shared, growth.empty() ? "" : " ", growth);
    const std::string no_worker =
        !growth.empty() || shared_grows
            ? absl::StrCat("No worker was forked.", shared, growth.empty() ? "" : " ", growth)
        : StillGrows(facts)
            ? "No worker was forked. New memory comes without an end in sight, but too little so far to call it a leak."
            : absl::StrCat(well && held.empty() ? "Nothing to do: no" : "No",
                           " worker was forked, and no lasting growth of ",
                           facts.findings.all.processes > 1 ? "any" : "the", " process was seen in ",
                           HumanDuration(facts.model.t), ".", held, shared);
    return absl::StrCat(left, no_worker, TargetText(facts));
  }
  const std::string own = OwnOfWorkers(facts);
  std::string of_workers = ManyCopiedLittle(facts);
  if (of_workers.empty() && own.empty()) {
    const bool little = well && HoldLittle(facts);
    const absl::string_view method = InheritNothing(facts);
    of_workers = !method.empty() && little
                     ? absl::StrCat("Nothing to do: the workers inherit nothing (", method, "), and hold little.")
                 : !method.empty() ? absl::StrCat("The workers inherit nothing (", method, ").")
                 : little          ? "Nothing to do: the workers share what they should."
                 : shared_grows    ? "Each worker copied little."
                                   : "The workers share what they should.";
  }
  const absl::string_view space = !of_workers.empty() && !own.empty() ? " " : "";
  return absl::StrCat(left, of_workers, space, own.empty() ? Holdings(facts) : own, shared, of_ranks,
                      growth.empty() ? "" : " ", growth);
}

}  // namespace cowprof
