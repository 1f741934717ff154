// Depth first, in the order of pickle. What a container holds beyond its first items waits until the rest is done, so
// that a lock behind a million rows is found at once.
#include "python/pickle_walk.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "model/format.h"
#include "posix/clock.h"
#include "python/cached_memory.h"
#include "python/graph.h"
#include "python/pickle_rules.h"

namespace cowprof {
namespace {

constexpr uint64_t kFirstItems = 256;
// Below Python's limit of 1,000, which counts the frames of the program, too (up to 3.11).
constexpr uint32_t kMostCalls = 800;
constexpr size_t kMostListed = 64, kMostShapes = 4096, kMostDepth = 10'000, kMostPath = 1000;
constexpr absl::Duration kBetweenReadings = absl::Milliseconds(10);
constexpr absl::Duration kAfterFirst = absl::Milliseconds(3);  // for other findings in an object that is torn down
constexpr uint64_t kObjectBytes = 8, kSlotsBytes = 3, kGlobalBytes = 8, kFloatBytes = 9, kFrame = 64 << 10,
                   kFrameBytes = 9;

struct Node {
  uint32_t parent = 0;
  uint32_t ordinal = 0;  // which edge of the parent
  uint32_t calls = 0;    // of pickle's functions within each other, when it gets there
  uint64_t object = 0;
  Edge edge;
};

struct Found {
  uint32_t node = 0;
  PickleReason reason = PickleReason::kNone;
  std::string type, name, defined_at, runs, path;
  uint64_t count = 1;
  bool below_unknown = false;
};

// ---- One walk ----

class Walk {
 public:
  Walk(const Interpreter& interpreter, const MemoryReader& memory, const PickleLimits& limits, bool ending = false)
      : cached_(memory), graph_(interpreter, cached_), rules_(&graph_, ending), limits_(limits) {}

  void Run(const PickleRoot& root);
  // Whether the chain to a finding's object is still there, and it is still of that type and reason.
  bool StillThere(const PickleRoot& root, const std::vector<Node>& chain, const Found& found);
  std::vector<Node> ChainTo(uint32_t node) const;

  std::vector<Found> failures, unknowns;  // in the order of pickle
  uint64_t failures_left_out = 0, unknowns_left_out = 0;
  uint64_t objects = 0, unreadable = 0, bytes = 0, unsure_bytes = 0;
  uint64_t rest_bytes = 0;  // of items beyond the limit, if they are like those before it
  PickleMix mix;
  bool capped = false;
  // The largest numpy array with dtype=object, and its length.
  std::string object_array;
  uint64_t object_array_items = 0;

 private:
  struct Level {
    uint32_t node = 0, ordinal = 0;
    Edges edges;
    uint64_t left = kFirstItems;
    uint64_t bytes_before = 0, bytes_used = 0, items = 0;  // `bytes` when it went on the stack; of its items so far
  };
  void Push(Level level) {
    level.bytes_before = bytes;
    stack_.push_back(std::move(level));
  }
  void AddRest(const Level& level, uint64_t used);
  void Visit(uint32_t parent, uint32_t ordinal, const Edge& edge);
  void Drain();
  Edges ChildrenOf(uint64_t object, const TypeRule& rule);
  void AppendFields(uint64_t object, const TypeRule& rule, std::vector<Edge>* fields, Edges* rest);
  void JudgeName(uint32_t node, uint64_t object, const ByName& named);
  void Fail(uint32_t node, PickleReason reason, std::string name, std::string defined_at);
  void Note(uint32_t node, Found found, std::vector<Found>* list, uint64_t* left_out);
  void CountText(uint64_t object);
  void CountNumber(uint64_t object);
  void CountArray(uint64_t object);
  void JudgeTensor(uint32_t node, uint64_t object, const TypeRule& rule);
  // Whether pickle meets it for the first time; otherwise counts the reference to its memo, which has one byte or four.
  bool Remember(uint64_t object) {
    const auto [entry, first] = seen_.emplace(object, static_cast<uint32_t>(seen_.size()));
    if (!first) {
      bytes += entry->second < 256 ? 2 : 5;
      ++mix.again;
    }
    return first;
  }
  void CountName(const Edge& edge);
  void CountContainer(uint64_t object, const TypeRule& rule);
  bool OutOfBudget();
  std::string PathOf(uint32_t node, bool general);
  bool IsBefore(uint32_t a, uint32_t b) const;

