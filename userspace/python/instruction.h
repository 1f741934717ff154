// What kind of write an x86-64 instruction is, as far as its bytes tell: a write to a reference count may increment it
// (the object was read) or decrement it to 0 (the object dies). Pure.
#ifndef COWPROF_PYTHON_INSTRUCTION_H_
#define COWPROF_PYTHON_INSTRUCTION_H_

#include <cstdint>

#include "absl/types/span.h"

namespace cowprof {

enum class WriteKind {
  kOther,      // another store, or not understood
  kIncrement,  // adds 1 to memory
  kDecrement,  // subtracts 1 from memory, or stores a value and branches on whether it is 0
  kAdd,        // lock xadd: adds a register's value, 1 or -1 in all code that counts
  kBulk,       // stores a vector, or copies or fills memory (rep movs, rep stos): no count is written so
};

// `code`: 15 bytes starting at the instruction; `before`: the 8 bytes before it; fewer if they can't be read. gcc
// compiles Py_INCREF to `add $1,(reg)`, since 3.12 to `add $1,%reg32; je; mov %reg32,(reg)` (kOther), and Py_DECREF to
// `sub $1,(reg)` or `sub $1,%reg; mov %reg,(reg)`, always followed by a branch on zero, on the flags of the subtraction
// or after `test %reg,%reg` (Include/object.h).
WriteKind WriteKindOf(absl::Span<const uint8_t> code, absl::Span<const uint8_t> before = {});

}  // namespace cowprof

#endif  // COWPROF_PYTHON_INSTRUCTION_H_
