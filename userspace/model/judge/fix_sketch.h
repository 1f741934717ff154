// What a fix looks like in Python: the code before and after, by diagnosis, by the items that were found, and by the
// framework that forks. Pure. Does not decide which framework runs. tests/system/test_fix_sketch.py runs every sketch.
#ifndef COWPROF_MODEL_JUDGE_FIX_SKETCH_H_
#define COWPROF_MODEL_JUDGE_FIX_SKETCH_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/facts/framework.h"
#include "model/facts/start_methods.h"
#include "model/judge/blame.h"

namespace cowprof {

// What the workers read. ContainerOf of types alone does not return kObjectArray, whose items look like those of a
// list; kLmdb, whose handle has no type of its own, is never found.
enum class Container {
  kAny,
  kStrings,
  kNumbers,
  kBytes,
  kDicts,
  kTuples,
  kLists,
  kNested,  // containers in containers
  kObjects,
  kArrays,
  kObjectArray,
  kDataFrame,
  kTensors,
  kHdf5,
  kLmdb,
};
constexpr int kContainers = static_cast<int>(Container::kLmdb) + 1;
// A handle that each worker should open for itself, whatever library writes to it.
constexpr bool OpensHandle(Container container) {
  return container == Container::kHdf5 || container == Container::kLmdb;
}

// By the types of the workers' copies alone; with the libraries that made them and, if it was read, what they hold.
Container ContainerOf(const std::vector<BlameRow>& by_type);
Container ContainerOf(const BlameTables& workers, const PickleLook* look = nullptr);

// Several lines, without a trailing newline; "" if no short fix is known for this framework, and always of a program
// without Python. A part that begins with "# before", one with "# after", and for some one with "# faster", which works
// for fewer items. The container matters to cow-refcount, and a handle (kHdf5, kLmdb) to cow-data; to pickled-arguments
// it matters whether workers inherit the program's globals. `by_key`: the items are the values of a dict, which
// matters to cow-refcount.
std::string FixSketch(absl::string_view diagnosis, Container container, Framework framework = Framework::kDataLoader,
                      bool inherits = true, bool by_key = false);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FIX_SKETCH_H_
