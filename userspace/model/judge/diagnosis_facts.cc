#include "model/judge/diagnosis_facts.h"

#include <algorithm>
#include <array>
#include <map>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "model/base_name.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/growth.h"
#include "model/judge/post_mortem.h"
#include "model/library_name.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr double kNearlyAll = 0.9;

// Of the bytes that living workers had copied at their peak, those by these causes; at most all.
uint64_t PartOfCopied(const WorkersPeak& peak, std::initializer_list<Cause> some) {
  const double share = static_cast<double>(CopiesBy(some, peak.copies)) / std::max<uint64_t>(Sum(peak.copies), 1);
  return std::min(SaturatingCast(share * peak.copied_bytes), peak.copied_bytes);
}

// What a worker copied of what it inherited, at most. One that forks shares its memory each time again: what it copies
// then may be the same pages as before, or what it has made itself.
CauseCounts InheritedCauses(const ProcessModel& process) {
  CauseCounts causes = *process.causes;
  if (!HasForked(process) || !process.parent_anon_pages) return causes;
  const uint64_t inherited = SaturatingAdd(*process.parent_anon_pages, process.first_swap_pages);
  const double share = static_cast<double>(SaturatingAdd(inherited, process.copies_of_files)) / Sum(causes);
  if (share < 1) absl::c_for_each(causes, [share](uint64_t& copies) { copies = SaturatingCast(share * copies); });
  return causes;
}

// "2 ranks of 2 workers each", "2 ranks of up to 3 workers each, 8 started in all"
std::string RanksText(const Slots& slots, uint64_t started) {
  const bool all_alike = slots.least_of_rank == slots.most_of_rank;
  const bool renewed = started > slots.ranks * slots.most_of_rank;
  return absl::StrCat(Plural(slots.ranks, "rank"), " of ", all_alike ? "" : "up to ",
                      Plural(slots.most_of_rank, "worker"), slots.ranks > 1 ? " each" : "",
                      renewed ? absl::StrCat(", ", started, " started in all") : "");
}

}  // namespace

std::string Facts::Owner() const {
  if (between != nullptr) return NameOf(*between);
  return absl::StrCat("the ", from_forkserver ? "forkserver" : pids_are_ranks || !has_ranks ? Target() : "trainer");
}

const SeenStartMethods* Facts::start_methods() const {
  const SeenStartMethods* const seen = SentToWorkers(model, framework);
  const ProcessModel* const looked_at = seen ? model.Find(seen->index) : nullptr;
  if (looked_at == nullptr || pids.empty() || pids_are_ranks) return seen;
  const auto starts = [&](const ProcessModel& worker) {
    const ProcessModel* parent = model.Find(worker.parent);
    if (parent != nullptr && parent->role == Role::kForkserver) parent = model.Find(parent->parent);
    return parent == nullptr || parent == looked_at || (IsTrainer(*parent, model) && IsTrainer(*looked_at, model));
  };
  const absl::flat_hash_set<pid_t> of_pids(pids.begin(), pids.end());
  return absl::c_any_of(model.processes, [&](const auto& one) { return of_pids.contains(one.id.pid) && starts(one); })
             ? seen
             : nullptr;
}

const LimitModel* LimitOf(const RunModel& model, LimitKind kind) {
  const auto found = std::find_if(model.limits.begin(), model.limits.end(),
                                  [kind](const LimitModel& limit) { return limit.now.kind == kind; });
  return found == model.limits.end() ? nullptr : &*found;
}

const ProcessModel* HolderOf(const LimitSample& limit, const RunModel& model) {
  const ProcessModel* holder = nullptr;
  uint64_t least = 0;
  for (const ProcessModel& process : model.processes) {
    const ProcFigures& proc = process.proc;
    const Count& has = limit.kind == LimitKind::kDescriptors ? proc.descriptors
                       : limit.kind == LimitKind::kMappings  ? process.mappings
                                                             : proc.virtual_pages;
    if (process.ended || !has) continue;
    const uint64_t used = limit.counts_bytes() ? *has * model.info.page_bytes : *has;
    const uint64_t apart = std::max(used, limit.used) - std::min(used, limit.used);
    if (holder != nullptr && apart >= least) continue;
    holder = &process;
    least = apart;
  }
  return holder;
}

std::string Percent(double share) { return absl::StrFormat("%.0f %%", 100 * share); }

std::string Facts::Bytes(uint64_t pages) const { return HumanBytes(pages * page_bytes); }

bool Facts::HasWorkers() const { return findings.workers.processes > 0; }

