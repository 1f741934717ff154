// Spells the keys of shared memory. A segment is a row of columns in a timeline and an object elsewhere.
#include "timeline/json_shm.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "model/facts/shm.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

// The columns of a segment's row, in order.
constexpr const char* kColumns[] = {"name",          "kind",          "device",    "inode",        "bytes",
                                    "length_bytes",  "deleted",       "lost_name", "lasting_name", "creator",
                                    "creator_alive", "looks_unowned", "mapped_by", "opened_by"};

constexpr struct {
  const char* name;
  uint64_t ShmSample::*value;
} kFigures[] = {{"device", &ShmSample::device},
                {"used_bytes", &ShmSample::used_bytes},
                {"unlinked", &ShmSample::unlinked},
                {"unreadable", &ShmSample::unreadable},
                {"unreadable_bytes", &ShmSample::unreadable_bytes},
                {"unlisted", &ShmSample::unlisted},
                {"omitted", &ShmSample::omitted},
                {"omitted_bytes", &ShmSample::omitted_bytes}};

Json RowOf(const ShmSegment& segment) {
  return {segment.name,
          NameOf(segment.kind),
          segment.device,
          segment.inode,
          segment.bytes,
          segment.length_bytes,
          int{segment.deleted},
          int{segment.lost_name},
          int{segment.lasting_name},
          segment.creator,
          int{segment.creator_alive},
          segment.looks_unowned,
          Json(segment.mapped_by),
          Json(segment.opened_by)};
}

std::vector<pid_t> PidsAt(const Json& row, size_t i) {
  std::vector<pid_t> pids;
  for (const Json& pid : ListAt(row, i)) {
    if (const std::optional<pid_t> number = NumberIn<pid_t>(pid)) pids.push_back(*number);
  }
  return pids;
}

ShmSegment SegmentOf(const Json& row) {
  const auto number = [&](size_t i) { return CountAt(row, i).value_or(0); };
  return {.name = TextAt(row, 0),
          .kind = EnumNamed(TextAt(row, 1), SegmentKind::kFile),
          .device = number(2),
          .inode = number(3),
          .bytes = number(4),
          .length_bytes = number(5),
          .deleted = number(6) != 0,
          .lost_name = number(7) != 0,
          .lasting_name = number(8) != 0,
          .creator = row.size() > 9 ? NumberIn<pid_t>(row[9]).value_or(0) : 0,
          .creator_alive = number(10) != 0,
          .looks_unowned = number(11),
          .mapped_by = PidsAt(row, 12),
          .opened_by = PidsAt(row, 13)};
}

Json SegmentJson(const ShmSample& sample, const ShmSegment& segment) {
  return {{"name", segment.name},
          {"kind", NameOf(segment.kind)},
          {"bytes", segment.bytes},
          {"length_bytes", segment.length_bytes},
          {"device", segment.device},
          {"inode", segment.inode},
          {"on_mount", IsOnMount(sample, segment)},
          {"deleted", segment.deleted},
          {"lost_name", segment.lost_name},
          {"creator", segment.creator != 0 ? Json(segment.creator) : Json(nullptr)},
          {"creator_alive", segment.creator_alive},
          {"ownership", NameOf(OwnershipOf(sample, segment))},
          {"mapped_by", segment.mapped_by},
          {"opened_by", segment.opened_by}};
}

Json TotalJson(const ShmTotal& total) { return {{"segments", total.segments}, {"bytes", total.bytes}}; }

constexpr size_t kSegmentsOfReport = 200;

}  // namespace

void EncodeShm(const ShmSample& sample, std::string* out) {
  Json json = {{"mount", sample.mount}, {"whole", sample.whole}};
  json["capacity_bytes"] = sample.capacity_bytes ? Json(*sample.capacity_bytes) : Json(nullptr);
  for (const auto& figure : kFigures) json[figure.name] = sample.*figure.value;
  Json& rows = json["segments"] = Json::array();
  for (const ShmSegment& segment : sample.segments) rows.push_back(RowOf(segment));
  absl::StrAppend(out, ",\"shm\":", Dump(json));
}

std::optional<ShmSample> DecodeShm(const Json& record) {
  const auto found = record.find("shm");
  if (found == record.end() || !found->is_object()) return std::nullopt;
  ShmSample sample = {.mount = TextOf(*found, "mount"), .whole = BoolOf(*found, "whole")};
  const auto capacity = found->find("capacity_bytes");
  if (capacity != found->end()) sample.capacity_bytes = NumberIn<uint64_t>(*capacity);
  for (const auto& figure : kFigures) sample.*figure.value = NumberOf<uint64_t>(*found, figure.name);
  for (const Json& row : ListOf(*found, "segments")) {
    if (row.is_array()) sample.segments.push_back(SegmentOf(row));
  }
  return sample;
}

Json NamesOfSegmentColumns() { return {{"shm_segments", kColumns}}; }

Json ShmJson(const ShmSample& sample, size_t most) {
  Json totals = Json::object(), segments = Json::array();
  for (const auto& [kind, total] : TotalsByKind(sample)) totals[NameOf(kind)] = TotalJson(total);
  ShmTotal omitted = {sample.omitted, sample.omitted_bytes};
  for (const ShmSegment& segment : sample.segments) {
    if (segments.size() < most) {
      segments.push_back(SegmentJson(sample, segment));
    } else {
      ++omitted.segments;
      omitted.bytes += IsOnMount(sample, segment) ? segment.bytes : 0;
    }
  }
  Json batches = nullptr;
  if (const std::optional<Batches> found = BatchesIn(sample)) {
    batches = {{"segments", found->segments},
               {"bytes_each", found->bytes_each},
               {"creators", found->creators},
               {"bytes", found->bytes()}};
  }
  return {{"mount", sample.mount},
          {"capacity_bytes", sample.capacity_bytes ? Json(*sample.capacity_bytes) : Json(nullptr)},
          {"used_bytes", sample.used_bytes},
          {"unexplained_bytes", UnexplainedBytes(sample)},
          {"complete", sample.whole && sample.unreadable == 0 && sample.unlisted == 0},
          {"unreadable_processes", sample.unreadable},
          {"unlisted_entries", sample.unlisted},
          {"totals", std::move(totals)},
          {"leaked", TotalJson(LeakedIn(sample))},
          {"batches", std::move(batches)},
          {"omitted", TotalJson(omitted)},
          {"segments", std::move(segments)}};
}

Json ShmReportJson(const RunModel& model) {
  if (!model.shm) return nullptr;
  Json json = ShmJson(*model.shm, kSegmentsOfReport);
  if (model.shm_whole) json["leaked"] = TotalJson(TotalOf(StillLeaked(*model.shm_whole, *model.shm)));
  json["at_peak"] = ShmJson(*model.shm_peak, kSegmentsOfReport);
  Json& unlinked = json["unlinked"] = Json::array();
  for (const ShmSegment& segment : model.shm_unlinked) unlinked.push_back(SegmentJson(*model.shm, segment));
  return json;
}

}  // namespace cowprof
