// Which framework a Python process runs under: the innermost function on its main thread's stack that belongs to one.
// Trusts nothing that it reads.
#ifndef COWPROF_PYTHON_FRAMEWORK_H_
#define COWPROF_PYTHON_FRAMEWORK_H_

#include <optional>

#include "model/facts/framework.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

// nullopt: none of those that are known, or unreadable. A forked process keeps its parent's frames below its own, so a
// worker of a pool within a server is the pool's.
std::optional<Framework> FrameworkOf(const Interpreter& interpreter, const MemoryReader& memory);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_FRAMEWORK_H_
