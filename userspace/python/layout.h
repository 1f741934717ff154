// Offsets of the CPython structures that cowprof reads, as data: one row per version. BPF gets the same numbers. Every
// number is a byte offset on x86-64, measured with offsetof against the headers of that version and verified against
// live processes (tests/fixtures/python/README.md). Since 3.13 the interpreter's own table (debug_offsets.h) overrides
// the row.
#ifndef COWPROF_PYTHON_LAYOUT_H_
#define COWPROF_PYTHON_LAYOUT_H_

#include <cstdint>

namespace cowprof {

inline constexpr uint32_t kNoOffset = 0xffffffff;  // this version has no such field

// What `FrameOffsets::instruction` holds.
enum class InstructionKind : uint32_t {
  kByteOffset,  // int32 f_lasti, bytes into co_code; 3.6 to 3.9
  kUnitIndex,   // int32 f_lasti, 2-byte units; 3.10
  kPointer,     // address inside code + code.adaptive (or a copy of it, 3.14t); 3.11 and later
};

enum class LineTableKind : uint32_t {
  kLnotab,     // co_lnotab, Objects/lnotab_notes.txt; 3.6 to 3.9
  kLinetable,  // co_linetable, PEP 626; 3.10
  kLocations,  // co_linetable, Objects/locations.md; 3.11 and later
};

enum class DictKeysKind : uint32_t {
  kSized,  // dk_size, dk_lookup; 24-byte entries; 3.6 to 3.10
  kLog2,   // dk_log2_size, dk_log2_index_bytes, dk_kind; 16-byte entries unless dk_kind is 0; 3.11 and later
};

struct ObjectOffsets {
  uint32_t refcount, type, var_size;
};
struct TypeOffsets {  // PyTypeObject, PyHeapTypeObject
  uint32_t name, basic_size, item_size, flags, members, dict, qualname;
};
struct RuntimeOffsets {  // _PyRuntimeState
  uint32_t interpreters_head, interpreters_main, tss_key /* autoTSSkey._key */,
      collecting /* gc.collecting, 3.7 and 3.8 */;
};
struct InterpreterOffsets {  // PyInterpreterState
  uint32_t threads_head, collecting /* gc.collecting, 3.9 and later */, modules /* sys.modules */;
};
struct ThreadOffsets {  // PyThreadState. With `frame_hop` the frame is *(*(tstate + frame) + frame_hop), else
  uint32_t next, interpreter, frame, frame_hop, thread_id;  // it is *(tstate + frame)
};
struct FrameOffsets {  // PyFrameObject, _PyInterpreterFrame
  uint32_t code, previous, instruction, owner /* u8, 3.11 and later */, locals /* parameters first */;
  // Bits of `code` that are a tag (_PyStackRef, 3.14), and the first value of `owner` that means "not Python code".
  uint32_t code_tag_mask, first_native_owner;
  InstructionKind instruction_kind;
};
struct CodeOffsets {  // PyCodeObject. `locals` names those of the frame: co_localsplusnames, before 3.11 co_varnames
  uint32_t first_line, filename, name, qualname, line_table, adaptive, thread_local_code /* co_tlbc, 3.14t */, locals;
  LineTableKind line_table_kind;
};
struct StringOffsets {  // PyASCIIObject, PyCompactUnicodeObject
  uint32_t length, state, ascii_data, compact_data;
  uint32_t kind_shift;  // bits of `state`: kind:3, then compact, then ascii
};
struct ContainerOffsets {
  uint32_t bytes_data, tuple_items, dict_keys, dict_values, first_value /* of PyDictValues */;
  DictKeysKind keys_kind;
};

struct PythonLayout {
  uint32_t minor = 0;
  bool free_threaded = false;
  bool usable = false;
  const char* reason = "";  // why it is not usable; a literal

  ObjectOffsets object = {};
  TypeOffsets type = {};
  RuntimeOffsets runtime = {};
  InterpreterOffsets interpreter = {};
  ThreadOffsets thread = {};
  FrameOffsets frame = {};
  CodeOffsets code = {};
  StringOffsets string = {};
  ContainerOffsets container = {};

  uint32_t enabled_to_collecting = 0;  // distance of the two in struct _gc_runtime_state; 0: no such struct (3.6)
  // Before a GC-tracked object: 24 up to 3.7.3, 32 from there on and in a 3.6 with that change (bpo-27987, as pyenv
  // builds it), 16 since 3.8; 0: free-threaded, or not known yet.
  uint32_t gc_head_bytes = 0;
  uint32_t pool_bytes = 0;  // pymalloc pools; 0 if free-threaded (mimalloc)
};

// What each reader reads of an object in one piece: from its start to the end of the last field that it needs.
struct HeadBytes {
  uint32_t object, type, frame, code, string;
};
HeadBytes HeadBytesOf(const PythonLayout& layout);
inline constexpr uint32_t kMaxHeadBytes = 256;  // of any of them; a published table may claim more

inline constexpr uint32_t kOldestMinor = 6;   // 3.6: the oldest
inline constexpr uint32_t kNewestMinor = 14;  // 3.14: the newest version that has a row

// The row of 3.`minor`; not usable, with a reason, if there is none. `micro` matters only for 3.7.0 to 3.7.3.
PythonLayout LayoutOf(uint32_t minor, uint32_t micro, bool free_threaded);

// `layout`, marked as not usable for `reason` (a literal).
PythonLayout Unusable(PythonLayout layout, const char* reason);

// The row of 3.6 or 3.7 with GC heads of 24 or 32 bytes: which of them, a program's memory says (ReadInterpreter()).
PythonLayout WithGcHead(PythonLayout layout, uint32_t bytes);

// The row of a build with Py_TRACE_REFS (every debug build up to 3.7): each object begins with two more pointers.
PythonLayout WithTraceRefs(PythonLayout layout);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_LAYOUT_H_
