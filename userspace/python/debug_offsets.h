// _Py_DebugOffsets: the offsets that an interpreter publishes about itself since 3.13, at the start of _PyRuntime
// (Include/internal/pycore_debug_offsets.h; pycore_runtime.h in 3.13). They replace the row of layout.h. Pure: takes
// any bytes, returns a layout.
#ifndef COWPROF_PYTHON_DEBUG_OFFSETS_H_
#define COWPROF_PYTHON_DEBUG_OFFSETS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "python/layout.h"

namespace cowprof {

struct DebugOffsetsHead {
  uint32_t version_hex = 0;
  bool free_threaded = false;
};

inline constexpr uint32_t kDebugOffsetsBytes = 1024;  // 584 in 3.13, 760 in 3.14, 888 in 3.15

// Parses cookie and version of the bytes at _PyRuntime; false if they are not such a table (3.12 and older).
bool ParseDebugOffsetsHead(absl::Span<const char> bytes, DebugOffsetsHead* head);

// `layout` with the table's offsets instead of the row's. Not usable, with a reason, if the table's own layout is
// unknown (3.15 and later) or if it contains an impossible offset.
PythonLayout WithDebugOffsets(PythonLayout layout, absl::Span<const char> bytes);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_DEBUG_OFFSETS_H_
