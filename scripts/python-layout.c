// Prints what a row of userspace/python/layout.cc holds and, from 3.13 on, the indexes of debug_offsets.cc, measured
// against the headers of one CPython, 3.12 or later. For its free-threaded build, add -DPy_GIL_DISABLED.
//
//     P=~/.pyenv/versions/3.13.0/include/python3.13
//     cc -I$P -I$P/internal -o /tmp/layout scripts/python-layout.c && /tmp/layout
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>

#include "pycore_code.h"
#include "pycore_dict.h"
#include "pycore_frame.h"
#include "pycore_gc.h"
#include "pycore_interp.h"
#include "pycore_obmalloc.h"
#include "pycore_runtime.h"

#define PRINT(field, value) printf("%-34s %zu\n", field, (size_t)(value))
#define OFFSET(field, type, member) PRINT(field, offsetof(type, member))

static unsigned kind_shift(void) {
  PyASCIIObject string;
  unsigned bits, shift = 0;
  memset(&string, 0, sizeof(string));
  string.state.kind = 1;
  memcpy(&bits, &string.state, sizeof(bits));
  while (!(bits >> shift & 1)) ++shift;
  return shift;
}

int main(void) {
  printf("# %s\n", PY_VERSION);
#ifdef Py_GIL_DISABLED
  OFFSET("object.refcount", PyObject, ob_ref_local);
#else
  OFFSET("object.refcount", PyObject, ob_refcnt);
#endif
  OFFSET("object.type", PyObject, ob_type);
  OFFSET("object.var_size", PyVarObject, ob_size);
  OFFSET("type.name", PyTypeObject, tp_name);
  OFFSET("type.basic_size", PyTypeObject, tp_basicsize);
  OFFSET("type.item_size", PyTypeObject, tp_itemsize);
  OFFSET("type.flags", PyTypeObject, tp_flags);
  OFFSET("type.members", PyTypeObject, tp_members);
  OFFSET("type.dict", PyTypeObject, tp_dict);
  OFFSET("type.qualname", PyHeapTypeObject, ht_qualname);
  PRINT("type.bytes", sizeof(PyTypeObject));
  OFFSET("runtime.interpreters_head", _PyRuntimeState, interpreters.head);
  OFFSET("runtime.interpreters_main", _PyRuntimeState, interpreters.main);
  OFFSET("runtime.tss_key", _PyRuntimeState, autoTSSkey._key);
  OFFSET("interpreter.next", PyInterpreterState, next);
  OFFSET("interpreter.threads_head", PyInterpreterState, threads.head);
  OFFSET("interpreter.collecting", PyInterpreterState, gc.collecting);
  OFFSET("interpreter.modules", PyInterpreterState, imports.modules);
  OFFSET("thread.next", PyThreadState, next);
  OFFSET("thread.interpreter", PyThreadState, interp);
  OFFSET("thread.thread_id", PyThreadState, thread_id);
  OFFSET("thread.native_thread_id", PyThreadState, native_thread_id);
#if PY_MINOR_VERSION >= 13
  OFFSET("thread.frame", PyThreadState, current_frame);
  OFFSET("frame.code", _PyInterpreterFrame, f_executable);
  OFFSET("frame.instruction", _PyInterpreterFrame, instr_ptr);
#else
  OFFSET("thread.frame", PyThreadState, cframe);
  OFFSET("thread.frame_hop", _PyCFrame, current_frame);
  OFFSET("frame.code", _PyInterpreterFrame, f_code);
  OFFSET("frame.instruction", _PyInterpreterFrame, prev_instr);
#endif
  OFFSET("frame.previous", _PyInterpreterFrame, previous);
  OFFSET("frame.owner", _PyInterpreterFrame, owner);
  OFFSET("frame.locals", _PyInterpreterFrame, localsplus);
  PRINT("frame.first_native_owner", FRAME_OWNED_BY_CSTACK);
#ifdef Py_TAG_BITS
  PRINT("frame.code_tag_mask", Py_TAG_BITS);
#endif
  OFFSET("code.first_line", PyCodeObject, co_firstlineno);
  OFFSET("code.filename", PyCodeObject, co_filename);
  OFFSET("code.name", PyCodeObject, co_name);
  OFFSET("code.qualname", PyCodeObject, co_qualname);
  OFFSET("code.line_table", PyCodeObject, co_linetable);
  OFFSET("code.adaptive", PyCodeObject, co_code_adaptive);
  OFFSET("code.locals", PyCodeObject, co_localsplusnames);
#if defined(Py_GIL_DISABLED) && PY_MINOR_VERSION >= 14
  OFFSET("code.thread_local_code", PyCodeObject, co_tlbc);
#endif
  OFFSET("string.length", PyASCIIObject, length);
  OFFSET("string.state", PyASCIIObject, state);
  PRINT("string.ascii_data", sizeof(PyASCIIObject));
  PRINT("string.compact_data", sizeof(PyCompactUnicodeObject));
  PRINT("string.kind_shift", kind_shift());
  OFFSET("container.bytes_data", PyBytesObject, ob_sval);
  OFFSET("container.tuple_items", PyTupleObject, ob_item);
  OFFSET("container.dict_keys", PyDictObject, ma_keys);
  OFFSET("container.dict_values", PyDictObject, ma_values);
  OFFSET("container.first_value", PyDictValues, values);
  PRINT("enabled_to_collecting",
        offsetof(struct _gc_runtime_state, collecting) - offsetof(struct _gc_runtime_state, enabled));
#ifndef Py_GIL_DISABLED
  PRINT("gc_head_bytes", sizeof(PyGC_Head));
  PRINT("pool_bytes", POOL_SIZE);
#endif
  PRINT("preheader_flags", Py_TPFLAGS_PREHEADER);

#if PY_MINOR_VERSION >= 13
#define INDEX(member) printf("%-34s %zu\n", #member, offsetof(_Py_DebugOffsets, member) / 8)
  printf("# indexes into the published table, which has %zu words\n", sizeof(_Py_DebugOffsets) / 8);
  INDEX(runtime_state.size);
  INDEX(runtime_state.interpreters_head);
  INDEX(interpreter_state.size);
  INDEX(interpreter_state.next);
  INDEX(interpreter_state.threads_head);
  INDEX(interpreter_state.gc);
  INDEX(interpreter_state.imports_modules);
  INDEX(thread_state.size);
  INDEX(thread_state.next);
  INDEX(thread_state.interp);
  INDEX(thread_state.current_frame);
  INDEX(thread_state.thread_id);
  INDEX(thread_state.native_thread_id);
  INDEX(interpreter_frame.size);
  INDEX(interpreter_frame.previous);
  INDEX(interpreter_frame.executable);
  INDEX(interpreter_frame.instr_ptr);
  INDEX(interpreter_frame.localsplus);
  INDEX(interpreter_frame.owner);
  INDEX(code_object.size);
  INDEX(code_object.filename);
  INDEX(code_object.name);
  INDEX(code_object.qualname);
  INDEX(code_object.linetable);
  INDEX(code_object.firstlineno);
  INDEX(code_object.localsplusnames);
  INDEX(code_object.co_code_adaptive);
  INDEX(pyobject.size);
  INDEX(pyobject.ob_type);
  INDEX(type_object.size);
  INDEX(type_object.tp_name);
  INDEX(type_object.tp_flags);
  INDEX(tuple_object.size);
  INDEX(tuple_object.ob_item);
  INDEX(tuple_object.ob_size);
  INDEX(dict_object.size);
  INDEX(dict_object.ma_keys);
  INDEX(dict_object.ma_values);
  INDEX(bytes_object.size);
  INDEX(bytes_object.ob_sval);
  INDEX(unicode_object.size);
  INDEX(unicode_object.state);
  INDEX(unicode_object.length);
  INDEX(unicode_object.asciiobject_size);
  INDEX(gc.size);
  INDEX(gc.collecting);
#endif
  return 0;
}
