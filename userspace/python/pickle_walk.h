// Replays pickle's save() over the memory of a process, from one object, without running anything there. Bounded in
// objects and time. One walk of a process that runs may see torn state: LookAtPickle() makes two, and reads the chain
// of each finding twice more.
#ifndef COWPROF_PYTHON_PICKLE_WALK_H_
#define COWPROF_PYTHON_PICKLE_WALK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/pickle_mix.h"
#include "model/facts/start_methods.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

// The object to judge, and what paths to it are called.
struct PickleRoot {
  // What is sent of it, in this order: {"dataset", address}; {"", address}: the object itself. Empty: nothing was
  // found.
  std::vector<std::pair<std::string, uint64_t>> parts;
  std::string expression;  // what the user would write: "loader.dataset"
  std::string where;       // "in main, train.py:31"; "" if the expression says it
  // Objects on the way for which the program has names of its own: paths through one begin with its name.
  std::vector<std::pair<uint64_t, std::string>> names;
};

struct PickleLimits {
  uint64_t objects = 2'000'000;             // of one walk
  absl::Duration time = absl::Seconds(20);  // of one walk
  // Asked every 1024 objects of a walk: false ends it, as the limits do. May sleep.
  std::function<bool()> go_on = nullptr;
};

// `find_root` is asked for each reading: what it returns may move. The object may have ended: then there are unreadable
// objects, never a crash. `mix`, if not null, gets what would be sent by kind.
PickleLook LookAtPickle(const Interpreter& interpreter, const MemoryReader& memory,
                        const std::function<PickleRoot(const MemoryReader&)>& find_root, const PickleLimits& limits,
                        PickleMix* mix = nullptr);

// The same for a process that is ending: what it holds is taken down while it is read, so only the failures that are
// found mean anything. One walk; each finding is read once more at once, and kept even if it is not there any more.
PickleLook LookAtEnding(const Interpreter& interpreter, const MemoryReader& memory, const PickleRoot& root,
                        const PickleLimits& limits);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PICKLE_WALK_H_