uint64_t CopiesBy(std::initializer_list<Cause> causes, const CauseCounts& counts) {
  uint64_t copies = 0;
  for (const Cause cause : causes) copies += counts[static_cast<int>(cause)];
  return copies;
}

bool Facts::Matters(std::initializer_list<Cause> some) const { return Matters(CopiesBy(some, causes_of_pids)); }

bool Facts::OthersCopiedMuch() const { return copies_of_pids < kNearlyAll * (listed_copies + copied_again); }

uint64_t Facts::AtPeak(std::initializer_list<Cause> some) const { return PartOfCopied(model.workers_peak, some); }

std::string Facts::Workers() const {
  const uint64_t started = findings.workers.processes, together = model.most_living_workers;
  if (const Slots slots = SlotsOf(model); slots.ranks > 0 && slots.most_of_rank > 0) return RanksText(slots, started);
  return absl::StrCat(Plural(started, all_are_ranks ? "rank" : "worker"),
                      together > 0 && together < started ? absl::StrCat(", ", together, " at a time") : "");
}

std::string Facts::WorkersInSum() const {
  const bool in_turn = model.most_living_workers > 0 && model.most_living_workers < findings.workers.processes;
  const uint64_t all = findings.workers.processes;
  const bool together = !in_turn || !pids_in_turn;
  const bool some = together && !pids.empty() && pids.size() < all && copies_of_pids >= kNearlyAll * copies;
  if (some)
    return pids_are_ranks && !all_are_ranks
               ? absl::StrCat(" in ", Plural(pids.size(), "rank"))
               : absl::StrCat(" in ", pids.size(), " of ", Plural(all, all_are_ranks ? "rank" : "worker"));
  return absl::StrCat(in_turn ? ", summed over " : " in ", Workers());
}

absl::string_view PicklingMethodOf(const ProcessModel& process) {
  return process.is_worker() || process.role == Role::kRank ? NameOf(process.duty.start) : "";
}

Pickled PickledIn(const RunModel& model, const ProcessModel& process, uint64_t fresh_bytes) {
  if (const std::optional<Unpickled> unpickled = UnpickledIn(model, process, fresh_bytes)) {
    const uint64_t received = std::min(unpickled->received, SaturatingSubtract(fresh_bytes, unpickled->at_start));
    return {.at_start = unpickled->at_start, .received = received};
  }
  // Of a worker that was there at the attach, what is new came after its start.
  if (PicklingMethodOf(process).empty() || process.before_attach_bytes) return {};
  return {.at_start = fresh_bytes, .or_imported = true};
}

uint64_t NeverShared(const RunModel& model, const ProcessModel& process) {
  if (PicklingMethodOf(process).empty()) return 0;
  const uint64_t before = process.before_attach_bytes.value_or(0);
  if (process.duty.start != StartMethod::kForkserver) return before;
  const ProcessModel* server = model.Find(process.parent);
  if (server == nullptr || !server->proc.anon_pages) return 0;
  return SaturatingSubtract(before, *server->proc.anon_pages * model.info.page_bytes);
}

uint64_t NeverSharedAtPeak(const RunModel& model, const ProcessModel& process) {
  const auto had = model.workers_peak.before_attach_of.find(process.index);
  return had == model.workers_peak.before_attach_of.end() ? 0 : std::min(NeverShared(model, process), had->second);
}

uint64_t BeforeAttachAtPeak(const RunModel& model, bool never_shared) {
  const WorkersPeak& peak = model.workers_peak;
  uint64_t bytes = 0;
  for (const auto& [index, had] : peak.before_attach_of) {
    if (const ProcessModel* process = model.Find(index)) bytes += NeverSharedAtPeak(model, *process);
  }
  return never_shared ? bytes : peak.before_attach_bytes - bytes;
}

PeakSplit PeakSplitOf(const RunModel& model) {
  const WorkersPeak& peak = model.workers_peak;
  PeakSplit split = {.copied = peak.copied_bytes, .before_attach = peak.before_attach_bytes, .left = peak.left_bytes};
  for (const auto& [index, fresh] : peak.fresh_bytes) {
    const ProcessModel* process = model.Find(index);
    const Pickled pickled = process == nullptr ? Pickled{} : PickledIn(model, *process, fresh);
    split.pickled += pickled.bytes();
    split.fresh += fresh - pickled.bytes();
    split.pickled_or_imported |= pickled.or_imported;
  }
  split.inherited_freed = PartOfCopied(peak, {Cause::kMallocReuse});
  split.copied -= split.inherited_freed;
  return split;
}

