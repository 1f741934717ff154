// The page: one self-contained HTML file that consists of the viewer (web/, embedded in the binary) and one or two
// recordings, or the rows of a job, as JSON and columns of integers (cowprof.page/2, see docs/timeline.md). Everything
// that the page shows is derived in model/; the viewer only draws.
#ifndef COWPROF_SINK_PAGE_PAGE_H_
#define COWPROF_SINK_PAGE_PAGE_H_

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "model/judge/findings.h"
#include "model/judge/fleet.h"
#include "sink/page/page_blame.h"
#include "sink/page/page_columns.h"
#include "sink/page/page_events.h"
#include "sink/page/page_map.h"
#include "sink/page/page_series.h"
#include "sink/page/side_thread.h"

namespace cowprof {

// State of a recording when its page is made.
struct RecordingState {
  bool complete = false;                                // it was finished
  bool live = false;                                    // it is still running, and the page follows it
  const Fleet* ranks = nullptr;                         // of a launcher
  const nlohmann::ordered_json* comparisons = nullptr;  // of the second of two: ComparisonsJson()
};

// JSON, a newline, and the binary that the JSON's columns point into. Refers to columns of its builder.
struct PageData {
  std::string json;  // with the newline
  ColumnFile columns;
  std::vector<absl::string_view> parts() const;
};

// Collects the page's data from a recording, sample by sample.
class PageBuilder {
 public:
  // `beside`: a part of the work is done on a thread of its own, for a recording that is read at once. Only LastData()
  // may be called then.
  explicit PageBuilder(bool beside = false) : PageBuilder(beside ? std::make_unique<SideThread>() : nullptr) {}
  // `raised`: alerts on this sample; `run` already includes the sample.
  void Add(const Sample& sample, const std::vector<Alert>& raised, const Run& run);
  // Valid until the next sample.
  PageData Data(const RunModel& model, const Findings& findings, const RecordingState& state) const;
  // No sample follows: what needs no findings is written beside what the caller does until LastData(), which calls this
  // if the caller has not.
  void End();
  // Data() of the whole recording, once: what the data does not refer to was freed.
  PageData LastData(const RunModel& model, const Findings& findings, const RecordingState& state);

 private:
  explicit PageBuilder(std::unique_ptr<SideThread> side);
  void EncodeMap();
  PageData Assemble(const RunModel& model, const Findings& findings, const RecordingState& state,
                    PageMap::Encoded map) const;

  PageSeries series_;
  PageEvents events_;
  PageBlame blame_;
  PageMap map_;
  PageMap::Encoded encoded_map_;
  uint64_t encoding_map_ = 0;  // the number of that work
  bool ended_ = false;
  std::unique_ptr<SideThread> side_;  // ends before what it works on
};

// gzip, then base64, whose characters have no meaning in HTML.
std::string Packed(absl::Span<const absl::string_view> parts);

// Returns the viewer with packed data in it: of one recording, of two to compare, or of a job. Internal: this build has
// no viewer.
absl::StatusOr<std::string> RenderPage(const std::vector<std::string>& packed);

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_PAGE_H_
