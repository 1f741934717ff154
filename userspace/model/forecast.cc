// See forecast.h.
#include "model/forecast.h"

namespace cowprof {

Forecast ForecastOf(const Growth& growth) {
  const Totals living = SumOf(growth, /*living_only=*/true, /*workers_only=*/false);
  Forecast forecast = {.private_bytes = living.private_bytes,
                       .still_shared_bytes = living.still_shared_bytes,
                       .ceiling_bytes = living.private_bytes + living.still_shared_bytes};
  for (const LimitGrowth& limit : growth.limits) {
    if (limit.now.limit) forecast.limits.push_back({.now = limit.now});
  }
  return forecast;
}

const char* NameOf(Shape shape) {
  constexpr const char* kNames[] = {"flat", "bounded", "unbounded"};
  return kNames[static_cast<int>(shape)];
}

const char* NameOf(Outlook outlook) {
  constexpr const char* kNames[] = {"safe", "tight", "will-exceed", "unknown"};
  return kNames[static_cast<int>(outlook)];
}

}  // namespace cowprof
