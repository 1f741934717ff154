// Who died, in order, and who was first.
#include <algorithm>
#include <set>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "model/judge/fleet.h"
#include "model/judge/launcher_ends.h"

namespace cowprof {
namespace {

bool SameHost(const FleetRow& a, const FleetRow& b) { return SameBoot(a, b) || a.path == b.path; }

using Deaths = decltype(Fleet::deaths);

// Of each launcher once, with the first row that has it.
Deaths LauncherDeathsOf(const Fleet& fleet) {
  Deaths deaths;
  for (size_t i = 0; i < fleet.rows.size(); ++i) {
    for (const Death& death : fleet.rows[i].launchers) {
      const bool known = absl::c_any_of(deaths, [&](const auto& other) {
        return SameHost(fleet.rows[other.first], fleet.rows[i]) && other.second.process.IsSameAs(death.process);
      });
      if (!known) deaths.emplace_back(i, death);
    }
  }
  return deaths;
}

// When the launcher ended that took this process along, by the clock of Fleet::begins. The rank may be recorded apart.
std::optional<absl::Time> EndOfLauncher(const Fleet& fleet, size_t row, const Death& death, const Deaths& launchers) {
  if (!death.sent) return std::nullopt;
  for (const auto& [other, launcher] : launchers) {
    if (!SameHost(fleet.rows[row], fleet.rows[other])) continue;
    FatalSignal sent = *death.sent;
    sent.t += fleet.begins[row] - fleet.begins[other];
    if (EndedTogether(sent, launcher.sent, launcher.process.pid, launcher.t)) return fleet.begins[other] + launcher.t;
  }
  return std::nullopt;
}

// Sets Fleet::deaths, and Death::with_launcher of the rows. Returns those of launchers.
Deaths FindAll(Fleet* fleet) {
  Deaths launchers = LauncherDeathsOf(*fleet);
  std::vector<std::pair<absl::Time, Deaths::value_type>> deaths;
  for (const auto& [row, death] : launchers) deaths.push_back({fleet->begins[row] + death.t, {row, death}});
  for (size_t i = 0; i < fleet->rows.size(); ++i) {
    for (Death& death : fleet->rows[i].deaths) {
      const auto launcher = absl::c_find_if(launchers, [&](const auto& one) {
        return SameHost(fleet->rows[one.first], fleet->rows[i]) && one.second.process.IsSameAs(death.process);
      });
      if (launcher != launchers.end()) {
        // A rank that started the others: told once, as a rank's.
        if (launcher->second.of_launcher) *launcher = deaths[launcher - launchers.begin()].second = {i, death};
        continue;
      }
      const std::optional<absl::Time> with = EndOfLauncher(*fleet, i, death, launchers);
      if (with) absl::StrAppend(&death.text, ", together with its launcher");
      death.with_launcher = with.has_value();
      const absl::Time own = fleet->begins[i] + death.t;
      // Each recording of a rank may have deaths that no other has seen.
      const bool known =
          fleet->firsts[i] != i && absl::c_any_of(deaths, [&](const auto& one) {
            const auto& [row, other] = one.second;
            return row != i && fleet->firsts[row] == fleet->firsts[i] && other.process.IsSameAs(death.process);
          });
      if (!known) deaths.push_back({std::max(own, with.value_or(own)), {i, death}});
    }
  }
  absl::c_stable_sort(deaths, [](const auto& a, const auto& b) { return a.first < b.first; });
  for (auto& [t, death] : deaths) fleet->deaths.push_back(std::move(death));
  return launchers;
}

// `differ`: the clocks of two hosts order nothing.
std::optional<FirstDeath> FirstDeathOf(const Fleet& fleet, const Deaths& launchers, bool differ) {
  if (fleet.deaths.empty()) return std::nullopt;
  const auto& [row, death] = fleet.deaths.front();
  const bool launcher = absl::c_linear_search(launchers, fleet.deaths.front());
  FirstDeath first = {.row = row, .death = death};
  std::set<size_t> seen;
  if (!death.of_launcher) seen.insert(fleet.firsts[row]);
  for (const auto& [other, next] : absl::MakeSpan(fleet.deaths).subspan(1)) {
    first.with_it += launcher && next.with_launcher;
    if (launcher && next.with_launcher) continue;
    if (!next.of_launcher && !seen.insert(fleet.firsts[other]).second) continue;
    const absl::Duration later = fleet.begins[other] + next.t - (fleet.begins[row] + death.t);
    const bool unsure = !SameBoot(fleet.rows[row], fleet.rows[other]) && (differ || later < kClocksAgree);
    if (first.until_next && (first.undecided || !unsure)) continue;
    first.undecided = unsure;
    first.until_next = later;
    first.next_row = other;
  }
  return first;
}

}  // namespace

void FindDeaths(bool differ, Fleet* fleet) {
  const Deaths launchers = FindAll(fleet);
  fleet->first = FirstDeathOf(*fleet, launchers, differ);
}

}  // namespace cowprof
