// Knows the start of a process by the functions of multiprocessing that its traceback goes through.
#include "python/last_error.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "model/base_name.h"
#include "model/library_name.h"
#include "python/cached_memory.h"

namespace cowprof {
namespace {

constexpr int kMostTracebacks = 128;
constexpr size_t kMostNotes = 64;
constexpr uint64_t kDictUsed = 16;  // PyDictObject.ma_used, 3.6 to 3.14

// BaseException: its traceback stands behind args and, since 3.11, notes.
uint64_t TracebackOf(ObjectGraph& graph, uint64_t error) {
  return error == 0 ? 0 : graph.Pointer(error + graph.state().exception_args + (graph.layout().minor < 11 ? 8 : 16));
}

uint64_t ErrorIn(ObjectGraph& graph) {
  const uint64_t sys = graph.ModuleDict("sys");
  for (const char* name : {"last_exc", "last_value"}) {
    if (graph.layout().minor < 12 && absl::string_view(name) == "last_exc") continue;
    const uint64_t error = graph.NewestInDict(sys, name);
    if (error != 0 && error != graph.interpreter().none) return error;
  }
  return 0;
}

// PyTracebackObject has tb_next at 16 and tb_frame at 24, PyFrameObject since 3.11 f_frame at 24.
std::vector<RawFrame> FramesFrom(ObjectGraph& graph, uint64_t traceback) {
  const PythonLayout& layout = graph.layout();
  std::vector<RawFrame> frames;
  for (int i = 0; i < kMostTracebacks && graph.TypeName(traceback) == "traceback"; ++i) {
    const uint64_t object = graph.Pointer(traceback + 24);
    RawFrame frame{.frame = layout.minor < 11 ? object : graph.Pointer(object + 24)};
    frame.code = graph.Pointer(frame.frame + layout.frame.code) & ~uint64_t{layout.frame.code_tag_mask};
    frames.push_back(frame);
    traceback = graph.Pointer(traceback + 16);
  }
  std::reverse(frames.begin(), frames.end());
  return frames;
}

bool IsIn(const CodeLocation& code, absl::string_view method, absl::string_view file) {
  return EndsInFile(code.file, file) &&
         (code.function == method || absl::EndsWith(code.function, absl::StrCat(".", method)));
}

// "vocab.py:12", with the first line of the function.
std::string PlaceOf(const ObjectGraph& graph, const RawFrame& frame, const CodeLocation& code) {
  const auto line = ReadValue<int32_t>(graph.memory(), frame.code + graph.layout().code.first_line);
  return absl::StrCat(BaseName(code.file), line && *line > 0 ? absl::StrCat(":", *line) : "");
}

std::vector<std::string> NotesOf(ObjectGraph& graph, uint64_t error) {
  std::vector<std::string> notes;
  const uint64_t list = graph.layout().minor < 14 ? 0 : graph.Attribute(error, "__notes__");
  const std::optional<TypeShape> shape = graph.ReadShape(graph.TypeOf(list));
  if (!shape || !shape->is_list()) return notes;
  Edges items = graph.Items(list, EdgeKind::kIndex);
  Edge item;
  if (items.size() > kMostNotes) return notes;
  while (items.Next(graph.memory(), &item)) notes.push_back(graph.Text(item.object));
  return notes;
}

}  // namespace

// Modules/_pickle.c of 3.14.
std::string PathOfNotes(const std::vector<std::string>& notes) {
  std::string path = "Process";
  bool of_state = false;  // a dict with attributes follows; of an object with slots, a tuple of two
  for (auto at = notes.rbegin(); at != notes.rend(); ++at) {
    absl::string_view note = *at;
    if (!absl::ConsumePrefix(&note, "when serializing ")) return "";
    const bool last = at + 1 == notes.rend();
    if (absl::ConsumePrefix(&note, "dict item ")) {
      if (of_state && (!absl::ConsumePrefix(&note, "'") || !absl::ConsumeSuffix(&note, "'"))) return "";
      absl::StrAppend(&path, of_state ? "." : "[", note, of_state ? "" : "]");
      of_state = false;
    } else if (absl::ConsumePrefix(&note, "tuple item ") || (!of_state && absl::ConsumePrefix(&note, "list item "))) {
      if (of_state && (last || !absl::StartsWith(at[1], "when serializing dict item "))) return "";
      if (!of_state) absl::StrAppend(&path, "[", note, "]");
    } else if (of_state) {
      return "";
    } else if (absl::EndsWith(note, " state")) {
      of_state = true;
    } else if (!absl::EndsWith(note, " object") && !(last && absl::EndsWith(note, " class"))) {
      return "";
    }
  }
  return of_state || path == "Process" ? "" : path;
}

std::vector<RawFrame> TracebackFrames(ObjectGraph& graph, uint64_t object) {
  if (graph.TypeName(object) != "traceback") {
    const std::optional<TypeShape> shape = graph.ReadShape(graph.TypeOf(object));
    if (!shape || !shape->is_exception()) return {};
    object = TracebackOf(graph, object);
  }
  return FramesFrom(graph, object);
}

std::vector<RawFrame> LastTraceback(ObjectGraph& graph) {
  std::vector<RawFrame> frames = FramesFrom(graph, TracebackOf(graph, ErrorIn(graph)));
  if (!frames.empty()) return frames;
  return FramesFrom(graph, graph.NewestInDict(graph.ModuleDict("sys"), "last_traceback"));
}

std::optional<LastError> ReadLastError(const Interpreter& interpreter, const MemoryReader& memory) {
  const CachedMemory cached(memory);
  ObjectGraph graph(interpreter, cached);
  const uint64_t error = ErrorIn(graph);
  LastError found = {.type = graph.TypeName(error)};
  if (found.type.empty()) return std::nullopt;
  // OSError(errno, text) has its text second.
  Edges arguments = graph.TupleItems(graph.Pointer(error + graph.state().exception_args));
  Edge argument;
  for (int i = 0; i < 2 && found.message.empty() && arguments.Next(cached, &argument); ++i)
    found.message = graph.Text(argument.object);
  bool starts = false, dumps = false, imports_main = false, refused = false;
  CodeReader codes(interpreter, cached);
  std::string called;  // by the frame that comes next
  for (const RawFrame& frame : LastTraceback(graph)) {
    const std::optional<CodeLocation> code = codes.Resolve(frame.code, 0);
    if (!code) continue;
    starts |= IsIn(*code, "start", "/multiprocessing/process.py");
    for (const char* function : {"_fixup_main_from_path", "_fixup_main_from_name"})
      imports_main |= IsIn(*code, function, "/multiprocessing/spawn.py");
    if (EndsInFile(code->file, "/multiprocessing/popen_spawn_posix.py")) found.method = "spawn";
    if (EndsInFile(code->file, "/multiprocessing/popen_forkserver.py")) found.method = "forkserver";
    for (const char* file : {"/multiprocessing/reduction.py", "/loky/backend/reduction.py"})
      found.in_send |= IsIn(*code, "dumps", file);
    refused |= IsIn(*code, "_check_not_importing_main", "/multiprocessing/spawn.py");
    if (IsIn(*code, "dump", "/multiprocessing/reduction.py")) {
      if (!dumps) found.raised_in = called;
      dumps = true;
      found.package = LibraryOf(code->file);
    }
    called =
        absl::StrCat(code->function.substr(code->function.rfind('.') + 1), " (", PlaceOf(graph, frame, *code), ")");
  }
  if (dumps) found.path = PathOfNotes(NotesOf(graph, error));
  found.in_start = starts && dumps;
  found.importing_main = imports_main && refused;
  return found;
}

SysWatch::SysWatch(const Interpreter& interpreter, const PresentMemory& memory) {
  const uint64_t sys = ObjectGraph(interpreter, memory).ModuleDict("sys");
  const auto used = sys == 0 ? std::nullopt : ReadValue<uint64_t>(memory, sys + kDictUsed);
  if (!used) return;
  used_at_ = sys + kDictUsed;
  used_ = *used;
}

bool SysWatch::HasNewNames(const PresentMemory& memory) {
  uint64_t used = 0;
  if (used_at_ == 0 || !memory.ReadUnchecked(used_at_, {reinterpret_cast<char*>(&used), sizeof(used)})) return false;
  const bool more = used > used_;
  used_ = used;
  return more;
}

}  // namespace cowprof
