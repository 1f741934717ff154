// Offsets of what pickle looks at in objects of CPython 3.6 to 3.14 with a GIL, on x86-64. Measured with offsetof
// against the headers of 3.6.15 to 3.13.0, and checked against live processes of each version. Unlike those of layout.h
// most are the same in every version, and BPF does not need them.
#ifndef COWPROF_PYTHON_STATE_LAYOUT_H_
#define COWPROF_PYTHON_STATE_LAYOUT_H_

#include <cstdint>

#include "python/layout.h"

namespace cowprof {

struct StateLayout {
  // PyTypeObject, PyHeapTypeObject
  uint32_t weaklist_offset = 208, methods = 232, base = 256, descr_get = 272, dict_offset = 288, tp_new = 312,
           mro = 344;
  uint32_t cached_keys = 0;
  // Containers. A set's entries are {key, hash}; a deque's blocks {left, 64 items, right}.
  uint32_t list_items = 24, set_used = 24, set_mask = 32, set_table = 40, deque_left = 24, deque_index = 40,
           deque_most = 64;
  // Callables. A PyMethodDef begins with its name.
  uint32_t function_code = 48, function_globals = 16, function_qualname = 40, function_module = 104;
  uint32_t function_defaults = 56, function_keyword_defaults = 64;
  // Of a code object: the number of its arguments, followed by those of them that are positional only, and of those
  // that are keyword-only, which do not count in the former. 3.8 and later.
  uint32_t code_arguments = 52, code_flags = 48;
  uint32_t method_function = 16, method_self = 24, builtin_def = 16, builtin_self = 24, builtin_module = 32;
  uint32_t partial_function = 16, partial_args = 24, partial_keywords = 32, partial_dict = 40;
  uint32_t wrapped = 16;  // of a staticmethod, a classmethod and a cell: the first field
  uint32_t module_dict = 16, default_factory = 48, exception_dict = 16, exception_args = 24, error_filename = 88;
  uint32_t slice_start = 16, slice_stop = 24, slice_step = 32, iterator_sequence = 24;
  uint32_t has_zone = 24 /* u8 */, datetime_zone = 40, time_zone = 32;
  // Iterators of built-in functions.
  uint32_t map_iterators = 16, map_function = 24, filter_function = 16, filter_iterator = 24, zip_iterators = 24;
};

constexpr StateLayout StateLayoutOf(const PythonLayout& layout) {
  StateLayout state;
  state.cached_keys = layout.type.qualname + 8;
  if (layout.minor < 10) {
    state.function_code = 16;
    state.function_globals = 24;
    state.function_qualname = 104;
    state.function_module = 88;
    state.function_defaults = 32;
    state.function_keyword_defaults = 40;
  }
  if (layout.minor < 11) {
    state.code_arguments = 16;
    state.code_flags = 36;
    state.error_filename = 80;
  } else if (layout.minor == 11) {
    state.code_arguments = 56;
  }
  return state;
}

}  // namespace cowprof

#endif  // COWPROF_PYTHON_STATE_LAYOUT_H_
