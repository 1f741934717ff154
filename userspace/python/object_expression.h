// The language in which users name an object of a target: "__main__.data.rows[0]['key']", and
// its steps in the memory of a process.
#ifndef COWPROF_PYTHON_OBJECT_EXPRESSION_H_
#define COWPROF_PYTHON_OBJECT_EXPRESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "python/graph.h"

namespace cowprof {

struct ObjectStep {
  std::string name;               // ".name", "['name']"
  std::optional<uint64_t> index;  // "[3]"
  bool is_key = false;
};

// At most 64 steps, the first a name. InvalidArgument: not such an expression.
absl::StatusOr<std::vector<ObjectStep>> ParseObject(absl::string_view text);

// The address of the attribute or item of `object` that the step names; 0: it has none, or can't be read.
uint64_t StepInto(ObjectGraph& graph, uint64_t object, const ObjectStep& step);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_OBJECT_EXPRESSION_H_
