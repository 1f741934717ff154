#include "sink/report/shm_format.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "model/facts/shm.h"
#include "model/format.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

constexpr size_t kOwnersShown = 3, kRowsOfReport = 8;
constexpr uint64_t kLeastUnexplained = 64 << 10;

// A process that was not looked at may use it.
bool IsUnsure(const ShmSample& sample, const ShmSegment& segment) {
  if (segment.has_owner() || segment.creator_alive || segment.kind == SegmentKind::kSemaphore) return false;
  const Ownership ownership = OwnershipOf(sample, segment);
  return ownership == Ownership::kUnknown ||
         (ownership == Ownership::kOwned && (!sample.whole || sample.unreadable > 0));
}

std::string OwnersText(const ShmSample& sample, const ShmSegment& segment, const std::map<pid_t, std::string>& names) {
  const std::vector<pid_t> owners = OwnersOf(segment);
  if (owners.empty()) {
    if (segment.creator_alive) return absl::StrCat("on its way from ", segment.creator);
    if (IsUnsure(sample, segment)) return "unknown";
    return OwnershipOf(sample, segment) == Ownership::kLeaked ? "LEAKED: no living owner" : "none right now";
  }
  std::vector<std::string> texts;
  for (size_t i = 0; i < std::min(owners.size(), kOwnersShown); ++i) {
    const auto name = names.find(owners[i]);
    texts.push_back(name == names.end() ? absl::StrCat(owners[i])
                                        : absl::StrCat(owners[i], " ", Printable(name->second, 16)));
  }
  if (owners.size() > kOwnersShown) texts.push_back(absl::StrCat("and ", owners.size() - kOwnersShown, " more"));
  return absl::StrJoin(texts, ", ");
}

// What the rows alone don't show.
std::vector<std::string> Remarks(const ShmSample& sample) {
  std::vector<std::string> lines;
  if (const std::optional<Batches> batches = BatchesIn(sample))
    lines.push_back(absl::StrCat("batches: ", BatchesText(*batches)));
  if (const ShmTotal leaked = LeakedIn(sample); leaked.segments > 0) {
    lines.push_back(absl::StrCat("left behind: ", Plural(leaked.segments, "segment"), " without a living owner, ",
                                 HumanBytes(leaked.bytes), "; remove them by name from /dev/shm"));
  }
  // A page or two belong to the directories themselves.
  const uint64_t unexplained = sample.whole ? UnexplainedBytes(sample) : 0;
  if (unexplained >= kLeastUnexplained) {
    lines.push_back(absl::StrCat("unexplained: ", HumanBytes(unexplained),
                                 " that no process we could read maps or has open (in flight between processes, or "
                                 "of another mount namespace or user)"));
  }
  const bool unsure = std::any_of(sample.segments.begin(), sample.segments.end(),
                                  [&](const ShmSegment& segment) { return IsUnsure(sample, segment); });
  if (sample.unreadable > 0 && (unsure || unexplained >= kLeastUnexplained)) {
    lines.push_back(absl::StrCat(HumanCount(sample.unreadable), sample.unreadable == 1 ? " process" : " processes",
                                 " that may use it could not be examined: an owner may be missing; root sees most"));
  }
  if (sample.unlisted > 0)
    lines.push_back(absl::StrCat("further directory entries not examined: ", HumanCount(sample.unlisted)));
  return lines;
}

}  // namespace

std::string ShmText(const ShmSample& sample, size_t most_rows, const std::map<pid_t, std::string>& names) {
  const double ratio = sample.capacity_bytes ? static_cast<double>(sample.used_bytes) / *sample.capacity_bytes : 0;
  std::string out = absl::StrCat(
      "  ", HumanBytes(sample.used_bytes),
      sample.capacity_bytes ? absl::StrFormat(" of %s used (%.0f %%)", HumanBytes(*sample.capacity_bytes), 100 * ratio)
                            : " used, no limit",
      "\n");
  if (!sample.segments.empty())
    absl::StrAppendFormat(&out, "  %11s %11s  %-26s %-32s %s\n", "takes up", "length", "kind", "owners", "name");
  const auto row = [&](uint64_t bytes, uint64_t length, const std::string& kind, const std::string& owners,
                       const std::string& name) {
    absl::StrAppendFormat(&out, "  %11s %11s  %-26s %-32s %s\n", HumanBytes(bytes), HumanBytes(length), kind, owners,
                          name);
  };
  // Locks and queues take a page each, dozens of them: one row for all.
  ShmTotal semaphores;
  uint64_t length = 0, rows = 0;
  for (const ShmSegment& segment : sample.segments) {
    if (segment.kind == SegmentKind::kSemaphore) {
      ++semaphores.segments;
      semaphores.bytes += segment.bytes;
      length += segment.length_bytes;
    } else if (rows++ < most_rows) {
      row(segment.bytes, segment.length_bytes, FormatSegment(segment), OwnersText(sample, segment, names),
          Printable(segment.name));
    }
  }
  if (semaphores.segments > 0) row(semaphores.bytes, length, Plural(semaphores.segments, "semaphore"), "", "sem.*");
  const uint64_t left_out = sample.omitted + SaturatingSubtract(rows, most_rows);
  if (left_out > 0) absl::StrAppend(&out, "  ... and ", HumanCount(left_out), " smaller\n");
  for (const std::string& line : Remarks(sample)) absl::StrAppend(&out, "  ", line, "\n");
  return out;
}

std::string ShmSection(const RunModel& model) {
  if (!model.shm_peak || model.shm_peak->used_bytes < (1 << 20)) return "";
  std::map<pid_t, std::string> names;
  for (const ProcessModel& process : model.processes) names[process.id.pid] = NameOf(process.role);
  return absl::StrCat("\n  shared memory (", Printable(model.shm_peak->mount), "), as seen at its fullest\n",
                      ShmText(*model.shm_peak, kRowsOfReport, names));
}

}  // namespace cowprof
