// The page of a recording that goes on: follows the timeline and makes the page's data of it when asked. Called by the
// page's server; knows nothing of HTTP.
#ifndef COWPROF_SERVE_LIVE_PAGE_H_
#define COWPROF_SERVE_LIVE_PAGE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "model/growth.h"
#include "posix/fd.h"
#include "sink/page.h"
#include "sink/timeline_tail.h"

namespace cowprof {

class LivePage {
 public:
  explicit LivePage(Fd timeline);

  // Takes what was recorded since. To be called every few seconds, so that nobody waits for an hour of it.
  void CatchUp();
  // Nothing more will come: what is there is all.
  void End() { ended_ = true; }

  struct Data {
    uint64_t version = 0;                      // changes with the bytes
    std::shared_ptr<const std::string> bytes;  // gzip of the page's data; none before the header was written
  };
  // As of now, or of shortly ago where making it anew would take more than a twentieth of a core.
  const Data& Latest();
  // How long a page should wait before it asks again.
  absl::Duration poll_interval() const;

 private:
  struct Made {
    size_t samples = 0;
    bool live = true;
    bool operator==(const Made&) const = default;
  };
  bool live() const { return !ended_ && !tail_.complete(); }

  Growth growth_;
  PageBuilder builder_;
  TimelineTail tail_;
  bool headed_ = false, ended_ = false;
  size_t samples_ = 0;
  Made made_;  // what `data_` is of
  Data data_;
  absl::Duration cost_, made_at_ = -absl::InfiniteDuration();  // CPU time of the last making, and its end
};

// The viewer that fetches its data from where it came from, instead of having it in itself; nothing else may it fetch.
// `file`: the recording, for the reader.
struct LiveViewer {
  std::string html;
  std::string policy;  // its Content-Security-Policy
};
absl::StatusOr<LiveViewer> MakeLiveViewer(absl::string_view file);

}  // namespace cowprof

#endif  // COWPROF_SERVE_LIVE_PAGE_H_
