// Spells perfetto's trace.proto: TrackDescriptor and TrackEvent.
#include "sink/export/perfetto_trace.h"

#include <algorithm>
#include <protozero/pbf_writer.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "model/format.h"
#include "sink/export/copies.h"

namespace cowprof {
namespace {

using protozero::pbf_writer;

// Field numbers.
constexpr int kTracePacket = 1;
namespace packet {
enum { kTimestamp = 8, kSequenceId = 10, kTrackEvent = 11, kSequenceFlags = 13, kTrackDescriptor = 60 };
}
namespace track {
enum { kUuid = 1, kName = 2, kProcess = 3, kParentUuid = 5, kCounter = 8 };
}
namespace process_descriptor {
enum { kPid = 1, kCommandLine = 2, kName = 6, kStart = 7 };
}
namespace counter {
enum { kUnit = 3 };
enum { kCount = 2, kBytes = 3 };  // values of kUnit
}  // namespace counter
namespace event {
enum { kType = 9, kTrackUuid = 11, kCategories = 22, kName = 23, kCounterValue = 30 };
enum { kInstant = 3, kCounter = 4 };  // values of kType
}  // namespace event

constexpr uint32_t kSequence = 1, kStateCleared = 1;

// Tracks. 0 is perfetto's own.
enum Figure { kProcessItself, kPrivate, kCopied, kStillShared, kFigures };
constexpr std::pair<Figure, const char*> kFigureNames[] = {
    {kPrivate, "private"}, {kCopied, "copied"}, {kStillShared, "still shared"}};
constexpr uint64_t kRun = 1, kFirstLimit = uint64_t{1} << 40, kFirstProcess = kFigures;
uint64_t TrackOf(int index, Figure figure) { return kFirstProcess + static_cast<uint64_t>(index) * kFigures + figure; }
uint64_t UsedOf(size_t limit) { return kFirstLimit + 2 * limit; }
uint64_t LimitOf(size_t limit) { return UsedOf(limit) + 1; }

// Nanoseconds since 1970: a trace needs one clock, and a recording has the wall clock at its start.
int64_t TimeOf(absl::Duration t, const RunInfo& info) {
  return std::max<int64_t>(absl::ToUnixNanos(info.started + t), 0);
}

template <typename Fill>
void AddEvent(absl::Duration t, int type, uint64_t track, const RunInfo& info, const Fill& fill, std::string* out) {
  pbf_writer trace(*out);
  pbf_writer written(trace, kTracePacket);
  written.add_uint64(packet::kTimestamp, TimeOf(t, info));
  written.add_uint32(packet::kSequenceId, kSequence);
  pbf_writer happened(written, packet::kTrackEvent);
  happened.add_enum(event::kType, type);
  happened.add_uint64(event::kTrackUuid, track);
  fill(&happened);
}

template <typename Fill>
void AddTrack(uint64_t uuid, const std::string& name, const Fill& fill, std::string* out) {
  const bool first = out->empty();
  pbf_writer trace(*out);
  pbf_writer written(trace, kTracePacket);
  written.add_uint32(packet::kSequenceId, kSequence);
  if (first) written.add_uint32(packet::kSequenceFlags, kStateCleared);
  pbf_writer described(written, packet::kTrackDescriptor);
  described.add_uint64(track::kUuid, uuid);
  described.add_string(track::kName, name);
  fill(&described);
}

void AddCounter(uint64_t uuid, const std::string& name, uint64_t parent, bool bytes, std::string* out) {
  AddTrack(
      uuid, name,
      [&](pbf_writer* described) {
        if (parent != 0) described->add_uint64(track::kParentUuid, parent);
        pbf_writer(*described, track::kCounter).add_enum(counter::kUnit, bytes ? counter::kBytes : counter::kCount);
      },
      out);
}

}  // namespace

void PerfettoTrace::Set(uint64_t track, absl::Duration t, uint64_t value, const RunInfo& info) {
  const auto [known, added] = values_.emplace(track, value);
  if (!added && known->second == value) return;
  known->second = value;
  AddEvent(
      t, event::kCounter, track, info,
      [&](pbf_writer* happened) {
        happened->add_int64(event::kCounterValue, static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)));
      },
      &events_);
}

