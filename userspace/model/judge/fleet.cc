#include "model/judge/fleet.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/base_name.h"
#include "model/facts/roles.h"
#include "model/format.h"

namespace cowprof {
namespace {

// Clocks of hosts that are kept by NTP differ by less.
constexpr absl::Duration kClocksAgree = absl::Seconds(1);
// Ranks read different items: from here on they differ by more than that.
constexpr double kUnlike = 0.25;
constexpr double kUnlikeBytes = 8 << 20;
constexpr size_t kMostUnlike = 8, kLeastToCompare = 3;

std::vector<Death> DeathsIn(const RunModel& model, const Findings& findings) {
  const bool launcher = HasRanks(model);
  std::vector<Death> deaths;
  for (const ProcessModel& process : model.processes) {
    const bool trainer = process.index == 0 ? !launcher : process.role == Role::kRank;
    if (!process.ended || !(trainer || process.is_worker())) continue;
    const PostMortem& end = findings.EndOf(process);
    const bool failed = trainer && process.exit && !process.exit->signaled && process.exit->code != 0;
    if (!end.badly && !failed) continue;
    deaths.push_back(
        {*process.ended, absl::StrCat(LabelOf(process, model), " (", process.id.pid, ")"), Printable(end.text, 300)});
  }
  absl::c_stable_sort(deaths, [](const Death& a, const Death& b) { return a.t < b.t; });
  return deaths;
}

std::vector<MemberFigures> WorkersIn(const RunModel& model) {
  std::vector<MemberFigures> workers;
  for (const ProcessModel& process : model.processes) {
    if (!process.is_worker()) continue;
    workers.push_back(
        {.label = absl::StrCat(LabelOf(process, model), " (", process.id.pid, ")"),
         .copied = process.counts.copies ? Count(*process.counts.copies * model.info.page_bytes) : std::nullopt,
         .private_peak = process.peak_private_bytes});
  }
  return workers;
}

// "rank 3 on node-b": the host where the rows come from several.
std::string WhereOf(const FleetRow& row, bool hosts) {
  return hosts && !row.host.empty() ? absl::StrCat(NameOf(row), " on ", Printable(row.host, 60)) : NameOf(row);
}

bool SeveralHosts(const std::vector<FleetRow>& rows) {
  return absl::c_any_of(rows, [&](const FleetRow& row) { return row.host != rows.front().host; });
}

bool SameBoot(const FleetRow& a, const FleetRow& b) {
  return !a.boot_id.empty() && a.boot_id == b.boot_id && a.boot && b.boot;
}

// From the death of `a` to that of `b`: by the time since boot on one host, otherwise by the hosts' wall clocks.
absl::Duration Between(const FleetRow& a, const Death& of_a, const FleetRow& b, const Death& of_b) {
  const absl::Duration starts = SameBoot(a, b) ? *b.boot - *a.boot : b.started - a.started;
  return starts + of_b.t - of_a.t;
}

std::optional<FirstDeath> FirstDeathOf(const std::vector<FleetRow>& rows, const std::vector<bool>& repeated) {
  std::optional<FirstDeath> first;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (repeated[i] || rows[i].deaths.empty()) continue;
    const Death& death = rows[i].deaths.front();
    if (!first || Between(rows[first->row], first->death, rows[i], death) < absl::ZeroDuration())
      first = FirstDeath{.row = i, .death = death};
  }
  if (!first) return first;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (repeated[i] || i == first->row || rows[i].deaths.empty()) continue;
    const absl::Duration later = Between(rows[first->row], first->death, rows[i], rows[i].deaths.front());
    if (first->until_next && later >= *first->until_next) continue;
    first->until_next = later;
    first->next_row = i;
    first->by_two_clocks = !SameBoot(rows[first->row], rows[i]);
  }
  return first;
}

// What the clocks say of each other.
struct Clocks {
  std::vector<std::string> notes;
  bool differ = false;  // of two hosts: which came first can't be told
};

