// Builds the page's data and puts it into the embedded viewer. base64 has no character that HTML could interpret.
#include "sink/page.h"

#include <zlib.h>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/words.h"
#include "sink/page_template.h"
#include "sink/report.h"

namespace cowprof {
namespace {

using Json = nlohmann::ordered_json;

constexpr absl::string_view kPlaceholder = "__COWPROF_DATA__";

Count Kib(const Count& bytes) { return bytes ? Count(*bytes / 1024) : std::nullopt; }

// The first value whole, then differences to the last one that was known; null where unknown.
Json Deltas(const std::vector<Count>& series) {
  Json out = Json::array();
  int64_t last = 0;
  for (const Count& value : series) {
    if (!value) {
      out.push_back(nullptr);
      continue;
    }
    out.push_back(static_cast<int64_t>(*value) - last);
    last = static_cast<int64_t>(*value);
  }
  return out;
}

std::string Who(const Growth& growth, int index) {
  if (index < 0 || index >= static_cast<int>(growth.processes.size())) return "";
  const ProcessGrowth& process = growth.processes[index];
  return absl::StrCat(NameOf(process.role), " ", process.id.pid);
}

// The kind that the page draws, and the words beside it.
std::pair<const char*, std::string> EventText(const Event& event, const Growth& growth) {
  const std::string who = Who(growth, event.index);
  switch (event.kind) {
    case EventKind::kProcess:
      return {"process",
              absl::StrCat(who, event.origin == Origin::kForked ? " was forked by " : " was there at the start",
                           event.origin == Origin::kForked ? Who(growth, event.parent) : "")};
    case EventKind::kExec:
      return {"exec", absl::StrCat(who, " became ", event.command.empty() ? event.comm : event.command)};
    case EventKind::kExit: {
      const Exit exit = ExitOf(event.status);
      return {"exit", exit.signaled ? absl::StrCat(who, " was killed by ", SignalName(exit.signal))
                                    : absl::StrCat(who, " ended with status ", exit.code)};
    }
    case EventKind::kSignalSent:
      return {"signal", absl::StrCat(SignalName(event.signal), " was sent to ", who, " by pid ", event.sender)};
    case EventKind::kSignalDelivered:
      return {"signal", absl::StrFormat("%s got %s at address 0x%x", who, SignalName(event.signal), event.address)};
    case EventKind::kOomVictim:
      return {"oom", absl::StrCat("the OOM killer chose ", who)};
    case EventKind::kPython:
      return {"note", absl::StrCat(who, " runs Python ", event.python,
                                   event.text.empty() ? "" : absl::StrCat(", which can't be read: ", event.text))};
    case EventKind::kNote:
      return {"note", event.text};
  }
  return {"note", ""};
}

template <typename Series>
Json Columns(const Series& series) {
  return {{"private_kib", Deltas(series.private_kib)},
          {"still_shared_kib", Deltas(series.still_shared_kib)},
          {"copied_kib", Deltas(series.copied_kib)},
          {"copies_per_second", Deltas(series.copies_per_second)}};
}

}  // namespace

void PageBuilder::Add(const Sample& sample, const Growth& growth) {
  const size_t at = times_ms_.size();
  times_ms_.push_back(absl::ToInt64Milliseconds(sample.t));
  const uint64_t page_bytes = growth.info.page_bytes;
  const auto copied = [&](const Count& copies) { return copies ? Count(*copies * page_bytes) : std::nullopt; };
  for (const ProcessSample& row : sample.processes) {
    if (row.index < 0 || row.index >= static_cast<int>(growth.processes.size())) continue;
    if (row.index >= static_cast<int>(processes_.size())) processes_.resize(row.index + 1);
    const ProcessGrowth& process = growth.processes[row.index];
    ProcessSeries& series = processes_[row.index];
    if (series.copied_kib.empty()) series.first = at;
    // A tick without this process leaves a gap, not a shift.
    for (Series* column :
         {&series.private_kib, &series.still_shared_kib, &series.copied_kib, &series.copies_per_second}) {
      column->resize(at - series.first);
    }
    series.private_kib.push_back(Kib(process.private_bytes));
    series.still_shared_kib.push_back(Kib(process.still_shared_bytes));
    series.copied_kib.push_back(Kib(copied(process.counts.copies)));
    series.copies_per_second.push_back(static_cast<uint64_t>(process.copies_per_second + 0.5));
  }
  const Totals living = SumOf(growth, /*living_only=*/true, /*workers_only=*/false);
  const Totals all = SumOf(growth, /*living_only=*/false, /*workers_only=*/false);
  totals_.private_kib.push_back(living.memory_known ? Count(living.private_bytes / 1024) : std::nullopt);
  totals_.still_shared_kib.push_back(living.memory_known ? Count(living.still_shared_bytes / 1024) : std::nullopt);
  totals_.copied_kib.push_back(all.copies * page_bytes / 1024);
  totals_.copies_per_second.push_back(static_cast<uint64_t>(living.copies_per_second + 0.5));
  limits_.resize(growth.limits.size());
  for (size_t i = 0; i < growth.limits.size(); ++i) {
    const LimitSample& limit = growth.limits[i].now;
    limits_[i].used.resize(at);
    limits_[i].limit.resize(at);
    limits_[i].used.push_back(limit.counts_bytes() ? limit.used / 1024 : limit.used);
    limits_[i].limit.push_back(limit.counts_bytes() ? Kib(limit.limit) : limit.limit);
  }
  events_.insert(events_.end(), sample.events.begin(), sample.events.end());
}

std::string PageBuilder::DataJson(const Growth& growth, bool complete) const {
  Json processes = Json::array(), limits = Json::array(), events = Json::array();
  for (size_t i = 0; i < processes_.size(); ++i) {
    const ProcessGrowth& process = growth.processes[i];
    processes.push_back({{"index", i},
                         {"pid", process.id.pid},
                         {"role", NameOf(process.role)},
                         {"name", process.command.empty() ? process.comm : process.command},
                         {"first", processes_[i].first},
                         {"count", processes_[i].copied_kib.size()},
                         {"columns", Columns(processes_[i])}});
  }
  for (size_t i = 0; i < limits_.size(); ++i) {
    const LimitSample& limit = growth.limits[i].now;
    limits.push_back({{"kind", NameOf(limit.kind)},
                      {"name", limit.name},
                      {"unit", limit.counts_bytes() ? "bytes" : "count"},
                      {"limit", Deltas(limits_[i].limit)},
                      {"used", Deltas(limits_[i].used)}});
  }
  for (const Event& event : events_) {
    const auto [kind, text] = EventText(event, growth);
    const bool known = event.index >= 0 && event.index < static_cast<int>(growth.processes.size());
    events.push_back({{"t", absl::ToDoubleSeconds(event.t)},
                      {"kind", kind},
                      {"index", event.index},
                      {"pid", known ? Json(growth.processes[event.index].id.pid) : Json(nullptr)},
                      {"text", text}});
  }
  const RunInfo& info = growth.info;
  std::vector<Count> times(times_ms_.begin(), times_ms_.end());
  const Json page = {{"schema", "cowprof.page/1"},
                     {"report", ReportJson(growth)},
                     {"verdict", Verdict(growth)},
                     {"run",
                      {{"tool", absl::StrCat("cowprof ", info.version)},
                       {"kernel", info.kernel},
                       {"started", absl::FormatTime(absl::RFC3339_sec, info.started, absl::UTCTimeZone())},
                       {"interval_seconds", absl::ToDoubleSeconds(info.interval)},
                       {"page_bytes", info.page_bytes},
                       {"complete", complete},
                       {"rung", info.rung},
                       {"exactness", NameOf(info.exactness)}}},
                     {"times_ms", Deltas(times)},
                     {"processes", std::move(processes)},
                     {"totals", Columns(totals_)},
                     {"limits", std::move(limits)},
                     {"events", std::move(events)}};
  return page.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Gzip(absl::string_view text, int level) {
  z_stream stream = {};
  // 15 window bits, + 16 for a gzip header.
  if (deflateInit2(&stream, level, Z_DEFLATED, 15 + 16, 9, Z_DEFAULT_STRATEGY) != Z_OK) return "";
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = text.size();
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = out.size();
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

absl::StatusOr<std::string> RenderPage(absl::string_view data_json) {
  const absl::string_view page = PageTemplate();
  const size_t at = page.find(kPlaceholder);
  if (at == absl::string_view::npos) return absl::InternalError("this build of cowprof has no viewer in it");
  return absl::StrCat(page.substr(0, at), absl::Base64Escape(Gzip(data_json, Z_BEST_COMPRESSION)), page.substr(at + kPlaceholder.size()));
}

}  // namespace cowprof