  CachedMemory cached_;
  ObjectGraph graph_;
  PickleRules rules_;
  const PickleLimits limits_;
  const absl::Duration began_ = BootTime();
  uint64_t next_pause_ = 1024;
  std::string expression_;
  absl::flat_hash_map<uint64_t, std::string> names_;
  std::vector<Node> nodes_;
  std::vector<Level> stack_;
  std::deque<Level> later_;
  absl::flat_hash_map<uint64_t, uint32_t> seen_;  // pickle's memo
  absl::flat_hash_set<uint64_t> classes_;
  absl::flat_hash_set<uint32_t> open_unknowns_;
  absl::flat_hash_set<uint64_t> hiding_;  // names of attributes that pickle takes for methods
  bool too_deep_ = false;
  absl::flat_hash_map<std::string, size_t> shapes_;  // of failures and unknowns: index of the first of its kind
};

bool Walk::OutOfBudget() {
  if (capped) return true;
  capped = objects >= limits_.objects;
  // Objects of which many are visited at once, or that are met again, may step over a multiple.
  if (objects < next_pause_) return capped;
  next_pause_ = objects + 1024;
  capped |= BootTime() - began_ > limits_.time || (limits_.go_on && !limits_.go_on());
  return capped;
}

void Walk::Run(const PickleRoot& root) {
  expression_ = root.expression;
  names_.insert(root.names.begin(), root.names.end());
  bytes = 3;          // PROTO, STOP
  nodes_ = {Node{}};  // stands for the message
  for (uint32_t i = 0; i < root.parts.size(); ++i) {
    const auto& [name, object] = root.parts[i];
    Visit(0, i, {.kind = EdgeKind::kField, .object = object, .field = name});
  }
  // The last part is on top of the stack.
  std::reverse(stack_.begin(), stack_.end());
  Drain();
  while (!later_.empty() && !OutOfBudget()) {
    Push(std::move(later_.front()));
    later_.pop_front();
    Drain();
  }
  for (const Level& level : later_) AddRest(level, level.bytes_used);
  // Of a container that was cut within another one, only the outer counts: it has the inner one's kind many times.
  if (!stack_.empty()) AddRest(stack_[0], stack_[0].bytes_used + bytes - stack_[0].bytes_before);
  bytes += bytes / kFrame * kFrameBytes;
  // An attribute that makes an object unknown may come after one that fails.
  for (Found& found : failures) {
    for (uint32_t at = found.node; at != 0; at = nodes_[at].parent) found.below_unknown |= open_unknowns_.contains(at);
  }
  const auto in_order = [this](const Found& a, const Found& b) { return IsBefore(a.node, b.node); };
  std::stable_sort(failures.begin(), failures.end(), in_order);
  // That is met when the new process unpickles, if it comes to that.
  std::stable_partition(failures.begin(), failures.end(),
                        [](const Found& found) { return found.reason != PickleReason::kMainWithoutFile; });
  std::stable_sort(unknowns.begin(), unknowns.end(), in_order);
}

void Walk::AddRest(const Level& level, uint64_t used) {
  // Keys of a dict are visited, too; a set's table has empty entries.
  const uint64_t per_entry = level.edges.pairs() ? 2 : 1;
  const uint64_t seen = level.items / per_entry;
  if (seen == 0 || level.edges.size() <= seen) return;
  rest_bytes += static_cast<uint64_t>(static_cast<double>(used) / seen * (level.edges.size() - seen));
}

void Walk::Drain() {
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
    if (!level.edges.Next(cached_, &edge)) {
      unreadable += level.edges.torn();
      stack_.pop_back();
      continue;
    }
    --level.left;
    ++level.items;
    Visit(level.node, level.ordinal++, edge);
  }
}

void Walk::Visit(uint32_t parent, uint32_t ordinal, const Edge& edge) {
  if (edge.object == 0 && edge.kind == EdgeKind::kField) return;  // a slot or a field that is not set
  ++objects;
  const uint64_t object = edge.object;
  CountName(edge);
  const TypeRule* rule = rules_.RuleOf(graph_.TypeOf(object));
  if (rule == nullptr) {
    ++unreadable;
    return;
  }
  switch (rule->replay) {  // what needs no node
    case Replay::kNumber:
      return CountNumber(object);
    case Replay::kText:
    case Replay::kBytes:
      if (Remember(object)) CountText(object);
      return;
    case Replay::kAtom:
      bytes += rule->bytes == 0 ? 4 : rule->bytes;
      ++(rule->bytes == 1 ? mix.again : rule->bytes == kFloatBytes ? mix.floats : mix.reduced);
      if (!rule->shape.heap() || !classes_.insert(rule->shape.address).second) return;
      break;
    default:
      if (!Remember(object)) return;
  }
  if (nodes_.size() >= limits_.objects || stack_.size() >= kMostDepth) {
    capped = true;
    return;
  }
  const auto node = static_cast<uint32_t>(nodes_.size());
  const bool one_call = rule->replay == Replay::kList || rule->replay == Replay::kTuple ||
                        rule->replay == Replay::kDict || rule->replay == Replay::kSet;
  const uint32_t calls = nodes_[parent].calls + (one_call ? 1 : 2);
  nodes_.push_back({.parent = parent, .ordinal = ordinal, .calls = calls, .object = object, .edge = edge});
  if (calls > kMostCalls && !too_deep_) {
    too_deep_ = true;
    open_unknowns_.insert(node);
    Note(node, {.type = rule->shape.info.name, .runs = "the limit of recursion: it lies too deep to be sure"},
         &unknowns, &unknowns_left_out);
  }
  if (edge.kind == EdgeKind::kAttribute && hiding_.contains(edge.name) && open_unknowns_.insert(parent).second) {
    Note(parent, {.type = graph_.TypeName(nodes_[parent].object), .runs = "an attribute that hides a method of pickle"},
         &unknowns, &unknowns_left_out);
  }
  switch (rule->replay) {
    case Replay::kFails:
      return Fail(node, rule->reason, "", "");
    case Replay::kByName:
      bytes += 40;
      return JudgeName(node, object, rules_.FindByName(object));
    case Replay::kBuiltin: {
      const uint64_t self = graph_.Pointer(object + graph_.state().builtin_self);
      bytes += 40;
      if (self == 0 || graph_.TypeName(self) == "module") return JudgeName(node, object, rules_.FindBuiltin(object));
      break;
    }
    case Replay::kUnknown: {
      Note(node, {.type = rule->shape.info.name, .runs = rule->runs}, &unknowns, &unknowns_left_out);
      open_unknowns_.insert(node);
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
    if (named.reason != PickleReason::kNone || named.unknown) JudgeName(node, type, named);
    // An object of a class that the new process can't find is pickled all the same.
    if ((named.reason != PickleReason::kNone && named.reason != PickleReason::kMainWithoutFile) || named.unknown)
      return;
    if (rule->replay == Replay::kAtom) return;
  }
  // Items come before the state of an object that has both; only defaultdict's factory comes before its items.
  const bool has_items = rule->replay == Replay::kState || rule->replay == Replay::kItems;
  const uint32_t ordinal_of_first = has_items && rule->shape.info.name != "collections.defaultdict" ? 1u << 31 : 0;
  CountContainer(object, *rule);
  Edges children = ChildrenOf(object, *rule);
  Push({.node = node, .ordinal = ordinal_of_first, .edges = std::move(children)});
}

void Walk::JudgeName(uint32_t node, uint64_t object, const ByName& named) {
  const std::string name = absl::StrCat(named.module, named.module.empty() ? "" : ".", named.name);
  if (named.reason != PickleReason::kNone) return Fail(node, named.reason, name, rules_.DefinedAt(object));
  if (!named.unknown) return;
  Note(node, {.type = graph_.TypeName(nodes_[node].object), .runs = absl::StrCat("import ", name)}, &unknowns,
       &unknowns_left_out);
}

void Walk::Fail(uint32_t node, PickleReason reason, std::string name, std::string defined_at) {
  Found found{.reason = reason,
              .type = graph_.TypeName(nodes_[node].object),
              .name = std::move(name),
              .defined_at = std::move(defined_at)};
  Note(node, std::move(found), &failures, &failures_left_out);
}

// Lists the first of its kind; the others of the same type whose paths differ in indexes and keys only are counted.
void Walk::Note(uint32_t node, Found found, std::vector<Found>* list, uint64_t* left_out) {
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

// ---- What an object refers to ----

void Walk::AppendFields(uint64_t object, const TypeRule& rule, std::vector<Edge>* fields, Edges* rest) {
  Edges attributes = graph_.Attributes(object, rule.shape);
  Edge edge;
  // Small: in one list with the other fields. A million attributes stay lazy.
  if (attributes.size() <= kFirstItems) {
    while (attributes.Next(cached_, &edge)) fields->push_back(edge);
    unreadable += attributes.torn();
  } else {
    *rest = std::move(attributes);
  }
  for (const Slot& slot : rule.slots) {
    fields->push_back({.kind = EdgeKind::kField, .object = graph_.Pointer(object + slot.offset), .field = slot.name});
  }
}

Edges Walk::ChildrenOf(uint64_t object, const TypeRule& rule) {
  const StateLayout& state = graph_.state();
  const auto field = [&](uint32_t offset, const char* name) {
    return Edge{.kind = EdgeKind::kField, .object = graph_.Pointer(object + offset), .field = name};
  };
  std::vector<Edge> fields;
  Edges rest = Edges::None();
  const std::string& type = rule.shape.info.name;
  switch (rule.replay) {
    case Replay::kList:
      return graph_.Items(object, EdgeKind::kIndex);
    case Replay::kTuple:
      return graph_.TupleItems(object);
    case Replay::kDict:
      return graph_.DictItems(object, EdgeKind::kValue);
    case Replay::kSet:
      return graph_.SetItems(object);
    case Replay::kArray:
      return graph_.ArrayItems(object).value_or(Edges::None());
    case Replay::kBuiltin:
      return Edges::Fields({field(state.builtin_self, "__self__")});
    case Replay::kMethod:
      return Edges::Fields({field(state.method_self, "__self__")});
    case Replay::kMethodWrapper:
      return Edges::Fields({field(state.method_self, "__self__")});
    case Replay::kIterator:
      return Edges::Fields({field(state.iterator_sequence, "__reduce__()[1][0]")});
    case Replay::kSlice:
      return Edges::Fields(
          {field(state.slice_start, "start"), field(state.slice_stop, "stop"), field(state.slice_step, "step")});
    case Replay::kPartial:
      return Edges::Fields({field(state.partial_function, "func"), field(state.partial_args, "args"),
                            field(state.partial_keywords, "keywords"), field(state.partial_dict, "__dict__")});
    case Replay::kException:
      AppendFields(object, rule, &fields, &rest);
      fields.insert(fields.begin(), field(state.exception_args, "args"));
      return Edges::Fields(std::move(fields));
    case Replay::kEnum:
      return Edges::Fields(
          {{.kind = EdgeKind::kField, .object = graph_.Attribute(object, "_value_"), .field = "value"}});
    case Replay::kState:
    case Replay::kItems:
    case Replay::kUnknown:
      break;
    default:
      return rest;
  }
  AppendFields(object, rule, &fields, &rest);
  if (rule.shape.is_tuple()) {
    later_.push_back(
        {.node = static_cast<uint32_t>(nodes_.size() - 1), .ordinal = 1, .edges = graph_.TupleItems(object)});
  } else if (rule.shape.is_list()) {
    later_.push_back({.node = static_cast<uint32_t>(nodes_.size() - 1),
                      .ordinal = 1,
                      .edges = graph_.Items(object, EdgeKind::kIndex)});
  } else if (rule.shape.is_dict()) {
    const bool has_factory = type == "collections.defaultdict";
    if (has_factory) fields.insert(fields.begin(), field(state.default_factory, "default_factory"));
    later_.push_back({.node = static_cast<uint32_t>(nodes_.size() - 1),
                      .ordinal = 1,
                      .edges = graph_.DictItems(object, EdgeKind::kValue)});
  } else if (type == "collections.deque") {
    later_.push_back(
        {.node = static_cast<uint32_t>(nodes_.size() - 1), .ordinal = 1, .edges = graph_.DequeItems(object)});
  } else if (rule.replay == Replay::kItems) {
    later_.push_back(
        {.node = static_cast<uint32_t>(nodes_.size() - 1), .ordinal = 1, .edges = graph_.SetItems(object)});
  }
  if (rest.size() > 0) {
    later_.push_back({.node = static_cast<uint32_t>(nodes_.size() - 1), .ordinal = 1, .edges = std::move(rest)});
  }
  return Edges::Fields(std::move(fields));
}

// ---- Bytes, as protocol 4 writes them ----

// Names of attributes are written before their values.
void Walk::CountName(const Edge& edge) {
  if (edge.kind == EdgeKind::kAttribute && edge.name != 0) {
    if (!Remember(edge.name)) return;
    CountText(edge.name);
    const std::string name = graph_.Text(edge.name);
    if (name == "__reduce_ex__" || name == "__getstate__") hiding_.insert(edge.name);
  } else if (edge.kind == EdgeKind::kField && !edge.field.empty()) {
    // Not an address, so that it meets no object.
    if (Remember(absl::HashOf(edge.field) | 1)) bytes += edge.field.size() + 3;
  }
}

void Walk::CountContainer(uint64_t object, const TypeRule& rule) {
  // MARK and one instruction for each thousand items, none at all for one.
  const auto batches = [](uint64_t n) { return n == 1 ? 1 : 2 * ((n + 999) / 1000); };
  const uint64_t size = std::min<uint64_t>(graph_.Pointer(object + graph_.layout().object.var_size), 1u << 31);
  switch (rule.replay) {
    case Replay::kList:
    case Replay::kDict:
      ++(rule.replay == Replay::kList ? mix.lists : mix.dicts);
      bytes += 2 + batches(size);
      break;
    case Replay::kTuple:
      ++mix.tuples;
      bytes += size == 0 ? 1 : size <= 3 ? 2 : 3;
      break;
    case Replay::kSet:
      ++mix.sets;
      bytes += 2 + batches(std::min<uint64_t>(graph_.Pointer(object + graph_.state().set_used), 1u << 31));
      break;
    default:
      if (rule.replay != Replay::kArray && rule.replay != Replay::kTensor) {
        ++(rule.shape.is_list()            ? mix.lists
           : rule.shape.is_dict()          ? mix.dicts
           : rule.replay == Replay::kEnum  ? mix.reduced
           : rule.replay == Replay::kItems ? mix.sets
                                           : mix.instances);
      }
      // EMPTY_TUPLE, NEWOBJ, MEMOIZE; EMPTY_DICT, MEMOIZE, MARK, SETITEMS, BUILD.
      bytes += kObjectBytes + (rule.slots.empty() ? 0 : kSlotsBytes);
      if (rule.shape.is_list() || rule.shape.is_dict()) bytes += batches(size);
  }
}

void Walk::CountText(uint64_t object) {
  const std::string type = graph_.TypeName(object);
  const PythonLayout& layout = graph_.layout();
  uint64_t length = graph_.Pointer(object + (type == "str" ? layout.string.length : layout.object.var_size));
  if (length > uint64_t{1} << 40) {
    ++unreadable;
    return;
  }
  if (type == "str") {
    const uint32_t state =
        ReadValue<uint32_t>(cached_, object + layout.string.state).value_or(0) >> layout.string.kind_shift;
    const bool ascii = (state >> 4 & 1) != 0;
    if (!ascii) {
      // From 1 to 4 bytes a character; look at the beginning.
      const std::string text = ReadString(layout, cached_, object, 4 * kMaxNameBytes).value_or("");
      uint64_t characters = 0;
      for (const char c : text) characters += (c & 0xc0) != 0x80;
      const uint64_t shown = characters == 0 ? 2 * length : length * text.size() / characters;
      if (length > characters) unsure_bytes += shown;
      length = shown;
      ++mix.wide_texts;
    }
  }
  bytes += length + (length < 256 ? 3 : 6);
  ++mix.texts;
  mix.text_bytes += length;
}

void Walk::CountNumber(uint64_t object) {
  const uint64_t tag = graph_.Pointer(object + graph_.layout().object.var_size);
  const bool tagged = graph_.layout().minor >= 12;
  const bool negative = tagged ? (tag & 3) == 2 : static_cast<int64_t>(tag) < 0;
  const uint64_t digits = tagged ? tag >> 3 : negative ? -tag : tag;
  const uint32_t digit = ReadValue<uint32_t>(cached_, object + graph_.layout().object.var_size + 8).value_or(0);
  if (digits > 1 << 20) {
    ++unreadable;
    return;
  }
  ++mix.numbers;
  if (digits <= 1) {
    bytes += digits == 0 || (digit < 256 && !negative) ? 2 : digit < 65536 && !negative ? 3 : 5;
  } else {
    bytes += digits == 2 && graph_.Pointer(object + graph_.layout().object.var_size + 8) >> 33 == 0
                 ? 5
                 : 3 + digits * 30 / 8;
  }
}

// PyArrayObject of numpy 1 and 2: data 16, nd 24, dimensions 32, descr 56. PyArray_Descr: kind 24; elsize is an int at
// 32 in numpy 1, a word at 40 in numpy 2, which keeps flags at 32.
// array.array: its length at 16, its descriptor at 40, the size of an item at 4 of that.
void Walk::CountArray(uint64_t object) {
  if (graph_.TypeName(object) == "array.array") {
    const uint64_t items = graph_.Pointer(object + 16);
    const auto size = ReadValue<int32_t>(cached_, graph_.Pointer(object + 40) + 4);
    if (items > uint64_t{1} << 40 || !size || *size < 1 || *size > 16) {
      ++unreadable;
      return;
    }
    bytes += items * *size + 60;
    ++mix.arrays;
    mix.array_bytes += items * *size;
    return;
  }
  const auto rank = ReadValue<int32_t>(cached_, object + 24);
  const uint64_t dimensions = graph_.Pointer(object + 32), descr = graph_.Pointer(object + 56);
  const auto kind = ReadValue<char>(cached_, descr + 24);
  const auto node = static_cast<uint32_t>(nodes_.size() - 1);
  if (const std::optional<Edges> items = graph_.ArrayItems(object)) {
    bytes += 160 + items->size() / 500;  // MARK and APPENDS for each thousand
    if (items->size() <= object_array_items) return;
    object_array_items = items->size();
    object_array = PathOf(node, /*general=*/false);
    return;
  }
  if (!rank || *rank < 0 || *rank > 64 || !kind || *kind == 'V' || *kind == 'O') {
    Note(node,
         {.type = "numpy.ndarray", .runs = "ndarray.__reduce__ of records, or of a view of objects (native code)"},
         &unknowns, &unknowns_left_out);
    open_unknowns_.insert(node);
    return;
  }
  uint64_t size = ReadValue<int32_t>(cached_, descr + 32).value_or(0);
  const uint64_t wide = graph_.Pointer(descr + 40);
  if (size == 0 || size > 1 << 20 || (wide > 0 && wide <= 1 << 20 && wide % size != 0 && size != wide)) size = wide;
  for (int32_t i = 0; i < *rank; ++i) {
    const uint64_t dimension = graph_.Pointer(dimensions + 8 * i);
    if (dimension > uint64_t{1} << 40 || (dimension > 0 && size > (uint64_t{1} << 45) / dimension)) {
      ++unreadable;
      return;
    }
    size *= dimension;
  }
  bytes += size + 150;
  ++mix.arrays;
  mix.array_bytes += size;
}

// torch refuses a tensor that asks for a gradient and is not a leaf. One without autograd_meta_ asks for none, and a
// Parameter is a leaf. Measured with torch 1.13, 2.6 and 2.14: THPVariable has a flag at 16 and the TensorImpl at 24,
// in 2.14 the TensorImpl at 16; its counts are two words in 1.13, and one later.
void Walk::JudgeTensor(uint32_t node, uint64_t object, const TypeRule& rule) {
  if (rule.shape.info.name == "torch.nn.parameter.Parameter") return;
  uint64_t tensor = graph_.Pointer(object + 16);
  if (!IsUserPointer(tensor)) tensor = graph_.Pointer(object + 24);
  const auto counts = ReadValue<uint64_t>(cached_, tensor + 8);
  const auto meta = counts ? ReadValue<uint64_t>(cached_, tensor + (*counts >> 32 != 0 ? 24 : 32)) : std::nullopt;
  if (IsUserPointer(tensor) && meta && *meta == 0) return;
  Note(node,
       {.type = rule.shape.info.name,
        .runs = "reduce_tensor, which refuses a tensor with a gradient that is not a leaf"},
       &unknowns, &unknowns_left_out);
}

// ---- Paths ----

std::vector<Node> Walk::ChainTo(uint32_t node) const {
  std::vector<Node> chain;
  for (; node != 0; node = nodes_[node].parent) chain.push_back(nodes_[node]);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

std::string Walk::PathOf(uint32_t node, bool general) {
  std::string path = expression_;
  bool named = names_.empty();
  for (const Node& step : ChainTo(node)) {
    if (path.size() > kMostPath) return path.append("...");
    // The outermost object that has a name: what lies within it is told from there.
    if (const auto name = named ? names_.end() : names_.find(step.object); name != names_.end()) {
      path = name->second;
      named = true;
      continue;
    }
    const Edge& edge = step.edge;
    const auto key = [&]() -> std::string {
      const std::string type = graph_.TypeName(edge.name);
      if (general) return "*";
      if (type == "str") return absl::StrCat("'", graph_.Text(edge.name), "'");
      const auto digit = ReadValue<uint32_t>(cached_, edge.name + graph_.layout().object.var_size + 8);
      const uint64_t tag = graph_.Pointer(edge.name + graph_.layout().object.var_size);
      const bool small = type == "int" && (graph_.layout().minor >= 12 ? tag == 8 || tag == 1 : tag <= 1);
      if (small && digit) return absl::StrCat(tag == 0 || (graph_.layout().minor >= 12 && tag == 1) ? 0 : *digit);
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

bool Walk::IsBefore(uint32_t a, uint32_t b) const {
  const std::vector<Node> first = ChainTo(a), second = ChainTo(b);
  for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
    if (first[i].ordinal != second[i].ordinal) return first[i].ordinal < second[i].ordinal;
  }
  return first.size() > second.size();  // what is inside comes before
}

// ---- A finding, read again ----

bool Walk::StillThere(const PickleRoot& root, const std::vector<Node>& chain, const Found& found) {
  uint64_t at = 0;
  for (const Node& step : chain) {
    if (at == 0) {  // a part of the root
      const std::pair<std::string, uint64_t> part = {step.edge.field, step.object};
      if (std::find(root.parts.begin(), root.parts.end(), part) == root.parts.end()) return false;
      at = step.object;
      continue;
    }
    const TypeRule* rule = rules_.RuleOf(graph_.TypeOf(at));
    if (rule == nullptr) return false;
    nodes_ = {Node{}};
    later_.clear();
    later_.push_back({.edges = ChildrenOf(at, *rule)});
    bool there = false;
    for (Level& level : later_) {
      Edge edge;
      while (!there && level.edges.Next(cached_, &edge)) {
        there = edge.object == step.object && edge.kind == step.edge.kind && edge.name == step.edge.name &&
                edge.index == step.edge.index && edge.field == step.edge.field;
      }
    }
    if (!there) return false;
    at = step.object;
  }
  const TypeRule* rule = rules_.RuleOf(graph_.TypeOf(at));
  if (rule == nullptr || rule->shape.info.name != found.type) return false;
  switch (rule->replay) {
    case Replay::kFails:
      return rule->reason == found.reason;
    case Replay::kByName:
      return rules_.FindByName(at).reason == found.reason;
    case Replay::kBuiltin:
      return rules_.FindBuiltin(at).reason == found.reason;
    default:
      return rules_.FindByName(rule->shape.address).reason == found.reason;
  }
}

PickleLook LookOf(const Interpreter& interpreter, const PickleRoot& root) {
  PickleLook look{.expression = root.expression, .python = interpreter.version};
  if (root.parts.empty()) return look;
  look.root = root.where.empty() ? root.expression : absl::StrCat(root.expression, " (", root.where, ")");
  return look;
}

// What the walk found goes into the look. Failures that were not seen again are marked.
void Move(Walk* walk, const std::vector<bool>& kept, PickleLook* look) {
  look->objects = walk->objects;
  look->unreadable = walk->unreadable;
  look->capped = walk->capped;
  look->object_array = std::move(walk->object_array);
  look->object_array_items = walk->object_array_items;
  look->failures_left_out = walk->failures_left_out;
  look->unknowns_left_out = walk->unknowns_left_out;
  for (size_t i = 0; i < walk->failures.size(); ++i) {
    Found& found = walk->failures[i];
    look->failures.push_back({.path = std::move(found.path),
                              .type = std::move(found.type),
                              .reason = found.reason,
                              .name = std::move(found.name),
                              .defined_at = std::move(found.defined_at),
                              .count = found.count,
                              .confirmed = kept[i],
                              .below_unknown = found.below_unknown});
  }
  for (Found& found : walk->unknowns)
    look->unknowns.push_back({std::move(found.path), std::move(found.type), std::move(found.runs), found.count});
}

// Drops findings that another reading does not show.
void Confirm(const Interpreter& interpreter, const MemoryReader& memory, const PickleRoot& root, const Walk& walk,
             bool ending, std::vector<bool>* kept) {
  Walk again(interpreter, memory, {}, ending);
  for (size_t i = 0; i < walk.failures.size(); ++i) {
    const Found& found = walk.failures[i];
    (*kept)[i] = (*kept)[i] && again.StillThere(root, walk.ChainTo(found.node), found);
  }
}

}  // namespace

PickleLook LookAtPickle(const Interpreter& interpreter, const MemoryReader& memory,
                        const std::function<PickleRoot(const MemoryReader&)>& find_root, const PickleLimits& limits,
                        PickleMix* mix) {
  const absl::Duration began = BootTime();
  const PickleRoot root = find_root(memory);
  PickleLook look = LookOf(interpreter, root);
  if (root.parts.empty()) return look;
  Walk first(interpreter, memory, limits);
  first.Run(root);
  if (first.failures.empty() && !first.capped) {
    const PickleRoot again = find_root(memory);
    Walk second(interpreter, memory, limits);
    second.Run(again);
    look.walks_agree = again.parts == root.parts && second.failures.empty() &&
                       second.unknowns.size() == first.unknowns.size() && second.unreadable == 0 && !second.capped;
  }
  std::vector<bool> kept(first.failures.size(), true);
  for (int reading = 0; reading < 2 && !first.failures.empty(); ++reading) {
    absl::SleepFor(kBetweenReadings);
    Confirm(interpreter, memory, find_root(memory), first, /*ending=*/false, &kept);
  }
  Move(&first, kept, &look);
  look.refused = std::erase_if(look.failures, [](const PickleFailure& failure) { return !failure.confirmed; });
  const bool whole = !first.capped && first.unreadable == 0 && first.unknowns.empty();
  look.bytes.best = first.bytes + first.rest_bytes;
  look.bytes.low = first.bytes - std::min(first.bytes, first.bytes / 10 + first.unsure_bytes / 2);
  if (whole) look.bytes.high = first.bytes + first.bytes / 10 + first.unsure_bytes;
  look.took = BootTime() - began;
  if (mix != nullptr) {
    *mix = first.mix;
    mix->scale = static_cast<double>(look.bytes.best) / std::max<uint64_t>(first.bytes, 1);
  }
  return look;
}

PickleLook LookAtEnding(const Interpreter& interpreter, const MemoryReader& memory, const PickleRoot& root,
                        const PickleLimits& limits) {
  const absl::Duration began = BootTime();
  PickleLook look = LookOf(interpreter, root);
  if (root.parts.empty()) return look;
  Walk* reading = nullptr;
  absl::Duration enough = absl::InfiniteDuration();
  PickleLimits until_found = limits;
  until_found.go_on = [&] {
    if (!reading->failures.empty()) enough = std::min(enough, BootTime() + kAfterFirst);
    return BootTime() < enough;
  };
  Walk walk(interpreter, memory, until_found, /*ending=*/true);
  reading = &walk;
  walk.Run(root);
  std::vector<bool> kept(walk.failures.size(), true);
  Confirm(interpreter, memory, root, walk, /*ending=*/true, &kept);
  Move(&walk, kept, &look);
  look.took = BootTime() - began;
  return look;
}

}  // namespace cowprof
