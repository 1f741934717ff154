// The numbers of layout.h, one row a version, and what _Py_DebugOffsets puts in their place. Nothing else in cowprof
// spells an offset of CPython. Measured with offsetof against the headers of 3.6.15, 3.7.16, 3.8.18, 3.9.18, 3.10.13,
// 3.11.7, 3.12.1, 3.13.0 and 3.14.10 (x86-64); the free-threaded rows with Py_GIL_DISABLED against the last two.
#include "python/layout.h"

#include <cstring>
#include <initializer_list>

namespace cowprof {
namespace {

constexpr uint32_t kNone = kNoOffset;
constexpr uint32_t kAnyOwner = 256;  // before 3.12 no frame stands for anything but Python code

// Parts that many versions share. PyTypeObject lost tp_print and gained tp_vectorcall, so that only its end moves.
constexpr ObjectOffsets kObject = {.refcount = 0, .type = 8, .var_size = 16};
constexpr ObjectOffsets kObjectFt = {.refcount = 12, .type = 24, .var_size = 32};

constexpr TypeOffsets Type(uint32_t qualname, uint32_t bytes) {
  return {.name = 24,
          .basic_size = 32,
          .item_size = 40,
          .flags = 168,
          .members = 240,
          .dict = 264,
          .qualname = qualname,
          .bytes = bytes};
}
constexpr TypeOffsets TypeFt(uint32_t qualname, uint32_t bytes) {
  return {.name = 40,
          .basic_size = 48,
          .item_size = 56,
          .flags = 184,
          .members = 256,
          .dict = 280,
          .qualname = qualname,
          .bytes = bytes};
}
constexpr FrameOffsets FrameObject(uint32_t lasti, uint32_t locals, InstructionKind kind) {
  return {32, 24, lasti, kNone, locals, 0, kAnyOwner, kind};
}
constexpr CodeOffsets OldCode(uint32_t first_line, uint32_t filename, LineTableKind kind) {
  return {first_line, filename, filename + 8, kNone, filename + 16, kNone, kNone, filename - 32, kind};
}
// filename, name, qualname and line table are neighbours in this order.
constexpr CodeOffsets Code(uint32_t first_line, uint32_t filename, uint32_t adaptive, uint32_t tlbc = kNone) {
  return {first_line,    filename,      filename + 8,
          filename + 16, filename + 24, adaptive,
          tlbc,          filename - 16, LineTableKind::kLocations};
}
constexpr StringOffsets kString36 = {16, 32, 48, 72, 2};
constexpr StringOffsets kString312 = {16, 32, 40, 56, 2};  // wstr is gone, PEP 623
constexpr StringOffsets kString313Ft = {32, 48, 56, 72, 2};
// A byte of its own for `interned`, Include/cpython/unicodeobject.h.
constexpr StringOffsets kString314Ft = {32, 48, 56, 72, 8};

constexpr ContainerOffsets kContainer36 = {32, 24, 32, 40, 0, DictKeysKind::kSized};
constexpr ContainerOffsets kContainer311 = {32, 24, 32, 40, 0, DictKeysKind::kLog2};
constexpr ContainerOffsets kContainer313 = {32, 24, 32, 40, 8, DictKeysKind::kLog2};
constexpr ContainerOffsets kContainer314 = {32, 32, 32, 40, 8, DictKeysKind::kLog2};  // tuples cache their hash
constexpr ContainerOffsets kContainer313Ft = {48, 40, 48, 56, 8, DictKeysKind::kLog2};
constexpr ContainerOffsets kContainer314Ft = {48, 48, 48, 56, 8, DictKeysKind::kLog2};

constexpr uint64_t kManagedWeakref = 1 << 3, kManagedDict = 1 << 4;  // Include/object.h

constexpr PythonLayout kRows[] = {
    {.minor = 6,
     .usable = true,
     .object = kObject,
     .type = Type(848, 400),
     .runtime = {kNone, kNone, kNone, kNone},
     .interpreter = {0, 8, kNone},
     .thread = {8, 16, 24, kNone, 152, kNone},
     .frame = FrameObject(120, 376, InstructionKind::kByteOffset),
     .code = OldCode(36, 96, LineTableKind::kLnotab),
     .string = kString36,
     .container = kContainer36,
     .gc_head_bytes = 32,
     .pool_bytes = 4096},
    {.minor = 7,
     .usable = true,
     .object = kObject,
     .type = Type(848, 400),
     .runtime = {24, 32, 1508, 632},
     .interpreter = {0, 8, kNone},
     .thread = {8, 16, 24, kNone, 176, kNone},
     .frame = FrameObject(104, 360, InstructionKind::kByteOffset),
     .code = OldCode(36, 96, LineTableKind::kLnotab),
     .string = kString36,
     .container = kContainer36,
     .enabled_to_collecting = 300,
     .gc_head_bytes = 32,
     .pool_bytes = 4096},
    {.minor = 8,
     .usable = true,
     .object = kObject,
     .type = Type(864, 416),
     .runtime = {32, 40, 1396, 544},
     .interpreter = {0, 8, kNone},
     .thread = {8, 16, 24, kNone, 176, kNone},
     .frame = FrameObject(104, 360, InstructionKind::kByteOffset),
     .code = OldCode(40, 104, LineTableKind::kLnotab),
     .string = kString36,
     .container = kContainer36,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 4096},
    {.minor = 9,
     .usable = true,
     .object = kObject,
     .type = Type(856, 408),
     .runtime = {32, 40, 588, kNone},
     .interpreter = {0, 8, 816},
     .thread = {8, 16, 24, kNone, 176, kNone},
     .frame = FrameObject(104, 360, InstructionKind::kByteOffset),
     .code = OldCode(40, 104, LineTableKind::kLnotab),
     .string = kString36,
     .container = kContainer36,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 4096},
    {.minor = 10,
     .usable = true,
     .object = kObject,
     .type = Type(864, 408),
     .runtime = {32, 40, 588, kNone},
     .interpreter = {0, 8, 816},
     .thread = {8, 16, 24, kNone, 176, kNone},
     .frame = FrameObject(96, 352, InstructionKind::kUnitIndex),
     .code = OldCode(40, 104, LineTableKind::kLinetable),
     .string = kString36,
     .container = kContainer36,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 16384},
    {.minor = 11,
     .usable = true,
     .object = kObject,
     .type = Type(864, 408),
     .runtime = {40, 48, 596, kNone},
     .interpreter = {0, 16, 848},
     .thread = {8, 16, 56, 8, 152, 160},
     .frame = {32, 48, 56, 69, 72, 0, kAnyOwner, InstructionKind::kPointer},
     .code = Code(72, 112, 184),
     .string = kString36,
     .container = kContainer311,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 16384,
     .preheader_flags = kManagedDict},
    {.minor = 12,
     .usable = true,
     .object = kObject,
     .type = Type(872, 416),
     .runtime = {40, 48, 1548, kNone},
     .interpreter = {0, 72, 312},
     .thread = {8, 16, 56, 0, 136, 144},
     .frame = {0, 8, 56, 70, 72, 0, 3, InstructionKind::kPointer},
     .code = Code(68, 112, 192),
     .string = kString312,
     .container = kContainer311,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 16384,
     .preheader_flags = kManagedDict | kManagedWeakref},
    {.minor = 13,
     .usable = true,
     .object = kObject,
     .type = Type(872, 416),
     .runtime = {632, 640, 2164, kNone},
     .interpreter = {7264, 7344, 7600},
     .thread = {8, 16, 72, kNone, 152, 160},
     .frame = {0, 8, 56, 70, 72, 0, 3, InstructionKind::kPointer},
     .code = Code(68, 112, 200),
     .string = kString312,
     .container = kContainer313,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 16384,
     .preheader_flags = kManagedDict | kManagedWeakref},
    {.minor = 14,
     .usable = true,
     .object = kObject,
     .type = Type(872, 416),
     .runtime = {808, 816, 2340, kNone},
     .interpreter = {7272, 7344, 7600},
     .thread = {8, 16, 72, kNone, 152, 160},
     .frame = {0, 8, 56, 74, 80, 7, 3, InstructionKind::kPointer},
     .code = Code(68, 112, 208),
     .string = kString312,
     .container = kContainer314,
     .enabled_to_collecting = 180,
     .gc_head_bytes = 16,
     .pool_bytes = 16384,
     .preheader_flags = kManagedDict | kManagedWeakref},
    // Free-threaded builds: mimalloc, no GC heads, 16 more bytes in every object.
    {.minor = 13,
     .free_threaded = true,
     .usable = true,
     .object = kObjectFt,
     .type = TypeFt(888, 432),
     .runtime = {632, 640, 2164, kNone},
     .interpreter = {7264, 7344, 7600},
     .thread = {8, 16, 72, kNone, 152, 160},
     .frame = {0, 8, 56, 70, 72, 0, 3, InstructionKind::kPointer},
     .code = Code(84, 128, 216),
     .string = kString313Ft,
     .container = kContainer313Ft,
     .enabled_to_collecting = 188,
     .preheader_flags = kManagedDict | kManagedWeakref},
    {.minor = 14,
     .free_threaded = true,
     .usable = true,
     .object = kObjectFt,
     .type = TypeFt(888, 432),
     .runtime = {808, 816, 2340, kNone},
     .interpreter = {7272, 7344, 7600},
     .thread = {8, 16, 72, kNone, 152, 160},
     .frame = {0, 8, 56, 78, 80, 7, 3, InstructionKind::kPointer},
     .code = Code(84, 128, 232, 224),
     .string = kString314Ft,
     .container = kContainer314Ft,
     .enabled_to_collecting = 180,
     .preheader_flags = kManagedDict | kManagedWeakref},
};

// ---- _Py_DebugOffsets ----

// The table is an array of u64: cookie, version, free_threaded, then groups that each begin with the size of their
// structure. Indexes by version, {3.13, 3.14}: struct _Py_DebugOffsets in Include/internal/pycore_runtime.h of 3.13.0
// and pycore_debug_offsets.h of 3.14.10.
constexpr uint32_t kTableMinors[] = {13, 14};
constexpr uint32_t kTableWords[] = {73, 95};

struct TableRow {
  uint32_t index[2];       // of the field's offset
  uint32_t size_index[2];  // of the size of the structure that holds it
  uint32_t bytes;          // of the field; 8: a pointer, so its offset is a multiple of 8
  uint32_t* (*field)(PythonLayout*);
};

#define COWPROF_FIELD(name) [](PythonLayout* layout) { return &layout->name; }
constexpr TableRow kTable[] = {
    {{5, 5}, {3, 3}, 8, COWPROF_FIELD(runtime.interpreters_head)},
    {{8, 8}, {6, 6}, 8, COWPROF_FIELD(interpreter.next)},
    {{9, 9}, {6, 6}, 8, COWPROF_FIELD(interpreter.threads_head)},
    {{21, 24}, {19, 22}, 8, COWPROF_FIELD(thread.next)},
    {{22, 25}, {19, 22}, 8, COWPROF_FIELD(thread.interpreter)},
    {{23, 26}, {19, 22}, 8, COWPROF_FIELD(thread.frame)},
    {{24, 27}, {19, 22}, 8, COWPROF_FIELD(thread.thread_id)},
    {{25, 28}, {19, 22}, 8, COWPROF_FIELD(thread.native_thread_id)},
    {{29, 32}, {28, 31}, 8, COWPROF_FIELD(frame.previous)},
    {{30, 33}, {28, 31}, 8, COWPROF_FIELD(frame.code)},
    {{31, 34}, {28, 31}, 8, COWPROF_FIELD(frame.instruction)},
    {{32, 35}, {28, 31}, 8, COWPROF_FIELD(frame.locals)},
    {{33, 36}, {28, 31}, 1, COWPROF_FIELD(frame.owner)},
    {{35, 40}, {34, 39}, 8, COWPROF_FIELD(code.filename)},
    {{36, 41}, {34, 39}, 8, COWPROF_FIELD(code.name)},
    {{37, 42}, {34, 39}, 8, COWPROF_FIELD(code.qualname)},
    {{38, 43}, {34, 39}, 8, COWPROF_FIELD(code.line_table)},
    {{39, 44}, {34, 39}, 4, COWPROF_FIELD(code.first_line)},
    {{41, 46}, {34, 39}, 8, COWPROF_FIELD(code.locals)},
    {{43, 48}, {34, 39}, 2, COWPROF_FIELD(code.adaptive)},
    {{45, 51}, {44, 50}, 8, COWPROF_FIELD(object.type)},
    {{47, 53}, {46, 52}, 8, COWPROF_FIELD(type.name)},
    {{49, 55}, {46, 52}, 8, COWPROF_FIELD(type.flags)},
    {{51, 57}, {50, 56}, 8, COWPROF_FIELD(container.tuple_items)},
    {{52, 58}, {50, 56}, 8, COWPROF_FIELD(object.var_size)},
    {{57, 67}, {56, 66}, 8, COWPROF_FIELD(container.dict_keys)},
    {{58, 68}, {56, 66}, 8, COWPROF_FIELD(container.dict_values)},
    {{66, 76}, {64, 74}, 1, COWPROF_FIELD(container.bytes_data)},
    {{68, 78}, {67, 77}, 4, COWPROF_FIELD(string.state)},
    {{69, 79}, {67, 77}, 8, COWPROF_FIELD(string.length)},
    {{70, 80}, {67, 77}, 1, COWPROF_FIELD(string.ascii_data)},
};
#undef COWPROF_FIELD
// gc.collecting lies in `gc` of the interpreter.
constexpr uint32_t kGcIndex[] = {10, 11}, kGcSizeIndex[] = {71, 81}, kCollectingIndex[] = {72, 82};

constexpr uint64_t kEnabledInGc = 12;  // 3.7 to 3.14, with a GIL and without; the table doesn't say

constexpr char kCookie[] = "xdebugpy";
constexpr uint64_t kMaxStructureBytes = 16 << 20;  // _PyRuntimeState holds every static object: 400 KB in 3.14

uint64_t WordAt(absl::Span<const char> bytes, size_t index) {
  uint64_t word = 0;
  memcpy(&word, bytes.data() + index * sizeof(word), sizeof(word));
  return word;
}

PythonLayout Unusable(PythonLayout layout, const char* reason) {
  layout.usable = false;
  layout.reason = reason;
  return layout;
}

// An offset that lies, with its field, inside a structure of a size that can be.
bool IsSane(uint64_t offset, uint64_t structure_bytes, uint32_t field_bytes) {
  return structure_bytes <= kMaxStructureBytes && offset < structure_bytes && field_bytes <= structure_bytes - offset &&
         offset % field_bytes == 0;
}

}  // namespace

PythonLayout LayoutOf(uint32_t minor, uint32_t micro, bool free_threaded) {
  for (const PythonLayout& row : kRows) {
    if (row.minor != minor || row.free_threaded != free_threaded) continue;
    PythonLayout layout = row;
    // _PyRuntimeState grew in 3.7.4: py-spy's bindings of 3.7.0 to 3.7.3, not measured here.
    if (minor == 7 && micro <= 3) layout.runtime.tss_key = 1420;
    return layout;
  }
  PythonLayout layout;
  layout.minor = minor;
  layout.free_threaded = free_threaded;
  return Unusable(layout, minor < 6 ? "it is older than CPython 3.6, the first one that cowprof knows"
                                    : "it is newer than CPython 3.14, the last one whose layout cowprof knows");
}

PythonLayout WithTraceRefs(PythonLayout layout) {
  constexpr uint32_t kShift = 16;  // _ob_next and _ob_prev, Include/object.h
  FrameOffsets& frame = layout.frame;
  CodeOffsets& code = layout.code;
  std::initializer_list<uint32_t*> in_objects = {&layout.object.refcount,
                                                 &layout.object.type,
                                                 &layout.object.var_size,
                                                 &layout.type.name,
                                                 &layout.type.basic_size,
                                                 &layout.type.item_size,
                                                 &layout.type.flags,
                                                 &layout.type.members,
                                                 &layout.type.dict,
                                                 &layout.type.qualname,
                                                 &layout.type.bytes,
                                                 &code.first_line,
                                                 &code.filename,
                                                 &code.name,
                                                 &code.qualname,
                                                 &code.line_table,
                                                 &code.adaptive,
                                                 &code.locals,
                                                 &layout.string.length,
                                                 &layout.string.state,
                                                 &layout.string.ascii_data,
                                                 &layout.string.compact_data,
                                                 &layout.container.bytes_data,
                                                 &layout.container.tuple_items,
                                                 &layout.container.dict_keys,
                                                 &layout.container.dict_values};
  for (uint32_t* offset : in_objects) {
    if (*offset != kNone) *offset += kShift;
  }
  // Frames are objects up to 3.10.
  if (frame.instruction_kind != InstructionKind::kPointer) {
    for (uint32_t* offset : {&frame.code, &frame.previous, &frame.instruction, &frame.locals}) *offset += kShift;
  }
  return layout;
}

bool ParseDebugOffsetsHead(absl::Span<const char> bytes, DebugOffsetsHead* head) {
  if (bytes.size() < 24 || memcmp(bytes.data(), kCookie, 8) != 0) return false;
  const uint64_t version = WordAt(bytes, 1);
  if (version >> 24 != 3) return false;
  head->version_hex = static_cast<uint32_t>(version);
  head->free_threaded = WordAt(bytes, 2) != 0;
  return true;
}

PythonLayout WithDebugOffsets(PythonLayout layout, absl::Span<const char> bytes) {
  DebugOffsetsHead head;
  if (!ParseDebugOffsetsHead(bytes, &head)) return Unusable(layout, "its table of offsets has no head");
  const uint32_t minor = head.version_hex >> 16 & 0xff;
  size_t version = 0;
  while (version < std::size(kTableMinors) && kTableMinors[version] != minor) ++version;
  if (version == std::size(kTableMinors)) {
    return Unusable(layout, "it publishes a table of offsets whose order cowprof doesn't know yet");
  }
  if (minor != layout.minor || head.free_threaded != layout.free_threaded) {
    return Unusable(layout, "its table of offsets is of another version than the interpreter");
  }
  if (bytes.size() < kTableWords[version] * sizeof(uint64_t))
    return Unusable(layout, "its table of offsets is cut off");
  for (const TableRow& row : kTable) {
    const uint64_t offset = WordAt(bytes, row.index[version]);
    if (!IsSane(offset, WordAt(bytes, row.size_index[version]), row.bytes)) {
      return Unusable(layout, "its table of offsets says what can't be");
    }
    *row.field(&layout) = static_cast<uint32_t>(offset);
  }
  const uint64_t gc = WordAt(bytes, kGcIndex[version]), collecting = WordAt(bytes, kCollectingIndex[version]);
  const uint64_t gc_bytes = WordAt(bytes, kGcSizeIndex[version]);
  if (!IsSane(collecting, gc_bytes, 4) || collecting <= kEnabledInGc || !IsSane(gc, WordAt(bytes, 6), 8)) {
    return Unusable(layout, "its table of offsets says what can't be");
  }
  layout.interpreter.collecting = static_cast<uint32_t>(gc + collecting);
  layout.enabled_to_collecting = static_cast<uint32_t>(collecting - kEnabledInGc);
  layout.runtime.interpreters_main = layout.runtime.interpreters_head + 8;  // struct pyinterpreters, 3.7 to 3.14
  return layout;
}

}  // namespace cowprof
