// The variables of a frame's code, by name, as they lie in memory.
#ifndef COWPROF_PYTHON_FRAME_VARIABLES_H_
#define COWPROF_PYTHON_FRAME_VARIABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "python/frames.h"
#include "python/graph.h"

namespace cowprof {

struct Variable {
  std::string name;
  uint64_t object = 0;
};

// Fast locals of a frame; those that inner functions use are cells.
std::vector<Variable> LocalsOf(const ObjectGraph& graph, const RawFrame& frame);

// The dict in which the code of a module, or of exec(), has its names.
uint64_t NamesOf(const ObjectGraph& graph, const RawFrame& frame);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_FRAME_VARIABLES_H_
