// The page: one self-contained HTML file, made of the viewer (web/, embedded in the binary) and one or two recordings
// as JSON and columns of integers (cowprof.page/2, see docs/timeline.md).
// Everything that the page shows is derived in model/; the viewer only draws.
#ifndef COWPROF_SINK_PAGE_PAGE_H_
#define COWPROF_SINK_PAGE_PAGE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/judge/findings.h"
#include "sink/page/page_blame.h"
#include "sink/page/page_events.h"
#include "sink/page/page_map.h"
#include "sink/page/page_series.h"

namespace cowprof {

// How a recording stands when its page is made.
struct RecordingState {
  bool complete = false;  // it was finished
  bool live = false;      // it goes on, and the page follows it
};

// Collects what the page shows of a recording, sample by sample.
class PageBuilder {
 public:
  // `raised`: alerts on this sample; `run` has the sample in it already.
  void Add(const Sample& sample, const std::vector<Alert>& raised, const Run& run);
  // JSON, a newline, and the binary that its columns point into.
  std::string Data(const RunModel& model, const Findings& findings, const RecordingState& state) const;

 private:
  PageSeries series_;
  PageEvents events_;
  PageBlame blame_;
  PageMap map_;
};

std::string Gzip(absl::string_view data, int level);  // 1: fast, 9: small
// gzip, then base64: no character of it means anything to HTML.
std::string Packed(absl::string_view data);

// The viewer with packed recordings in it, one or two to compare. Internal if this build has no viewer.
absl::StatusOr<std::string> RenderPage(const std::vector<std::string>& packed);

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_H_
