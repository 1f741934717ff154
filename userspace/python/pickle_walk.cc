// Depth first, in the order of pickle. What a container holds beyond its first items waits until the rest is done, so
// that a lock behind a million rows is found at once.
#include "python/pickle_walk.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

// Below Python's limit of 1,000, which counts the frames of the program, too (up to 3.11).
constexpr uint32_t kMostCalls = 800;
constexpr size_t kMostListed = 64, kMostShapes = 4096, kMostDepth = 10'000;
constexpr uint64_t kManyEmpty = 1 << 16;  // entries of a table that take a millisecond
constexpr uint64_t kGlobalBytes = 8, kFrame = 64 << 10, kFrameBytes = 9;

}  // namespace

bool PickleWalk::OutOfBudget() {
  if (capped) return true;
  capped = objects >= limits_.objects;
  // Objects of which many are visited at once, or that are met again, may step over a multiple.
  if (objects < next_pause_) return capped || OutOfTime();
  next_pause_ = objects + 128;
  LookAtClock();
  return capped;
}

bool PickleWalk::OutOfTime() {
  if (capped || graph_.compared_keys() < next_look_) return capped;
  next_look_ = graph_.compared_keys() + 16384;
  LookAtClock();
  return capped;
}

void PickleWalk::LookAtClock() { capped |= BootTime() - began_ > limits_.time || (limits_.go_on && !limits_.go_on()); }

void PickleWalk::Run(const PickleRoot& root) {
  expression_ = root.expression;
  rules_.set_starter(root.starter);
  names_.insert(root.names.begin(), root.names.end());
  bytes = 3;          // PROTO, STOP
  nodes_ = {Node{}};  // stands for the message
  for (uint32_t i = 0; i < root.parts.size(); ++i) {
    const auto& [name, object] = root.parts[i];
    Visit(0, i, {.kind = EdgeKind::kField, .object = object, .field = name});
  }
  // The last part is on top of the stack.
  std::reverse(stack_.begin(), stack_.end());
  DrainAll();
  for (const Level& level : later_) AddRest(level, level.bytes_used);
  // Of a container that was cut within another one, only the outer counts: it has the inner one's kind many times.
  if (!stack_.empty()) AddRest(stack_[0], stack_[0].bytes_used + bytes - stack_[0].bytes_before);
  bytes += bytes / kFrame * kFrameBytes;
  // An attribute that makes an object unknown may come after one that fails.
  for (Found& found : failures) found.below_unknown |= IsBelowUnknown(found.node);
  if (std::string pickler = rules_.OwnPickler(); !pickler.empty() && !root.parts.empty()) {
    for (Found& found : failures) found.below_unknown = true;
    Note(0, {.type = graph_.TypeName(root.parts[0].second), .runs = std::move(pickler)}, &unknowns, &unknowns_left_out);
  }
  const auto in_order = [this](const Found& a, const Found& b) { return IsBefore(a.node, b.node); };
  std::stable_sort(failures.begin(), failures.end(), in_order);
  // Those are met when the new process unpickles, if it comes to that.
  std::stable_partition(failures.begin(), failures.end(),
                        [](const Found& found) { return !FailsInWorker(found.reason); });
  std::stable_sort(unknowns.begin(), unknowns.end(), in_order);
  Forget();
}

// What only a walk needs that goes on: another one may follow before this is destroyed.
void PickleWalk::Forget() {
  if (failures.empty()) nodes_.clear();
  stack_.clear();
  later_.clear();
  seen_.Clear();
  cached_.Forget();
}

bool PickleWalk::IsBelowUnknown(uint32_t node) const {
  for (; node != 0; node = nodes_[node].parent) {
    if (open_unknowns_.contains(node)) return true;
  }
  return false;
}

bool PickleWalk::HasSureFailure() const {
  return absl::c_any_of(failures, [this](const Found& found) { return !IsBelowUnknown(found.node); });
}

void PickleWalk::DrainAll() {
  Drain();
  while (!later_.empty() && !OutOfBudget()) {
    Push(std::move(later_.front()));
    later_.pop_front();
    Drain();
  }
}

void PickleWalk::AddRest(const Level& level, uint64_t used) {
  // Keys of a dict are visited, too; a set's table has empty entries.
  const uint64_t per_entry = level.edges.pairs() ? 2 : 1;
  const uint64_t seen = level.items / per_entry;
  if (seen == 0 || level.edges.size() <= seen) return;
  rest_bytes += static_cast<uint64_t>(static_cast<double>(used) / seen * (level.edges.size() - seen));
}

