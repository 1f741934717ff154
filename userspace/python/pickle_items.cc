// The containers that a walk meets, and what their items are (declared in pickle_walk.h).
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "python/pickle_walk.h"

namespace cowprof {
namespace {

constexpr uint64_t kFewestItems = 256;  // fewer are fields, or a batch
constexpr size_t kMostContainers = 8;
constexpr uint64_t kSampled = 64, kFewestSampled = 8;
constexpr uint64_t kMostScanned = 1 << 20;  // references of the container that are read to get at the sample

bool IsContainer(Replay replay) {
  return replay == Replay::kList || replay == Replay::kTuple || replay == Replay::kDict || replay == Replay::kArray;
}

}  // namespace

void PickleWalk::NoteContainer(uint32_t node, const TypeRule& rule, uint64_t entries) {
  if (entries < kFewestItems || !IsContainer(rule.replay)) return;
  const uint64_t object = nodes_[node].object;
  // A dict has entries of keys that were deleted.
  const uint64_t count = rule.replay == Replay::kDict
                             ? std::min(graph_.Pointer(object + graph_.layout().object.var_size), entries)
                             : entries;
  if (containers.size() == kMostContainers && count <= containers.back().count) return;
  for (uint32_t at = nodes_[node].parent; at != 0; at = nodes_[at].parent) {
    for (const Container& outer : containers) {
      if (outer.object == nodes_[at].object) return;
    }
  }
  containers.push_back({object, count, PathOf(node, /*general=*/false), rule.shape.info.name});
  std::stable_sort(containers.begin(), containers.end(),
                   [](const Container& a, const Container& b) { return a.count > b.count; });
  if (containers.size() > kMostContainers) containers.pop_back();
}

// As pickle.dumps(object) does it: with an empty memo. False: the walk is at its limit.
bool PickleWalk::RunAlone(uint64_t object) {
  nodes_ = {Node{}};
  stack_.clear();
  later_.clear();
  seen_.Clear();
  in_one_byte_.clear();
  classes_.clear();
  Visit(0, 0, {.kind = EdgeKind::kField, .object = object});
  DrainAll();
  return !capped;
}

std::optional<std::pair<PickleItems, double>> PickleWalk::SampleItems(const Container& container) {
  const TypeRule* rule = rules_.RuleOf(graph_.TypeOf(container.object));
  if (rule == nullptr || !IsContainer(rule->replay) || rule->shape.info.name != container.type) return std::nullopt;
  Edges edges = ChildrenOf(container.object, *rule);
  const uint64_t stride = std::max<uint64_t>(1, std::min(edges.size(), kMostScanned) / kSampled);
  PickleItems items = {.path = container.path, .type = container.type, .count = container.count};
  uint64_t visited = 0, at = 0;
  Edge edge;
  while (items.sampled < kSampled && at < kMostScanned && edges.Next(cached_, &edge)) {
    if (edge.kind == EdgeKind::kKey || at++ % stride != stride / 2) continue;
    if (!RunAlone(edge.object)) break;
    ++items.sampled;
    items.mix = mix;
    items.classes += classes_.size();
    visited = objects;
  }
  items.classes += by_name_;
  items.bytes = bytes;
  const bool others = std::any_of(failures.begin(), failures.end(), [](const Found& found) {
    return found.reason != PickleReason::kMainWithoutFile;  // which stands in the way of another start method only
  });
  if (items.sampled < kFewestSampled || edges.torn() || unreadable > 0 || others || failures_left_out > 0 ||
      !unknowns.empty() || !object_array.empty())
    return std::nullopt;
  return std::pair(std::move(items), static_cast<double>(visited) / items.sampled);
}

}  // namespace cowprof
