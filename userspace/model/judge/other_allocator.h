// A library that takes malloc's place (LD_PRELOAD). What it has free can't be told from what is in use; of glibc's
// malloc that can.
#ifndef COWPROF_MODEL_JUDGE_OTHER_ALLOCATOR_H_
#define COWPROF_MODEL_JUDGE_OTHER_ALLOCATOR_H_

#include <string>

#include "absl/strings/string_view.h"
#include "model/facts/run_model.h"

namespace cowprof {

// "jemalloc", "tcmalloc" or "mimalloc", as a process of the run maps it; "": none, or it is linked statically.
std::string OtherAllocatorOf(const RunModel& model);
// What to do where the copies are by allocation.
std::string AdviceOnAllocator(absl::string_view allocator);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_OTHER_ALLOCATOR_H_
