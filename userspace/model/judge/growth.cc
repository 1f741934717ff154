#include "model/judge/growth.h"

#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "model/judge/blame.h"
#include "model/judge/grower.h"
#include "model/library_name.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr double kMostChurn = 1.5;  // pages touched first for each that was kept
constexpr double kMostOfIt = 0.5;

bool IsOneOf(absl::string_view name, std::initializer_list<absl::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// co_name; since 3.11 the frame has the class as well.
absl::string_view NameWithoutClass(const Frame& frame) {
  const absl::string_view function = frame.function;
  return function.substr(function.rfind('.') + 1);
}

// Lib/multiprocessing of 3.6 to 3.14, and its copies; loky (joblib) reads its tasks from multiprocessing's queues.
// nullopt: this frame does not decide.
std::optional<GrowthKind> KindOf(const Frame& frame) {
  const absl::string_view file = frame.file, function = NameWithoutClass(frame);
  if (absl::StartsWith(file, "<frozen importlib")) return GrowthKind::kImported;
  // What runs below is the program of the worker.
  if (absl::EndsWith(file, "/process.py") && function == "_bootstrap") return GrowthKind::kOther;
  if (EndsInFile(file, "/multiprocessing/spawn.py")) {
    if (function == "prepare") return GrowthKind::kImported;
    if (function == "_main") return GrowthKind::kUnpickledAtStart;
  }
  if (absl::EndsWith(file, "/loky/backend/popen_loky_posix.py")) return GrowthKind::kUnpickledAtStart;
  if ((EndsInFile(file, "/multiprocessing/queues.py") || EndsInFile(file, "/multiprocessing/connection.py")) &&
      IsOneOf(function, {"get", "get_payload", "recv", "recv_bytes", "_recv", "_recv_bytes", "recv_payload"}))
    return GrowthKind::kReceived;
  return std::nullopt;
}

// Whether this process imported it, or unpickled it of what it was started with. What stands above a fork, or below an
// import in the program's first process, may be all that the program does.
bool IsLoaded(const RunModel& model, const ProcessModel& process, const GrowthSite& site) {
  const GrowthKind kind = KindOf(model, site);
  const auto starts_process = [&](int number) {
    const Frame& frame = model.frames[number];
    return (absl::EndsWith(frame.file, "/process.py") && NameWithoutClass(frame) == "_bootstrap") ||
           EndsInFile(frame.file, "/multiprocessing/spawn.py");
  };
  return kind == GrowthKind::kUnpickledAtStart ||
         (kind == GrowthKind::kImported && LifeOf(process, model) < kLongEnough &&
          std::any_of(site.frames.begin(), site.frames.end(), starts_process));
}

std::optional<Culprit> CulpritAmong(const RunModel& model, absl::Span<const ProcessModel* const> processes,
                                    const Rise& rise, bool with_loaded) {
  if (rise.zero_fills == 0 || rise.zero_fills > kMostChurn * rise.pages) return std::nullopt;
  std::map<ProgramLine, uint64_t> lines;
  uint64_t all = 0;
  for (const ProcessModel* const process : processes) {
    for (const auto& [number, growth] : process->growth) {
      const GrowthSite& site = model.growth_sites[number];
      if (!with_loaded && IsLoaded(model, *process, site)) continue;
      const uint64_t pages = growth.PagesSince(rise.begin);
      all += pages;
      if (KindOf(model, site) != GrowthKind::kUnpickledAtStart) lines[LineOf(model, site.frames)] += pages;
    }
  }
  const auto most =
      std::max_element(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (lines.empty() || most->first.frame.file.empty() || all == 0 || most->second < kMostOfIt * all)
    return std::nullopt;
  return Culprit{.frame = most->first.frame, .via = most->first.via, .share = static_cast<double>(most->second) / all};
}

}  // namespace

GrowthKind KindOf(const RunModel& model, const GrowthSite& site) {
  for (const int frame : site.frames) {
    if (const std::optional<GrowthKind> kind = KindOf(model.frames[frame])) return *kind;
  }
  return GrowthKind::kOther;
}

std::optional<Unpickled> UnpickledIn(const RunModel& model, const ProcessModel& process, uint64_t fresh_bytes) {
  if (process.growth.empty() || !process.counts.zero_fills()) return std::nullopt;
  std::map<GrowthKind, uint64_t> pages;
  for (const auto& [site, growth] : process.growth) pages[KindOf(model, model.growth_sites[site])] += growth.pages;
  const uint64_t page_bytes = model.info.page_bytes;
  const uint64_t touched = *process.counts.zero_fills() * page_bytes;
  uint64_t sampled = 0;
  for (const auto& [kind, some] : pages) sampled += some;
  // A forked process is sampled from its first page on: what has no sample yet is like the rest. Of another one, what
  // came before its Python was known is not.
  const uint64_t whole = process.execed ? touched : sampled * page_bytes;
  const double share = static_cast<double>(pages[GrowthKind::kReceived]) * page_bytes / std::max<uint64_t>(whole, 1);
  const uint64_t received = SaturatingCast(std::min(share, 1.0) * touched);
  const uint64_t at_start = std::min(pages[GrowthKind::kUnpickledAtStart] * page_bytes, fresh_bytes);
  const uint64_t others = SaturatingSubtract(touched, received);
  return Unpickled{.at_start = at_start, .received = std::min(received, SaturatingSubtract(fresh_bytes, others))};
}

Rise WithoutLoaded(const RunModel& model, const ProcessModel& process, Rise rise) {
  uint64_t loaded = 0;
  for (const auto& [site, growth] : process.growth) {
    if (IsLoaded(model, process, model.growth_sites[site])) loaded += growth.PagesSince(rise.begin);
  }
  rise.pages = SaturatingSubtract(rise.pages, loaded);
  rise.zero_fills = SaturatingSubtract(rise.zero_fills, loaded);
  return rise;
}

bool IsPickling(const RunModel& model, const CopySite& copy_site) {
  return std::any_of(copy_site.frames.begin(), copy_site.frames.end(), [&](int number) {
    const Frame& frame = model.frames[number];
    return absl::EndsWith(frame.file, "/reduction.py") && IsOneOf(NameWithoutClass(frame), {"dump", "dumps"});
  });
}

std::optional<Culprit> CulpritOf(const RunModel& model, const ProcessModel& process, const Rise& rise) {
  return CulpritAmong(model, {&process}, rise, /*with_loaded=*/false);
}

std::optional<Culprit> CulpritOf(const RunModel& model, absl::Span<const ProcessModel* const> processes,
                                 const Rise& rise) {
  return CulpritAmong(model, processes, rise, /*with_loaded=*/true);
}

}  // namespace cowprof
