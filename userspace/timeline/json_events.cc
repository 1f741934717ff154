// Spells the keys of event records. See json_events.h.
#include "sink/json_events.h"

#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "model/growth.h"
#include "sink/json_fields.h"

namespace cowprof {
namespace {

constexpr std::array<const char*, 3> kOrigins = {"target", "attach", "fork"};
constexpr std::array<const char*, 8> kEvents = {"process",          "exec",       "exit", "signal_sent",
                                                "signal_delivered", "oom_victim", "note", "python"};

template <typename Enum, size_t kSize>
Enum IndexedBy(const std::array<const char*, kSize>& names, absl::string_view name, Enum otherwise) {
  const auto found = std::find(names.begin(), names.end(), name);
  return found == names.end() ? otherwise : static_cast<Enum>(found - names.begin());
}

// ---- What is known of a death ----

Json EncodeFile(const FaultFile& file) {
  Json json = {{"name", file.name},
               {"bytes", file.file_bytes},
               {"offset", file.offset},
               {"in_memory", file.in_memory},
               {"device", file.device},
               {"inode", file.inode},
               {"on_dev_shm", file.on_dev_shm}};
  if (file.capacity_bytes) json["capacity"] = *file.capacity_bytes;
  return json;
}

FaultFile DecodeFile(const Json& json) {
  FaultFile file = {.name = TextOf(json, "name"),
                    .file_bytes = NumberOf<uint64_t>(json, "bytes"),
                    .offset = NumberOf<uint64_t>(json, "offset"),
                    .in_memory = BoolOf(json, "in_memory"),
                    .device = NumberOf<uint64_t>(json, "device"),
                    .inode = NumberOf<uint64_t>(json, "inode"),
                    .on_dev_shm = BoolOf(json, "on_dev_shm")};
  if (json.contains("capacity")) file.capacity_bytes = NumberIn<uint64_t>(json["capacity"]);
  return file;
}

Json EncodeLimit(const LimitSample& limit) {
  Json json = {{"kind", NameOf(limit.kind)}, {"name", limit.name}, {"used", limit.used}};
  if (limit.limit) json["limit"] = *limit.limit;
  return json;
}

LimitSample DecodeLimit(const Json& json) {
  LimitSample limit = {.kind = EnumNamed(TextOf(json, "kind"), kLimitKinds, LimitKind::kHost),
                       .name = TextOf(json, "name"),
                       .used = NumberOf<uint64_t>(json, "used")};
  if (json.contains("limit")) limit.limit = NumberIn<uint64_t>(json["limit"]);
  return limit;
}

void EncodePlace(const Event& event, Json* json) {
  if (!event.module.empty()) (*json)["module"] = event.module;
  if (!event.symbol.empty()) (*json)["symbol"] = event.symbol;
  if (event.frame)
    (*json)["frame"] = {{"file", event.frame->file}, {"function", event.frame->function}, {"line", event.frame->line}};
  if (event.file) (*json)["file"] = EncodeFile(*event.file);
}

void DecodeEvidence(const Json& json, Event* event) {
  event->sender_comm = TextOf(json, "sender_comm");
  event->module = TextOf(json, "module");
  event->symbol = TextOf(json, "symbol");
  if (const auto frame = json.find("frame"); frame != json.end())
    event->frame = Frame{TextOf(*frame, "file"), TextOf(*frame, "function"), NumberOf<int>(*frame, "line")};
  if (const auto file = json.find("file"); file != json.end()) event->file = DecodeFile(*file);
  if (const auto limit = json.find("limit"); limit != json.end()) event->limit = DecodeLimit(*limit);
}

}  // namespace

Json EncodeEvent(const Event& event) {
  Json json = {{"t", absl::ToInt64Microseconds(event.t) / 1e6}, {"type", "event"}};
  json["event"] = kEvents[static_cast<size_t>(event.kind)];
  if (event.index >= 0) json["index"] = event.index;
  switch (event.kind) {
    case EventKind::kProcess:
      json["pid"] = event.id.pid;
      json["start_ns"] = event.id.start_ns;
      json["parent"] = event.parent;
      if (event.space >= 0) json["space"] = event.space;
      json["origin"] = kOrigins[static_cast<size_t>(event.origin)];
      [[fallthrough]];
    case EventKind::kExec:
      json["comm"] = event.comm;
      json["command"] = event.command;
      break;
    case EventKind::kExit:
      json["status"] = event.status ? Json(*event.status) : Json(nullptr);
      break;
    case EventKind::kSignalSent:
      json["signal"] = event.signal;
      json["code"] = event.code;
      json["sender"] = event.sender;
      if (!event.sender_comm.empty()) json["sender_comm"] = event.sender_comm;
      break;
    case EventKind::kSignalDelivered:
      json["signal"] = event.signal;
      json["code"] = event.code;
      json["address"] = absl::StrCat("0x", absl::Hex(event.address));  // may exceed what a double holds
      EncodePlace(event, &json);
      break;
    case EventKind::kOomVictim:
      if (event.limit) json["limit"] = EncodeLimit(*event.limit);
      break;
    case EventKind::kPython:
      json["python"] = event.python;
      [[fallthrough]];
    case EventKind::kNote:
      json["text"] = event.text;
      break;
  }
  return json;
}

Event DecodeEvent(const Json& json) {
  Event event = {.t = Rounded(NumberOf<double>(json, "t")),
                 .kind = IndexedBy(kEvents, TextOf(json, "event"), EventKind::kNote),
                 .index = NumberOf<int>(json, "index", -1)};
  event.id = {NumberOf<pid_t>(json, "pid"), NumberOf<uint64_t>(json, "start_ns")};
  event.parent = NumberOf<int>(json, "parent", -1);
  event.space = NumberOf<int>(json, "space", -1);
  event.origin = IndexedBy(kOrigins, TextOf(json, "origin"), Origin::kForked);
  event.comm = TextOf(json, "comm");
  event.command = TextOf(json, "command");
  if (json.contains("status")) event.status = NumberIn<int>(json["status"]);
  event.signal = NumberOf<int>(json, "signal");
  event.code = NumberOf<int>(json, "code");
  event.sender = NumberOf<pid_t>(json, "sender");
  static_cast<void>(absl::SimpleHexAtoi(TextOf(json, "address"), &event.address));
  DecodeEvidence(json, &event);
  event.text = TextOf(json, "text");
  event.python = TextOf(json, "python");
  return event;
}

}  // namespace cowprof
