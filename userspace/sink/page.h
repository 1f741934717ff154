// The page: one self-contained HTML file, made of the viewer (web/, embedded in the binary) and the recording as
// columns of integer deltas, gzipped (cowprof.page/1, see docs/timeline.md). Called by `view`. Everything that the page
// shows is derived here or in model/; the viewer only draws.
#ifndef COWPROF_SINK_PAGE_H_
#define COWPROF_SINK_PAGE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "model/growth.h"

namespace cowprof {

// Collects the series of a recording, sample by sample.
class PageBuilder {
 public:
  // `growth` has the sample in it already.
  void Add(const Sample& sample, const Growth& growth);
  // The data of the page as JSON text.
  std::string DataJson(const Growth& growth, bool complete) const;

 private:
  using Series = std::vector<Count>;
  struct ProcessSeries {
    size_t first = 0;  // sample in which it appears
    Series private_kib, still_shared_kib, copied_kib, copies_per_second;
  };
  struct LimitSeries {
    Series used, limit;
  };
  std::vector<uint64_t> times_ms_;
  std::vector<ProcessSeries> processes_;
  ProcessSeries totals_;
  std::vector<LimitSeries> limits_;
  std::vector<Event> events_;
};

std::string Gzip(absl::string_view text, int level);  // 1: fast, 9: small

// The viewer with `data_json` in it. Internal if this build has no viewer.
absl::StatusOr<std::string> RenderPage(absl::string_view data_json);

}  // namespace cowprof

#endif  // COWPROF_SINK_PAGE_H_
