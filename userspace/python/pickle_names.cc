// Whether pickle finds a class or a function again by its name (declared in pickle_rules.h).
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "python/pickle_rules.h"

namespace cowprof {
namespace {

constexpr size_t kMostNested = 9;

}  // namespace

ByName PickleRules::Lookup(uint64_t object, std::string module, std::string name) {
  ByName found{.module = std::move(module), .name = std::move(name)};
  if (absl::StrContains(found.name, "<lambda>")) {
    found.reason = PickleReason::kLambda;
  } else if (absl::StrContains(found.name, "<locals>")) {
    const std::optional<TypeShape> shape = graph_.ReadShape(graph_.TypeOf(object));
    found.reason = shape && shape->is_type() ? PickleReason::kLocalClass : PickleReason::kLocalFunction;
  }
  if (found.reason != PickleReason::kNone || ending_) return found;
  const uint64_t dict = graph_.ModuleDict(found.module);
  if (dict == 0 || found.module.empty()) {
    found.unknown = true;  // pickle would import it
    return found;
  }
  // A module of a class of its own, as those that import lazily, may have what its __dict__ has not.
  const bool plain = graph_.TypeName(graph_.ModuleObject(found.module)) == "module";
  uint64_t at = 0;
  const uint64_t cut_before = graph_.cut_lookups();
  const std::vector<std::string> parts = absl::StrSplit(found.name, '.');
  const bool too_long = found.name.size() > kMaxKeyBytes || parts.size() > kMostNested;
  for (size_t i = 0; i < parts.size() && !too_long; ++i) {
    at = i == 0 ? graph_.InDict(dict, parts[i], ObjectGraph::kMostNames) : FunctionIn(graph_.Attribute(at, parts[i]));
    if (at == 0) break;
  }
  if (at == object) {
    if (found.module == "__main__" && !main_has_file_) found.reason = PickleReason::kMainWithoutFile;
    return found;
  }
  // A '?' may stand for half a surrogate pair.
  if (!plain || too_long || graph_.cut_lookups() != cut_before || absl::StrContains(found.name, "?")) {
    found.unknown = true;
  } else if (at == 0) {
    found.unknown = graph_.InDict(dict, "__getattr__", ObjectGraph::kMostNames) != 0;
    found.reason = found.unknown ? PickleReason::kNone : PickleReason::kNotFound;
  } else {
    found.reason = PickleReason::kNotTheSame;
  }
  return found;
}

std::string PickleRules::NameText(uint64_t text) {
  return ReadString(graph_.layout(), graph_.memory(), text, kMaxKeyBytes + 4).value_or("");
}

// By which its workers are started: that of their own context, else the program's. "": unknown.
const std::string& PickleRules::StartMethod() {
  if (start_method_) return *start_method_;
  const uint64_t own = graph_.Attribute(starter_, "_DataLoader__multiprocessing_context");
  const uint64_t program = graph_.InDict(graph_.ModuleDict("multiprocessing.context"), "_default_context");
  uint64_t set = graph_.Attribute(program, "_actual_context");
  if (set == graph_.interpreter().none) set = graph_.Attribute(program, "_default_context");  // until it is asked for
  std::string method;
  for (const uint64_t name : {starter_, graph_.Attribute(starter_, "_start_method"), graph_.Attribute(own, "_name"),
                              graph_.Attribute(set, "_name")}) {
    if (method = graph_.Text(name); !method.empty()) break;
  }
  return start_method_.emplace(std::move(method));
}

// multiprocessing.synchronize.SemLock.__getstate__() has asked for the context since 3.11.5.
ByName PickleRules::FindSemLock(uint64_t lock) {
  for (const char* name : {"_is_fork_ctx", "is_fork_ctx"}) {
    const uint64_t made = graph_.Attribute(lock, name);
    if (made == 0) continue;
    const std::optional<int64_t> value = graph_.Int(made);
    if (!value) return {.unknown = true, .runs = "multiprocessing.synchronize.SemLock.__getstate__"};
    if (*value == 0) return {};
    if (ending_ || StartMethod() == "spawn" || StartMethod() == "forkserver")
      return {.reason = PickleReason::kForkContext};
    return {.unknown = true, .runs = kFollowsStartMethod};
  }
  // Before, it was sent without the name by which the new process would open it. SemLockObject::name.
  const uint64_t semaphore = graph_.Attribute(lock, "_semlock");
  const auto name = ReadValue<uint64_t>(graph_.memory(), semaphore + 48);
  if (semaphore == 0 || !name || *name != 0) return {};
  return {.unknown = true, .runs = "what the worker does with it: a lock of the fork context is not valid there"};
}

// logging.Logger.__reduce__().
ByName PickleRules::FindLogger(uint64_t logger) {
  if (ending_) return {};
  const std::string name = NameText(graph_.Attribute(logger, "name"));
  const uint64_t cut_before = graph_.cut_lookups();
  const uint64_t type = graph_.InDict(graph_.ModuleDict("logging"), "Logger");
  const uint64_t loggers = graph_.Attribute(graph_.Attribute(type, "manager"), "loggerDict");
  const uint64_t known = graph_.InDict(loggers, name, ObjectGraph::kMostNames);
  if (known == logger) return {};
  ByName found{.name = absl::StrCat("logging.getLogger('", name, "')"), .runs = "logging.Logger.__reduce__"};
  found.unknown = loggers == 0 || name.empty() || name.size() > kMaxKeyBytes || graph_.cut_lookups() != cut_before;
  found.reason = found.unknown ? PickleReason::kNone : PickleReason::kLogger;
  return found;
}

// numpy's reducer returns the name alone: pickle takes the first module that has the ufunc under it.
// PyUFuncObject::name.
ByName PickleRules::FindUfunc(uint64_t ufunc) {
  if (const auto known = names_.find(ufunc); known != names_.end()) return known->second;
  ByName found{.name = ReadCString(graph_.memory(), graph_.Pointer(ufunc + 56), kMaxNameBytes).value_or("")};
  // A module may answer by its __getattr__, but not for "f (vectorized)": so numpy.frompyfunc() calls what it makes.
  const bool importable = !absl::StrContains(found.name, ' ');
  bool there = ending_ && importable;
  Edges modules = graph_.Modules();
  Edge module;
  for (uint64_t i = 0; i < ObjectGraph::kMostNames && !there && modules.Next(graph_.memory(), &module); ++i)
    there = graph_.InDict(graph_.DictOfModule(module.object), found.name, ObjectGraph::kMostNames) == ufunc;
  found.unknown = !there && importable;
  if (!there && !importable) found.reason = PickleReason::kNotFound;
  return names_[ufunc] = found;
}

ByName PickleRules::FindItself(uint64_t object, const TypeRule& rule) {
  switch (rule.replay) {
    case Replay::kFails:
      return {.reason = rule.reason};
    case Replay::kByName:
      return FindByName(object);
    case Replay::kBuiltin: {
      const uint64_t self = graph_.Pointer(object + graph_.state().builtin_self);
      return self == 0 || graph_.TypeName(self) == "module" ? FindBuiltin(object) : ByName{};
    }
    case Replay::kSemLock:
      return FindSemLock(object);
    case Replay::kLogger:
      return FindLogger(object);
    case Replay::kUfunc:
      return FindUfunc(object);
    case Replay::kGlobalName: {
      const std::string name = NameText(graph_.Attribute(object, "_name_"));
      if (name.empty()) return {.unknown = true, .runs = "enum.pickle_by_global_name"};  // a member of several flags
      return Lookup(object, NameText(graph_.InDict(rule.shape.dict, "__module__")), name);
    }
    case Replay::kZoneInfo:  // PyZoneInfo_ZoneInfo::file_repr
      if (graph_.Pointer(object + 24) == 0) return {};
      return {.unknown = true, .runs = "zoneinfo.ZoneInfo.__reduce__, of one that was read from a file"};
    case Replay::kBuffer:  // bytesio::buf
      if (rule.owner != "_io.BytesIO" || graph_.Pointer(object + 16) != 0) return {};
      return {.unknown = true, .runs = "BytesIO.__getstate__, of one that is closed"};
    default:
      return FindMakers(object, rule);
  }
}

ByName PickleRules::FindByName(uint64_t object) {
  if (const auto known = names_.find(object); known != names_.end()) return known->second;
  ByName found;
  if (graph_.TypeName(object) == "function") {
    found = Lookup(object, NameText(graph_.Pointer(object + graph_.state().function_module)),
                   NameText(graph_.Pointer(object + graph_.state().function_qualname)));
  } else if (graph_.TypeName(object) == "functools._lru_cache_wrapper") {
    found = Lookup(object, NameText(graph_.Attribute(object, "__module__")),
                   NameText(graph_.Attribute(object, "__qualname__")));
  } else if (const std::optional<TypeShape> shape = graph_.ReadShape(object); !shape) {
    found.unknown = true;
  } else if (shape->heap()) {
    found = Lookup(object, NameText(graph_.InDict(shape->dict, "__module__")),
                   NameText(graph_.Pointer(object + graph_.layout().type.qualname)));
  } else if (const std::string& name = shape->info.name;
             name == "NoneType" || name == "ellipsis" || name == "NotImplementedType") {
    found = {.module = "builtins", .name = name};  // save_type()
  } else {
    const size_t dot = name.rfind('.');
    found =
        dot == name.npos ? Lookup(object, "builtins", name) : Lookup(object, name.substr(0, dot), name.substr(dot + 1));
  }
  if (names_.size() > 65536) names_.clear();
  return names_[object] = found;
}

ByName PickleRules::FindBuiltin(uint64_t function) {
  const uint64_t name = graph_.Pointer(graph_.Pointer(function + graph_.state().builtin_def));
  return Lookup(function, graph_.Text(graph_.Pointer(function + graph_.state().builtin_module)),
                ReadCString(graph_.memory(), name, kMaxNameBytes).value_or(""));
}

std::string PickleRules::OwnPickler() {
  if (ending_) return "";  // what fails has failed
  const uint64_t module = graph_.ModuleDict("multiprocessing.reduction");
  const uint64_t pickler = graph_.InDict(module, "ForkingPickler"), dump = graph_.InDict(module, "dump");
  const std::string name = graph_.types().NameOf(pickler).value_or("");
  if (!name.empty() && name != "multiprocessing.reduction.ForkingPickler")
    return absl::StrCat("the program's own pickler, ", name);
  const uint64_t attributes = pickler == 0 ? 0 : graph_.Pointer(pickler + graph_.layout().type.dict);
  for (const absl::string_view hook : {"reducer_override", "persistent_id"}) {
    if (attributes != 0 && graph_.InDict(attributes, hook) != 0)
      return absl::StrCat("the program's own ForkingPickler.", hook);
  }
  const std::string type = graph_.TypeName(dump);
  std::string file;
  if (type == "function") CodeName(dump, &file);
  if (type == "builtin_function_or_method" ||
      (!file.empty() && !absl::StrContains(file, "/multiprocessing/reduction.py")))
    return absl::StrCat("the program's own multiprocessing.reduction.dump", file.empty() ? "" : ", ", file);
  return "";
}

std::string PickleRules::DefinedAt(uint64_t object) {
  std::string file;
  if (graph_.TypeName(object) == "function") {
    CodeName(object, &file);
    return file;
  }
  const std::optional<TypeShape> shape = graph_.ReadShape(object);
  if (!shape || !shape->heap()) return "";
  // A class does not know its place before 3.13: the first of its methods is near.
  Edges attributes = graph_.DictItems(shape->dict, EdgeKind::kAttribute);
  Edge edge;
  for (int i = 0; i < 256 && attributes.Next(graph_.memory(), &edge); ++i) {
    const uint64_t function = FunctionIn(edge.object);
    if (graph_.TypeName(function) != "function") continue;
    const std::string function_name = CodeName(function, &file);
    if (!file.empty()) return file;
  }
  return "";
}

}  // namespace cowprof
