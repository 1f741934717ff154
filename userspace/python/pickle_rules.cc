// What is not in the tables of pickle_reducers.h follows from the type object.
#include "python/pickle_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "model/base_name.h"
#include "python/frames.h"
#include "python/pickle_reducers.h"
#include "python/returned_state.h"

namespace cowprof {
namespace {

constexpr size_t kMostReducers = 4096, kMostSlots = 512;
constexpr int kMostFailures = 16;  // of one type: a million objects may be of it

PickleReason ReasonOfType(absl::string_view name, PickleReason otherwise) {
  if (name == "_thread.lock" || name == "_thread.RLock" || name == "_multiprocessing.SemLock")
    return PickleReason::kLock;
  if (name == "module") return PickleReason::kModule;
  if (name == "generator" || name == "async_generator" || name == "coroutine") return PickleReason::kGenerator;
  if (name == "weakref" || name == "weakref.ReferenceType") return PickleReason::kWeakref;
  if (absl::StartsWith(name, "dict_") || absl::StartsWith(name, "odict_")) {
    return absl::EndsWith(name, "iterator") ? otherwise : PickleReason::kDictView;
  }
  if (absl::StartsWith(name, "_io.")) return PickleReason::kOpenFile;
  if (name == "_thread._local" || name == "_thread._ThreadHandle") return PickleReason::kThread;
  return otherwise;
}

// Of "file.py:12".
absl::string_view PathIn(absl::string_view file) { return file.substr(0, file.rfind(':')); }

absl::string_view LastPart(absl::string_view name) { return name.substr(name.rfind('.') + 1); }

}  // namespace

PickleRules::PickleRules(ObjectGraph* graph, bool ending, std::function<bool()> out_of_time)
    : graph_(*graph), ending_(ending), out_of_time_(std::move(out_of_time)) {
  const auto add = [&](uint64_t dict) {
    Edges entries = graph_.DictItems(dict, EdgeKind::kAttribute);
    Edge entry;
    for (size_t i = 0; i < kMostReducers && entries.Next(graph_.memory(), &entry); ++i)
      reducers_[entry.name] = entry.object;
  };
  add(graph_.InDict(graph_.ModuleDict("copyreg"), "dispatch_table"));
  const uint64_t pickler = graph_.InDict(graph_.ModuleDict("multiprocessing.reduction"), "ForkingPickler");
  if (pickler != 0) add(graph_.InDict(graph_.Pointer(pickler + graph_.layout().type.dict), "_extra_reducers"));
  const uint64_t main = graph_.ModuleDict("__main__");
  const auto is_set = [&](uint64_t value) { return value != 0 && value != graph_.interpreter().none; };
  main_has_file_ = is_set(graph_.InDict(main, "__file__")) || is_set(graph_.InDict(main, "__spec__"));
}

// A type may have hundreds of bases with thousands of attributes.
ObjectGraph::Method PickleRules::FindMethod(const TypeShape& shape, absl::string_view name) {
  stopped_ |= out_of_time_ && out_of_time_();
  return stopped_ ? ObjectGraph::Method() : graph_.FindMethod(shape, name);
}

const TypeRule* PickleRules::RuleOf(uint64_t type) {
  const auto found = rules_.find(type);
  if (found != rules_.end()) return &found->second;
  const auto failed = failures_.find(type);
  if (failed != failures_.end() && failed->second >= kMostFailures) return nullptr;
  std::optional<TypeShape> shape = graph_.ReadShape(type);
  if (!shape) return nullptr;
  if (rules_.size() > 65536) rules_.clear();
  const uint64_t cut_before = graph_.cut_lookups(), unreadable_before = graph_.unreadable_lookups();
  TypeRule rule = Judge(*std::move(shape));
  JudgeUnpickling(&rule);
  if (graph_.unreadable_lookups() != unreadable_before) {
    ++failures_[type];  // it may be readable by the next look
    return nullptr;
  }
  if (graph_.cut_lookups() != cut_before) {
    rule.replay = Replay::kUnknown;
    rule.runs = "a class with more attributes than were read";
  }
  if (stopped_) {
    rule.replay = Replay::kUnknown;
    rule.runs = "a type that there was no time to judge";
  }
  return &(rules_[type] = std::move(rule));
}

std::string PickleRules::CodeName(uint64_t function, std::string* file) {
  CodeReader codes(graph_.interpreter(), graph_.memory());
  const uint64_t code = graph_.Pointer(function + graph_.state().function_code);
  const auto line = ReadValue<int32_t>(graph_.memory(), code + graph_.layout().code.first_line);
  const std::optional<CodeLocation> location = code == 0 ? std::nullopt : codes.Resolve(code, 0);
  if (!location) return "";
  *file = absl::StrCat(location->file, line && *line > 0 ? absl::StrCat(":", *line) : "");
  return location->function;
}

uint64_t PickleRules::FunctionIn(uint64_t object) {
  const std::string type = graph_.TypeName(object);
  return type == "staticmethod" || type == "classmethod" ? graph_.Pointer(object + graph_.state().wrapped) : object;
}

// copyreg._slotnames() reads __slots__, and getattr() the values: whether both are what was made into slots.
bool PickleRules::SlotsAreDeclared(const TypeShape& shape) {
  size_t declared = 0;
  for (const uint64_t address : shape.mro) {
    const uint64_t flags = graph_.Pointer(address + graph_.layout().type.flags);
    const uint64_t slots =
        (flags >> 9 & 1) == 0 ? 0 : graph_.InDict(graph_.Pointer(address + graph_.layout().type.dict), "__slots__");
    if (slots == 0) continue;
    const std::string type = graph_.TypeName(slots);
    std::vector<std::string> names;
    const auto add_all = [&](Edges edges) {
      Edge edge;
      while (names.size() < kMostSlots && edges.Next(graph_.memory(), &edge))
        names.push_back(graph_.Text(edge.kind == EdgeKind::kAttribute ? edge.name : edge.object));
    };
    if (type == "str") {
      names.push_back(graph_.Text(slots));
    } else if (type == "tuple") {
      add_all(graph_.TupleItems(slots));
    } else if (type == "list") {
      add_all(graph_.Items(slots, EdgeKind::kIndex));
    } else if (type == "dict") {
      add_all(graph_.DictItems(slots, EdgeKind::kAttribute));
    } else {
      return false;
    }
    const std::string owner_name = graph_.types().NameOf(address).value_or("");
    absl::string_view owner = absl::string_view(owner_name).substr(owner_name.rfind('.') + 1);
    while (absl::ConsumePrefix(&owner, "_")) {
    }
    for (std::string& name : names) {
      if (name == "__dict__" || name == "__weakref__") continue;
      if (absl::StartsWith(name, "__") && !absl::EndsWith(name, "__") && !owner.empty())
        name = absl::StrCat("_", owner, name);
      ++declared;
      if (graph_.TypeName(FindMethod(shape, name).object) != "member_descriptor") return false;
    }
  }
  return declared == graph_.SlotsOf(shape).size();
}

// Items are read by the object's own methods, which a subclass may have written anew.
bool PickleRules::JudgeItems(TypeRule* rule) {
  const TypeShape& shape = rule->shape;
  const std::vector<absl::string_view> names = shape.is_dict()
                                                   ? std::vector<absl::string_view>{"items", "keys", "__iter__"}
                                                   : std::vector<absl::string_view>{"__iter__"};
  for (const absl::string_view name : names) {
    const ObjectGraph::Method method = FindMethod(shape, name);
    if (method.owner == 0 || graph_.TypeName(method.object) != "function") continue;
    std::string file;
    CodeName(method.object, &file);
    if (absl::StrContains(file, "/collections/__init__.py")) continue;
    rule->replay = Replay::kUnknown;
    rule->runs = absl::StrCat(graph_.types().NameOf(method.owner).value_or(""), ".", name, " (", BaseName(file), ")");
    return false;
  }
  return true;
}

// What object.__reduce_ex__() reads of an instance by way of its class.
bool PickleRules::JudgeDescriptors(TypeRule* rule) {
  const auto decides = [&](std::string runs) {
    rule->replay = Replay::kUnknown;
    rule->runs = std::move(runs);
    return false;
  };
  for (const absl::string_view name : {"__class__", "__dict__"}) {
    const ObjectGraph::Method method = FindMethod(rule->shape, name);
    // Types written in C have descriptors of other kinds for it, which read the same.
    const bool written = (graph_.Pointer(method.owner + graph_.layout().type.flags) >> 9 & 1) != 0;
    if (method.object == 0 || !written || graph_.TypeName(method.object) == "getset_descriptor") continue;
    return decides(absl::StrCat(graph_.types().NameOf(method.owner).value_or(""), ".", name));
  }
  if (!SlotsAreDeclared(rule->shape))
    return decides("copyreg, by __slots__ that were changed after the class was made");
  const bool has_items = rule->shape.is_list() || rule->shape.is_dict();
  return !has_items || JudgeItems(rule);
}

// Whether `method`, a __reduce__ or the like, is known. Otherwise the rule becomes unknown, and names it.
bool PickleRules::JudgeReducer(const ObjectGraph::Method& method, absl::string_view name, TypeRule* rule) {
  const std::string owner = graph_.types().NameOf(method.owner).value_or("");
  if (const Forbidden* forbidden = RowOf(kForbidden, owner, &Forbidden::owner)) {
    rule->replay = Replay::kFails;
    rule->reason = forbidden->reason;
    return true;
  }
  std::string file;
  const bool written = graph_.TypeName(method.object) == "function";
  const std::string function = written ? CodeName(method.object, &file) : "";
  const bool of_enum = written && absl::EndsWith(PathIn(file), "/enum.py") && name == "__reduce_ex__";
  // A timezone has its tzinfo's.
  const bool of_timezone = owner == "datetime.tzinfo" && rule->shape.info.name == "datetime.timezone";
  const NamedRule* const row =
      of_enum ? RowOf(kEnumReducers, LastPart(function), &NamedRule::name)
              : RowOf(kReducers, of_timezone ? absl::string_view("datetime.timezone") : owner, &NamedRule::name);
  for (const CallingReducer& reducer : kCalling) {
    if (reducer.owner != owner || reducer.name != name) continue;
    const ObjectGraph::Method called = FindMethod(rule->shape, reducer.calls);
    if (called.owner == method.owner) continue;
    rule->owner = owner;  // its content counts all the same
    return JudgeReducer(called, reducer.calls, rule);
  }
  if (row != nullptr) {
    rule->replay = row->replay;
    rule->bytes = row->bytes;
    rule->owner = owner;
    rule->sends_state = row->sends_state;
    if (owner == "torch.nn.modules.module.Module" && name == "__getstate__") rule->left_out = "_compiled_call_impl";
    if (row->replay == Replay::kFails) rule->reason = PickleReason::kEnumMember;  // the only such row
    // 3.11.0 to 3.11.3 pickled members by their names.
    if (row->replay == Replay::kEnum && graph_.interpreter().version_hex >> 8 >= 0x030b00 &&
        graph_.interpreter().version_hex >> 8 <= 0x030b03)
      rule->replay = Replay::kAtom;
    const auto is_void = [&](uint64_t base) { return graph_.types().NameOf(base) == "numpy.void"; };
    if (row->replay == Replay::kScalar && absl::c_any_of(rule->shape.mro, is_void)) {
      rule->replay = Replay::kUnknown;
      rule->runs = "numpy.void.__reduce__ of a record (native code)";
    }
    if (owner == "array.array" && rule->shape.address != method.owner) {
      rule->replay = Replay::kUnknown;
      rule->runs = "array.array.__reduce_ex__ of a subclass, with its attributes (native code)";
    }
    if (row->replay == Replay::kItems && JudgeItems(rule) && rule->sends_state) JudgeOwnedState(rule);
    return rule->replay != Replay::kUnknown;
  }
  // The platform's exceptions define it several times.
  if (rule->shape.is_exception() && !written) {
    rule->replay = Replay::kException;
    return true;
  }
  rule->replay = Replay::kUnknown;
  rule->runs = written ? absl::StrCat(function.empty() ? std::string(name) : function, " (", BaseName(file), ")")
                       : absl::StrCat(owner, ".", name, " (native code)");
  return false;
}

// Of a set, a deque or an OrderedDict. Up to 3.10 their reducers read __dict__ alone.
void PickleRules::JudgeOwnedState(TypeRule* rule) {
  if (graph_.layout().minor >= 11) {
    const ObjectGraph::Method own = FindMethod(rule->shape, "__getstate__");
    if (own.owner != 0) {
      JudgeReducer(own, "__getstate__", rule);
      return;
    }
    rule->slots = graph_.SlotsOf(rule->shape);
  }
  JudgeDescriptors(rule);
}

// object.__reduce_ex__(): reduce_newobj() and object_getstate() in Objects/typeobject.c.
void PickleRules::JudgeState(TypeRule* rule) {
  const TypeShape& shape = rule->shape;
  if (shape.tp_new == 0) {
    rule->replay = Replay::kFails;
    rule->reason = ReasonOfType(shape.info.name, PickleReason::kNoNew);
    return;
  }
  bool has_arguments = false;
  for (const absl::string_view name : {"__getnewargs_ex__", "__getnewargs__"}) {
    const ObjectGraph::Method method = FindMethod(shape, name);
    if (method.owner == 0) continue;
    has_arguments = true;
    const std::string owner = graph_.types().NameOf(method.owner).value_or("");
    std::string file;
    const bool named_tuple = graph_.TypeName(method.object) == "function" && shape.is_tuple() &&
                             (CodeName(method.object, &file), absl::StrContains(file, "/collections/__init__.py") ||
                                                                  absl::StrContains(file, "<string>"));
    constexpr absl::string_view kPlain[] = {"int", "str", "bytes", "float", "complex", "tuple"};
    if (!named_tuple && std::find(std::begin(kPlain), std::end(kPlain), owner) == std::end(kPlain)) {
      JudgeReducer(method, name, rule);
      return;
    }
    rule->new_arguments = named_tuple ? TypeRule::kItsItems : owner == "complex" ? 2 : 1;
    break;
  }
  const ObjectGraph::Method own = FindMethod(shape, "__getstate__");
  const bool has_dict = shape.dict_offset != 0 || shape.managed_dict();
  const bool returns_dict = has_dict && graph_.TypeName(own.object) == "function" && ReturnsOwnDict(graph_, own.object);
  if (own.owner != 0 && !returns_dict) {
    JudgeReducer(own, "__getstate__", rule);
    return;
  }
  // Up to 3.10 object has no __getstate__: the lookup ends in __getattr__.
  for (const absl::string_view name : {"__getattr__", "__getattribute__"}) {
    if (name == "__getattr__" && (graph_.layout().minor >= 11 || returns_dict)) continue;
    const ObjectGraph::Method method = FindMethod(shape, name);
    if (method.owner == 0 || graph_.TypeName(method.object) != "function") continue;
    JudgeReducer(method, name, rule);
    return;
  }
  if (!JudgeDescriptors(rule)) return;
  rule->replay = Replay::kState;
  if (returns_dict) return;  // without slots, and without the test for fields in C
  rule->slots = graph_.SlotsOf(shape);
  const bool required = !has_arguments && !shape.is_list() && !shape.is_dict();
  if (!required) return;
  uint64_t plain = 16;  // of object
  if (shape.dict_offset != 0 && !shape.managed_dict()) plain += 8;
  if (shape.weaklist_offset > 0) plain += 8;
  plain += 8 * rule->slots.size();
  if (shape.info.item_size != 0 || shape.info.basic_size > plain) {
    rule->replay = Replay::kFails;
    rule->reason = ReasonOfType(shape.info.name, PickleReason::kNativeState);
  }
}

TypeRule PickleRules::Judge(TypeShape shape) {
  TypeRule rule{.shape = std::move(shape)};
  const TypeShape& type = rule.shape;
  const NamedRule* exact = type.heap() ? nullptr : RowOf(kExact, type.info.name, &NamedRule::name);
  if (exact != nullptr) {
    rule.replay = exact->replay;
    rule.bytes = exact->bytes;
    return rule;
  }
  if (absl::StartsWith(type.info.name, "weak") && absl::StrContains(absl::AsciiStrToLower(type.info.name), "proxy")) {
    rule.runs = "the object behind the proxy, which answers for it";
    return rule;
  }
  if (const auto found = reducers_.find(type.address); found != reducers_.end()) {
    std::string file;
    const std::string function = CodeName(found->second, &file);
    const RegisteredRule* const row =
        std::find_if(std::begin(kRegistered), std::end(kRegistered), [&](const RegisteredRule& known) {
          return known.name == function && absl::EndsWith(PathIn(file), known.file);
        });
    if (row != std::end(kRegistered)) {
      rule.replay = row->replay;
      rule.bytes = row->bytes;
      rule.sends_state = false;
    } else {
      rule.runs =
          absl::StrCat(function.empty() ? "a reducer" : function, " (", file.empty() ? "native code" : file, ")");
    }
    return rule;
  }
  if (type.is_type()) {
    rule.replay = Replay::kByName;
    return rule;
  }
  for (const absl::string_view name : {"__reduce_ex__", "__reduce__"}) {
    const ObjectGraph::Method method = FindMethod(type, name);
    if (method.owner == 0) continue;
    JudgeReducer(method, name, &rule);
    return rule;
  }
  JudgeState(&rule);
  return rule;
}

}  // namespace cowprof
