// Whether a worker of PyTorch's DataLoader lives for another epoch: the argument persistent_workers of the loop that it
// runs, read from its frame. Called by the collector through Program. Believes nothing that it reads.
#ifndef COWPROF_PYTHON_TORCH_WORKER_H_
#define COWPROF_PYTHON_TORCH_WORKER_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "python/frames.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

// nullopt: it is no such worker, or has not begun its work yet, or can't be read, or its torch is older than 1.7, which
// has no such argument.
std::optional<bool> PersistentWorkers(const Interpreter& interpreter, const MemoryReader& memory);

// The parameter or local variable `name` of a frame: the object's address; 0 if it has none, or it is not set.
uint64_t FindLocal(const PythonLayout& layout, const MemoryReader& memory, const RawFrame& frame,
                   absl::string_view name);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_TORCH_WORKER_H_
