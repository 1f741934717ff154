// The numbers of layout.h, one row per version. Only this file and debug_offsets.cc spell an offset of CPython.
// Measured with offsetof against the headers of 3.6.15, 3.7.16, 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0
// and 3.14.10 (x86-64); the free-threaded rows with Py_GIL_DISABLED against the last two. That 3.6.15 was pyenv's,
// which has the GC head of 3.7.4; upstream's (and 3.7.0 to 3.7.3) is from Include/objimpl.h and was not run.
#include "python/layout.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>

namespace cowprof {
namespace {

constexpr uint32_t kNone = kNoOffset;
constexpr uint32_t kAnyOwner = 256;  // before 3.12 every frame is Python code

// Parts that versions share. PyTypeObject lost tp_print and gained tp_vectorcall, so only its end moved.
constexpr ObjectOffsets kObject = {.refcount = 0, .type = 8, .var_size = 16};
constexpr ObjectOffsets kObjectFt = {.refcount = 12, .type = 24, .var_size = 32};

constexpr TypeOffsets Type(uint32_t qualname) {
  return {
      .name = 24, .basic_size = 32, .item_size = 40, .flags = 168, .members = 240, .dict = 264, .qualname = qualname};
}
constexpr TypeOffsets TypeFt(uint32_t qualname) {
  return {
      .name = 40, .basic_size = 48, .item_size = 56, .flags = 184, .members = 256, .dict = 280, .qualname = qualname};
}
constexpr FrameOffsets FrameObject(uint32_t lasti, uint32_t locals, InstructionKind kind) {
  return {32, 24, lasti, kNone, locals, 0, kAnyOwner, kind};
}
constexpr CodeOffsets OldCode(uint32_t first_line, uint32_t filename, LineTableKind kind) {
  return {first_line, filename, filename + 8, kNone, filename + 16, kNone, kNone, filename - 32, kind};
}
// filename, name, qualname and line table are adjacent, in this order.
constexpr CodeOffsets Code(uint32_t first_line, uint32_t filename, uint32_t adaptive, uint32_t tlbc = kNone) {
  return {first_line,    filename,      filename + 8,
          filename + 16, filename + 24, adaptive,
          tlbc,          filename - 16, LineTableKind::kLocations};
}
constexpr StringOffsets kString36 = {16, 32, 48, 72, 2};
constexpr StringOffsets kString312 = {16, 32, 40, 56, 2};  // wstr is gone, PEP 623
constexpr StringOffsets kString313Ft = {32, 48, 56, 72, 2};
// `interned` has a byte of its own, Include/cpython/unicodeobject.h.
constexpr StringOffsets kString314Ft = {32, 48, 56, 72, 8};

constexpr ContainerOffsets kContainer36 = {32, 24, 32, 40, 0, DictKeysKind::kSized};
constexpr ContainerOffsets kContainer311 = {32, 24, 32, 40, 0, DictKeysKind::kLog2};
constexpr ContainerOffsets kContainer313 = {32, 24, 32, 40, 8, DictKeysKind::kLog2};
constexpr ContainerOffsets kContainer314 = {32, 32, 32, 40, 8, DictKeysKind::kLog2};  // tuples cache their hash
constexpr ContainerOffsets kContainer313Ft = {48, 40, 48, 56, 8, DictKeysKind::kLog2};
constexpr ContainerOffsets kContainer314Ft = {48, 48, 48, 56, 8, DictKeysKind::kLog2};

constexpr PythonLayout kRows[] = {
    {.minor = 6,
     .usable = true,
     .object = kObject,
     .type = Type(848),
     .runtime = {kNone, kNone, kNone, kNone},
     .interpreter = {8, kNone, 16},
     .thread = {8, 16, 24, kNone, 152},
     .frame = FrameObject(120, 376, InstructionKind::kByteOffset),
     .code = OldCode(36, 96, LineTableKind::kLnotab),
     .string = kString36,
     .container = kContainer36,
     .gc_head_bytes = 24,
     .pool_bytes = 4096},
    {.minor = 7,
     .usable = true,
     .object = kObject,
     .type = Type(848),
     .runtime = {24, 32, 1508, 632},
     .interpreter = {8, kNone, 40},
     .thread = {8, 16, 24, kNone, 176},
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
     .type = Type(864),
     .runtime = {32, 40, 1396, 544},
     .interpreter = {8, kNone, 56},
     .thread = {8, 16, 24, kNone, 176},
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
     .type = Type(856),
     .runtime = {32, 40, 588, kNone},
     .interpreter = {8, 816, 856},
     .thread = {8, 16, 24, kNone, 176},
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
     .type = Type(864),
     .runtime = {32, 40, 588, kNone},
     .interpreter = {8, 816, 856},
     .thread = {8, 16, 24, kNone, 176},
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
     .type = Type(864),
     .runtime = {40, 48, 596, kNone},
     .interpreter = {16, 848, 888},
     .thread = {8, 16, 56, 8, 152},
     .frame = {32, 48, 56, 69, 72, 0, kAnyOwner, InstructionKind::kPointer},
     .code = Code(72, 112, 184),
     .string = kString36,
     .container = kContainer311,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 16384},
    {.minor = 12,
     .usable = true,
     .object = kObject,
     .type = Type(872),
     .runtime = {40, 48, 1548, kNone},
     .interpreter = {72, 312, 944},
     .thread = {8, 16, 56, 0, 136},
     .frame = {0, 8, 56, 70, 72, 0, 3, InstructionKind::kPointer},
     .code = Code(68, 112, 192),
     .string = kString312,
     .container = kContainer311,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 16384},
    {.minor = 13,
     .usable = true,
     .object = kObject,
     .type = Type(872),
     .runtime = {632, 640, 2164, kNone},
     .interpreter = {7344, 7600, 7656},
     .thread = {8, 16, 72, kNone, 152},
     .frame = {0, 8, 56, 70, 72, 0, 3, InstructionKind::kPointer},
     .code = Code(68, 112, 200),
     .string = kString312,
     .container = kContainer313,
     .enabled_to_collecting = 188,
     .gc_head_bytes = 16,
     .pool_bytes = 16384},
    {.minor = 14,
     .usable = true,
     .object = kObject,
     .type = Type(872),
     .runtime = {808, 816, 2340, kNone},
     .interpreter = {7344, 7600, 7688},
     .thread = {8, 16, 72, kNone, 152},
     .frame = {0, 8, 56, 74, 80, 7, 3, InstructionKind::kPointer},
     .code = Code(68, 112, 208),
     .string = kString312,
     .container = kContainer314,
     .enabled_to_collecting = 180,
     .gc_head_bytes = 16,
     .pool_bytes = 16384},
    // Free-threaded builds: mimalloc, no GC heads, 16 more bytes in every object.
    {.minor = 13,
     .free_threaded = true,
     .usable = true,
     .object = kObjectFt,
     .type = TypeFt(888),
     .runtime = {632, 640, 2164, kNone},
     .interpreter = {7344, 7600, 7656},
     .thread = {8, 16, 72, kNone, 152},
     .frame = {0, 8, 56, 70, 72, 0, 3, InstructionKind::kPointer},
     .code = Code(84, 128, 216),
     .string = kString313Ft,
     .container = kContainer313Ft,
     .enabled_to_collecting = 188},
    {.minor = 14,
     .free_threaded = true,
     .usable = true,
     .object = kObjectFt,
     .type = TypeFt(888),
     .runtime = {808, 816, 2340, kNone},
     .interpreter = {7344, 7600, 7688},
     .thread = {8, 16, 72, kNone, 152},
     .frame = {0, 8, 56, 78, 80, 7, 3, InstructionKind::kPointer},
     .code = Code(84, 128, 232, 224),
     .string = kString314Ft,
     .container = kContainer314Ft,
     .enabled_to_collecting = 180},
};

uint32_t EndOf(uint32_t offset, uint32_t bytes) { return offset == kNone ? 0 : offset + bytes; }

}  // namespace

HeadBytes HeadBytesOf(const PythonLayout& layout) {
  const ObjectOffsets& object = layout.object;
  const TypeOffsets& type = layout.type;
  const FrameOffsets& frame = layout.frame;
  const CodeOffsets& code = layout.code;
  const StringOffsets& string = layout.string;
  const uint32_t of_object = std::max(object.refcount, object.type);
  return {.object = of_object + 8,
          .type = std::max({of_object, type.name, type.basic_size, type.item_size, type.flags}) + 8,
          .frame = std::max(std::max({frame.code, frame.previous, frame.instruction}) + 8, EndOf(frame.owner, 1)),
          .code = std::max({object.type + 8, object.var_size + 8, code.filename + 8, code.name + 8,
                            EndOf(code.qualname, 8), code.line_table + 8, code.first_line + 4}),
          .string = std::max({object.type + 8, string.length + 8, string.state + 4, string.ascii_data})};
}

PythonLayout Unusable(PythonLayout layout, const char* reason) {
  layout.usable = false;
  layout.reason = reason;
  return layout;
}

PythonLayout LayoutOf(uint32_t minor, uint32_t micro, bool free_threaded) {
  static_assert(kRows[std::size(kRows) - 1].minor == kNewestMinor);
  for (const PythonLayout& row : kRows) {
    if (row.minor != minor || row.free_threaded != free_threaded) continue;
    return minor == 7 && micro <= 3 ? WithGcHead(row, 24) : row;
  }
  PythonLayout layout;
  layout.minor = minor;
  layout.free_threaded = free_threaded;
  return Unusable(layout, minor < 6 ? "it is older than CPython 3.6, the oldest version that cowprof knows"
                                    : "it is newer than all versions whose layout cowprof knows");
}

PythonLayout WithGcHead(PythonLayout layout, uint32_t bytes) {
  // 3.7 has four heads, and what aligns them, in _PyRuntime.gc before `collecting`.
  if (layout.minor == 7 && layout.gc_head_bytes != bytes) {
    const bool longer = bytes == 32;
    layout.runtime.tss_key = longer ? 1508 : 1420;
    layout.runtime.collecting = longer ? 632 : 544;
    layout.enabled_to_collecting = longer ? 300 : 220;
  }
  layout.gc_head_bytes = bytes;
  return layout;
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
  // Up to 3.10 frames are objects.
  if (frame.instruction_kind != InstructionKind::kPointer) {
    for (uint32_t* offset : {&frame.code, &frame.previous, &frame.instruction, &frame.locals}) *offset += kShift;
  }
  return layout;
}

}  // namespace cowprof
