// What a multiprocessing.Process object says of the process that it is to start.
#ifndef COWPROF_PYTHON_PROCESS_OBJECT_H_
#define COWPROF_PYTHON_PROCESS_OBJECT_H_

#include <cstdint>
#include <vector>

#include "python/graph.h"

namespace cowprof {

// The arguments of its function from number `first` on, at most `most`, and what a list of one holds: torch 2.14 sends
// its data set so.
std::vector<uint64_t> ArgumentsOf(ObjectGraph& graph, uint64_t process, uint64_t first, uint64_t most);

struct ProcessWork {
  bool of_loader = false;          // of PyTorch's DataLoader
  std::vector<uint64_t> subjects;  // the loader's data set; of others their function or, without one, their class
};
ProcessWork WorkOf(ObjectGraph& graph, uint64_t process);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PROCESS_OBJECT_H_
