#include "model/judge/fleet.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/base_name.h"
#include "model/facts/roles.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// Ranks read different items: from here on they differ by more than that.
constexpr double kUnlike = 0.25;
constexpr double kUnlikeBytes = 8 << 20;
constexpr size_t kMostUnlike = 8, kLeastToCompare = 3;

// "rank 3 on node-b": the host where the rows come from several.
std::string WhereOf(const FleetRow& row, bool hosts) {
  return hosts && !row.host.empty() ? absl::StrCat(NameOf(row), " on ", Printable(row.host, 60)) : NameOf(row);
}

bool SeveralHosts(const std::vector<FleetRow>& rows) {
  return absl::c_any_of(rows, [&](const FleetRow& row) { return row.host != rows.front().host; });
}

// How much later b began.
absl::Duration Later(const FleetRow& a, const FleetRow& b) {
  return SameBoot(a, b) ? *b.boot - *a.boot : b.started - a.started;
}

bool Overlap(const FleetRow& a, const FleetRow& b) {
  const absl::Duration later = Later(a, b);
  return later == absl::ZeroDuration() || (later < a.duration && -later < b.duration);
}

std::vector<absl::Time> BeginsOf(const std::vector<FleetRow>& rows) {
  std::vector<absl::Time> begins;
  for (const FleetRow& row : rows) {
    const FleetRow& first =
        *absl::c_find_if(rows, [&](const FleetRow& other) { return &other == &row || SameBoot(other, row); });
    begins.push_back(&first == &row ? row.started : first.started + (*row.boot - *first.boot));
  }
  return begins;
}

// What the clocks say of each other.
struct Clocks {
  std::vector<std::string> notes;
  bool differ = false;  // of two hosts: which came first can't be told
};

