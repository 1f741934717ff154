// Replays pickle's save() over the memory of a process, from one object, without running anything there. Bounded in
// objects and time. One walk of a process that runs may see torn state: LookAtPickle() makes two, and reads the chain
// of each finding twice more.
#ifndef COWPROF_PYTHON_PICKLE_LOOK_H_
#define COWPROF_PYTHON_PICKLE_LOOK_H_

#include <functional>

#include "model/facts/pickle_mix.h"
#include "model/facts/start_methods.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"
#include "python/pickle_walk.h"
#include "python/roots.h"

namespace cowprof {

// `find_root` is asked for each reading: what it returns may move. The process may have ended: then there are
// unreadable objects, never a crash. `mix`, if not null, gets what would be sent by kind.
PickleLook LookAtPickle(const Interpreter& interpreter, const MemoryReader& memory,
                        const std::function<PickleRoot(const MemoryReader&)>& find_root, const PickleLimits& limits,
                        PickleMix* mix = nullptr);

// The same for a process that is ending: what it holds is taken down while it is read, so only the failures that are
// found mean anything. One walk; each finding is read once more at once, and kept even if it is not there any more.
// `taken`: what else was read of `memory` for this may be kept, so that it is as it was then.
PickleLook LookAtEnding(const Interpreter& interpreter, const MemoryReader& memory, const MemoryReader& taken,
                        const PickleRoot& root, const PickleLimits& limits);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PICKLE_LOOK_H_
