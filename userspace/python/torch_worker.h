// Whether a worker of PyTorch's DataLoader outlives the epoch: reads the argument persistent_workers from the frame of
// the worker's main loop. Trusts nothing that it reads.
#ifndef COWPROF_PYTHON_TORCH_WORKER_H_
#define COWPROF_PYTHON_TORCH_WORKER_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "python/frames.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

// nullopt: not such a worker, not started yet, unreadable, or torch before 1.7, which does not have the argument.
std::optional<bool> PersistentWorkers(const Interpreter& interpreter, const MemoryReader& memory);

// The address of the object that the parameter or local variable `name` refers to; 0 if there is none or it is unset.
uint64_t FindLocal(const PythonLayout& layout, const MemoryReader& memory, const RawFrame& frame,
                   absl::string_view name);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_TORCH_WORKER_H_
