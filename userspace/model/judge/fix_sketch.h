// What a fix looks like in Python: a few lines before and after, by diagnosis and by the kind of container found. Pure.
// tests/system/test_fix_sketch.py runs every one of them.
#ifndef COWPROF_MODEL_JUDGE_FIX_SKETCH_H_
#define COWPROF_MODEL_JUDGE_FIX_SKETCH_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/judge/blame.h"

namespace cowprof {

// What the items of a data set are, judged by the types of the objects that were copied by their reference counts.
enum class Container { kAny, kStrings, kNumbers, kDicts, kTuples, kLists, kObjects, kArrays, kTensors };

// `by_type`: of the workers' copies.
Container ContainerOf(const std::vector<BlameRow>& by_type);

// Several lines, without a trailing newline; "" if there is no short fix. The container matters only to cow-refcount.
std::string FixSketch(absl::string_view diagnosis, Container container);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_FIX_SKETCH_H_
