// Recognises, by its byte code, the one __getstate__ whose answer is known without running it.
#ifndef COWPROF_PYTHON_RETURNED_STATE_H_
#define COWPROF_PYTHON_RETURNED_STATE_H_

#include <cstdint>

#include "python/graph.h"

namespace cowprof {

// Whether `function`, a Python function called with one argument, does exactly `return self.__dict__`. False where it
// is traced, or of a version whose byte code is not known.
bool ReturnsOwnDict(const ObjectGraph& graph, uint64_t function);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_RETURNED_STATE_H_
