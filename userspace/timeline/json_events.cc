// Spells the keys of event records, one group of fields per kind of event.
#include "timeline/json_events.h"

#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "model/facts/run_model.h"
#include "timeline/json_fields.h"
#include "timeline/json_fork_hazards.h"
#include "timeline/json_hangs.h"
#include "timeline/json_identity.h"
#include "timeline/json_limits.h"
#include "timeline/json_start_methods.h"

namespace cowprof {
namespace {

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

// ---- One kind of event each ----

const char* KindOf(const ProcessStarted&) { return "process"; }
void Encode(const ProcessStarted& started, Json* json) {
  (*json)["pid"] = started.id.pid;
  (*json)["start_ns"] = started.id.start_ns;
  (*json)["parent"] = started.parent;
  if (started.space >= 0) (*json)["space"] = started.space;
  if (started.vforked) (*json)["vforked"] = true;
  (*json)["origin"] = NameOf(started.origin);
  (*json)["comm"] = started.comm;
  (*json)["command"] = started.command;
  if (!started.executable.empty()) (*json)["executable"] = started.executable;
}
void Decode(const Json& json, ProcessStarted* started) {
  started->id = {NumberOf<pid_t>(json, "pid"), NumberOf<uint64_t>(json, "start_ns")};
  started->parent = NumberOf<int>(json, "parent", -1);
  started->space = NumberOf<int>(json, "space", -1);
  started->vforked = BoolOf(json, "vforked");
  started->origin = EnumNamed(TextOf(json, "origin"), Origin::kForked);
  started->comm = TextOf(json, "comm");
  started->command = TextOf(json, "command");
  started->executable = TextOf(json, "executable");
}

const char* KindOf(const ProcessExeced&) { return "exec"; }
void Encode(const ProcessExeced& execed, Json* json) {
  (*json)["comm"] = execed.comm;
  (*json)["command"] = execed.command;
  if (!execed.executable.empty()) (*json)["executable"] = execed.executable;
}
void Decode(const Json& json, ProcessExeced* execed) {
  execed->comm = TextOf(json, "comm");
  execed->command = TextOf(json, "command");
  execed->executable = TextOf(json, "executable");
}

const char* KindOf(const ProcessExited&) { return "exit"; }
void Encode(const ProcessExited& exited, Json* json) {
  (*json)["status"] = exited.status ? Json(*exited.status) : Json(nullptr);
}
void Decode(const Json& json, ProcessExited* exited) {
  if (json.contains("status")) exited->status = NumberIn<int>(json["status"]);
}

const char* KindOf(const SignalSent&) { return "signal_sent"; }
void Encode(const SignalSent& sent, Json* json) {
  (*json)["signal"] = sent.signal;
  (*json)["code"] = sent.code;
  (*json)["sender"] = sent.sender;
  if (!sent.sender_comm.empty()) (*json)["sender_comm"] = sent.sender_comm;
  if (sent.cpu_limit_seconds > 0) (*json)["cpu_limit_seconds"] = sent.cpu_limit_seconds;
  if (sent.sender_exiting) (*json)["sender_exiting"] = true;
}
void Decode(const Json& json, SignalSent* sent) {
  sent->signal = NumberOf<int>(json, "signal");
  sent->code = NumberOf<int>(json, "code");
  sent->sender = NumberOf<pid_t>(json, "sender");
  sent->sender_comm = TextOf(json, "sender_comm");
  sent->cpu_limit_seconds = NumberOf<uint64_t>(json, "cpu_limit_seconds");
  sent->sender_exiting = BoolOf(json, "sender_exiting");
}

const char* KindOf(const SignalDelivered&) { return "signal_delivered"; }
void Encode(const SignalDelivered& delivered, Json* json) {
  (*json)["signal"] = delivered.signal;
  (*json)["code"] = delivered.code;
  (*json)["address"] = absl::StrCat("0x", absl::Hex(delivered.address));  // may exceed what a double holds
  if (!delivered.module.empty()) (*json)["module"] = delivered.module;
  if (!delivered.symbol.empty()) (*json)["symbol"] = delivered.symbol;
  if (const std::optional<Frame>& frame = delivered.frame)
    (*json)["frame"] = {{"file", frame->file}, {"function", frame->function}, {"line", frame->line}};
  if (delivered.file) (*json)["file"] = EncodeFile(*delivered.file);
}
void Decode(const Json& json, SignalDelivered* delivered) {
  delivered->signal = NumberOf<int>(json, "signal");
  delivered->code = NumberOf<int>(json, "code");
  static_cast<void>(absl::SimpleHexAtoi(TextOf(json, "address"), &delivered->address));
  delivered->module = TextOf(json, "module");
  delivered->symbol = TextOf(json, "symbol");
  if (const auto frame = json.find("frame"); frame != json.end())
    delivered->frame = Frame{TextOf(*frame, "file"), TextOf(*frame, "function"), NumberOf<int>(*frame, "line")};
  if (const auto file = json.find("file"); file != json.end()) delivered->file = DecodeFile(*file);
}

const char* KindOf(const OomVictim&) { return "oom_victim"; }
void Encode(const OomVictim& victim, Json* json) {
  if (victim.limit) (*json)["limit"] = EncodeMetLimit(*victim.limit);
}
void Decode(const Json& json, OomVictim* victim) {
  if (const auto limit = json.find("limit"); limit != json.end()) victim->limit = DecodeLimit(*limit);
}

const char* KindOf(const Note&) { return "note"; }
void Encode(const Note& note, Json* json) { (*json)["text"] = note.text; }
void Decode(const Json& json, Note* note) { note->text = TextOf(json, "text"); }

const char* KindOf(const PythonFound&) { return "python"; }
void Encode(const PythonFound& python, Json* json) {
  (*json)["python"] = python.version;
  (*json)["text"] = python.problem;
}
void Decode(const Json& json, PythonFound* python) {
  python->version = TextOf(json, "python");
  python->problem = TextOf(json, "text");
}

const char* KindOf(const DutyFound&) { return "duty"; }
void Encode(const DutyFound& found, Json* json) {
  (*json)["start"] = NameOf(found.start);
  (*json)["duty"] = NameOf(found.duty);
  if (found.number) (*json)["number"] = *found.number;
  if (found.configured) (*json)["configured"] = *found.configured;
}
void Decode(const Json& json, DutyFound* found) {
  found->start = EnumNamed(TextOf(json, "start"), StartMethod::kUnknown);
  found->duty = EnumNamed(TextOf(json, "duty"), Duty::kUnknown);
  found->number = CountOf(json, "number");
  found->configured = CountOf(json, "configured");
}

const char* KindOf(const RankFound&) { return "rank"; }
void Encode(const RankFound& found, Json* json) { EncodeRank(found.rank, json); }
void Decode(const Json& json, RankFound* found) { found->rank = DecodeRank(json); }

const char* KindOf(const StartMethodsSeen&) { return "start_methods"; }
void Encode(const StartMethodsSeen& seen, Json* json) { (*json)["look"] = EncodeLook(seen.look); }
void Decode(const Json& json, StartMethodsSeen* seen) {
  if (const auto look = json.find("look"); look != json.end()) seen->look = DecodeLook(*look);
}

const char* KindOf(const StartFailed&) { return "start_failed"; }
void Encode(const StartFailed& failed, Json* json) {
  (*json)["error"] = failed.type;
  (*json)["message"] = failed.message;
  if (!failed.package.empty()) (*json)["package"] = failed.package;
  if (!failed.method.empty()) (*json)["method"] = failed.method;
  if (!failed.raised_in.empty()) (*json)["raised_in"] = failed.raised_in;
  if (!failed.path.empty()) (*json)["path"] = failed.path;
  (*json)["look"] = EncodeLook(failed.look);
}
void Decode(const Json& json, StartFailed* failed) {
  failed->type = TextOf(json, "error");
  failed->message = TextOf(json, "message");
  failed->package = TextOf(json, "package");
  failed->method = TextOf(json, "method");
  failed->raised_in = TextOf(json, "raised_in");
  failed->path = TextOf(json, "path");
  if (const auto look = json.find("look"); look != json.end()) failed->look = DecodeLook(*look);
}

const char* KindOf(const LastErrorSeen&) { return "last_error"; }
void Encode(const LastErrorSeen& seen, Json* json) {
  (*json)["error"] = seen.type;
  (*json)["message"] = seen.message;
  (*json)["importing_main"] = seen.importing_main;
}
void Decode(const Json& json, LastErrorSeen* seen) {
  seen->type = TextOf(json, "error");
  seen->message = TextOf(json, "message");
  seen->importing_main = BoolOf(json, "importing_main");
}

const char* KindOf(const ForkHazardSeen&) { return "fork_hazard"; }
void Encode(const ForkHazardSeen& seen, Json* json) { EncodeForkHazard(seen, json); }
void Decode(const Json& json, ForkHazardSeen* seen) { *seen = DecodeForkHazard(json); }

const char* KindOf(const HangsSeen&) { return "hangs"; }
void Encode(const HangsSeen& seen, Json* json) { (*json)["hangs"] = HangsJson(seen.hangs); }
void Decode(const Json& json, HangsSeen* seen) {
  if (const auto hangs = json.find("hangs"); hangs != json.end()) seen->hangs = DecodeHangs(*hangs);
}

// ---- All of them ----

template <typename... Kinds>
void DecodeKind(const Json& json, std::variant<Kinds...>* what) {
  const std::string kind = TextOf(json, "event");
  *what = Note{};
  const auto take = [&](auto candidate) {
    if (kind == KindOf(candidate)) *what = std::move(candidate);
  };
  (take(Kinds{}), ...);
  std::visit([&](auto& known) { Decode(json, &known); }, *what);
}

}  // namespace

Json EncodeEvent(const Event& event) {
  Json json = {{"t", absl::ToInt64Microseconds(event.t) / 1e6}, {"type", "event"}};
  json["event"] = std::visit([](const auto& what) { return KindOf(what); }, event.what);
  if (event.index >= 0) json["index"] = event.index;
  std::visit([&](const auto& what) { Encode(what, &json); }, event.what);
  return json;
}

Event DecodeEvent(const Json& json) {
  Event event = {.t = Rounded(NumberOf<double>(json, "t")), .index = NumberOf<int>(json, "index", -1)};
  DecodeKind(json, &event.what);
  return event;
}

}  // namespace cowprof