uint64_t NoiseOf(const ProcessModel& process, uint64_t page_bytes) {
  const Count inherited = process.parent_anon_pages ? process.parent_anon_pages : process.first_anon_pages;
  const uint64_t part = inherited.value_or(0) * page_bytes / 100;
  return std::clamp(part, kNoiseBytes, kMostNoiseBytes);
}

// A program for each item, over a day, must not hide what a worker copies of what it inherited. Another process shares
// its memory only with what it forks.
uint64_t NoiseWithForks(const ProcessModel& process, uint64_t page_bytes) {
  constexpr uint64_t kMostForExec = 64;
  if (!HasForked(process)) return NoiseOf(process, page_bytes);
  const bool inherits = process.space != process.index;
  const uint64_t for_exec = inherits ? std::min(process.forks_for_exec, kMostForExec) : process.forks_for_exec;
  return NoiseOf(process, page_bytes) + RewrittenAfterForks(process.forks, for_exec);
}

uint64_t NotableCopies(const ProcessModel& process, uint64_t page_bytes) {
  if (!HasInheritedMemory(process) || process.index < 0) return 0;
  if (Sum(*process.causes) * page_bytes <= NoiseWithForks(process, page_bytes)) return 0;
  const uint64_t copies = Sum(InheritedCauses(process));
  return copies * page_bytes > NoiseOf(process, page_bytes) ? copies : 0;
}

bool StillGrows(const Facts& facts) {
  const Forecast& forecast = facts.findings.forecast;
  return !forecast.ended && forecast.unbounded_bytes_per_second > 0;
}

uint64_t RewrittenAfterForks(uint64_t forks, uint64_t for_exec) {
  constexpr uint64_t kRewrittenBytes = 4 << 20, kUntilExecBytes = 1 << 20;
  return (2 + forks) * kRewrittenBytes + for_exec * kUntilExecBytes;
}

// A spawned worker inherited nothing; it copies pages of its libraries when it loads them.
bool HasInheritedMemory(const ProcessModel& process) {
  const bool spawned = process.duty.start == StartMethod::kSpawn || process.duty.start == StartMethod::kLoky;
  return process.is_worker() && process.causes && !spawned;
}

// Of the workers that copied most or, where none copied more than noise, held most: findings are about these, not about
// a larger number that did little. Where none held more than noise, of most workers. Without workers, or where it is
// not known of them, of the target. Native only if no process is known to have Python: one that ends as it is looked at
// has none, either.
Framework FrameworkOf(const RunModel& model) {
  std::map<Framework, std::array<uint64_t, 3>> workers;  // pages that they copied, bytes that they held, their number
  bool python = false;
  ForEachRow(model, [&](const ProcessModel& process) {
    python |= !process.python.empty() || !process.python_problem.empty();
    const bool known = process.is_worker() && process.framework && *process.framework != Framework::kNative;
    if (!process.persistent && !known) return;
    // `persistent` is all that recordings of old versions say.
    auto& [copied, held, number] = workers[process.persistent ? Framework::kDataLoader : *process.framework];
    const uint64_t bytes = process.peak_private_bytes.value_or(0);
    copied += NotableCopies(process, model.info.page_bytes);
    held += bytes > kNoiseBytes ? bytes : 0;
    number += process.stands_for;
  });
  const auto most = std::max_element(workers.begin(), workers.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != workers.end()) return most->first;
  const ProcessModel* target = model.target();
  if (target == nullptr || !target->framework) return Framework::kFork;
  return *target->framework == Framework::kNative && python ? Framework::kFork : *target->framework;
}

bool Trains(const RunModel& model) {
  const bool loads = absl::c_any_of(model.processes, [](const ProcessModel& process) {
    return process.persistent || process.framework == Framework::kDataLoader;
  });
  return loads || HasRanks(model) || model.target_is_rank || JobOf(model).world_size.value_or(1) > 1;
}

// By the first process that has one: the target, unless that is a shell.
bool HasOlderPython(const RunModel& model, int minor) {
  const auto first = absl::c_find_if(model.processes, [](const auto& process) { return !process.python.empty(); });
  if (first == model.processes.end()) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(first->python, '.');
  int own = 0;
  return parts.size() > 1 && parts[0] == "3" && absl::SimpleAtoi(parts[1], &own) && own < minor;
}

const char* SharedMemoryOfPython(const RunModel& model) {
  return HasOlderPython(model, 8) ? "multiprocessing.RawArray" : "multiprocessing.shared_memory";
}

