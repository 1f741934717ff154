// One object a waiting thread.
#include "timeline/json_hangs.h"

#include <nlohmann/json.hpp>

#include "timeline/json_fields.h"

namespace cowprof {
namespace {

Json StackJson(const std::vector<Frame>& stack) {
  Json frames = Json::array();
  for (const Frame& frame : stack)
    frames.push_back({{"file", frame.file}, {"function", frame.function}, {"line", frame.line}});
  return frames;
}

Json HolderJson(const std::optional<Holder>& holder) {
  if (!holder) return nullptr;
  return {{"tid", holder->tid},
          {"name", holder->name},
          {"stack", StackJson(holder->stack)},
          {"seen", holder->still_holds ? "still-there" : "at-fork"},
          {"looked_after_seconds",
           holder->looked_after ? Json(absl::ToInt64Microseconds(*holder->looked_after) / 1e6) : Json(nullptr)}};
}

std::vector<Frame> DecodeStack(const Json& json) {
  std::vector<Frame> stack;
  const auto frames = json.find("stack");
  if (frames == json.end() || !frames->is_array()) return stack;
  for (const Json& frame : *frames)
    stack.push_back({TextOf(frame, "file"), TextOf(frame, "function"), NumberOf<int>(frame, "line")});
  return stack;
}

Hang DecodeHang(const Json& json) {
  Hang hang = {.pid = NumberOf<pid_t>(json, "pid"),
               .tid = NumberOf<pid_t>(json, "tid"),
               .parent = NumberOf<pid_t>(json, "parent"),
               .waited = Rounded(NumberOf<double>(json, "waits_since_seconds")),
               .proof = EnumNamed(TextOf(json, "proof"), HangProof::kNever),
               .kind = EnumNamed(TextOf(json, "kind"), HangKind::kUnknown),
               .by_fork = BoolOf(json, "by_fork"),
               .what = TextOf(json, "what"),
               .stack = DecodeStack(json),
               .native = TextOf(json, "native"),
               .fix = TextOf(json, "fix")};
  if (const auto holder = json.find("holder"); holder != json.end() && holder->is_object()) {
    hang.holder = Holder{.tid = NumberOf<pid_t>(*holder, "tid"),
                         .name = TextOf(*holder, "name"),
                         .stack = DecodeStack(*holder),
                         .still_holds = TextOf(*holder, "seen") == "still-there"};
    if (const auto after = holder->find("looked_after_seconds"); after != holder->end() && after->is_number())
      hang.holder->looked_after = Rounded(NumberOf<double>(*holder, "looked_after_seconds"));
  }
  if (const auto victims = json.find("victims"); victims != json.end() && victims->is_array()) {
    for (const Json& victim : *victims) {
      hang.victims.push_back({NumberOf<pid_t>(victim, "pid"), NumberOf<pid_t>(victim, "tid"), TextOf(victim, "what"),
                              DecodeStack(victim)});
    }
  }
  return hang;
}

}  // namespace

Json HangsJson(absl::Span<const Hang> hangs) {
  Json rows = Json::array();
  for (const Hang& hang : hangs) {
    Json victims = Json::array();
    for (const WaitForChildren& victim : hang.victims) {
      victims.push_back(
          {{"pid", victim.pid}, {"tid", victim.tid}, {"what", victim.what}, {"stack", StackJson(victim.stack)}});
    }
    rows.push_back({{"pid", hang.pid},
                    {"tid", hang.tid},
                    {"parent", hang.parent},
                    {"waits_since_seconds", absl::ToInt64Microseconds(hang.waited) / 1e6},
                    {"proof", NameOf(hang.proof)},
                    {"kind", NameOf(hang.kind)},
                    {"by_fork", hang.by_fork},
                    {"what", hang.what},
                    {"stack", StackJson(hang.stack)},
                    {"native", TextOrNull(hang.native)},
                    {"holder", HolderJson(hang.holder)},
                    {"victims", std::move(victims)},
                    {"fix", TextOrNull(hang.fix)}});
  }
  return rows;
}

std::vector<Hang> DecodeHangs(const Json& json) {
  std::vector<Hang> hangs;
  if (!json.is_array()) return hangs;
  for (const Json& row : json) hangs.push_back(DecodeHang(row));
  return hangs;
}

}  // namespace cowprof
