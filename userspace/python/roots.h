// Finds the object that a worker would be sent: the one that an expression names, or a DataLoader or an unstarted
// Process in the frames of any thread, in module globals, or in the frames of the last traceback. Runs nothing in the
// target.
#ifndef COWPROF_PYTHON_ROOTS_H_
#define COWPROF_PYTHON_ROOTS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

// The object to judge, and what paths to it are called.
struct PickleRoot {
  // What is sent of it, in this order: {"dataset", address}; {"", address}: the object itself. Empty: nothing was
  // found.
  std::vector<std::pair<std::string, uint64_t>> parts;
  std::string expression;  // what the user would write: "loader.dataset"
  // "in main, train.py:31", and what was found beside it; "" if the expression says all.
  std::string where;
  // Objects on the way for which the program has names of its own: paths through one begin with its name.
  std::vector<std::pair<uint64_t, std::string>> names;
  // What says how the workers are started: a DataLoader, a Process, or a str: "spawn". 0: nothing was found that does.
  uint64_t starter = 0;
  bool of_loader = false;  // it is what workers of a DataLoader are sent
  // What roots that send the same have in common: the data set of a DataLoader, the function of a Process.
  std::vector<uint64_t> subjects;
};

// What was found before, and is not to be found again.
struct JudgedRoots {
  absl::flat_hash_set<uint64_t> subjects;
  bool loader = false;  // a DataLoader is among them: others are looked for in frames and __main__ alone
  bool HasAny(const std::vector<uint64_t>& some) const {
    return absl::c_any_of(some, [this](uint64_t subject) { return subjects.contains(subject); });
  }
};

// `expression`: a module or a name in __main__ or in a frame, then .attribute, [3] and ['key']:
// "__main__.data.rows[0]". InvalidArgument: not such an expression; NotFound: which part does not exist.
absl::StatusOr<PickleRoot> FindObject(const Interpreter& interpreter, const MemoryReader& memory,
                                      absl::string_view expression);

// Without parts: there is none. `starter`: what getpid() returns in the process whose workers are meant, which may be
// another than `memory` is of; a Process that another one starts is left out, as that which a worker has of itself. 0:
// any will do. `go_on`: asked every 128 variables, as in PickleLimits; false ends the search.
PickleRoot FindWhatWorkersGet(const Interpreter& interpreter, const MemoryReader& memory, pid_t starter,
                              std::function<bool()> go_on = nullptr, const JudgedRoots& judged = {});

// The same from the frames of the last traceback (sys.last_exc, sys.last_traceback) alone. `known`: what was found
// before. If that is what failed, it is returned at once.
PickleRoot FindWhatFailed(const Interpreter& interpreter, const MemoryReader& memory, const PickleRoot& known = {});

}  // namespace cowprof

#endif  // COWPROF_PYTHON_ROOTS_H_