Clocks ClocksOf(const std::vector<FleetRow>& rows) {
  Clocks clocks;
  std::map<std::string, std::pair<const FleetRow*, const FleetRow*>> boots;  // first and last by wall - boot
  const auto offset = [](const FleetRow& row) { return row.started - *row.boot - absl::UnixEpoch(); };
  for (const FleetRow& row : rows) {
    if (row.boot_id.empty() || !row.boot) continue;
    auto& [least, most] = boots.try_emplace(row.boot_id, &row, &row).first->second;
    if (offset(row) < offset(*least)) least = &row;
    if (offset(row) > offset(*most)) most = &row;
  }
  for (const auto& [boot, rows_of] : boots) {
    const absl::Duration moved = offset(*rows_of.second) - offset(*rows_of.first);
    if (moved <= kClocksAgree) continue;
    clocks.notes.push_back(absl::StrCat("The wall clock of ", Printable(rows_of.first->host, 60), " was moved by ",
                                        HumanDuration(moved), " between ", NameOf(*rows_of.first), " and ",
                                        NameOf(*rows_of.second), "; their order is by the time since boot."));
  }
  // Ranks of one job run at one time. If the recordings of two hosts don't overlap, it was none, or a clock is wrong.
  for (size_t i = 0; i < rows.size() && !clocks.differ; ++i) {
    for (size_t k = i + 1; k < rows.size() && !clocks.differ; ++k) {
      const FleetRow& a = rows[i].started <= rows[k].started ? rows[i] : rows[k];
      const FleetRow& b = &a == &rows[i] ? rows[k] : rows[i];
      const absl::Duration apart = b.started - (a.started + a.duration);
      if (a.boot_id == b.boot_id || a.job_id != b.job_id || apart <= kClocksAgree) continue;
      clocks.differ = true;
      clocks.notes.push_back(absl::StrCat("By their hosts' clocks, ", WhereOf(b, true), " began ", HumanDuration(apart),
                                          " after the recording of ", WhereOf(a, true),
                                          " had ended: the clocks differ, or these did not run together."));
    }
  }
  return clocks;
}

bool SameProcess(const FleetRow& a, const FleetRow& b) {
  return a.process.pid != 0 && a.process.pid == b.process.pid && a.process.start_ticks() == b.process.start_ticks() &&
         a.boot_id == b.boot_id && a.host == b.host;
}

// Rows that are there twice, and ranks that aren't there.
std::vector<std::string> PlacesOf(const std::vector<FleetRow>& rows, std::vector<bool>* repeated) {
  std::vector<std::string> notes;
  std::set<uint64_t> ranks;
  bool all_ranked = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    const FleetRow& row = rows[i];
    all_ranked &= row.rank.has_value();
    if (row.rank) ranks.insert(*row.rank);
    const auto before = rows.begin() + i;
    const auto same =
        std::find_if(rows.begin(), before, [&](const FleetRow& other) { return SameProcess(row, other); });
    if (same != before) {
      (*repeated)[i] = true;
      notes.push_back(absl::StrCat(WhereOf(row, true), ", process ", row.process.pid, ", is in ", Printable(same->path),
                                   " and in ", Printable(row.path), "; sums count the first."));
      continue;
    }
    const auto other = std::find_if(rows.begin(), before, [&](const FleetRow& earlier) {
      return row.rank && row.rank == earlier.rank && row.job_id == earlier.job_id;
    });
    if (other == before) continue;
    notes.push_back(absl::StrCat("There are two processes of ", NameOf(row), ": ", other->process.pid, " in ",
                                 Printable(other->path), " and ", row.process.pid, " in ", Printable(row.path),
                                 ". It was started again, or these are two jobs; both count."));
  }
  if (all_ranked && !ranks.empty() && *ranks.rbegin() + 1 != ranks.size()) {
    std::vector<uint64_t> missing;
    for (uint64_t rank = 0; rank < *ranks.rbegin() && missing.size() < 9; ++rank) {
      if (!ranks.contains(rank)) missing.push_back(rank);
    }
    const bool more = missing.size() > 8;
    missing.resize(std::min<size_t>(missing.size(), 8));
    notes.push_back(absl::StrCat("No recording of ", missing.size() == 1 ? "rank " : "ranks ",
                                 absl::StrJoin(missing, ", "), more ? " and more" : "", "."));
  }
  return notes;
}

