// From figures that are reckoned with doubles back to whole numbers. Pure; called wherever a count is made of an
// estimate: to convert what no count can be is undefined, and a recording may say anything.
#ifndef COWPROF_MODEL_SATURATED_H_
#define COWPROF_MODEL_SATURATED_H_

#include <cstdint>

namespace cowprof {

// The nearest that a count can be; 0 for what is no number.
inline uint64_t SaturatedCount(double value) {
  if (value >= 0x1p64) return UINT64_MAX;
  return value > 0 ? static_cast<uint64_t>(value) : 0;
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_SATURATED_H_
