// Names and ages of the recordings of a folder, and which of them --keep removes.
#ifndef COWPROF_WATCH_KEEP_H_
#define COWPROF_WATCH_KEEP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "posix/fd.h"

namespace cowprof {

struct KeepRule {
  absl::Duration age = absl::InfiniteDuration();
  uint64_t bytes = UINT64_MAX;
};
// "7d,2GiB", either alone, or "all". InvalidArgument: none of these.
absl::StatusOr<KeepRule> ParseKeep(absl::string_view text);

// The name of a new recording, with %h, %j and %r for its recorder to fill in.
std::string RecordingName(pid_t pid, absl::Time now);
// Whether watch may have given a file that name.
bool IsRecordingName(absl::string_view name);

struct KeptFile {
  std::string name;
  uint64_t bytes = 0;
  absl::Time written;
  bool living = false;  // its recorder runs
};
// Pure. The oldest first. Living ones neither go nor count: otherwise a few long ones would take all that have ended.
// The one written last goes by its age only: it may be larger than keep.bytes, and tell of a job that has just died.
std::vector<std::string> PlanRemovals(std::vector<KeptFile> files, const KeepRule& keep, absl::Time now);

struct Tidied {
  uint64_t removed = 0, left_bytes = 0;
  std::string failure;  // a sentence; "": none
};
// Removes what PlanRemovals() says of the recordings that this user's watch has made in an open folder.
Tidied TidyFolder(const Fd& folder, const KeepRule& keep);

}  // namespace cowprof

#endif  // COWPROF_WATCH_KEEP_H_