Facts FactsOf(const Run& run, const Findings& findings) {
  Facts facts = {
      .model = run.model, .estimates = run.estimates, .findings = findings, .page_bytes = run.model.info.page_bytes};
  facts.has_ranks = HasRanks(run.model);
  facts.framework = findings.framework;
  size_t served = 0, ranks = 0, workers = 0, ranks_of_pids = 0;
  std::vector<int> left_out;
  absl::flat_hash_set<int> parents;                                                             // of `pids`
  absl::Duration last_start = -absl::InfiniteDuration(), first_end = absl::InfiniteDuration();  // of `pids`
  ForEachRow(run.model, [&](const ProcessModel& process) {
    workers += process.is_worker();
    ranks += process.is_worker() && process.role == Role::kRank;
    if (!HasInheritedMemory(process)) return;
    const uint64_t all = Sum(*process.causes), notable = NotableCopies(process, facts.page_bytes);
    if (HasForked(process) && notable == 0 && all * facts.page_bytes > NoiseOf(process, facts.page_bytes)) {
      facts.copied_again += all;
      left_out.push_back(process.index);
      return;
    }
    const CauseCounts causes = InheritedCauses(process);
    const uint64_t copies = Sum(causes);
    Add(causes, &facts.causes);
    facts.copies += copies;
    facts.copied_again += all - copies;
    if (process.index < 0) return;  // an aggregate
    facts.listed_copies += copies;
    facts.most_of_one = std::max(facts.most_of_one, copies);
    if (notable == 0) return;
    facts.pids.push_back(process.id.pid);
    Add(causes, &facts.causes_of_pids);
    facts.copies_of_pids += copies;
    parents.insert(process.parent);
    served += process.duty.start == StartMethod::kForkserver;
    ranks_of_pids += process.role == Role::kRank;
    last_start = std::max(last_start, process.started);
    first_end = std::min(first_end, process.ended.value_or(absl::InfiniteDuration()));
  });
  if (!left_out.empty()) facts.without_forkers = TablesOf(run.model, {.workers_only = true, .without = left_out});
  facts.from_forkserver = 2 * served > facts.pids.size();
  facts.pids_are_ranks = !facts.pids.empty() && ranks_of_pids == facts.pids.size();
  facts.all_are_ranks = workers > 0 && ranks == workers;
  facts.pids_in_turn = last_start >= first_end;
  const ProcessModel* const parent = parents.size() == 1 ? run.model.Find(*parents.begin()) : nullptr;
  if (parent != nullptr && parent->is_worker()) facts.between = parent;
  return facts;
}

Saving SavingOf(uint64_t bytes) { return {.low = bytes / 5 * 4, .best = bytes / 20 * 19, .high = bytes}; }

uint64_t CopiedByPickling(const Facts& facts) {
  uint64_t copies = 0;
  for (const CopySiteShare& share : BlameOf(facts.model, {.index = 0}).copy_sites) {
    if (IsPickling(facts.model, facts.model.copy_sites[share.copy_site])) copies += share.copies;
  }
  return copies;
}

std::string LineText(const Frame& frame) {
  if (frame.file.empty()) return "";
  return absl::StrCat(Printable(frame.file), ":", frame.line, " in ", Printable(frame.function));
}

bool IsOfLibrary(const Frame& frame) { return !LibraryOf(frame.file, frame.function).empty(); }

std::string CulpritText(Culprit culprit, bool estimated, absl::string_view at) {
  const std::string library = LibraryOf(culprit.frame.file, culprit.frame.function);
  // torch/utils/data/_utils/collate.py: called with what the Dataset returned for each index.
  const bool collates = absl::EndsWith(culprit.frame.file, "/torch/utils/data/_utils/collate.py");
  culprit.frame.file = std::string(BaseName(culprit.frame.file));  // one sentence has no room for the folder
  const bool nearly_all = !estimated && culprit.share < 1 && culprit.share >= 0.995;
  const std::string share =
      absl::StrCat(estimated ? "about " : "", nearly_all ? "over 99 %" : Percent(culprit.share), " of it ");
  const std::string type = culprit.type.empty() ? "" : absl::StrCat(" (", Printable(culprit.type), ")");
  if (!library.empty()) {
    return absl::StrCat(share, absl::StripSuffix(at, "at"), "in ", Printable(library), "'s ",
                        Printable(culprit.frame.function), " (", Printable(culprit.frame.file), ":", culprit.frame.line,
                        ")", type,
                        collates ? ", on what your Dataset returned" : ", with no line of the program on the stack");
  }
  return absl::StrCat(share, at, " ", LineText(culprit.frame),
                      culprit.via.empty() ? "" : absl::StrCat(", via ", Printable(culprit.via)), type);
}

}  // namespace cowprof
