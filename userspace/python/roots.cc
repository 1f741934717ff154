// Recognises DataLoader and Process by the names of their classes in the MRO.
#include "python/roots.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "model/base_name.h"
#include "model/library_name.h"
#include "python/cached_memory.h"
#include "python/frame_variables.h"
#include "python/frames.h"
#include "python/graph.h"
#include "python/last_error.h"
#include "python/object_expression.h"
#include "python/process_object.h"

namespace cowprof {
namespace {

constexpr uint64_t kMostGlobals = 4096, kMostModules = 4096, kMostSent = 64;
constexpr size_t kMostFrames = 4096, kMostNames = 4096;

class Finder {
 public:
  Finder(const Interpreter& interpreter, const MemoryReader& memory, std::function<bool()> go_on = nullptr)
      : cached_(memory), graph_(interpreter, cached_), codes_(interpreter, cached_), go_on_(std::move(go_on)) {}

  // Visits variables until `visit` returns true: of frames, innermost first; then of __main__.
  template <typename Visit>
  bool InFrames(const std::vector<RawFrame>& frames, const Visit& visit) {
    for (const RawFrame& frame : frames) {
      for (const Variable& local : VariablesOf(frame)) {
        const uint64_t object = Opened(local.object);
        if (object != 0 && visit(local.name, object, frame)) return true;
      }
    }
    return false;
  }

  // The program's own variables: in frames that are not a library's, and in __main__.
  template <typename Visit>
  void ForEachOwn(const std::vector<RawFrame>& frames, const Visit& visit) {
    for (const RawFrame& frame : frames) {
      if (IsOfLibrary(frame)) continue;
      for (const Variable& local : VariablesOf(frame)) visit(local.name, Opened(local.object));
    }
    Edges globals = graph_.DictItems(graph_.ModuleDict("__main__"), EdgeKind::kAttribute);
    Edge edge;
    for (uint64_t i = 0; i < kMostGlobals && globals.Next(cached_, &edge); ++i)
      visit(graph_.Text(edge.name), edge.object);
  }

  absl::StatusOr<PickleRoot> Find(absl::string_view expression);
  PickleRoot FindByItself(pid_t starter, const JudgedRoots& judged);
  PickleRoot FindInTraceback(const PickleRoot& known) { return FindIn(LastTraceback(graph_), known); }

 private:
  // Also those of a module, whose frame has them in a dict.
  std::vector<Variable> VariablesOf(const RawFrame& frame);
  PickleRoot FindIn(const std::vector<RawFrame>& traceback, const PickleRoot& known = {});
  // The frames of tracebacks and exceptions in local variables: a debugger after the end of what it debugs.
  std::vector<RawFrame> KeptFrames(const std::vector<RawFrame>& frames);
  uint64_t Opened(uint64_t object) {
    return graph_.TypeName(object) == "cell" ? graph_.Pointer(object + graph_.state().wrapped) : object;
  }
  // The Process of `frames` whose start() failed, and the arguments that its function is given.
  void FindFailed(const std::vector<RawFrame>& frames);
  bool HasFailed(const PickleRoot& known) const;  // it sends that
  std::string WhereOf(const RawFrame& frame);
  // What workers get of an object, by its type. Asked of every variable, so this also asks whether to go on.
  enum class Sent { kNothing, kItself, kPartsOfLoader };
  Sent SentOf(uint64_t type);
  // multiprocessing lets no other process start a Process than the one that made it.
  bool IsStartedHere(uint64_t process) {
    return starter_ == 0 || graph_.Int(graph_.Attribute(process, "_parent_pid")).value_or(starter_) == starter_;
  }
  // Whether workers get something of the object.
  bool Take(const std::string& name, uint64_t object, PickleRoot* root);
  // What else in frames of the program and in __main__ workers get something of.
  void CountOthers(const std::vector<RawFrame>& frames, PickleRoot* root);
  bool TakeFrom(const std::vector<RawFrame>& frames, bool of_library, PickleRoot* root);
  bool TakeFromModule(absl::string_view module, uint64_t dict, PickleRoot* root);
  bool TakeFromSpawn(const std::vector<RawFrame>& frames, PickleRoot* root);
  bool IsOfLibrary(const RawFrame& frame);
  void NameObjects(const std::vector<RawFrame>& frames, PickleRoot* root);
  std::vector<RawFrame> Frames();