// `processes`: each from its first recording to its last.
Clocks ClocksOf(const std::vector<FleetRow>& rows, const std::vector<FleetRow>& processes) {
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
  for (size_t i = 0; i < processes.size() && !clocks.differ; ++i) {
    for (size_t k = i + 1; k < processes.size() && !clocks.differ; ++k) {
      const FleetRow& a = processes[i].started <= processes[k].started ? processes[i] : processes[k];
      const FleetRow& b = &a == &processes[i] ? processes[k] : processes[i];
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
  return a.process.pid != 0 && a.process.IsSameAs(b.process) && a.boot_id == b.boot_id && a.host == b.host;
}

// Rows that are there twice, and ranks that aren't there. Sets Fleet::firsts and Fleet::repeated.
std::vector<std::string> PlacesOf(Fleet* fleet) {
  const std::vector<FleetRow>& rows = fleet->rows;
  fleet->repeated.resize(rows.size());
  std::vector<std::string> notes;
  std::set<uint64_t> ranks;
  uint64_t size = 0;  // of the job, as its processes were told; 0: they were not
  bool all_ranked = true;
  for (size_t i = 0; i < rows.size(); ++i) {
    const FleetRow& row = rows[i];
    all_ranked &= row.rank.has_value();
    if (row.rank) ranks.insert(*row.rank);
    size = std::max(size, row.world_size.value_or(0));
    const auto before = rows.begin() + i;
    const auto same =
        std::find_if(rows.begin(), before, [&](const FleetRow& other) { return SameProcess(row, other); });
    fleet->firsts.push_back(same - rows.begin());
    if (same != before) {
      const auto counted = std::find_if(same, before, [&](const FleetRow& other) {
        return !fleet->repeated[&other - rows.data()] && SameProcess(row, other) && Overlap(row, other);
      });
      fleet->repeated[i] = counted != before;
      const FleetRow& other = fleet->repeated[i] ? *counted : *same;
      notes.push_back(absl::StrCat(
          WhereOf(row, true), ", process ", row.process.pid, ", is in ", Printable(other.path), " and",
          fleet->repeated[i] ? "" : ", at another time,", " in ", Printable(row.path),
          fleet->repeated[i] ? "; sums count the first." : "; sums have the copies of both, and the higher peak."));
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
  const bool one_job = absl::c_all_of(rows, [&](const FleetRow& row) { return row.job_id == rows.front().job_id; });
  if (all_ranked && one_job && std::max(size, *ranks.rbegin() + 1) != ranks.size()) {
    std::vector<uint64_t> missing;
    for (uint64_t rank = 0; rank < std::max(size, *ranks.rbegin() + 1) && missing.size() < 9; ++rank) {
      if (!ranks.contains(rank)) missing.push_back(rank);
    }
    const bool more = missing.size() > 8;
    missing.resize(std::min<size_t>(missing.size(), 8));
    notes.push_back(absl::StrCat("No recording of ", missing.size() == 1 ? "rank " : "ranks ",
                                 absl::StrJoin(missing, ", "), more ? " and more" : "", "."));
  }
  return notes;
}

constexpr absl::string_view kNothing = "Nothing to do";

bool IsNothing(const FleetRow& row) {
  return row.harm == Harm::kNone && absl::StartsWith(row.headline.sentence, kNothing);
}

// What the rows of a process come to: the finding of the worst, from the first beginning to the last end.
FleetRow TogetherOf(const Fleet& fleet, size_t first) {
  FleetRow process = fleet.rows[first];
  for (size_t i = first + 1; i < fleet.rows.size(); ++i) {
    if (fleet.firsts[i] != first) continue;
    const FleetRow& row = fleet.rows[i];
    if (std::tuple(IsNothing(row), row.harm, bool{fleet.repeated[i]}, process.peak.bytes) <
        std::tuple(IsNothing(process), process.harm, false, row.peak.bytes)) {
      process.path = row.path;
      process.harm = row.harm;
      process.headline = row.headline;
      process.culprit = row.culprit;
      process.culprit_copies = row.culprit_copies;
    }
    const absl::Duration end = Later(fleet.rows[first], row) + row.duration;
    if (end >= process.duration) {
      process.duration = end;
      process.complete = row.complete;
      if (IsNothing(process)) process.path = row.path;
    }
    if (fleet.repeated[i]) continue;
    process.workers = std::max(process.workers, row.workers);
    process.peak.bytes = std::max(process.peak.bytes, row.peak.bytes);
    process.copied_bytes =
        process.copied_bytes && row.copied_bytes ? Count(*process.copied_bytes + *row.copied_bytes) : std::nullopt;
  }
  return process;
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
std::string CopyingLine(const FleetRow& row) { return row.culprit && row.culprit_copies ? LineOf(*row.culprit) : ""; }
std::string GrowingLine(const FleetRow& row) { return row.culprit && !row.culprit_copies ? LineOf(*row.culprit) : ""; }

void Compare(const std::vector<const FleetRow*>& rows, bool hosts, Fleet* fleet) {
  const auto of = [&](size_t count) { return absl::StrCat(count, " of ", rows.size()); };
  const auto [finding, findings] = Commonest(rows, FindingOf);
  const auto [copying, copies] = Commonest(rows, CopyingLine);
  const auto [growing, growths] = Commonest(rows, GrowingLine);
  if (findings > 1) fleet->common.push_back(absl::StrCat(finding, " is the first finding in ", of(findings)));
  if (copies > 1) fleet->common.push_back(absl::StrCat("most is copied by ", copying, " in ", of(copies)));
  if (growths > 1)
    fleet->common.push_back(absl::StrCat("most new memory is first touched by ", growing, " in ", of(growths)));
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
  const auto bytes = [](double value) { return HumanBytes(SaturatingCast(value)); };
  if (absl::c_all_of(rows, [](const FleetRow* row) { return row->copied_bytes.has_value(); }))
    far(
        "copied", [](const FleetRow& row) { return double(*row.copied_bytes); }, bytes, kUnlikeBytes);
  far(
      "private at the peak", [](const FleetRow& row) { return double(row.peak.bytes); }, bytes, kUnlikeBytes);
  far(
      "at once", [](const FleetRow& row) { return double(row.workers); },
      [](double value) { return Plural(SaturatingCast(value), "worker"); }, 0);
}

std::string Sentence(const Fleet& fleet, const std::vector<const FleetRow*>& rows, bool hosts) {
  if (fleet.first) {
    const FirstDeath& first = *fleet.first;
    const FleetRow& row = fleet.rows[first.row];
    const bool launcher = first.death.of_launcher;
    std::string sentence = absl::StrCat(
        launcher ? "The " : absl::StrCat("In ", WhereOf(row, hosts), ", "), first.death.who,
        launcher && hosts && !row.host.empty() ? absl::StrCat(" on ", Printable(row.host, 60)) : "",
        first.undecided ? " ended badly " : " was the first to end badly ", HumanDuration(first.death.t),
        " into the recording (", absl::FormatTime("%H:%M:%S UTC", row.started + first.death.t, absl::UTCTimeZone()),
        "): ", first.death.text, ".");
    if (first.with_it > 0)
      absl::StrAppend(&sentence, " ", first.with_it, first.with_it == 1 ? " process" : " processes",
                      launcher ? " of its ranks" : "", " ended together with it.");
    if (first.until_next) {
      const std::string next = WhereOf(fleet.rows[first.next_row], hosts);
      absl::StrAppend(&sentence, " ",
                      first.undecided ? absl::StrCat("So did a process of ", next,
                                                     "; which was first can't be told from the clocks of two hosts.")
                                      : absl::StrCat("The next was one of ", next, ", ",
                                                     HumanDuration(*first.until_next), " later."));
    }
    // What the row says of the launcher's end is said already, unless a diagnosis explains it.
    if (launcher) {
      const bool explained = !first.death.cause.empty() && row.headline.diagnosis == first.death.cause;
      return absl::StrCat(sentence, explained ? absl::StrCat(" ", row.headline.sentence) : "");
    }
    return absl::StrCat(sentence, " About ", NameOf(row), ": ", row.headline.sentence);
  }
  if (absl::c_all_of(rows, [](const FleetRow* row) { return IsNothing(*row); })) {
    const size_t cut = absl::c_count_if(rows, [](const FleetRow* row) { return !row->complete; });
    return absl::StrCat(
        rows.size() == 1   ? WhereOf(*rows[0], hosts)
        : rows.size() == 2 ? "Both"
                           : absl::StrCat("All ", rows.size(), " of them"),
        ": ", kNothing,
        cut == 0 ? "."
                 : absl::StrCat(", as far as recorded: ", cut, " of ", rows.size(), cut == 1 ? " has" : " have",
                                " no end (still running, killed, or cut off)."));
  }
  const FleetRow& worst = **absl::c_min_element(rows, [&](const FleetRow* a, const FleetRow* b) {
    return std::tuple(IsNothing(*a), a->harm, b->peak.bytes) < std::tuple(IsNothing(*b), b->harm, a->peak.bytes);
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

bool SameBoot(const FleetRow& a, const FleetRow& b) {
  return !a.boot_id.empty() && a.boot_id == b.boot_id && a.boot && b.boot;
}

bool AreOneJob(const std::vector<FleetRow>& a, const std::vector<FleetRow>& b) {
  if (a.empty() || b.empty() || a[0].job_id != b[0].job_id) return false;
  // All rows of a recording begin and end with it.
  if (!Overlap(a[0], b[0])) return false;
  const auto ranked = [](const FleetRow& row) { return row.rank.has_value(); };
  if (absl::c_all_of(a, ranked) && absl::c_all_of(b, ranked)) {
    return absl::c_none_of(a, [&](const FleetRow& row) {
      return absl::c_any_of(b, [&](const FleetRow& other) { return row.rank == other.rank; });
    });
  }
  return absl::c_none_of(a, ranked) && absl::c_none_of(b, ranked) && !a[0].job_id.empty() && !a[0].boot_id.empty() &&
         !b[0].boot_id.empty() && a[0].boot_id != b[0].boot_id;
}

Fleet FleetOf(std::vector<FleetRow> rows) {
  Fleet fleet = {.rows = std::move(rows)};
  absl::c_stable_sort(fleet.rows, [](const FleetRow& a, const FleetRow& b) {
    const auto key = [](const FleetRow& row) {
      return std::tuple(row.job_id, row.rank.value_or(UINT64_MAX), row.host, row.started, row.local_rank);
    };
    return key(a) < key(b);
  });
  if (fleet.rows.empty()) return fleet;
  const bool hosts = SeveralHosts(fleet.rows);
  fleet.notes = PlacesOf(&fleet);
  std::vector<FleetRow> processes;
  for (size_t i = 0; i < fleet.rows.size(); ++i) {
    if (fleet.firsts[i] == i) processes.push_back(TogetherOf(fleet, i));
  }
  const Clocks clocks = ClocksOf(fleet.rows, processes);
  absl::c_copy(clocks.notes, std::back_inserter(fleet.notes));
  std::set<std::string> jobs;
  for (const FleetRow& row : fleet.rows) {
    jobs.insert(row.job_id);
    if (!row.complete) fleet.notes.push_back(absl::StrCat("The recording ", Printable(row.path), kHasNoEnd));
  }
  std::vector<const FleetRow*> counted;
  fleet.copied_bytes = 0;
  for (const FleetRow& process : processes) {
    counted.push_back(&process);
    fleet.workers += process.workers;
    fleet.peak_bytes += process.peak.bytes;
    fleet.copied_bytes =
        fleet.copied_bytes && process.copied_bytes ? Count(*fleet.copied_bytes + *process.copied_bytes) : std::nullopt;
  }
  fleet.processes = processes.size();
  if (jobs.size() > 1) {
    std::vector<std::string> names;
    for (const std::string& job : jobs) names.push_back(job.empty() ? "none" : Printable(job, 60));
    fleet.notes.push_back(absl::StrCat("These belong to several jobs: ", absl::StrJoin(names, ", "), "."));
  }
  fleet.begins = BeginsOf(fleet.rows);
  FindDeaths(clocks.differ, &fleet);
  Compare(counted, hosts, &fleet);
  fleet.sentence = Sentence(fleet, counted, hosts);
  return fleet;
}

}  // namespace cowprof
