// Knows the order of the table in each version, and the bounds that an entry must be within.
#include "python/debug_offsets.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace cowprof {
namespace {

// The table is an array of u64: cookie, version, free_threaded, then groups that each begin with the size of their
// structure. Indexes by version, {3.13, 3.14}: struct _Py_DebugOffsets in Include/internal/pycore_runtime.h of 3.13.0
// and pycore_debug_offsets.h of 3.14.10.
constexpr int kVersions = 2;
constexpr uint32_t kTableMinors[] = {13, kNewestMinor};
constexpr uint32_t kTableWords[] = {73, 95};

struct TableRow {
  uint32_t index[kVersions];       // of the field's offset
  uint32_t size_index[kVersions];  // of the size of the structure that holds it
  uint32_t bytes;                  // of the field; 8: a pointer, whose offset is a multiple of 8
  uint32_t* (*field)(PythonLayout*);
};

#define COWPROF_FIELD(name) [](PythonLayout* layout) { return &layout->name; }
constexpr TableRow kTable[] = {
    {{5, 5}, {3, 3}, 8, COWPROF_FIELD(runtime.interpreters_head)},
    {{9, 9}, {6, 6}, 8, COWPROF_FIELD(interpreter.threads_head)},
    {{11, 12}, {6, 6}, 8, COWPROF_FIELD(interpreter.modules)},
    {{21, 24}, {19, 22}, 8, COWPROF_FIELD(thread.next)},
    {{22, 25}, {19, 22}, 8, COWPROF_FIELD(thread.interpreter)},
    {{23, 26}, {19, 22}, 8, COWPROF_FIELD(thread.frame)},
    {{24, 27}, {19, 22}, 8, COWPROF_FIELD(thread.thread_id)},
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
// gc.collecting is a field of the interpreter's `gc`.
constexpr uint32_t kGcIndex[] = {10, 11}, kGcSizeIndex[] = {71, 81}, kCollectingIndex[] = {72, 82};

// A number that was forgotten in a row would be read as 0, or past the end.
constexpr bool IsComplete() {
  for (const TableRow& row : kTable) {
    if (row.index[kVersions - 1] == 0 || row.size_index[kVersions - 1] == 0) return false;
  }
  return true;
}
static_assert(IsComplete() && std::size(kTableMinors) == kVersions && std::size(kTableWords) == kVersions &&
              std::size(kGcIndex) == kVersions && std::size(kGcSizeIndex) == kVersions &&
              std::size(kCollectingIndex) == kVersions);

constexpr uint64_t kEnabledInGc = 12;  // 3.7 to 3.14, with and without a GIL; the table does not have it

constexpr char kCookie[] = "xdebugpy";
constexpr uint64_t kMaxStructureBytes = 16 << 20;  // _PyRuntimeState holds every static object: 400 KB in 3.14

uint64_t WordAt(absl::Span<const char> bytes, size_t index) {
  uint64_t word = 0;
  memcpy(&word, bytes.data() + index * sizeof(word), sizeof(word));
  return word;
}

// Whether the field lies within its structure, and that structure has a plausible size.
bool IsSane(uint64_t offset, uint64_t structure_bytes, uint32_t field_bytes) {
  return structure_bytes <= kMaxStructureBytes && offset < structure_bytes && field_bytes <= structure_bytes - offset &&
         offset % field_bytes == 0;
}

}  // namespace

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
  if (!ParseDebugOffsetsHead(bytes, &head)) return Unusable(layout, "its table of offsets has no header");
  const uint32_t minor = head.version_hex >> 16 & 0xff;
  int version = 0;
  while (version < kVersions && kTableMinors[version] != minor) ++version;
  if (version == kVersions) {
    return Unusable(layout, "it publishes a table of offsets in an order that cowprof does not know yet");
  }
  if (minor != layout.minor || head.free_threaded != layout.free_threaded) {
    return Unusable(layout, "its table of offsets belongs to another version than the interpreter");
  }
  if (bytes.size() < kTableWords[version] * sizeof(uint64_t))
    return Unusable(layout, "its table of offsets is truncated");
  for (const TableRow& row : kTable) {
    const uint64_t offset = WordAt(bytes, row.index[version]);
    if (!IsSane(offset, WordAt(bytes, row.size_index[version]), row.bytes)) {
      return Unusable(layout, "its table of offsets has an impossible entry");
    }
    *row.field(&layout) = static_cast<uint32_t>(offset);
  }
  const HeadBytes heads = HeadBytesOf(layout);
  if (std::max({heads.object, heads.type, heads.frame, heads.code, heads.string}) > kMaxHeadBytes) {
    return Unusable(layout, "its table of offsets has an impossible entry");
  }
  const uint64_t gc = WordAt(bytes, kGcIndex[version]), collecting = WordAt(bytes, kCollectingIndex[version]);
  const uint64_t gc_bytes = WordAt(bytes, kGcSizeIndex[version]);
  if (!IsSane(collecting, gc_bytes, 4) || collecting <= kEnabledInGc || !IsSane(gc, WordAt(bytes, 6), 8)) {
    return Unusable(layout, "its table of offsets has an impossible entry");
  }
  layout.interpreter.collecting = static_cast<uint32_t>(gc + collecting);
  layout.enabled_to_collecting = static_cast<uint32_t>(collecting - kEnabledInGc);
  layout.runtime.interpreters_main = layout.runtime.interpreters_head + 8;  // struct pyinterpreters, 3.7 to 3.14
  return layout;
}

}  // namespace cowprof