// ---- What all have in common, and who is unlike ----

std::string LineOf(const Culprit& culprit) {
  return absl::StrCat(Printable(BaseName(culprit.frame.file)), ":", culprit.frame.line, " (",
                      Printable(culprit.frame.function, 60), ")");
}

// The value that most rows have.
template <typename Value>
std::pair<std::string, size_t> Commonest(const std::vector<const FleetRow*>& rows, Value value) {
  std::map<std::string, size_t> counts;
  for (const FleetRow* row : rows) ++counts[value(*row)];
  counts.erase("");
  const auto most = absl::c_max_element(counts, [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == counts.end() ? std::pair<std::string, size_t>() : std::pair<std::string, size_t>(*most);
}

std::string FindingOf(const FleetRow& row) { return row.headline.diagnosis; }
std::string LineOfRow(const FleetRow& row) { return row.culprit ? LineOf(*row.culprit) : ""; }

void Compare(const std::vector<const FleetRow*>& rows, bool hosts, Fleet* fleet) {
  const auto of = [&](size_t count) { return absl::StrCat(count, " of ", rows.size()); };
  const auto [finding, findings] = Commonest(rows, FindingOf);
  const auto [line, lines] = Commonest(rows, LineOfRow);
  if (findings > 1) fleet->common.push_back(absl::StrCat(finding, " is the first finding in ", of(findings)));
  if (lines > 1) fleet->common.push_back(absl::StrCat("most is copied by ", line, " in ", of(lines)));
  if (rows.size() < kLeastToCompare) return;
  if (findings * 3 >= rows.size() * 2) {
    for (const FleetRow* row : rows) {
      if (FindingOf(*row) != finding && fleet->unlike.size() < kMostUnlike)
        fleet->unlike.push_back(absl::StrCat(WhereOf(*row, hosts), ": first finding ", FindingOf(*row)));
    }
  }
  const auto far = [&](const char* what, auto value, auto text, double least) {
    std::vector<double> values;
    for (const FleetRow* row : rows) values.push_back(value(*row));
    absl::c_sort(values);
    const double median = (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
    std::vector<std::string> found;
    for (const FleetRow* row : rows) {
      const double difference = std::abs(value(*row) - median);
      if (difference <= std::max(least, kUnlike * median)) continue;
      const std::string times =
          median > 0 ? absl::StrFormat(", %.1f times the median", value(*row) / median) : std::string();
      found.push_back(absl::StrCat(WhereOf(*row, hosts), ": ", text(value(*row)), " ", what, times));
    }
    // Where half of them are far from the median, it says nothing.
    if (found.size() * 2 >= rows.size()) return;
    for (std::string& one : found) {
      if (fleet->unlike.size() < kMostUnlike) fleet->unlike.push_back(std::move(one));
    }
  };
  const auto bytes = [](double value) { return HumanBytes(static_cast<uint64_t>(value)); };
  if (absl::c_all_of(rows, [](const FleetRow* row) { return row->copied_bytes.has_value(); }))
    far(
        "copied", [](const FleetRow& row) { return double(*row.copied_bytes); }, bytes, kUnlikeBytes);
  far(
      "private at the peak", [](const FleetRow& row) { return double(row.peak.bytes); }, bytes, kUnlikeBytes);
  far(
      "workers at once", [](const FleetRow& row) { return double(row.workers); },
      [](double value) { return absl::StrCat(value); }, 0);
}

std::string Sentence(const Fleet& fleet, const std::vector<const FleetRow*>& rows, bool hosts, bool clocks_differ) {
  if (fleet.first) {
    const FirstDeath& first = *fleet.first;
    const FleetRow& row = fleet.rows[first.row];
    const bool undecided =
        first.by_two_clocks && (clocks_differ || (first.until_next && *first.until_next < kClocksAgree));
    std::string sentence = absl::StrCat(
        "In ", WhereOf(row, hosts), ", ", first.death.who, undecided ? " ended badly " : " was the first to end badly ",
        HumanDuration(first.death.t), " into the recording (",
        absl::FormatTime("%H:%M:%S UTC", row.started + first.death.t, absl::UTCTimeZone()), "): ", first.death.text,
        ".");
    if (first.until_next) {
      const std::string next = WhereOf(fleet.rows[first.next_row], hosts);
      absl::StrAppend(
          &sentence, " ",
          undecided ? absl::StrCat("So did a process of ", next,
                                   "; which was first can't be told from the clocks of two hosts.")
                    : absl::StrCat("The next was one of ", next, ", ", HumanDuration(*first.until_next), " later."));
    }
    return absl::StrCat(sentence, " Of ", NameOf(row), ": ", row.headline.sentence);
  }
  if (absl::c_all_of(rows, [](const FleetRow* row) { return FindingOf(*row) == "clean"; }))
    return absl::StrCat(rows.size() == 1 ? WhereOf(*rows[0], hosts) : absl::StrCat("All ", rows.size(), " of them"),
                        ": Nothing to do.");
  const FleetRow& worst = **absl::c_min_element(rows, [](const FleetRow* a, const FleetRow* b) {
    return std::tuple(a->harm, b->peak.bytes) < std::tuple(b->harm, a->peak.bytes);
  });
  const size_t alike = absl::c_count_if(rows, [&](const FleetRow* row) { return FindingOf(*row) == FindingOf(worst); });
  const std::string having = alike == rows.size() ? absl::StrCat("All ", alike, " have")
                             : alike == 1         ? absl::StrCat("It is the only one of ", rows.size(), " that has")
                                                  : absl::StrCat(alike, " of ", rows.size(), " have");
  const std::string who = rows.size() == 1 ? "" : absl::StrCat("Worst of ", rows.size(), ", ");
  return absl::StrCat(
      who, WhereOf(worst, hosts), ": ", worst.headline.sentence,
      rows.size() == 1 ? "" : absl::StrCat(" ", having, " this first finding, ", FindingOf(worst), "."));
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
  FleetRow row = {.path = path,
                  .host = info.identity.host,
                  .boot_id = info.identity.boot_id,
                  .job_id = JobOf(model).job_id,
                  .rank = facts != nullptr ? facts->rank : std::nullopt,
                  .local_rank = LocalRankOf(*rank, model),
                  .process = rank->id,
                  .command = info.command,
                  .started = info.started,
                  .duration = model.t,
                  .complete = complete,
                  .workers = model.most_living_workers,
                  .peak = model.workers_peak,
                  .split = findings.peak,
                  .outlook = findings.forecast.outlook,
                  .forecast = findings.forecast.sentence,
                  .headline = findings.headline,
                  .deaths = DeathsIn(model, findings),
                  .members = WorkersIn(model)};
  if (info.target_age && info.target.start_ns > 0)
    row.boot = absl::Nanoseconds(info.target.start_ns) + *info.target_age;
  if (findings.workers.copies_known) row.copied_bytes = findings.workers.copies * info.page_bytes;
  if (!findings.diagnoses.empty()) row.harm = findings.diagnoses.front().harm;
  for (const Diagnosis& diagnosis : findings.diagnoses) {
    if (!row.culprit) row.culprit = diagnosis.culprit;
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
  std::vector<int> rank_of(parents_.size(), -1);  // by index: the number of its rank in `ranks`
  std::vector<std::pair<Count, int>> ranks;
  for (size_t index = 1; index < parents_.size(); ++index) {
    const ProcessModel* process = model.Find(static_cast<int>(index));
    if (process != nullptr && process->role == Role::kRank) {
      const RankFacts* facts = RankOf(*process, model);
      const Count number = facts != nullptr && facts->rank ? facts->rank : LocalRankOf(*process, model);
      const auto known = absl::c_find_if(ranks, [&](const auto& rank) { return number && rank.first == number; });
      rank_of[index] = static_cast<int>(known - ranks.begin());
      if (known == ranks.end()) ranks.emplace_back(number, static_cast<int>(index));
    } else if (parents_[index] >= 0 && static_cast<size_t>(parents_[index]) < index) {
      rank_of[index] = rank_of[parents_[index]];
    }
  }
  if (ranks.size() < 2) return {};
  std::vector<Rank> apart;
  for (size_t number = 0; number < ranks.size(); ++number) {
    Rank rank = {.index = ranks[number].second, .others = std::vector<bool>(parents_.size())};
    for (size_t index = 0; index < rank_of.size(); ++index)
      rank.others[index] = rank_of[index] >= 0 && rank_of[index] != static_cast<int>(number);
    apart.push_back(std::move(rank));
  }
  return apart;
}

Sample Without(const std::vector<bool>& others, const Sample& sample) {
  Sample left = sample;
  const auto other = [&](const auto& row) {
    return row.index >= 0 && (static_cast<size_t>(row.index) >= others.size() || others[row.index]);
  };
  std::erase_if(left.events, other);
  std::erase_if(left.processes, other);
  std::erase_if(left.copy_sites, other);
  return left;
}

std::vector<Alert> Without(const std::vector<bool>& others, const std::vector<Alert>& alerts) {
  std::vector<Alert> left = alerts;
  std::erase_if(left, [&](const Alert& alert) {
    return alert.index >= 0 && static_cast<size_t>(alert.index) < others.size() && others[alert.index];
  });
  return left;
}

Fleet FleetOf(std::vector<FleetRow> rows) {
  Fleet fleet = {.rows = std::move(rows)};
  absl::c_stable_sort(fleet.rows, [](const FleetRow& a, const FleetRow& b) {
    const auto key = [](const FleetRow& row) {
      return std::tuple(row.job_id, row.rank.value_or(UINT64_MAX), row.host, row.started, row.local_rank);
    };
    return key(a) < key(b);
  });
  fleet.repeated.resize(fleet.rows.size());
  if (fleet.rows.empty()) return fleet;
  const bool hosts = SeveralHosts(fleet.rows);
  fleet.notes = PlacesOf(fleet.rows, &fleet.repeated);
  const Clocks clocks = ClocksOf(fleet.rows);
  absl::c_copy(clocks.notes, std::back_inserter(fleet.notes));
  std::vector<const FleetRow*> counted;
  fleet.copied_bytes = 0;
  std::set<std::string> jobs;
  for (size_t i = 0; i < fleet.rows.size(); ++i) {
    const FleetRow& row = fleet.rows[i];
    jobs.insert(row.job_id);
    if (!row.complete)
      fleet.notes.push_back(absl::StrCat("The recording ", Printable(row.path),
                                         " has no end: still running, killed, or the file was cut off."));
    if (fleet.repeated[i]) continue;
    counted.push_back(&row);
    fleet.workers += row.workers;
    fleet.peak_bytes += row.peak.bytes;
    fleet.copied_bytes =
        fleet.copied_bytes && row.copied_bytes ? Count(*fleet.copied_bytes + *row.copied_bytes) : std::nullopt;
  }
  if (jobs.size() > 1) {
    std::vector<std::string> names;
    for (const std::string& job : jobs) names.push_back(job.empty() ? "none" : Printable(job, 60));
    fleet.notes.push_back(absl::StrCat("These are of several jobs: ", absl::StrJoin(names, ", "), "."));
  }
  fleet.first = FirstDeathOf(fleet.rows, fleet.repeated);
  Compare(counted, hosts, &fleet);
  fleet.sentence = Sentence(fleet, counted, hosts, clocks.differ);
  return fleet;
}

}  // namespace cowprof
