#include "python/object_expression.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

constexpr size_t kMostSteps = 64;

}  // namespace

absl::StatusOr<std::vector<ObjectStep>> ParseObject(absl::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(absl::StrCat(
      "'", text, "' is not an object's name; give one such as __main__.dataset.rows[0] or config['data']"));
  std::vector<ObjectStep> steps;
  size_t at = 0;
  while (at < text.size() && steps.size() < kMostSteps) {
    if (text[at] == '[') {
      const size_t end = text.find(']', at);
      if (end == text.npos || steps.empty()) return wrong;
      const absl::string_view inside = text.substr(at + 1, end - at - 1);
      ObjectStep step;
      uint64_t index = 0;
      if (absl::SimpleAtoi(inside, &index)) {
        step.index = index;
      } else if (inside.size() >= 2 && (inside[0] == '\'' || inside[0] == '"') && inside.back() == inside[0]) {
        step = {.name = std::string(inside.substr(1, inside.size() - 2)), .is_key = true};
      } else {
        return wrong;
      }
      steps.push_back(std::move(step));
      at = end + 1;
      continue;
    }
    if (!steps.empty() && text[at++] != '.') return wrong;
    const size_t begin = at;
    while (at < text.size() && (absl::ascii_isalnum(text[at]) || text[at] == '_' || (text[at] & 0x80) != 0)) ++at;
    if (at == begin || absl::ascii_isdigit(text[begin])) return wrong;
    steps.push_back({.name = std::string(text.substr(begin, at - begin))});
  }
  if (steps.empty() || at < text.size()) return wrong;
  return steps;
}

uint64_t StepInto(ObjectGraph& graph, uint64_t object, const ObjectStep& step) {
  if (!step.is_key && !step.index) return graph.Attribute(object, step.name);
  const std::optional<TypeShape> shape = graph.ReadShape(graph.TypeOf(object));
  if (!shape) return 0;
  if (step.index && (shape->is_list() || shape->is_tuple())) {
    Edges items = shape->is_list() ? graph.Items(object, EdgeKind::kIndex) : graph.TupleItems(object);
    if (*step.index >= items.size()) return 0;
    return graph.Pointer((shape->is_list() ? graph.Pointer(object + graph.state().list_items)
                                           : object + graph.layout().container.tuple_items) +
                         8 * *step.index);
  }
  if (!shape->is_dict()) return 0;
  if (step.is_key) return graph.InDict(object, step.name, ObjectGraph::kMostNames);
  Edges items = graph.DictItems(object, EdgeKind::kAttribute);
  Edge edge;
  while (items.Next(graph.memory(), &edge)) {
    const std::optional<int64_t> key = graph.Int(edge.name);
    if (key && *key >= 0 && static_cast<uint64_t>(*key) == *step.index) return edge.object;
  }
  return 0;
}

}  // namespace cowprof
