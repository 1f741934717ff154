// Makes the rows of a fleet: one for each rank that a recording has.
#include <algorithm>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "model/base_name.h"
#include "model/facts/bad_end.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/judge/fleet.h"
#include "model/judge/launcher_ends.h"

namespace cowprof {
namespace {

Death DeathOf(const ProcessModel& process, std::string who, const std::string& text, const Findings& findings) {
  const PostMortem& end = findings.EndOf(process);
  return {.t = *process.ended,
          .who = absl::StrCat(who, " (", process.id.pid, ")"),
          .text = Printable(text, 300),
          .process = process.id,
          .cause = end.cause,
          .sent = end.sent};
}

std::vector<Death> DeathsIn(const RunModel& model, const Findings& findings,
                            const std::vector<LauncherEnd>& launchers) {
  const bool launcher = HasRanks(model);
  std::vector<Death> deaths;
  for (const ProcessModel& process : model.processes) {
    const bool trainer = process.index == 0 ? !launcher : process.role == Role::kRank;
    if (!process.ended || !(trainer || process.is_worker())) continue;
    const PostMortem& end = findings.EndOf(process);
    // Not TrainerFailed(): a rank that was recorded apart may be any program, such as a solver that uses MPI.
    const bool failed =
        trainer && process.exit && !process.exit->signaled && process.exit->code != 0 && !WasAskedToEnd(process);
    const bool together = absl::c_any_of(
        launchers, [&](const LauncherEnd& launcher) { return EndedTogether(process, launcher, findings); });
    if (!end.badly && !failed && !together) continue;
    deaths.push_back(DeathOf(process, LabelOf(process, model), end.text, findings));
  }
  absl::c_stable_sort(deaths, [](const Death& a, const Death& b) { return a.t < b.t; });
  return deaths;
}

std::vector<Death> DeathsOf(const std::vector<LauncherEnd>& launchers, const RunModel& model,
                            const Findings& findings) {
  std::vector<Death> deaths;
  for (const LauncherEnd& launcher : launchers) {
    const bool trains = launcher.process->index == 0 && model.target_is_other_rank;
    deaths.push_back(
        DeathOf(*launcher.process, trains ? LabelOf(*launcher.process, model) : "launcher", launcher.text, findings));
    deaths.back().of_launcher = true;
  }
  return deaths;
}

template <typename Row, typename LeftOut>
std::vector<Row> Kept(const std::vector<Row>& rows, const LeftOut& left_out) {
  std::vector<Row> kept;
  for (const Row& row : rows) {
    if (!left_out(row)) kept.push_back(row);
  }
  return kept;
}

}  // namespace

FleetRow RowOf(const std::string& path, const Run& run, const Findings& findings, bool complete) {
  const RunModel& model = run.model;
  const RunInfo& info = model.info;
  const ProcessModel unknown;
  const ProcessModel* rank = model.target() != nullptr ? model.target() : &unknown;
  if (const auto found = absl::c_find_if(model.processes, [](const auto& one) { return one.role == Role::kRank; });
      found != model.processes.end())
    rank = &*found;
  const RankFacts* facts = RankOf(*rank, model);
  const std::vector<LauncherEnd> launchers = LauncherEndsIn(model, findings);
  FleetRow row = {.path = path,
                  .host = info.identity.host,
                  .boot_id = info.identity.boot_id,
                  .job_id = JobOf(model).job_id,
                  .rank = facts != nullptr ? facts->rank : std::nullopt,
                  .local_rank = LocalRankOf(*rank, model),
                  .world_size = JobOf(model).world_size,
                  .process = rank->id,
                  .command = info.command,
                  .started = info.started,
                  .duration = model.t,
                  .complete = complete,
                  .workers = model.most_living_workers,
                  .peak = model.workers_peak,
                  .split = findings.peak,
                  .outlook = findings.forecast_told.outlook,
                  .forecast = findings.forecast_told.sentence,
                  .headline = findings.headline,
                  .deaths = DeathsIn(model, findings, launchers),
                  .launchers = DeathsOf(launchers, model, findings),
                  .members = WorkersOf(model)};
  if (!complete) row.headline.sentence = ToldWithoutEnd(row.headline.sentence, model, findings);
  if (info.target_age && info.target.start_ns > 0)
    row.boot = absl::Nanoseconds(info.target.start_ns) + *info.target_age;
  if (findings.workers.copies_known) row.copied_bytes = findings.workers.copies * info.page_bytes;
  if (!findings.diagnoses.empty()) row.harm = findings.diagnoses.front().harm;
  for (const Diagnosis& diagnosis : findings.diagnoses) {
    if (row.culprit || !diagnosis.culprit) continue;
    row.culprit = diagnosis.culprit;
    row.culprit_copies = !IsOfGrowth(diagnosis);
  }
  return row;
}

std::string NameOf(const FleetRow& row) {
  if (row.rank) return absl::StrCat("rank ", *row.rank);
  const std::string file = Printable(BaseName(row.path), 60);
  return row.local_rank ? absl::StrCat("local rank ", *row.local_rank, " of ", file) : file;
}

void RanksApart::Add(const Sample& sample) {
  for (const Event& event : sample.events) {
    const auto* started = event.As<ProcessStarted>();
    if (started == nullptr || event.index < 0 || event.index > (1 << 24)) continue;
    if (parents_.size() <= static_cast<size_t>(event.index)) parents_.resize(event.index + 1, -1);
    parents_[event.index] = started->parent;
  }
}

std::vector<RanksApart::Rank> RanksApart::Of(const RunModel& model) const {
  std::vector<int> rank_of(parents_.size(), -1);
  std::vector<Rank> apart;
  absl::flat_hash_map<uint64_t, int> numbered;  // place in `apart` by its number
  for (size_t index = 0; index < parents_.size(); ++index) {
    const ProcessModel* process = model.Find(static_cast<int>(index));
    if (process != nullptr && IsTrainer(*process, model)) {
      const Count number = RankNumberOf(*process, model);
      const auto next = static_cast<int>(apart.size());
      rank_of[index] = number ? numbered.try_emplace(*number, next).first->second : next;
      if (rank_of[index] == next) apart.push_back({.index = static_cast<int>(index)});
    } else if (parents_[index] >= 0 && static_cast<size_t>(parents_[index]) < index) {
      rank_of[index] = rank_of[parents_[index]];
    }
  }
  if (apart.size() < 2) return {};
  const auto shared = std::make_shared<const std::vector<int>>(std::move(rank_of));
  for (size_t i = 0; i < apart.size(); ++i) apart[i].others = {shared, static_cast<int>(i)};
  return apart;
}

Sample Without(const OtherRanks& others, const Sample& sample) {
  const auto other = [&](const auto& row) { return others.Have(row.index); };
  // A target that is a rank itself started the others: that, and how it ended, holds for them, too; its memory, its
  // data and its hangs do not.
  const auto left_out = [&](const Event& event) {
    const bool own = event.Is<StartMethodsSeen>() || event.Is<StartFailed>() || event.Is<LastErrorSeen>() ||
                     event.Is<ForkHazardSeen>() || event.Is<HangsSeen>();
    return other(event) && (event.index > 0 || own);
  };
  // Not a copy of all, of which each rank would throw away most.
  return {.t = sample.t,
          .events = Kept(sample.events, left_out),
          .processes = Kept(sample.processes, other),
          .limits = sample.limits,
          .shm = sample.shm,
          .new_frames = sample.new_frames,
          .new_copy_sites = sample.new_copy_sites,
          .copy_sites = Kept(sample.copy_sites, other),
          .new_growth_sites = sample.new_growth_sites,
          .growth = Kept(sample.growth, other),
          .pages = sample.pages,
          .new_regions = sample.new_regions,
          .grown_regions = sample.grown_regions,
          .regions = sample.regions,
          .heads = sample.heads,
          .cause_evidence = sample.cause_evidence,
          .losses = sample.losses};
}

std::vector<Alert> Without(const OtherRanks& others, const std::vector<Alert>& alerts) {
  std::vector<Alert> left = alerts;
  std::erase_if(left, [&](const Alert& alert) { return others.Have(alert.index); });
  return left;
}

}  // namespace cowprof
