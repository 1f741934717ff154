// A figure that may be unknown.
#ifndef COWPROF_MODEL_FACTS_COUNT_H_
#define COWPROF_MODEL_FACTS_COUNT_H_

#include <cstdint>
#include <optional>

namespace cowprof {

using Count = std::optional<uint64_t>;  // absent is not 0

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_COUNT_H_
