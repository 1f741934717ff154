#include "model/judge/run_figures.h"

#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "model/facts/bad_end.h"
#include "model/facts/ended_aggregate.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// Workers are faster once what they read is copied: up to 2.2 times as fast was seen (docs/comparing.md).
constexpr double kFasterAtTheEnd = 3;

CopiedParts PartsOf(const std::vector<BlameRow>& rows, const Blame& blame, uint64_t page_bytes) {
  CopiedParts parts;
  for (const BlameRow& row : rows) {
    const bool line = !row.frame.file.empty();
    if (!line && row.type.empty()) continue;
    CopiedPart& part = parts[line ? PartName{row.frame.file, row.frame.function, row.via} : PartName{"", row.type, ""}];
    part.bytes += row.copies * page_bytes;
    part.uncertainty += blame.Uncertainty(row.share) * static_cast<double>(blame.copies * page_bytes);
    if (line) part.numbers.push_back(row.frame.line);
  }
  for (auto& [name, part] : parts) absl::c_sort(part.numbers);
  return parts;
}

Count BatchesOf(const RunModel& model) {
  Count sum;
  bool known = true;
  ForEachRow(model, [&](const ProcessModel& process) {
    if (!process.is_worker()) return;
    known &= process.batches.has_value();
    sum = sum.value_or(0) + process.batches.value_or(0);
  });
  return known ? sum : std::nullopt;
}

uint64_t UnseenBatchesOf(const RunModel& model) {
  double sum = 0;
  for (const ProcessModel& process : model.processes) {
    const absl::Duration life = process.batch_seen - process.started;
    if (!process.batches || !process.ended || life <= absl::ZeroDuration()) continue;
    const double gap = std::max(0.0, absl::FDivDuration(*process.ended - process.batch_seen, life));
    sum += *process.batches * kFasterAtTheEnd * gap;
  }
  return SaturatingCast(sum);
}

std::vector<MemberFigures> RanksOf(const RunModel& model) {
  struct Rank {
    uint64_t copied = 0;
    uint64_t own_peak = 0;  // of one worker: if that came and went between two samples, it is in no sum
    bool known = true, private_known = true;
  };
  std::map<uint64_t, Rank> ranks;
  for (const ProcessModel& process : model.processes) {
    const RankFacts* facts = process.is_worker() ? RankOf(process, model) : nullptr;
    if (facts == nullptr || !facts->rank) continue;
    Rank& rank = ranks[*facts->rank];
    rank.known &= process.counts.copies.has_value();
    rank.copied += process.counts.copies.value_or(0) * model.info.page_bytes;
    rank.private_known &= process.peak_private_bytes.has_value();
    rank.own_peak = std::max(rank.own_peak, process.peak_private_bytes.value_or(0));
  }
  std::vector<MemberFigures> rows;
  for (const auto& [number, rank] : ranks) {
    MemberFigures row = {.label = absl::StrCat("rank ", number)};
    if (rank.known) row.copied = rank.copied;
    const auto together = model.rank_peaks.find(number);
    if (rank.private_known)
      row.private_peak = std::max(rank.own_peak, together == model.rank_peaks.end() ? 0 : together->second);
    rows.push_back(row);
  }
  return rows;
}

Count InBytes(const Count& pages, uint64_t page_bytes) { return pages ? Count(*pages * page_bytes) : std::nullopt; }

bool IsMember(const ProcessModel& process) {
  return process.index == 0 || process.is_worker() || process.role == Role::kRank;
}

// Of the one that ended first. A target that was asked to end counts, too: its figures are cut short.
std::string DeathIn(const RunModel& model, const Findings& findings) {
  const ProcessModel* first = nullptr;
  for (const ProcessModel& process : model.processes) {
    if (!IsMember(process)) continue;
    const bool failed = process.index == 0 && process.exit && process.exit->code != 0;
    if (!HasBadEnd(process, model) && !failed) continue;
    if (first == nullptr || process.ended < first->ended) first = &process;
  }
  if (first == nullptr) return "";
  return absl::StrCat(first->role == Role::kRank ? absl::StrCat(LabelOf(*first, model), " (pid ", first->id.pid, ")")
                                                 : NameOf(*first, model),
                      ": ", findings.EndOf(*first).text);
}

}  // namespace

std::vector<MemberFigures> WorkersOf(const RunModel& model) {
  std::vector<MemberFigures> workers;
  for (const ProcessModel& process : model.processes) {
    if (!process.is_worker()) continue;
    workers.push_back({.label = absl::StrCat(LabelOf(process, model), " (", process.id.pid, ")"),
                       .copied = InBytes(process.counts.copies, model.info.page_bytes),
                       .private_peak = process.peak_private_bytes});
  }
  return workers;
}

std::optional<double> RunFigures::Least(Figure figure) const {
  const std::optional<double> most = Get(figure);
  if (figure != Figure::kCopiedPerBatch || !most || !batches) return most;
  return several_epochs ? 0 : *most * *batches / (*batches + unseen_batches);
}

bool RunFigures::SawAllPrivate() const {
  return absl::c_all_of(workers_apart, [](const MemberFigures& worker) { return worker.private_peak.has_value(); });
}