  CachedMemory cached_;
  ObjectGraph graph_;
  CodeReader codes_;
  const std::function<bool()> go_on_;
  pid_t starter_ = 0;
  JudgedRoots judged_;
  bool stopped_ = false;
  absl::flat_hash_map<uint64_t, Sent> sent_;  // by type
  uint64_t taken_ = 0, variables_ = 0;
  uint64_t failed_ = 0;  // a Process; 0: none is known
  std::vector<uint64_t> failed_arguments_;
};

std::vector<Variable> Finder::VariablesOf(const RawFrame& frame) {
  std::vector<Variable> found = LocalsOf(graph_, frame);
  const std::optional<CodeLocation> code = found.empty() ? codes_.Resolve(frame.code, 0) : std::nullopt;
  if (!code || code->function != "<module>") return found;
  Edges names = graph_.DictItems(NamesOf(graph_, frame), EdgeKind::kAttribute);
  Edge edge;
  for (uint64_t i = 0; i < kMostGlobals && names.Next(cached_, &edge); ++i)
    found.push_back({graph_.Text(edge.name), edge.object});
  return found;
}

std::string Finder::WhereOf(const RawFrame& frame) {
  const auto code = codes_.Resolve(frame.code, frame.instruction);
  return code ? absl::StrCat("in ", code->function, ", ", BaseName(code->file), ":", code->line) : "in a frame";
}

absl::StatusOr<PickleRoot> Finder::Find(absl::string_view expression) {
  absl::StatusOr<std::vector<ObjectStep>> steps = ParseObject(expression);
  if (!steps.ok()) return steps.status();
  PickleRoot root{.expression = std::string(expression)};
  uint64_t at = 0, used = 0;
  std::string module;  // the longest name of one: "package.module.object"
  for (size_t i = 0; i < steps->size() && !(*steps)[i].index && !(*steps)[i].is_key; ++i) {
    absl::StrAppend(&module, i == 0 ? "" : ".", (*steps)[i].name);
    const uint64_t found = graph_.ModuleDict(module);
    if (found == 0 || i + 1 == steps->size()) continue;
    const uint64_t object = graph_.InDict(found, (*steps)[i + 1].name, ObjectGraph::kMostNames);
    if (object == 0) continue;
    at = object;
    used = i + 2;
  }
  if (at == 0) {
    const std::string& first = (*steps)[0].name;
    used = 1;
    at = graph_.InDict(graph_.ModuleDict("__main__"), first, ObjectGraph::kMostNames);
    if (at == 0) {
      const auto is_it = [&](const std::string& name, uint64_t object, const RawFrame& frame) {
        if (name != first) return false;
        at = object;
        root.where = WhereOf(frame);
        return true;
      };
      const std::vector<RawFrame> frames = Frames();
      if (!InFrames(frames, is_it) && !InFrames(LastTraceback(graph_), is_it)) InFrames(KeptFrames(frames), is_it);
    }
    if (at == 0) {
      return absl::NotFoundError(
          absl::StrCat("no module, no name in __main__ and no local variable of a frame is '", first,
                       "'; name a global (__main__.dataset) or a local variable of a function that runs"));
    }
  }
  for (; used < steps->size(); ++used) {
    const ObjectStep& step = (*steps)[used];
    const std::string type = graph_.TypeName(at);
    at = Opened(StepInto(graph_, at, step));
    if (at == 0) {
      return absl::NotFoundError(absl::StrCat(
          "'", expression, "': that ", type.empty() ? "object" : type, " has no ",
          step.index ? absl::StrCat("[", *step.index, "]") : absl::StrCat("'", step.name, "'"),
          step.index || step.is_key ? "" : " (properties are not evaluated; name the underlying attribute)"));
    }
  }
  root.parts = {{"", at}};
  return root;
}

Finder::Sent Finder::SentOf(uint64_t type) {
  if (!stopped_ && ++variables_ % 128 == 0 && go_on_) stopped_ = !go_on_();
  if (stopped_) return Sent::kNothing;
  const auto [known, is_new] = sent_.try_emplace(type, Sent::kNothing);
  if (!is_new) return known->second;
  const std::optional<TypeShape> shape = graph_.ReadShape(type);
  if (!shape || !shape->heap()) return Sent::kNothing;
  for (const uint64_t base : shape->mro) {
    const std::string name = graph_.types().NameOf(base).value_or("");
    if (name == "torch.utils.data.dataloader.DataLoader") return known->second = Sent::kPartsOfLoader;
    if (name == "multiprocessing.process.BaseProcess") return known->second = Sent::kItself;
  }
  return Sent::kNothing;
}

bool Finder::Take(const std::string& name, uint64_t object, PickleRoot* root) {
  const Sent sent = SentOf(graph_.TypeOf(object));
  if (sent == Sent::kNothing) return false;
  ProcessWork work;
  if (sent == Sent::kPartsOfLoader) {
    if (graph_.Int(graph_.Attribute(object, "num_workers")) == 0) return false;
    work = {.of_loader = true, .subjects = {graph_.Attribute(object, "dataset")}};
    // Others may stand beside the one that failed: it sends its data set to the Process.
    if (!failed_arguments_.empty() && !absl::c_linear_search(failed_arguments_, work.subjects[0])) return false;
    for (const char* part : {"dataset", "collate_fn", "worker_init_fn"}) {
      if (const uint64_t value = graph_.Attribute(object, part); value != 0) root->parts.emplace_back(part, value);
    }
  } else if ((failed_ == 0 || failed_ == object) && graph_.Attribute(object, "_popen") == graph_.interpreter().none &&
             graph_.Attribute(object, "_target") != 0 && IsStartedHere(object)) {
    root->parts = {{"", object}};  // one that was started does not keep what it was sent
    work = WorkOf(graph_, object);
  }
  root->expression = name != "self" ? name : sent == Sent::kItself ? "Process" : "DataLoader";
  if (judged_.HasAny(work.subjects)) root->parts.clear();
  if (root->parts.empty()) return false;
  root->of_loader = work.of_loader;
  root->subjects = std::move(work.subjects);
  taken_ = root->starter = object;
  return true;
}

void Finder::CountOthers(const std::vector<RawFrame>& frames, PickleRoot* root) {
  absl::flat_hash_set<uint64_t> others = {taken_};
  const auto consider = [&](const std::string&, uint64_t object) {
    PickleRoot other;
    if (SentOf(graph_.TypeOf(object)) != Sent::kNothing && Take("", object, &other)) others.insert(object);
  };
  ForEachOwn(frames, consider);
  const size_t count = others.size() - 1;
  if (count == 0) return;
  absl::StrAppend(&root->where, root->where.empty() ? "" : "; ", "not judged: ", count, " other ",
                  count == 1 ? "DataLoader or Process" : "DataLoaders or Processes");
}

// Of all threads, the main thread's first; innermost first.
std::vector<RawFrame> Finder::Frames() {
  std::vector<ThreadState> threads = ListThreads(graph_.interpreter(), cached_);
  std::reverse(threads.begin(), threads.end());
  std::vector<RawFrame> frames;
  for (const ThreadState& thread : threads) {
    if (frames.size() > kMostFrames) break;
    const std::vector<RawFrame> more = WalkFrames(graph_.interpreter(), cached_, thread.address);
    frames.insert(frames.end(), more.begin(), more.end());
  }
  return frames;
}

bool Finder::IsOfLibrary(const RawFrame& frame) {
  const std::optional<CodeLocation> code = codes_.Resolve(frame.code, 0);
  return !code || !LibraryOf(code->file).empty();
}

bool Finder::TakeFrom(const std::vector<RawFrame>& frames, bool of_library, PickleRoot* root) {
  for (const RawFrame& frame : frames) {
    if (IsOfLibrary(frame) != of_library) continue;
    for (const Variable& local : VariablesOf(frame)) {
      if (!Take(local.name, Opened(local.object), root)) continue;
      root->where = WhereOf(frame);
      return true;
    }
  }
  return false;
}

// torch.multiprocessing.spawn(fn, args) sends both to each process, and has them while it waits for the processes.
bool Finder::TakeFromSpawn(const std::vector<RawFrame>& frames, PickleRoot* root) {
  for (const RawFrame& frame : frames) {
    const std::optional<CodeLocation> code = codes_.Resolve(frame.code, 0);
    if (!code || code->function != "start_processes" || !absl::EndsWith(code->file, "/torch/multiprocessing/spawn.py"))
      continue;
    for (const Variable& local : LocalsOf(graph_, frame)) {
      if (local.name == "fn" || local.name == "args") root->parts.emplace_back(local.name, Opened(local.object));
      if (local.name == "fn") root->subjects = {Opened(local.object)};
      if (local.name == "start_method") root->starter = Opened(local.object);
    }
    root->expression = "spawn()";
    root->where = "torch.multiprocessing";
    if (!root->parts.empty() && !judged_.HasAny(root->subjects)) return true;
    *root = PickleRoot();
  }
  return false;
}

bool Finder::TakeFromModule(absl::string_view module, uint64_t dict, PickleRoot* root) {
  Edges globals = graph_.DictItems(dict, EdgeKind::kAttribute);
  Edge edge;
  for (uint64_t i = 0; i < kMostGlobals && globals.Next(cached_, &edge); ++i) {
    if (SentOf(graph_.TypeOf(edge.object)) == Sent::kNothing) continue;  // before its name is read
    if (Take(absl::StrCat(module, ".", graph_.Text(edge.name)), edge.object, root)) return true;
  }
  return false;
}

// The arguments of a Process, and what a library calls its own, are told by the names that the program has for them, in
// its frames and in __main__.
void Finder::NameObjects(const std::vector<RawFrame>& frames, PickleRoot* root) {
  const auto name_it = [&](const std::string& name, uint64_t object) {
    if (root->parts[0] == std::pair<std::string, uint64_t>("", object)) return;  // that is where paths begin anyway
    const std::optional<TypeShape> shape = graph_.ReadShape(graph_.TypeOf(object));
    const bool tells = shape && (shape->heap() || shape->is_list() || shape->is_dict() || shape->is_tuple());
    if (tells && root->names.size() < kMostNames) root->names.emplace_back(object, name);
  };
  ForEachOwn(frames, name_it);
}

PickleRoot Finder::FindByItself(pid_t starter, const JudgedRoots& judged) {
  starter_ = starter;
  judged_ = judged;
  PickleRoot root;
  const std::vector<RawFrame> frames = Frames();
  if (TakeFrom(frames, /*of_library=*/false, &root) ||
      TakeFromModule("__main__", graph_.ModuleDict("__main__"), &root)) {
    if (root.parts[0].first.empty()) NameObjects(frames, &root);
    CountOthers(frames, &root);
    return root;
  }
  if (TakeFromSpawn(frames, &root) || TakeFrom(frames, /*of_library=*/true, &root)) {
    NameObjects(frames, &root);
    return root;
  }
  if (judged_.loader) return {};
  Edges modules = graph_.Modules();
  Edge module;
  for (uint64_t i = 0; i < kMostModules && !stopped_ && modules.Next(cached_, &module); ++i) {
    if (TakeFromModule(graph_.Text(module.name), graph_.DictOfModule(module.object), &root)) return root;
  }
  root = FindIn(LastTraceback(graph_));
  return root.parts.empty() ? FindIn(KeptFrames(frames)) : root;
}

std::vector<RawFrame> Finder::KeptFrames(const std::vector<RawFrame>& frames) {
  std::vector<RawFrame> kept;
  for (const RawFrame& frame : frames) {
    for (const Variable& local : LocalsOf(graph_, frame)) {
      if (kept.size() > kMostFrames) return kept;
      const std::vector<RawFrame> more = TracebackFrames(graph_, Opened(local.object));
      kept.insert(kept.end(), more.begin(), more.end());
    }
  }
  return kept;
}

void Finder::FindFailed(const std::vector<RawFrame>& frames) {
  failed_ = 0;
  failed_arguments_.clear();
  for (const RawFrame& frame : frames) {
    const std::optional<CodeLocation> code = codes_.Resolve(frame.code, 0);
    if (!code || !EndsInFile(code->file, "/multiprocessing/process.py") || !absl::EndsWith(code->function, "start"))
      continue;
    for (const Variable& local : LocalsOf(graph_, frame)) {
      if (local.name == "self" && SentOf(graph_.TypeOf(local.object)) == Sent::kItself) failed_ = local.object;
    }
    if (failed_ == 0) continue;
    failed_arguments_ = ArgumentsOf(graph_, failed_, 0, kMostSent);
    return;
  }
}

bool Finder::HasFailed(const PickleRoot& known) const {
  if (failed_ == 0 || known.parts.empty()) return false;
  const auto is_sent = [this](uint64_t subject) { return absl::c_linear_search(failed_arguments_, subject); };
  return known.starter == failed_ || (known.of_loader && absl::c_any_of(known.subjects, is_sent));
}

PickleRoot Finder::FindIn(const std::vector<RawFrame>& frames, const PickleRoot& known) {
  PickleRoot root;
  if (frames.empty()) return root;
  FindFailed(frames);
  if (HasFailed(known)) {
    root = known;
    root.where = "in a traceback";
    return root;
  }
  bool in_frame = TakeFrom(frames, /*of_library=*/false, &root);
  const bool own = in_frame || TakeFromModule("__main__", graph_.ModuleDict("__main__"), &root);
  if (!own && !TakeFromSpawn(frames, &root)) in_frame = TakeFrom(frames, /*of_library=*/true, &root);
  if (in_frame) root.where = "in a traceback";
  if (!root.parts.empty() && (!own || root.parts[0].first.empty())) NameObjects(frames, &root);
  return root;
}

}  // namespace

absl::StatusOr<PickleRoot> FindObject(const Interpreter& interpreter, const MemoryReader& memory,
                                      absl::string_view expression) {
  return Finder(interpreter, memory).Find(expression);
}

PickleRoot FindWhatWorkersGet(const Interpreter& interpreter, const MemoryReader& memory, pid_t starter,
                              std::function<bool()> go_on, const JudgedRoots& judged) {
  return Finder(interpreter, memory, std::move(go_on)).FindByItself(starter, judged);
}

PickleRoot FindWhatFailed(const Interpreter& interpreter, const MemoryReader& memory, const PickleRoot& known) {
  return Finder(interpreter, memory).FindInTraceback(known);
}

}  // namespace cowprof
