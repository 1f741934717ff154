// The language in which users name an object of a target: "__main__.data.rows[0]['key']". Parsing alone.
#ifndef COWPROF_PYTHON_OBJECT_EXPRESSION_H_
#define COWPROF_PYTHON_OBJECT_EXPRESSION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cowprof {

struct ObjectStep {
  std::string name;               // ".name", "['name']"
  std::optional<uint64_t> index;  // "[3]"
  bool is_key = false;
};

// At most 64 steps, the first a name. InvalidArgument: not such an expression.
absl::StatusOr<std::vector<ObjectStep>> ParseObject(absl::string_view text);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_OBJECT_EXPRESSION_H_
