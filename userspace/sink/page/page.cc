// Assembles the page's data and inserts it into the embedded viewer.
#include "sink/page/page.h"

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "sink/gzip.h"
#include "sink/page/page_template.h"
#include "sink/report/fleet_report.h"
#include "sink/report/report.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr absl::string_view kPlaceholder = "__COWPROF_DATA__";

Json RunJson(const RunInfo& info, const RecordingState& state) {
  return {{"tool", absl::StrCat("cowprof ", info.version)},
          {"kernel", info.kernel},
          {"started", absl::FormatTime(absl::RFC3339_sec, info.started, absl::UTCTimeZone())},
          {"interval_seconds", absl::ToDoubleSeconds(info.interval)},
          {"page_bytes", info.page_bytes},
          {"complete", state.complete},
          {"rung", info.rung},
          {"exactness", NameOf(info.exactness)},
          {"live", state.live}};
}

}  // namespace

void PageBuilder::Add(const Sample& sample, const std::vector<Alert>& raised, const Run& run) {
  series_.Add(sample, run);
  events_.Add(sample, raised, run.model);
  blame_.Add(sample, run.model);
  map_.Add(sample);
}

PageData PageBuilder::Data(const RunModel& model, const Findings& findings, const RecordingState& state) const {
  Json page = {{"schema", "cowprof.page/2"},
               {"report", ReportJson(model, findings)},
               {"verdict", findings.verdict},
               {"run", RunJson(model.info, state)}};
  if (state.ranks != nullptr) page["report"]["ranks"] = FleetRowsJson(*state.ranks);
  PageData data;
  series_.Write(model, findings.forecast, &data.columns, &page);
  events_.Write(model, findings, &page);
  blame_.Write(model, &data.columns, &page);
  map_.Write(model, &data.columns, &page);
  data.json = absl::StrCat(Dump(page), "\n");
  return data;
}

std::vector<absl::string_view> PageData::parts() const {
  std::vector<absl::string_view> parts = {json};
  parts.insert(parts.end(), columns.parts().begin(), columns.parts().end());
  return parts;
}

// Level 9 takes four times as long as level 6 and saves 3 %.
std::string Packed(absl::Span<const absl::string_view> parts) { return absl::Base64Escape(Gzip(parts, /*level=*/6)); }

absl::StatusOr<std::string> RenderPage(const std::vector<std::string>& packed) {
  const absl::string_view page = PageTemplate();
  const size_t at = page.find(kPlaceholder);
  if (at == absl::string_view::npos) return absl::InternalError("this build of cowprof has no viewer");
  return absl::StrCat(page.substr(0, at), absl::StrJoin(packed, "\n"), page.substr(at + kPlaceholder.size()));
}

}  // namespace cowprof
