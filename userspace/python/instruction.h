// What kind of write an instruction is, as far as its bytes tell: the same address may be an object's reference count
// going up (something was read) or down to 0 (it dies). Pure; called by cause.cc with bytes read from the process.
// x86-64.
#ifndef COWPROF_PYTHON_INSTRUCTION_H_
#define COWPROF_PYTHON_INSTRUCTION_H_

#include <cstdint>

#include "absl/types/span.h"

namespace cowprof {

enum class WriteKind {
  kOther,      // a store, or nothing that is understood
  kIncrement,  // adds 1 to memory, or stores a value that is not compared with 0 right after
  kDecrement,  // takes 1 from memory, or stores a value and branches on whether it is 0
};

// `code`: 15 bytes from the instruction on, `before`: 8 bytes up to it, fewer where they can't be read. gcc compiles
// Py_INCREF to `add $1,(reg)`, from 3.12 on to `add $1,%reg32; je; mov %reg32,(reg)`; Py_DECREF to `sub $1,(reg)` or
// `sub $1,%reg; mov %reg,(reg)`, and then always branches on zero, on the flags of the subtraction or by `test
// %reg,%reg` (Include/object.h).
WriteKind WriteKindOf(absl::Span<const uint8_t> code, absl::Span<const uint8_t> before = {});

}  // namespace cowprof

#endif  // COWPROF_PYTHON_INSTRUCTION_H_
