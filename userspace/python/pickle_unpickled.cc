// What unpickling calls of a class in the worker, after the parent pickled its object (declared in pickle_rules.h).
#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "model/base_name.h"
#include "python/pickle_rules.h"

namespace cowprof {
namespace {

constexpr int32_t kTakesMore = 0x4;  // *args: CO_VARARGS, Include/cpython/code.h
constexpr uint64_t kAny = UINT64_MAX;

// False: unreadable.
bool ReadArguments(const ObjectGraph& graph, uint64_t function, Maker* maker) {
  const StateLayout& state = graph.state();
  const uint64_t code = graph.Pointer(function + state.function_code);
  const auto number = [&](uint32_t offset) { return ReadValue<int32_t>(graph.memory(), code + offset).value_or(-1); };
  const int64_t positional = number(state.code_arguments), keyword_only = number(state.code_arguments + 8);
  const int32_t flags = number(state.code_flags);
  // Of a tuple or a dict.
  const auto length = [&](uint32_t offset) -> int64_t {
    const auto object = ReadValue<uint64_t>(graph.memory(), function + offset);
    if (object == 0) return 0;
    return object ? ReadValue<int64_t>(graph.memory(), *object + graph.layout().object.var_size).value_or(-1) : -1;
  };
  const int64_t defaults = length(state.function_defaults), keyword_defaults = length(state.function_keyword_defaults);
  if (code == 0 || positional < 0 || keyword_only < 0 || flags < 0 || defaults < 0 || keyword_defaults < 0)
    return false;
  maker->least = keyword_only > keyword_defaults ? kAny : std::max<int64_t>(positional - defaults - 1, 0);
  maker->most = (flags & kTakesMore) != 0 ? kAny : std::max<int64_t>(positional - 1, 0);
  return true;
}

}  // namespace

void PickleRules::JudgeUnpickling(TypeRule* rule) {
  const TypeShape& shape = rule->shape;
  const bool calls_class = rule->replay == Replay::kException || rule->replay == Replay::kItems ||
                           (rule->replay == Replay::kState && rule->owner == "types.SimpleNamespace");
  if (ending_ || !shape.heap() || (rule->replay != Replay::kState && !calls_class)) return;
  std::string file;
  const auto named = [&](const ObjectGraph::Method& method, absl::string_view name, uint64_t function) {
    CodeName(function, &file);
    return absl::StrCat(graph_.types().NameOf(method.owner).value_or(""), ".", name, " (", BaseName(file), ")");
  };
  for (const absl::string_view name : {"__new__", "__init__"}) {
    if (name == "__init__" && !calls_class) continue;
    const ObjectGraph::Method method = FindMethod(shape, name);
    const uint64_t function = name == "__new__" ? FunctionIn(method.object) : method.object;
    if (graph_.TypeName(function) != "function") continue;
    Maker maker{.name = named(method, name, function)};
    if (ReadArguments(graph_, function, &maker)) rule->makers.push_back(std::move(maker));
  }
  const std::optional<TypeShape> metaclass =
      calls_class ? graph_.ReadShape(graph_.TypeOf(shape.address)) : std::nullopt;
  if (metaclass) {
    const ObjectGraph::Method call = FindMethod(*metaclass, "__call__");
    if (graph_.TypeName(call.object) == "function") {
      rule->makers.clear();
      rule->runs_in_worker = absl::StrCat(named(call, "__call__", call.object), ", which unpickling calls");
    }
  }
  // object has no __setstate__, so the lookup ends in __getattr__, before there are any attributes.
  const ObjectGraph::Method get = FindMethod(shape, "__getattr__");
  if (rule->sends_state && graph_.TypeName(get.object) == "function" && FindMethod(shape, "__setstate__").owner == 0) {
    rule->runs_in_worker =
        absl::StrCat(named(get, "__getattr__", get.object), ", which unpickling asks for __setstate__");
  }
}

// What the reducers of these types pass to the class. nullopt: unreadable.
std::optional<uint64_t> PickleRules::PassedArguments(uint64_t object, const TypeRule& rule) {
  const auto length = [&](uint64_t of) {
    return ReadValue<uint64_t>(graph_.memory(), of + graph_.layout().object.var_size);
  };
  if (rule.replay == Replay::kException) {
    const std::optional<uint64_t> arguments = length(graph_.Pointer(object + graph_.state().exception_args));
    if (rule.owner != "OSError" || arguments != 2) return arguments;
    const uint64_t filename = object + graph_.state().error_filename;
    return graph_.Pointer(filename) == 0 ? 2 : graph_.Pointer(filename + 8) == 0 ? 3 : 5;
  }
  if (rule.replay == Replay::kState)
    return rule.new_arguments == TypeRule::kItsItems ? length(object) : rule.new_arguments;
  if (rule.owner == "collections.OrderedDict") return 0;
  if (rule.owner == "collections.defaultdict") {
    const uint64_t factory = graph_.Pointer(object + graph_.state().default_factory);
    return factory == 0 || factory == graph_.interpreter().none ? 0 : 1;
  }
  if (rule.owner != "collections.deque") return 1;
  const auto most = ReadValue<int64_t>(graph_.memory(), object + graph_.state().deque_most);
  return most ? std::optional(*most < 0 ? 0 : 2) : std::nullopt;
}

ByName PickleRules::FindMakers(uint64_t object, const TypeRule& rule) {
  const std::optional<uint64_t> passed = rule.makers.empty() ? std::nullopt : PassedArguments(object, rule);
  for (const Maker& maker : rule.makers) {
    if (passed && (*passed < maker.least || *passed > maker.most))
      return {.reason = PickleReason::kCannotBeMade, .name = maker.name};
  }
  return {.unknown = !rule.runs_in_worker.empty(), .runs = rule.runs_in_worker, .in_worker = true};
}

}  // namespace cowprof