PerfettoTrace::Description PerfettoTrace::DescriptionOf(const ProcessModel& process, const RunModel& model) {
  return {process.id.pid, ProcessLabel(process, model), Readable(process.command), process.started};
}

void PerfettoTrace::AddProcess(const ProcessModel& process, absl::Duration t, const RunModel& model) {
  const bool over = process.ended.has_value();
  if (over || !described_.contains(process.index)) described_[process.index] = DescriptionOf(process, model);
  if (over) t = std::min(t, *process.ended);
  const Count copied = process.counts.copies ? Count(CopiedBytes(*process.counts.copies, model.info)) : std::nullopt;
  const std::pair<Figure, Count> figures[] = {
      {kPrivate, process.private_bytes}, {kCopied, copied}, {kStillShared, process.still_shared_bytes}};
  for (const auto& [figure, bytes] : figures) {
    if (!bytes) continue;
    Set(TrackOf(process.index, figure), t, *bytes, model.info);
    // What was copied stays said.
    if (over && figure != kCopied) Set(TrackOf(process.index, figure), t + absl::Nanoseconds(1), 0, model.info);
  }
}

void PerfettoTrace::Add(const Sample& sample, const std::vector<Alert>& raised, const RunModel& model) {
  for (const ProcessSample& row : sample.processes) {
    if (const ProcessModel* process = model.Find(row.index)) AddProcess(*process, sample.t, model);
  }
  for (size_t i = 0; i < model.limits.size(); ++i) {
    Set(UsedOf(i), sample.t, model.limits[i].now.used, model.info);
    if (const Count& limit = model.limits[i].now.limit) Set(LimitOf(i), sample.t, *limit, model.info);
  }
  for (const Event& event : sample.events) {
    if (std::optional<Mark> mark = MarkOf(event, model)) marks_.push_back(*std::move(mark));
  }
  for (const Alert& alert : raised) marks_.push_back(MarkOf(alert));
}

std::string PerfettoTrace::Finish(const RunModel& model, const Findings& findings) const {
  std::string out;
  AddTrack(
      kRun, "cowprof: alerts and notes", [](pbf_writer*) {}, &out);
  for (size_t i = 0; i < model.limits.size(); ++i) {
    const LimitSample& limit = model.limits[i].now;
    AddCounter(UsedOf(i), absl::StrCat(FormatLimit(limit), ": used"), 0, limit.counts_bytes(), &out);
    if (values_.contains(LimitOf(i)))
      AddCounter(LimitOf(i), absl::StrCat(FormatLimit(limit), ": limit"), 0, limit.counts_bytes(), &out);
  }
  std::map<int, Description> processes = described_;
  for (const ProcessModel& process : model.processes) processes[process.index] = DescriptionOf(process, model);
  for (const auto& [index, process] : processes) {
    const uint64_t group = TrackOf(index, kProcessItself);
    AddTrack(
        group, process.label,
        [&, &process = process](pbf_writer* described) {
          pbf_writer written(*described, track::kProcess);
          written.add_int32(process_descriptor::kPid, process.pid);
          written.add_string(process_descriptor::kCommandLine, process.command);
          written.add_string(process_descriptor::kName, process.label);
          written.add_int64(process_descriptor::kStart, TimeOf(process.started, model.info));
        },
        &out);
    for (const auto& [figure, name] : kFigureNames) {
      const uint64_t uuid = TrackOf(index, figure);
      if (values_.contains(uuid)) AddCounter(uuid, name, group, true, &out);
    }
  }
  out += events_;
  for (const Mark& mark : marks_) {
    const bool of_run = mark.kind == MarkKind::kAlert || mark.kind == MarkKind::kAlertOver;
    const uint64_t track = of_run || !processes.contains(mark.index) ? kRun : TrackOf(mark.index, kProcessItself);
    AddEvent(
        mark.t, event::kInstant, track, model.info,
        [&](pbf_writer* happened) {
          happened->add_string(event::kCategories, NameOf(mark.kind));
          happened->add_string(event::kName, TextOf(mark, model, findings));
        },
        &out);
  }
  return out;
}

}  // namespace cowprof
