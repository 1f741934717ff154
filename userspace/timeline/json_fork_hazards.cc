#include "timeline/json_fork_hazards.h"

#include "absl/strings/numbers.h"
#include "model/judge/fork_hazards.h"

namespace cowprof {
namespace {

constexpr size_t kMostLibraries = 32;

// An address may exceed what a double holds.
Json AddressJson(uint64_t address) { return absl::StrCat("0x", absl::Hex(address)); }
uint64_t AddressOf(const Json& json, const char* key) {
  uint64_t address = 0;
  return absl::SimpleHexAtoi(TextOf(json, key), &address) ? address : 0;
}

Json FrameJson(const Frame& frame) {
  return {{"file", frame.file}, {"function", frame.function}, {"line", frame.line}};
}
Frame FrameIn(const Json& json) {
  return {TextOf(json, "file"), TextOf(json, "function"), NumberOf<int>(json, "line")};
}

Json ThreadJson(const HazardThread& thread) {
  Json stack = Json::array();
  for (const Frame& frame : thread.stack) stack.push_back(FrameJson(frame));
  return {{"tid", thread.tid},
          {"ident", AddressJson(thread.ident)},
          {"name", thread.name},
          {"python", thread.python},
          {"module", thread.module},
          {"stack", std::move(stack)},
          {"frames_left_out", thread.frames_left_out}};
}

HazardThread ThreadIn(const Json& json) {
  HazardThread thread = {.tid = NumberOf<pid_t>(json, "tid"),
                         .ident = AddressOf(json, "ident"),
                         .name = TextOf(json, "name"),
                         .python = BoolOf(json, "python"),
                         .module = TextOf(json, "module"),
                         .stack = {},
                         .frames_left_out = NumberOf<uint64_t>(json, "frames_left_out")};
  for (const Json& frame : ListOf(json, "stack")) {
    if (thread.stack.size() == kMostHazardFrames) break;
    thread.stack.push_back(FrameIn(frame));
  }
  return thread;
}

Json LockJson(const HeldLock& lock) {
  return {{"kind", NameOf(lock.kind)},
          {"tid", lock.tid},
          {"module", lock.module},
          {"object", AddressJson(lock.object)},
          {"where", FrameJson(lock.where)}};
}

HeldLock LockIn(const Json& json) {
  HeldLock lock = {.kind = EnumNamed(TextOf(json, "kind"), HeldLockKind::kLock),
                   .tid = NumberOf<pid_t>(json, "tid"),
                   .module = TextOf(json, "module"),
                   .object = AddressOf(json, "object"),
                   .where = {}};
  if (const auto where = json.find("where"); where != json.end()) lock.where = FrameIn(*where);
  return lock;
}

}  // namespace

void EncodeForkHazard(const ForkHazardSeen& seen, Json* json) {
  Json threads = Json::array(), locks = Json::array();
  for (const HazardThread& thread : seen.threads) threads.push_back(ThreadJson(thread));
  for (const HeldLock& lock : seen.locks) locks.push_back(LockJson(lock));
  if (seen.child >= 0) (*json)["child"] = seen.child;
  (*json)["delay"] = absl::ToInt64Microseconds(seen.delay) / 1e6;
  (*json)["forker"] = seen.forker;
  (*json)["threads"] = std::move(threads);
  (*json)["threads_left_out"] = seen.threads_left_out;
  (*json)["locks"] = std::move(locks);
  (*json)["libraries"] = seen.libraries;
  (*json)["cuda"] = seen.cuda;
  (*json)["python_read"] = seen.python_read;
  (*json)["took"] = absl::ToInt64Microseconds(seen.took) / 1e6;
}

ForkHazardSeen DecodeForkHazard(const Json& json) {
  ForkHazardSeen seen = {.child = NumberOf<int>(json, "child", -1),
                         .delay = Rounded(NumberOf<double>(json, "delay")),
                         .forker = NumberOf<pid_t>(json, "forker"),
                         .threads = {},
                         .threads_left_out = NumberOf<uint64_t>(json, "threads_left_out"),
                         .locks = {},
                         .libraries = {},
                         .cuda = BoolOf(json, "cuda"),
                         .python_read = BoolOf(json, "python_read"),
                         .took = Rounded(NumberOf<double>(json, "took"))};
  for (const Json& thread : ListOf(json, "threads")) {
    if (seen.threads.size() == kMostHazardThreads) break;
    seen.threads.push_back(ThreadIn(thread));
  }
  for (const Json& lock : ListOf(json, "locks")) {
    if (seen.locks.size() == kMostHeldLocks) break;
    seen.locks.push_back(LockIn(lock));
  }
  for (const Json& library : ListOf(json, "libraries")) {
    if (seen.libraries.size() == kMostLibraries) break;
    if (library.is_string()) seen.libraries.push_back(library.get<std::string>());
  }
  return seen;
}

Json ForkHazardJson(const ForkHazardSeen& seen) {
  Json json;
  EncodeForkHazard(seen, &json);
  for (const char* key : {"child", "delay", "forker", "took"}) json.erase(key);
  for (Json& thread : json["threads"]) {
    if (thread["module"].get_ref<const std::string&>().empty()) thread["module"] = nullptr;
  }
  json["pools"] = PoolsOf(seen);
  if (!seen.python_read) json["locks"] = nullptr;
  json["looked_after_seconds"] = seen.child >= 0 ? Json(absl::ToDoubleSeconds(seen.delay)) : Json(nullptr);
  return json;
}

}  // namespace cowprof
