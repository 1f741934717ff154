// A recording in progress: follows the timeline and makes the page's data, or the metrics, from it on demand. Knows
// nothing about HTTP.
#ifndef COWPROF_SERVE_LIVE_PAGE_H_
#define COWPROF_SERVE_LIVE_PAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "model/judge/run.h"
#include "posix/fd.h"
#include "sink/metrics/metrics.h"
#include "sink/page/page.h"
#include "timeline/timeline_tail.h"

namespace cowprof {

class LivePage {
 public:
  // `page`: whether Latest() will be called.
  explicit LivePage(Fd timeline, bool page = true);

  // Reads what was recorded since the last call. Call every few seconds, so that no request waits for an hour's worth.
  void CatchUp();
  // The recording has ended: nothing more will be appended.
  void End() { ended_ = true; }

  struct Data {
    uint64_t version = 0;                      // changes with the bytes
    std::shared_ptr<const std::string> bytes;  // gzip of the page's data; null before the header was written
  };
  // The current data, or slightly older where rebuilding it each time would take more than a twentieth of a core.
  const Data& Latest();
  // The metrics as of the latest sample, made at most once for each. null before the header was written. `recorder`:
  // its open /proc/PID/stat.
  std::shared_ptr<const std::string> Metrics(const Fd& recorder);
  // How long ago the last sample was read; 0 before the first.
  absl::Duration sample_age() const;
  // How long a page should wait before it asks again.
  absl::Duration poll_interval() const;

 private:
  struct Made {
    size_t samples = 0;
    bool live = true;
    bool operator==(const Made&) const = default;
  };
  bool live() const { return !ended_ && !tail_.complete(); }

  Run run_;
  PageBuilder builder_;
  MetricsTally tally_;
  TimelineTail tail_;
  bool headed_ = false, ended_ = false;
  size_t samples_ = 0;
  absl::Duration read_at_;  // the last sample, on CLOCK_BOOTTIME: soon after it was taken
  Made made_;               // what `data_` was built from
  Data data_;
  Made metrics_made_;
  std::shared_ptr<const std::string> metrics_;
  absl::Duration cost_, made_at_ = -absl::InfiniteDuration();  // of the last build: CPU time and end
};

// The viewer that fetches its data from its own origin instead of embedding it; its policy lets it fetch nothing else.
// `file`: name of the recording, shown to the reader.
struct LiveViewer {
  std::string html;
  std::string policy;  // its Content-Security-Policy
};
absl::StatusOr<LiveViewer> MakeLiveViewer(absl::string_view file);

}  // namespace cowprof

#endif  // COWPROF_SERVE_LIVE_PAGE_H_
