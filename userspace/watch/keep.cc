#include "watch/keep.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "model/format.h"
#include "model/judge/budget.h"
#include "model/saturating.h"
#include "posix/invoking_user.h"

namespace cowprof {
namespace {

constexpr absl::string_view kBegin = "cowprof-", kEnd = ".json", kSchema = "{\"schema\":\"cowprof.timeline/";

std::optional<absl::Duration> ParseAge(absl::string_view text) {
  int64_t days = 0;
  if (absl::ConsumeSuffix(&text, "d"))
    return absl::SimpleAtoi(text, &days) && days > 0 ? std::optional(days * absl::Hours(24)) : std::nullopt;
  absl::Duration age;
  return absl::ParseDuration(text, &age) && age > absl::ZeroDuration() ? std::optional(age) : std::nullopt;
}

bool AllDigits(absl::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
}

// Opens a file of the folder if it is a recording of this user. `status`: of what was opened.
Fd OpenRecording(const Fd& folder, const char* name, struct stat* status) {
  Fd file(openat(folder.fd(), name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  char head[kSchema.size()];
  const bool ours = file.ok() && fstat(file.fd(), status) == 0 && S_ISREG(status->st_mode) &&
                    status->st_uid == geteuid() && status->st_nlink == 1 &&
                    pread(file.fd(), head, sizeof(head), 0) == static_cast<ssize_t>(sizeof(head)) &&
                    absl::string_view(head, sizeof(head)) == kSchema;
  return ours ? std::move(file) : Fd();
}

// A recorder holds an exclusive lock until it has ended.
bool IsLiving(const Fd& file) { return flock(file.fd(), LOCK_SH | LOCK_NB) != 0; }

std::vector<KeptFile> ListRecordings(const Fd& folder) {
  std::vector<KeptFile> files;
  const int fd = openat(folder.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fd < 0 ? nullptr : fdopendir(fd), closedir);
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries.get())) {
    struct stat status;
    if (!IsRecordingName(entry->d_name)) continue;
    const Fd file = OpenRecording(folder, entry->d_name, &status);
    if (!file.ok()) continue;
    files.push_back({.name = entry->d_name,
                     .bytes = static_cast<uint64_t>(status.st_size),
                     .written = absl::TimeFromTimespec(status.st_mtim),
                     .living = IsLiving(file)});
  }
  return files;
}

}  // namespace

absl::StatusOr<KeepRule> ParseKeep(absl::string_view text) {
  const auto wrong = [&] {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Printable(text), "' is not an age, a size or both, such as 7d,2GiB; or give all"));
  };
  KeepRule keep;
  if (text == "all") return keep;
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  bool has_age = false, has_size = false;
  for (const absl::string_view part : parts) {
    if (const std::optional<absl::Duration> age = ParseAge(part); age && !has_age) {
      keep.age = *age;
      has_age = true;
    } else if (const std::optional<double> bytes = ParseSize(part); bytes && *bytes >= 1 && !has_size) {
      keep.bytes = *bytes < 1e18 ? static_cast<uint64_t>(*bytes) : UINT64_MAX;
      has_size = true;
    } else {
      return wrong();
    }
  }
  return keep;
}

std::string RecordingName(pid_t pid, absl::Time now) {
  return absl::StrCat(kBegin, "%h-%j-%r-", pid, "-", absl::FormatTime("%Y%m%dT%H%M%SZ", now, absl::UTCTimeZone()),
                      kEnd);
}

bool IsRecordingName(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, kBegin) || !absl::ConsumeSuffix(&name, kEnd)) return false;
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '-');  // host and job may have '-' themselves
  if (parts.size() < 5) return false;
  const absl::string_view time = parts.back(), pid = parts[parts.size() - 2], rank = parts[parts.size() - 3];
  return AllDigits(pid) && (AllDigits(rank) || rank == "none") && time.size() == 16 && time[8] == 'T' &&
         time[15] == 'Z' && AllDigits(time.substr(0, 8)) && AllDigits(time.substr(9, 6));
}

std::vector<std::string> PlanRemovals(std::vector<KeptFile> files, const KeepRule& keep, absl::Time now) {
  std::erase_if(files, [](const KeptFile& file) { return file.living; });
  std::sort(files.begin(), files.end(), [](const KeptFile& a, const KeptFile& b) { return a.written < b.written; });
  uint64_t bytes = 0;
  for (const KeptFile& file : files) bytes += file.bytes;
  std::vector<std::string> names;
  for (const KeptFile& file : files) {
    if (now - file.written <= keep.age && (bytes <= keep.bytes || &file == &files.back())) continue;
    names.push_back(file.name);
    bytes = SaturatingSubtract(bytes, file.bytes);
  }
  return names;
}

Tidied TidyFolder(const Fd& folder, const KeepRule& keep) {
  AsInvokingUser user;
  const std::vector<KeptFile> files = ListRecordings(folder);
  Tidied tidied;
  for (const KeptFile& file : files) tidied.left_bytes += file.bytes;
  for (const std::string& name : PlanRemovals(files, keep, absl::Now())) {
    struct stat status;
    const Fd file = OpenRecording(folder, name.c_str(), &status);  // another may have come in between
    if (!file.ok() || IsLiving(file)) continue;
    if (unlinkat(folder.fd(), name.c_str(), 0) != 0) {
      tidied.failure = absl::StrCat("--keep: remove ", name, ": ", strerror(errno));
      continue;
    }
    ++tidied.removed;
    tidied.left_bytes = SaturatingSubtract(tidied.left_bytes, static_cast<uint64_t>(status.st_size));
  }
  return tidied;
}

}  // namespace cowprof
