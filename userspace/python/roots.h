// Finds the object that a worker would be sent: the one that an expression names, or a DataLoader or an unstarted
// Process in the frames of any thread, in module globals, or in the frames of the last traceback. Runs nothing in the
// target.
#ifndef COWPROF_PYTHON_ROOTS_H_
#define COWPROF_PYTHON_ROOTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"
#include "python/pickle_walk.h"

namespace cowprof {

// `expression`: a module or a name in __main__ or in a frame, then .attribute, [3] and ['key']:
// "__main__.data.rows[0]". InvalidArgument: not such an expression; NotFound: which part does not exist.
absl::StatusOr<PickleRoot> FindObject(const Interpreter& interpreter, const MemoryReader& memory,
                                      absl::string_view expression);

// Without parts: there is none.
PickleRoot FindWhatWorkersGet(const Interpreter& interpreter, const MemoryReader& memory);

// The same from the frames of the last traceback (sys.last_exc, sys.last_traceback) alone.
PickleRoot FindWhatFailed(const Interpreter& interpreter, const MemoryReader& memory);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_ROOTS_H_