const char* StartMethodOf(const RunModel& model) {
  bool forked = false, spawned = false, served = false;
  ForEachRow(model, [&](const ProcessModel& process) {
    const StartMethod start = process.duty.start;
    forked |= process.is_worker() && !process.execed;
    spawned |= process.is_worker() && (start == StartMethod::kSpawn || start == StartMethod::kLoky);
    served |= process.role == Role::kForkserver;
  });
  return served ? "forkserver" : spawned ? "spawn" : forked ? "fork" : "none";
}

RunFigures FiguresOf(const std::string& path, const Run& run, const Findings& findings, bool complete) {
  const RunModel& model = run.model;
  const ProcessModel* target = model.target();
  const uint64_t page_bytes = model.info.page_bytes;
  const Totals& workers = findings.workers;
  const Slots slots = SlotsOf(model);
  RunFigures of = {
      .path = path,
      .command = model.info.command,
      .complete = complete,
      .from_start = absl::c_none_of(model.processes,
                                    [](const ProcessModel& process) {
                                      const bool unread =
                                          process.origin == Origin::kFoundAtAttach && !process.peak_private_bytes;
                                      return process.is_worker() && (process.before_attach_bytes || unread);
                                    }),
      .to_end = target != nullptr && target->ended,
      .death = DeathIn(model, findings),
      .exactness = model.info.exactness,
      .rung = model.info.rung,
      .version = model.info.version,
      .kernel = model.info.kernel,
      .cpus = model.info.cpus,
      .start_method = StartMethodOf(model),
      .workers = slots.configured ? *slots.configured * std::max<uint64_t>(slots.ranks, 1) : model.most_living_workers,
      .ranks = slots.ranks,
      .batches = BatchesOf(model),
      .unseen_batches = UnseenBatchesOf(model),
      .several_epochs =
          absl::c_any_of(model.processes, [](const ProcessModel& process) { return process.batches_before > 0; }),
      .duration = model.t,
      .page_bytes = page_bytes,
      .losses = model.losses,
      .shm_of_host = model.info.shm_of_host,
      .workers_apart = WorkersOf(model),
      .ranks_apart = RanksOf(model),
      .limits = model.limits,
      .causes = workers.causes,
      .diagnoses = findings.diagnoses,
      .remedies = findings.remedies,
      .sentence = findings.headline.sentence,
      .without = model.info.without,
      .shm_seen = model.shm.has_value()};
  for (const ProcessModel& process : model.processes) {
    if (!IsMember(process)) continue;
    of.ends_known &= !process.ended || process.exit;
    if (of.python_problem.empty()) of.python_problem = process.python_problem;
  }
  for (const ProcessModel& row : model.ended_aggregates) {
    if (!row.is_worker()) continue;
    of.workers_summed_up += row.stands_for;
    of.workers_apart.push_back({.label = absl::StrCat("one of ", Plural(row.stands_for, "ended worker")),
                                .copied = InBytes(row.most_copies, page_bytes),
                                .private_peak = row.most_private_bytes});
  }
  const auto worker = absl::c_find_if(
      model.processes, [](const ProcessModel& process) { return process.is_worker() && !process.python.empty(); });
  const ProcessModel* const with_python = worker != model.processes.end() ? &*worker : target;
  if (with_python != nullptr) of.python = with_python->python.substr(0, with_python->python.rfind('.'));
  const auto set = [&](Figure figure, double value) { of.figures[static_cast<size_t>(figure)] = value; };
  if (workers.copies_known) {
    const double copied = static_cast<double>(workers.copies) * page_bytes;
    set(Figure::kCopied, copied);
    if (of.batches.value_or(0) > 0) set(Figure::kCopiedPerBatch, copied / *of.batches);
    if (model.info.copy_ns > 0) set(Figure::kCopyTime, workers.copies * model.info.copy_ns / 1e9);
  }
  // One that came and went between two samples is in no sum, but its own peak may be known.
  uint64_t peak = model.workers_peak.bytes;
  for (const MemberFigures& member : of.workers_apart) peak = std::max(peak, member.private_peak.value_or(0));
  if (peak > 0) set(Figure::kPrivatePeak, peak);
  if (!findings.forecast.ended && findings.forecast.plateau_bytes)
    set(Figure::kPlateau, findings.forecast.plateau_bytes->best);
  for (const LimitModel& limit : model.limits) {
    if (limit.now.kind == LimitKind::kShm) set(Figure::kShmPeak, limit.peak);
  }
  for (const LimitSample& limit : model.info.limits) {
    if (limit.kind == LimitKind::kShm) of.shm_at_start = limit.used;
  }
  // Of a program that ran before it may be its own; what is gone at the end may have been gone at the peak.
  for (const LimitModel& limit : model.limits) {
    if (limit.now.kind == LimitKind::kShm && model.info.started_target)
      of.shm_of_others = std::min<double>(of.shm_at_start, limit.now.used);
  }
  of.lines = PartsOf(findings.of_workers.by_line, findings.of_workers.blame, page_bytes);
  of.types = PartsOf(findings.of_workers.by_type, findings.of_workers.blame, page_bytes);
  return of;
}

std::string WhyMissing(const RunFigures& run, absl::string_view part) {
  for (const absl::string_view name : {absl::string_view("causes"), part}) {
    if (absl::c_linear_search(run.without, name)) return absl::StrCat("it was recorded with --without ", name);
  }
  return run.python_problem.empty() ? "" : absl::StrCat("Python was not read: ", Printable(run.python_problem, 200));
}

}  // namespace cowprof
