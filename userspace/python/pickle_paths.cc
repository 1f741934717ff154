// How a walk got to an object: kept in few bytes, told as an expression of the program.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "python/pickle_walk.h"

namespace cowprof {
namespace {

constexpr size_t kMostPath = 1000;

}  // namespace

uint32_t PickleWalk::AddNode(uint32_t parent, uint32_t ordinal, uint32_t calls, const Edge& edge) {
  const bool indexed = edge.kind == EdgeKind::kIndex || edge.kind == EdgeKind::kFlat;
  Node node = {.parent = parent,
               .ordinal = ordinal,
               .calls = calls,
               .object = edge.object,
               .name_or_index = indexed ? edge.index : edge.name,
               .kind = edge.kind};
  if (!edge.field.empty()) {
    node.field = field_numbers_.try_emplace(edge.field, fields_.size()).first->second;
    if (node.field == fields_.size()) fields_.push_back(edge.field);
  }
  nodes_.push_back(node);
  return static_cast<uint32_t>(nodes_.size() - 1);
}

PickleWalk::Step PickleWalk::StepTo(const Node& node) const {
  const bool indexed = node.kind == EdgeKind::kIndex || node.kind == EdgeKind::kFlat;
  return {node.ordinal,
          {.kind = node.kind,
           .object = node.object,
           .name = indexed ? 0 : node.name_or_index,
           .index = indexed ? node.name_or_index : 0,
           .field = fields_[node.field]}};
}

std::vector<PickleWalk::Step> PickleWalk::ChainTo(uint32_t node) const {
  std::vector<Step> chain;
  for (; node != 0; node = nodes_[node].parent) chain.push_back(StepTo(nodes_[node]));
  std::reverse(chain.begin(), chain.end());
  return chain;
}

std::string PickleWalk::PathOf(uint32_t node, bool general) {
  std::string path = expression_;
  bool named = names_.empty();
  for (const Step& step : ChainTo(node)) {
    if (path.size() > kMostPath) return path.append("...");
    // The outermost object that has a name: what lies within it is told from there.
    if (const auto name = named ? names_.end() : names_.find(step.edge.object); name != names_.end()) {
      path = name->second;
      named = true;
      continue;
    }
    const Edge& edge = step.edge;
    const auto key = [&]() -> std::string {
      const std::string type = graph_.TypeName(edge.name);
      if (general) return "*";
      if (type == "str") return absl::StrCat("'", graph_.Text(edge.name), "'");
      const auto number = type == "int" ? ReadInt(graph_.layout(), cached_, edge.name) : std::nullopt;
      if (number) return absl::StrCat(*number);
      return absl::StrCat("<", type, ">");
    };
    switch (edge.kind) {
      case EdgeKind::kAttribute:
        absl::StrAppend(&path, ".", graph_.Text(edge.name));
        break;
      case EdgeKind::kField:
        absl::StrAppend(&path, edge.field.empty() ? "" : ".", edge.field);
        break;
      case EdgeKind::kIndex:
        absl::StrAppend(&path, "[", general ? "*" : absl::StrCat(edge.index), "]");
        break;
      case EdgeKind::kFlat:
        absl::StrAppend(&path, ".flat[", general ? "*" : absl::StrCat(edge.index), "]");
        break;
      case EdgeKind::kValue:
        absl::StrAppend(&path, "[", key(), "]");
        break;
      case EdgeKind::kKey:
        absl::StrAppend(&path, ".<key ", key(), ">");
        break;
      case EdgeKind::kElement:
        absl::StrAppend(&path, ".<element>");
        break;
    }
  }
  return path;
}

bool PickleWalk::IsBefore(uint32_t a, uint32_t b) const {
  const std::vector<Step> first = ChainTo(a), second = ChainTo(b);
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].ordinal != second[i].ordinal) return first[i].ordinal < second[i].ordinal;
  }
  return first.size() > second.size();  // what is inside comes before
}

}  // namespace cowprof