void PickleWalk::Drain() {
  while (!stack_.empty() && !OutOfBudget()) {
    Level& level = stack_.back();
    Edge edge;
    if (level.left == 0) {
      level.left = UINT64_MAX;
      level.bytes_used += bytes - level.bytes_before;
      later_.push_back(std::move(level));
      stack_.pop_back();
      continue;
    }
    const uint64_t empty = level.edges.empty();
    const bool has_next = level.edges.Next(cached_, &edge);
    if (level.edges.empty() - empty > kManyEmpty) LookAtClock();
    if (!has_next) {
      unreadable += level.edges.torn();
      stack_.pop_back();
      continue;
    }
    --level.left;
    ++level.items;
    Visit(level.node, level.ordinal++, edge);
  }
}

void PickleWalk::Visit(uint32_t parent, uint32_t ordinal, const Edge& edge) {
  if (edge.object == 0 && edge.kind == EdgeKind::kField) return;  // a slot or a field that is not set
  ++objects;
  const uint64_t object = edge.object;
  CountName(edge);
  const TypeRule* rule = rules_.RuleOf(graph_.TypeOf(object));
  if (rule == nullptr) {
    ++unreadable;
    return;
  }
  // Pickles whatever it holds, if its class does.
  const bool plain = rule->replay == Replay::kAtom || rule->replay == Replay::kScalar ||
                     (rule->replay == Replay::kZoned && !graph_.HasZone(object));
  switch (rule->replay) {  // what needs no node
    case Replay::kNumber:
      return CountNumber(object);
    case Replay::kText:
    case Replay::kBytes:
      if (Remember(object)) CountText(object);
      return;
    default:
      if (!plain && !Remember(object)) return;
      if (!plain) break;
      CountPlain(object, *rule);
      if (!rule->shape.heap() || !classes_.insert(rule->shape.address).second) return;
  }
  if (nodes_.size() >= limits_.objects || stack_.size() >= kMostDepth) {
    capped = true;
    return;
  }
  const bool one_call = rule->replay == Replay::kList || rule->replay == Replay::kTuple ||
                        rule->replay == Replay::kDict || rule->replay == Replay::kSet;
  const uint32_t calls = nodes_[parent].calls + (one_call ? 1 : 2);
  const uint32_t node = AddNode(parent, ordinal, calls, edge);
  if (calls > kMostCalls && !too_deep_) {
    too_deep_ = true;
    open_unknowns_.insert(node);
    Note(node, {.type = rule->shape.info.name, .runs = "Python's recursion limit, which nesting this deep may hit"},
         &unknowns, &unknowns_left_out);
  }
  if (edge.kind == EdgeKind::kAttribute && hiding_.contains(edge.name) && open_unknowns_.insert(parent).second) {
    Note(parent, {.type = graph_.TypeName(nodes_[parent].object), .runs = "an attribute that hides a method of pickle"},
         &unknowns, &unknowns_left_out);
  }
  const ByName itself = rules_.FindItself(object, *rule);
  JudgeName(node, object, itself);
  switch (rule->replay) {
    case Replay::kFails:
      return;
    case Replay::kByName:
    case Replay::kGlobalName:
    case Replay::kLogger:
    case Replay::kUfunc:
      bytes += 40;
      ++by_name_;
      return;
    case Replay::kBuiltin:
      bytes += 40;
      ++by_name_;
      if (itself.unknown || !itself.name.empty()) return;
      break;
    case Replay::kSemLock:
    case Replay::kZoneInfo:
      if (itself.reason != PickleReason::kNone) return;
      bytes += rule->bytes;
      break;
    case Replay::kBuffer:
      CountBuffer(object, *rule);
      break;
    case Replay::kZoned:
      if (!plain) bytes += rule->bytes;
      break;
    case Replay::kUnknown: {
      Note(node, {.type = rule->shape.info.name, .runs = rule->runs}, &unknowns, &unknowns_left_out);
      open_unknowns_.insert(node);
      if (rule->owner == "numpy.ndarray") CountArray(object);
      break;
    }
    case Replay::kArray:
      CountArray(object);
      break;
    case Replay::kTensor:
      bytes += rule->bytes;
      ++mix.tensors;
      JudgeTensor(node, object, *rule);
      break;
    default:
      break;
  }
  // An instance's class has to be found by its name, too.
  const uint64_t type = rule->shape.address;
  if (rule->shape.heap() && rule->replay != Replay::kUnknown) {
    classes_.insert(type);
    if (Remember(type)) bytes += kGlobalBytes + rule->shape.info.name.size();
    const ByName named = rules_.FindByName(type);
    JudgeName(node, type, named);
    // An object of a class that the new process can't find is pickled all the same.
    if ((named.reason != PickleReason::kNone && named.reason != PickleReason::kMainWithoutFile) || named.unknown)
      return;
    if (plain) return;
  }
  // Items come before the state of an object that has both; only defaultdict's factory comes before its items.
  const bool has_items = rule->replay == Replay::kState || rule->replay == Replay::kItems;
  const uint32_t ordinal_of_first = has_items && rule->owner != "collections.defaultdict" ? 1u << 31 : 0;
  CountContainer(object, *rule);
  Edges children = ChildrenOf(object, *rule);
  NoteContainer(node, *rule, children.size());
  Push({.node = node, .ordinal = ordinal_of_first, .edges = std::move(children)});
}

