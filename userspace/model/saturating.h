// Count arithmetic that clamps instead of wrapping around, whatever a recording says.
#ifndef COWPROF_MODEL_SATURATING_H_
#define COWPROF_MODEL_SATURATING_H_

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace cowprof {

// Converts a double to uint64_t, clamping NaN, negatives and overflow.
inline uint64_t SaturatingCast(double value) {
  if (value >= 0x1p64) return UINT64_MAX;
  return value > 0 ? static_cast<uint64_t>(value) : 0;
}

// minuend - subtrahend, or 0 if the subtrahend is larger: figures of different moments may contradict each other.
template <std::unsigned_integral T>
constexpr T SaturatingSubtract(T minuend, std::type_identity_t<T> subtrahend) {
  return minuend > subtrahend ? minuend - subtrahend : 0;
}

// a + b, or the largest number.
template <std::unsigned_integral T>
constexpr T SaturatingAdd(T a, std::type_identity_t<T> b) {
  const T sum = a + b;
  return sum < a ? static_cast<T>(-1) : sum;
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_SATURATING_H_
