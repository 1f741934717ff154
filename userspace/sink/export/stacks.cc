// Spells speedscope's JSON and folded stacks. The innermost frame is what was written.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "sink/export/copies.h"
#include "sink/export/export.h"
#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr size_t kMostProfiles = 100;

// Outermost first.
std::vector<NamedFrame> WrittenStackOf(const ExportedCopies& row, const RunModel& model) {
  std::vector<NamedFrame> stack = StackOf(row, model);
  std::reverse(stack.begin(), stack.end());
  stack.push_back({.name = WrittenName(row, model)});
  return stack;
}

// Copies by the numbers of the frames.
using Weights = std::map<std::vector<size_t>, uint64_t>;

Json ProfileJson(const std::string& name, const Weights& weights, const RunInfo& info) {
  Json samples = Json::array(), bytes = Json::array();
  uint64_t copies = 0;
  for (const auto& [stack, count] : weights) {
    samples.push_back(stack);
    bytes.push_back(CopiedBytes(count, info));
    copies += count;
  }
  return {{"type", "sampled"},
          {"name", name},
          {"unit", "bytes"},
          {"startValue", 0},
          {"endValue", CopiedBytes(copies, info)},
          {"samples", std::move(samples)},
          {"weights", std::move(bytes)}};
}

// ';' separates frames, and a line has no other structure.
std::string FoldedName(const NamedFrame& frame) {
  const std::string where = frame.file.empty() || frame.file == frame.name ? ""
                            : frame.line > 0 ? absl::StrCat(" (", frame.file, ":", frame.line, ")")
                                             : absl::StrCat(" (", frame.file, ")");
  return absl::StrReplaceAll(absl::StrCat(frame.name, where), {{";", ":"}});
}

}  // namespace

std::string SpeedscopeJson(const RunModel& model, const std::string& name) {
  std::map<NamedFrame, size_t> numbers;
  Json frames = Json::array();
  const auto number_of = [&](const NamedFrame& frame) {
    const auto [found, added] = numbers.emplace(frame, numbers.size());
    if (!added) return found->second;
    Json& json = frames.emplace_back(Json{{"name", frame.name}});
    if (!frame.file.empty()) json["file"] = frame.file;
    if (frame.line > 0) json["line"] = frame.line;
    return found->second;
  };
  Weights all;
  std::map<const ProcessModel*, std::pair<Weights, uint64_t>> of_process;
  for (const ExportedCopies& row : CopiesOf(model)) {
    std::vector<size_t> stack;
    for (const NamedFrame& frame : WrittenStackOf(row, model)) stack.push_back(number_of(frame));
    all[stack] += row.copies;
    auto& [weights, copies] = of_process[row.process];
    weights[std::move(stack)] += row.copies;
    copies += row.copies;
  }
  std::vector<const ProcessModel*> order;
  for (const auto& [process, weights] : of_process) order.push_back(process);
  std::sort(order.begin(), order.end(), [&](const ProcessModel* a, const ProcessModel* b) {
    return std::make_pair(of_process[b].second, a->index) < std::make_pair(of_process[a].second, b->index);
  });
  Json profiles = Json::array();
  profiles.push_back(ProfileJson("all processes", all, model.info));
  for (const ProcessModel* process : order) {
    if (profiles.size() > kMostProfiles) break;
    profiles.push_back(ProfileJson(ProcessLabel(*process, model), of_process[process].first, model.info));
  }
  return Dump({{"$schema", "https://www.speedscope.app/file-format-schema.json"},
               {"exporter", absl::StrCat("cowprof ", Readable(model.info.version))},
               {"name", Readable(name)},
               {"activeProfileIndex", 0},
               {"shared", {{"frames", std::move(frames)}}},
               {"profiles", std::move(profiles)}}) +
         "\n";
}

std::string FoldedStacks(const RunModel& model) {
  std::map<std::string, uint64_t> copies;
  for (const ExportedCopies& row : CopiesOf(model)) {
    std::string stack = FoldedName({.name = ProcessLabel(*row.process, model)});
    for (const NamedFrame& frame : WrittenStackOf(row, model)) absl::StrAppend(&stack, ";", FoldedName(frame));
    copies[stack] += row.copies;
  }
  std::string text;
  for (const auto& [stack, count] : copies) absl::StrAppend(&text, stack, " ", CopiedBytes(count, model.info), "\n");
  return text;
}

}  // namespace cowprof