void PickleWalk::JudgeName(uint32_t node, uint64_t object, const ByName& named) {
  if (named.reason == PickleReason::kNone && !named.unknown) return;
  const std::string name = absl::StrCat(named.module, named.module.empty() ? "" : ".", named.name);
  if (named.reason != PickleReason::kNone)
    return Fail(node, named.reason, name, name.empty() ? "" : rules_.DefinedAt(object));
  Note(node,
       {.type = graph_.TypeName(nodes_[node].object),
        .runs = named.runs.empty() ? absl::StrCat("import ", name) : named.runs,
        .in_worker = named.in_worker},
       &unknowns, &unknowns_left_out);
}

void PickleWalk::Fail(uint32_t node, PickleReason reason, std::string name, std::string defined_at) {
  Found found{.reason = reason,
              .type = graph_.TypeName(nodes_[node].object),
              .name = std::move(name),
              .defined_at = std::move(defined_at)};
  Note(node, std::move(found), &failures, &failures_left_out);
}

// Lists the first of its kind; the others of the same type whose paths differ in indexes and keys only are counted.
void PickleWalk::Note(uint32_t node, Found found, std::vector<Found>* list, uint64_t* left_out) {
  found.node = node;
  const std::string shape = absl::StrCat(list == &failures, static_cast<int>(found.reason), found.type, " ", found.runs,
                                         found.name, " ", PathOf(node, /*general=*/true));
  const auto known = shapes_.find(shape);
  if (known != shapes_.end()) {
    ++(*list)[known->second].count;
    return;
  }
  if (list->size() >= kMostListed || shapes_.size() >= kMostShapes) {
    ++*left_out;
    return;
  }
  found.path = PathOf(node, /*general=*/false);
  shapes_[shape] = list->size();
  list->push_back(std::move(found));
}

// ---- A finding, read again ----

bool PickleWalk::StillThere(const PickleRoot& root, const std::vector<Step>& chain, const Found& found) {
  rules_.set_starter(root.starter);
  uint64_t at = 0;
  for (const Step& step : chain) {
    if (at == 0) {  // a part of the root
      const std::pair<std::string, uint64_t> part = {step.edge.field, step.edge.object};
      if (std::find(root.parts.begin(), root.parts.end(), part) == root.parts.end()) return false;
      at = step.edge.object;
      continue;
    }
    const TypeRule* rule = rules_.RuleOf(graph_.TypeOf(at));
    if (rule == nullptr) return false;
    nodes_ = {Node{}};
    later_.clear();
    later_.push_back({.edges = ChildrenOf(at, *rule)});
    bool there = false;
    for (Level& level : later_) {
      const bool exact = level.edges.SkipTo(step.edge.index);
      Edge edge;
      while (!there && level.edges.Next(cached_, &edge)) {
        if (++steps_again_ % 1024 == 0) LookAtClock();
        if (capped) return false;
        there = edge.object == step.edge.object && edge.kind == step.edge.kind && edge.name == step.edge.name &&
                edge.index == step.edge.index && edge.field == step.edge.field;
        if (exact) break;
      }
    }
    if (!there) return false;
    at = step.edge.object;
  }
  const TypeRule* rule = rules_.RuleOf(graph_.TypeOf(at));
  if (rule == nullptr || rule->shape.info.name != found.type) return false;
  return rules_.FindItself(at, *rule).reason == found.reason ||
         (rule->shape.heap() && rules_.FindByName(rule->shape.address).reason == found.reason);
}

}  // namespace cowprof
