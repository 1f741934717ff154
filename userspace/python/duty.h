// What a Python process is for, how it was started, and which framework it runs under, by the functions that its
// threads are in (16 of them, the main one first): the loop of a worker of PyTorch's DataLoader with its arguments, of
// a pool, of a forkserver, of a tracker. Trusts nothing that it reads.
#ifndef COWPROF_PYTHON_DUTY_H_
#define COWPROF_PYTHON_DUTY_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "model/facts/event.h"
#include "model/facts/framework.h"
#include "model/facts/identity.h"
#include "python/frames.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

// The frame of a function that says what a process is for.
struct DutyFrame {
  DutyFound found;
  RawFrame frame;  // frame.frame is 0 where only the start method is known
};

// nullopt: no such function is running, or its frames can't be read.
struct Work {
  // A process that was forked without a bootstrap has its parent's frames below its own, and so its parent's duty:
  // compare the addresses of the two frames.
  std::optional<DutyFrame> duty;
  // The innermost on the stack, whoever called it: a worker of a pool within a server is the pool's.
  std::optional<Framework> framework;
};
Work FindWork(const Interpreter& interpreter, const MemoryReader& process);

// ---- Of a worker of a DataLoader: locals of its loop ----

// persistent_workers, nullopt: unreadable, or torch before 1.7, which does not have the argument.
std::optional<bool> PersistentWorkers(const Interpreter& interpreter, const MemoryReader& memory, const RawFrame& loop);

// What is read once: to find a variable takes a hundred reads, its value a few.
struct LoaderLocals {
  uint64_t code = 0, frame = 0;   // of which this was read
  std::optional<uint64_t> batch;  // where the code keeps it
  Count worker_id, num_workers;   // arguments, which the loop does not assign to
};

// worker_id, num_workers and the number of the batch; between two batches there is none. nullopt: unreadable, or the
// frame is not that of the loop (any more).
std::optional<LoaderWorker> ReadLoader(const Interpreter& interpreter, const MemoryReader& memory, const RawFrame& loop,
                                       LoaderLocals* known);

// The address of the object that the parameter or local variable `name` refers to; 0 if there is none or it is unset.
uint64_t FindLocal(const PythonLayout& layout, const MemoryReader& memory, const RawFrame& frame,
                   absl::string_view name);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_DUTY_H_
