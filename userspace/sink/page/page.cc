// Assembles the page's data and inserts it into the embedded viewer.
#include "sink/page/page.h"

#include <malloc.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "sink/gzip.h"
#include "sink/page/page_template.h"
#include "sink/report/fleet_report.h"
#include "sink/report/report.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr uint64_t kMostRows = 16 << 20;
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

PageBuilder::PageBuilder(std::unique_ptr<SideThread> side)
    : series_(kMostRows, side.get()), blame_(side.get()), side_(std::move(side)) {}

void PageBuilder::Add(const Sample& sample, const std::vector<Alert>& raised, const Run& run) {
  series_.Add(sample, run);
  events_.Add(sample, raised, run.model);
  blame_.Add(sample, run.model);
  map_.Add(sample);
}

PageData PageBuilder::Data(const RunModel& model, const Findings& findings, const RecordingState& state) const {
  return Assemble(model, findings, state, map_.Encode());
}

PageData PageBuilder::Assemble(const RunModel& model, const Findings& findings, const RecordingState& state,
                               PageMap::Encoded map) const {
  Json page = {{"schema", "cowprof.page/2"},
               {"report", ReportJson(model, findings, state.complete)},
               {"verdict", findings.verdict},
               {"warnings", Warnings(model.losses, state.complete || state.live)},
               {"run", RunJson(model.info, state)}};
  if (state.ranks != nullptr) page["report"]["ranks"] = FleetRowsJson(*state.ranks);
  if (state.comparisons != nullptr) page["comparisons"] = *state.comparisons;
  PageData data;
  series_.Write(model, findings.forecast_told, &data.columns, &page);
  events_.Write(model, findings, &page);
  blame_.Write(model, &data.columns, &page);
  PageMap::Write(model, std::move(map), &data.columns, &page);
  data.json = absl::StrCat(Dump(page), "\n");
  return data;
}

void PageBuilder::EncodeMap() {
  encoded_map_ = map_.Encode();
  map_ = PageMap();
  malloc_trim(0);  // it was in many small pieces, which would stay with the process
}

void PageBuilder::End() {
  if (ended_) return;
  ended_ = true;
  series_.Settle();
  blame_.Settle();
  if (side_ == nullptr) {
    EncodeMap();
  } else {
    encoding_map_ = side_->Run([this] { EncodeMap(); });
  }
}

PageData PageBuilder::LastData(const RunModel& model, const Findings& findings, const RecordingState& state) {
  End();
  if (side_ != nullptr) side_->WaitFor(encoding_map_);
  return Assemble(model, findings, state, std::move(encoded_map_));
}

std::vector<absl::string_view> PageData::parts() const {
  std::vector<absl::string_view> parts = {json};
  parts.insert(parts.end(), columns.parts().begin(), columns.parts().end());
  return parts;
}

// Level 4 takes half as much again and saves 6 %; level 6 takes more than twice as long and saves 7 %.
std::string Packed(absl::Span<const absl::string_view> parts) { return absl::Base64Escape(Gzip(parts, /*level=*/1)); }

absl::StatusOr<std::string> RenderPage(const std::vector<std::string>& packed) {
  const absl::string_view page = PageTemplate();
  const size_t at = page.find(kPlaceholder);
  if (at == absl::string_view::npos) return absl::InternalError("this build of cowprof has no viewer");
  size_t size = page.size();
  for (const std::string& one : packed) size += one.size() + 1;
  std::string html;
  html.reserve(size);
  absl::StrAppend(&html, page.substr(0, at));
  for (const std::string& one : packed) absl::StrAppend(&html, &one == &packed.front() ? "" : "\n", one);
  absl::StrAppend(&html, page.substr(at + kPlaceholder.size()));
  return html;
}

}  // namespace cowprof
