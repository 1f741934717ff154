// Spells the keys of event records. See json_events.h.
#include "sink/json_events.h"

#include <array>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
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
      json["status"] = event.status;
      break;
    case EventKind::kSignalSent:
      json["signal"] = event.signal;
      json["code"] = event.code;
      json["sender"] = event.sender;
      break;
    case EventKind::kSignalDelivered:
      json["signal"] = event.signal;
      json["code"] = event.code;
      json["address"] = absl::StrCat("0x", absl::Hex(event.address));  // may exceed what a double holds
      break;
    case EventKind::kOomVictim:
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
  event.status = NumberOf<int>(json, "status");
  event.signal = NumberOf<int>(json, "signal");
  event.code = NumberOf<int>(json, "code");
  event.sender = NumberOf<pid_t>(json, "sender");
  static_cast<void>(absl::SimpleHexAtoi(TextOf(json, "address"), &event.address));
  event.text = TextOf(json, "text");
  event.python = TextOf(json, "python");
  return event;
}

}  // namespace cowprof
