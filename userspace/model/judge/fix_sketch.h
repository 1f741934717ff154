// What a fix looks like in Python: a few lines before and after, by diagnosis and by the kind of container that was
// found. Pure. Called by diagnosis.cc; tests/system/test_fix_sketch.py runs every one of them.
#ifndef COWPROF_MODEL_JUDGE_FIX_SKETCH_H_
#define COWPROF_MODEL_JUDGE_FIX_SKETCH_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/judge/blame.h"

namespace cowprof {

// What the items of a data set are, as far as the types of the objects tell that were copied by their counts.
enum class Container { kAny, kStrings, kNumbers, kDicts, kTuples, kLists, kObjects, kArrays, kTensors };

// `by_type`: of the workers' copies.
Container ContainerOf(const std::vector<BlameRow>& by_type);

// Several lines, the last without an end; "" where no few lines would be a fix. The container matters to cow-refcount
// only.
std::string FixSketch(absl::string_view diagnosis, Container container);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FIX_SKETCH_H_
