// One object a waiting thread.
#include "timeline/json_hangs.h"

#include <algorithm>
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
          {"seen", holder->still_holds ? "still-there" : "at-fork"}};
}

}  // namespace

Json HangsJson(absl::Span<const Hang> hangs, absl::Duration now) {
  Json rows = Json::array();
  for (const Hang& hang : hangs) {
    Json victims = Json::array();
    for (const WaitForChildren& victim : hang.victims) {
      victims.push_back(
          {{"pid", victim.pid}, {"tid", victim.tid}, {"what", victim.what}, {"stack", StackJson(victim.stack)}});
    }
    const absl::Duration at_most = now - absl::Nanoseconds(static_cast<int64_t>(hang.thread_start_ns));
    rows.push_back({{"pid", hang.process.pid},
                    {"tid", hang.tid},
                    {"waits_since_seconds", std::max(0.0, absl::ToDoubleSeconds(at_most))},
                    {"proof", NameOf(hang.proof)},
                    {"kind", NameOf(hang.kind)},
                    {"by_fork", hang.by_fork},
                    {"what", hang.what},
                    {"stack", StackJson(hang.stack)},
                    {"native", hang.native.empty() ? Json(nullptr) : Json(hang.native)},
                    {"holder", HolderJson(hang.holder)},
                    {"victims", std::move(victims)},
                    {"fix", hang.fix.empty() ? Json(nullptr) : Json(hang.fix)}});
  }
  return rows;
}

}  // namespace cowprof
