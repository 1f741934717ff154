// What pickle visits of an object, by its rule (declared in pickle_walk.h).
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "python/pickle_reducers.h"
#include "python/pickle_walk.h"

namespace cowprof {
namespace {

constexpr uint64_t kMostArguments = 256;

}  // namespace

void PickleWalk::AppendFields(uint64_t object, const TypeRule& rule, std::vector<Edge>* fields, Edges* rest) {
  Edges attributes = graph_.Attributes(object, rule.shape);
  Edge edge;
  // Small: in one list with the other fields. A million attributes stay lazy.
  if (attributes.size() <= kFirstItems) {
    while (attributes.Next(cached_, &edge)) {
      if (rule.left_out.empty() || graph_.Text(edge.name) != rule.left_out) fields->push_back(edge);
    }
    unreadable += attributes.torn();
  } else {
    *rest = std::move(attributes);
  }
  for (const Slot& slot : rule.slots) {
    fields->push_back({.kind = EdgeKind::kField, .object = graph_.Pointer(object + slot.offset), .field = slot.name});
  }
}

// The items of a tuple that are arguments of what __reduce__() returns, from the `first` on.
void PickleWalk::AppendArguments(uint64_t tuple, uint64_t first, std::vector<Edge>* fields) {
  Edges items = graph_.TupleItems(tuple);
  Edge edge;
  for (uint64_t i = first; i < first + kMostArguments && items.Next(cached_, &edge); ++i) {
    fields->push_back(
        {.kind = EdgeKind::kField, .object = edge.object, .field = absl::StrCat("__reduce__()[1][", i, "]")});
  }
  unreadable += items.torn() || items.size() > kMostArguments;
}

Edges PickleWalk::ChildrenOf(uint64_t object, const TypeRule& rule) {
  const StateLayout& state = graph_.state();
  const auto field = [&](uint32_t offset, const char* name) {
    return Edge{.kind = EdgeKind::kField, .object = graph_.Pointer(object + offset), .field = name};
  };
  std::vector<Edge> fields;
  Edges rest = Edges::None();
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
    case Replay::kMap:
      fields.push_back(field(state.map_function, "__reduce__()[1][0]"));
      AppendArguments(graph_.Pointer(object + state.map_iterators), 1, &fields);
      return Edges::Fields(std::move(fields));
    case Replay::kFilter:
      return Edges::Fields(
          {field(state.filter_function, "__reduce__()[1][0]"), field(state.filter_iterator, "__reduce__()[1][1]")});
    case Replay::kZip:
      AppendArguments(graph_.Pointer(object + state.zip_iterators), 0, &fields);
      return Edges::Fields(std::move(fields));
    case Replay::kSlice:
      return Edges::Fields(
          {field(state.slice_start, "start"), field(state.slice_stop, "stop"), field(state.slice_step, "step")});
    case Replay::kPartial:
      fields = {field(state.partial_function, "func"), field(state.partial_args, "args"),
                field(state.partial_keywords, "keywords")};
      if (rule.sends_state) fields.push_back(field(state.partial_dict, "__dict__"));
      return Edges::Fields(std::move(fields));
    case Replay::kAttributes:
      for (const absl::string_view name : RowOf(kSentAttributes, rule.owner, &SentAttributes::owner)->names) {
        if (name.empty()) break;
        fields.push_back(
            {.kind = EdgeKind::kField, .object = graph_.Attribute(object, name), .field = std::string(name)});
      }
      return Edges::Fields(std::move(fields));
    case Replay::kZoned:
      if (!graph_.HasZone(object)) return rest;
      return Edges::Fields({field(rule.owner == "datetime.time" ? state.time_zone : state.datetime_zone, "tzinfo")});
    case Replay::kException:
      AppendFields(object, rule, &fields, &rest);
      fields.insert(fields.begin(), field(state.exception_args, "args"));
      return Edges::Fields(std::move(fields));
    case Replay::kEnum:
      return Edges::Fields(
          {{.kind = EdgeKind::kField, .object = graph_.Attribute(object, "_value_"), .field = "value"}});
    case Replay::kState:
    case Replay::kItems:
    case Replay::kBuffer:
    case Replay::kUnknown:
      break;
    default:
      return rest;
  }
  if (rule.sends_state) AppendFields(object, rule, &fields, &rest);
  if (rule.shape.is_tuple()) {
    later_.push_back(
        {.node = static_cast<uint32_t>(nodes_.size() - 1), .ordinal = 1, .edges = graph_.TupleItems(object)});
  } else if (rule.shape.is_list()) {
    later_.push_back({.node = static_cast<uint32_t>(nodes_.size() - 1),
                      .ordinal = 1,
                      .edges = graph_.Items(object, EdgeKind::kIndex)});
  } else if (rule.shape.is_dict()) {
    if (rule.owner == "collections.defaultdict")
      fields.insert(fields.begin(), field(state.default_factory, "default_factory"));
    later_.push_back({.node = static_cast<uint32_t>(nodes_.size() - 1),
                      .ordinal = 1,
                      .edges = graph_.DictItems(object, EdgeKind::kValue)});
  } else if (rule.owner == "collections.deque") {
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

}  // namespace cowprof
