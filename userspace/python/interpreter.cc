// Reads what a CPython reveals about itself, in this order: the shape of an object from PyType_Type, which is its own
// type; the version; the row of layout.cc; the addresses, each verified by a pointer back to it.
#include "python/interpreter.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "python/debug_offsets.h"
#include "python/frames.h"

namespace cowprof {
namespace {

constexpr uint64_t kMaxBssBytes = 64 << 20;
constexpr size_t kChunkBytes = 1 << 16;
constexpr size_t kVersionTextBytes = 250;  // size of the buffer in Py_GetVersion(), Python/getversion.c
constexpr uint64_t kReadyFlag = 1 << 12;   // Py_TPFLAGS_READY
constexpr size_t kMaxThreadsToCheck = 64;
constexpr uint32_t kNewestWithTwoHeads = 7;  // whose GC heads may have one of two sizes
constexpr size_t kMostFollowed = 32768;      // pointers in .bss; 3.6's method cache alone may have 8,192

// glibc x86-64, 2.26 to 2.43: struct pthread.specific_1stblock, 32 entries of {seq, data} (nptl/descr.h).
constexpr uint64_t kSpecificBlock = 0x310;
constexpr uint32_t kFirstBlockKeys = 32;

struct Version {
  uint32_t hex = 0;
  uint32_t major() const { return hex >> 24; }
  uint32_t minor() const { return hex >> 16 & 0xff; }
  uint32_t micro() const { return hex >> 8 & 0xff; }
  // PY_RELEASE_LEVEL_ALPHA and _BETA; 0 if only the text was found.
  bool unfinished() const { return (hex >> 4 & 0xf) == 0xa || (hex >> 4 & 0xf) == 0xb; }
};

uint64_t Pointer(const MemoryReader& memory, uint64_t address) {
  return address == 0 ? 0 : ReadValue<uint64_t>(memory, address).value_or(0);
}

// ---- The shape of an object ----

struct Shape {
  uint64_t type_type = 0;
  uint32_t type_offset = 0;  // of ob_type: 8, or 24 with Py_TRACE_REFS or when free-threaded
};

// PyType_Type is its own type. If the program has a copy of it (R_X86_64_COPY), the symbol's ob_type leads to the one
// in use.
std::optional<Shape> ReadShape(uint64_t symbol, const MemoryReader& memory) {
  for (const uint32_t offset : {8u, 24u}) {
    const uint64_t type = Pointer(memory, symbol + offset);
    if (IsUserPointer(type) && Pointer(memory, type + offset) == type) return Shape{type, offset};
  }
  return std::nullopt;
}

// ---- The version ----

// "3.8.18 (default, ...) \n[GCC 12.2.0]", "2.7.18 (...": what Py_GetVersion() returns in every version.
std::optional<Version> ParseVersionText(absl::string_view text) {
  const absl::string_view shown = text.substr(0, text.find('\0'));
  const size_t blank = shown.find(" (");
  if (blank == shown.npos || (shown.find(") [", blank) == shown.npos && shown.find(") \n[", blank) == shown.npos)) {
    return std::nullopt;
  }
  uint32_t part[3] = {};
  size_t at = 0;
  for (int i = 0; i < 3; ++i) {
    size_t digits = 0;
    for (; at < blank && std::isdigit(static_cast<unsigned char>(shown[at])) && digits < 3; ++at, ++digits) {
      part[i] = part[i] * 10 + (shown[at] - '0');
    }
    if (digits == 0 || part[i] > 0xff || (i < 2 && shown[at++] != '.')) return std::nullopt;
  }
  return Version{part[0] << 24 | part[1] << 16 | part[2] << 8};
}

// Py_GetVersion() keeps its text in a static buffer, filled while the interpreter starts: search the module's .bss.
std::optional<Version> ScanForVersionText(const PythonModule& module, const MemoryReader& memory) {
  const uint64_t end = std::min(module.bss_end, module.bss_begin + kMaxBssBytes);
  std::string chunk;
  for (uint64_t at = module.bss_begin; at < end; at += kChunkBytes) {
    // Chunks overlap by the length of a text, so that none is split.
    chunk.resize(std::min<uint64_t>(kChunkBytes + kVersionTextBytes, end - at));
    ReadOrZero(memory, at, absl::MakeSpan(chunk.data(), chunk.size()));
    const absl::string_view text = chunk;
    for (size_t dot = text.find('.'); dot != text.npos; dot = text.find('.', dot + 1)) {
      if (dot == 0 || (text[dot - 1] != '3' && text[dot - 1] != '2')) continue;
      if (dot >= 2 && text[dot - 2] != '\0') continue;
      const auto version = ParseVersionText(text.substr(dot - 1, kVersionTextBytes));
      if (version) return version;
    }
  }
  return std::nullopt;
}

// Most to least reliable: Py_Version (3.11 and later), the table of offsets (3.13 and later), the text. An old
// interpreter that is starting has none of these: take the minor version from its file name and assume a late micro.
Version ReadVersion(const PythonModule& module, const MemoryReader& memory, absl::Span<const char> table) {
  if (module.py_version != 0) {
    const auto version = ReadValue<uint32_t>(memory, module.py_version);
    if (version && *version >> 24 == 3) return Version{*version};
  }
  DebugOffsetsHead head;
  if (ParseDebugOffsetsHead(table, &head)) return Version{head.version_hex};
  const auto version = ScanForVersionText(module, memory);
  if (version) return *version;
  if (module.minor_of_path != 0) return Version{3u << 24 | (module.minor_of_path & 0xff) << 16 | 0xff00};
  return Version{};
}

std::string Spell(Version version) {
  const std::string minor = absl::StrCat(version.major(), ".", version.minor());
  return version.micro() == 0xff ? minor : absl::StrCat(minor, ".", version.micro());
}

// ---- The main interpreter ----

bool IsInterpreter(const PythonLayout& layout, const MemoryReader& memory, uint64_t address) {
  if (!IsUserPointer(address)) return false;
  const uint64_t thread = Pointer(memory, address + layout.interpreter.threads_head);
  return IsUserPointer(thread) && Pointer(memory, thread + layout.thread.interpreter) == address;
}

// 3.6 has no _PyRuntime, and if stripped no interp_head: search its .bss for a pointer to an interpreter state.
uint64_t ScanForInterpreter(const PythonModule& module, const PythonLayout& layout, const MemoryReader& memory) {
  const uint64_t end = std::min(module.bss_end, module.bss_begin + kMaxBssBytes);
  std::vector<uint64_t> words;
  size_t followed = 0;  // bounded: a program may fill the .bss of what only looks like 3.6 with pointers
  for (uint64_t at = module.bss_begin & ~uint64_t{7}; at + 8 <= end; at += kChunkBytes) {
    words.assign(std::min<uint64_t>(kChunkBytes, end - at) / 8, 0);
    ReadOrZero(memory, at, absl::MakeSpan(reinterpret_cast<char*>(words.data()), words.size() * 8));
    // The first two words of a PyInterpreterState: next and tstate_head.
    std::vector<std::array<uint64_t, 2>> heads(words.size());
    std::vector<ReadRequest> requests;
    for (size_t i = 0; i < words.size(); ++i) {
      // It was allocated with malloc(), so it is not in the module's own data.
      if (!IsUserPointer(words[i]) || (words[i] >= module.bss_begin && words[i] < module.bss_end)) continue;
      requests.push_back({words[i], absl::MakeSpan(reinterpret_cast<char*>(&heads[i]), 16)});
    }
    followed += requests.size();
    if (followed > kMostFollowed) return 0;
    memory.ReadMany(absl::MakeSpan(requests));
    for (const ReadRequest& request : requests) {
      if (request.ok && IsInterpreter(layout, memory, request.address)) return request.address;
    }
  }
  return 0;
}

uint64_t FindMainInterpreter(const PythonModule& module, const PythonLayout& layout, const MemoryReader& memory) {
  if (layout.runtime.interpreters_main != kNoOffset) {
    if (module.runtime == 0) return 0;
    const uint64_t main = Pointer(memory, module.runtime + layout.runtime.interpreters_main);
    return IsInterpreter(layout, memory, main) ? main : 0;
  }
  const uint64_t head = Pointer(memory, module.interp_head);
  if (IsInterpreter(layout, memory, head)) return head;
  const uint64_t thread = Pointer(memory, module.thread_state_current);
  const uint64_t owner = IsUserPointer(thread) ? Pointer(memory, thread + layout.thread.interpreter) : 0;
  if (IsInterpreter(layout, memory, owner)) return owner;
  return module.interp_head == 0 ? ScanForInterpreter(module, layout, memory) : 0;
}

// ---- GC heads ----

// The size of a GC head up to 3.7: 24, or 32 with bpo-27987, which pyenv adds to a version without it. The head before
// sys.modules proves it: it is linked in both directions. nullopt: not in a list yet, or the list is being changed.
std::optional<uint32_t> GcHeadBytesOf(const Interpreter& interpreter, const MemoryReader& memory) {
  if (interpreter.main_interpreter == 0) return std::nullopt;
  const uint64_t modules = Pointer(memory, interpreter.main_interpreter + interpreter.layout.interpreter.modules);
  if (!IsUserPointer(modules)) return std::nullopt;
  for (const uint32_t bytes : {24u, 32u}) {
    const uint64_t head = modules - bytes, next = Pointer(memory, head), previous = Pointer(memory, head + 8);
    if (IsUserPointer(next) && IsUserPointer(previous) && Pointer(memory, next + 8) == head &&
        Pointer(memory, previous) == head)
      return bytes;
  }
  return std::nullopt;
}

// ---- The thread state of a thread ----

// A key is right if some thread's slot holds that thread's state, which also proves that the C library is glibc. Tries
// all keys if the key is unknown (3.6, stripped).
uint64_t FindTsdOffset(const PythonModule& module, const Interpreter& interpreter, const MemoryReader& memory) {
  std::optional<uint32_t> known;
  if (interpreter.layout.runtime.tss_key != kNoOffset) {
    known = ReadValue<uint32_t>(memory, module.runtime + interpreter.layout.runtime.tss_key);
  } else if (module.auto_tls_key != 0) {
    known = ReadValue<uint32_t>(memory, module.auto_tls_key);
  }
  const uint32_t first = known.value_or(0), last = known.value_or(kFirstBlockKeys - 1);
  const std::vector<ThreadState> threads = ListThreads(interpreter, memory);
  for (uint32_t key = first; key <= last && key < kFirstBlockKeys; ++key) {
    const uint64_t offset = kSpecificBlock + 16 * key + 8;
    for (size_t i = 0; i < std::min(threads.size(), kMaxThreadsToCheck); ++i) {
      const ThreadState& thread = threads[threads.size() - 1 - i];  // the main thread is last
      if (IsUserPointer(thread.thread_id) && Pointer(memory, thread.thread_id + offset) == thread.address) {
        return offset;
      }
    }
  }
  return 0;
}

uint64_t CollectingAddress(const PythonModule& module, const Interpreter& interpreter) {
  const PythonLayout& layout = interpreter.layout;
  if (layout.interpreter.collecting != kNoOffset) {
    return interpreter.main_interpreter == 0 ? 0 : interpreter.main_interpreter + layout.interpreter.collecting;
  }
  if (layout.runtime.collecting != kNoOffset) return module.runtime + layout.runtime.collecting;
  return module.collecting;
}

uint64_t EnabledAddress(const PythonModule& module, const Interpreter& interpreter) {
  const uint32_t distance = interpreter.layout.enabled_to_collecting;
  if (distance == 0) return module.enabled;
  return interpreter.collecting_address == 0 ? 0 : interpreter.collecting_address - distance;
}

absl::Status CanNotUse(const PythonModule& module, absl::string_view version, absl::string_view why) {
  return absl::FailedPreconditionError(absl::StrCat("read CPython ", version, " in ", module.path, ": ", why));
}

PythonLayout LayoutFor(Version version, bool free_threaded, bool trace_refs, absl::Span<const char> table) {
  PythonLayout layout = LayoutOf(version.minor(), version.micro(), free_threaded);
  DebugOffsetsHead head;
  const bool has_table = ParseDebugOffsetsHead(table, &head);
  if (has_table && (layout.usable || version.minor() > kNewestMinor)) return WithDebugOffsets(layout, table);
  return trace_refs ? WithTraceRefs(layout) : layout;
}

}  // namespace

absl::StatusOr<Interpreter> ReadInterpreter(const PythonModule& module, const MemoryReader& memory) {
  if (!ReadValue<uint64_t>(memory, module.type_type)) {
    return absl::PermissionDeniedError(absl::StrCat("read PyType_Type of ", module.path,
                                                    " in the process's memory: it ended or may not be read; run "
                                                    "cowprof as root or as the owner of the process"));
  }
  Interpreter interpreter;
  interpreter.runtime = module.runtime;
  interpreter.debug = module.debug;
  interpreter.code_type = module.code_type;
  interpreter.none = module.none;
  const std::optional<Shape> shape = ReadShape(module.type_type, memory);
  if (!shape) return interpreter;  // not relocated yet
  interpreter.type_type = shape->type_type;

  // Every _PyRuntimeState that has a table is larger than 1,024 bytes.
  std::string table(kDebugOffsetsBytes, '\0');
  if (module.runtime == 0 || !memory.Read(module.runtime, absl::MakeSpan(table.data(), table.size()))) table.clear();
  const Version version = ReadVersion(module, memory, table);
  if (version.hex == 0) return interpreter;
  interpreter.version_hex = version.micro() == 0xff ? version.hex & 0xffff0000 : version.hex;
  interpreter.version = Spell(version);
  interpreter.patch_known = version.micro() != 0xff;
  if (version.major() != 3) return CanNotUse(module, interpreter.version, "cowprof knows Python 3 only");
  if (version.unfinished()) return CanNotUse(module, interpreter.version, "alphas and betas have no fixed layout");

  // ob_type is 16 bytes further: free-threaded since 3.13, where Py_TRACE_REFS adds nothing to the header; else traced.
  interpreter.free_threaded = shape->type_offset == 24 && version.minor() >= 13;
  interpreter.trace_refs = shape->type_offset == 24 && !interpreter.free_threaded;
  interpreter.layout = LayoutFor(version, interpreter.free_threaded, interpreter.trace_refs, table);
  const PythonLayout& layout = interpreter.layout;
  if (!layout.usable) return CanNotUse(module, interpreter.version, layout.reason);
  if (layout.object.type != shape->type_offset) {
    return CanNotUse(module, interpreter.version, "its objects do not have this version's layout");
  }
  if (Pointer(memory, module.code_type + layout.object.type) != shape->type_type) {
    return CanNotUse(module, interpreter.version, "PyCode_Type is missing or not a type");
  }
  interpreter.pool_bytes = layout.pool_bytes;
  interpreter.main_interpreter = FindMainInterpreter(module, layout, memory);
  if (version.minor() <= kNewestWithTwoHeads) {
    if (const auto bytes = GcHeadBytesOf(interpreter, memory)) {
      interpreter.layout = WithGcHead(layout, *bytes);
    } else {
      interpreter.layout.gc_head_bytes = 0;
    }
  }
  interpreter.collecting_address = CollectingAddress(module, interpreter);
  interpreter.enabled_address = EnabledAddress(module, interpreter);
  interpreter.tsd_offset = FindTsdOffset(module, interpreter, memory);
  const uint64_t flags = Pointer(memory, shape->type_type + layout.type.flags);
  interpreter.ready = interpreter.main_interpreter != 0 && (flags & kReadyFlag) != 0;
  return interpreter;
}

std::optional<bool> CollectorOn(const Interpreter& interpreter, const MemoryReader& memory) {
  if (interpreter.enabled_address == 0) return std::nullopt;
  const std::optional<int32_t> enabled = ReadValue<int32_t>(memory, interpreter.enabled_address);
  if (!enabled || (*enabled != 0 && *enabled != 1)) return std::nullopt;
  return *enabled == 1;
}

uint64_t FullCollectionsAddress(const Interpreter& interpreter) {
  // Since 3.7 struct _gc_runtime_state has generation_stats[3], of three words each, before `collecting`. 3.14.0 to
  // 3.14.4 go through all objects in increments, which count as generation 1.
  constexpr uint64_t kStatsOfOldest = 24;
  const uint32_t minor = interpreter.layout.minor, micro = interpreter.version_hex >> 8 & 0xff;
  const bool in_increments = minor == 14 && micro < 5;
  if (interpreter.collecting_address == 0 || minor < 7 || in_increments) return 0;
  return interpreter.collecting_address - kStatsOfOldest;
}

uint64_t PermanentGenerationAddress(const Interpreter& interpreter) {
  // From 3.7 to 3.14 struct _gc_runtime_state has it before generation_stats[3]: a head, an int and an int, aligned as
  // the head is, which up to 3.7 may be a union with a long double.
  constexpr uint64_t kStats = 72, kHeadWithLongDouble = 32;
  const uint64_t head = interpreter.layout.gc_head_bytes;
  if (interpreter.collecting_address == 0 || interpreter.layout.minor < 7 || head == 0 || interpreter.free_threaded)
    return 0;
  const uint64_t generation = head == kHeadWithLongDouble ? head + 16 : head + 8;
  return interpreter.collecting_address - kStats - generation;
}

absl::StatusOr<Interpreter> FindInterpreter(const ProcFs& proc, pid_t pid, const MemoryReader& memory,
                                            FilesWithoutPython* without) {
  const absl::StatusOr<std::vector<Mapping>> mappings = proc.ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  absl::StatusOr<Interpreter> best =
      absl::NotFoundError(absl::StrCat("find CPython in process ", pid, ": no mapped file defines PyType_Type"));
  const absl::StatusOr<std::vector<PythonModule>> modules = FindPythonModules(proc, pid, *mappings, without);
  if (!modules.ok()) return modules.status();
  for (const PythonModule& module : *modules) {
    absl::StatusOr<Interpreter> interpreter = ReadInterpreter(module, memory);
    // With two of them in one process (a static program that loads libpython), use the one that was started.
    if (interpreter.ok() && interpreter->ready) return interpreter;
    if (!best.ok() && (interpreter.ok() || absl::IsNotFound(best.status()))) best = std::move(interpreter);
  }
  return best;
}

}  // namespace cowprof
