// What starts and feeds the workers of a program. Plain data.
#ifndef COWPROF_MODEL_FACTS_FRAMEWORK_H_
#define COWPROF_MODEL_FACTS_FRAMEWORK_H_

#include "model/facts/enum_names.h"

namespace cowprof {

enum class Framework {
  kDataLoader,  // PyTorch's
  kPool,        // multiprocessing.Pool
  kExecutor,    // concurrent.futures.ProcessPoolExecutor
  kJoblib,      // joblib's loky
  kGunicorn,
  kCelery,
  kFork,    // anything else that calls fork(). No process is known to be one: it is assumed where nothing is known
  kNative,  // no Python at all
};
template <>
inline constexpr auto kNamesOf<Framework> = NamesFor<Framework>("dataloader", "pool", "executor", "joblib", "gunicorn",
                                                                "celery", "fork", "native");

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_FRAMEWORK_H_
