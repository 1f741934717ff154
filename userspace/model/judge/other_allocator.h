// Allocators other than glibc's: of libraries that take malloc's place (LD_PRELOAD), and of those that link one for
// their own data. What they have free can't be told from what is in use; of glibc's malloc that can.
#ifndef COWPROF_MODEL_JUDGE_OTHER_ALLOCATOR_H_
#define COWPROF_MODEL_JUDGE_OTHER_ALLOCATOR_H_

#include <string>

#include "absl/strings/string_view.h"
#include "model/facts/run_model.h"

namespace cowprof {

// "jemalloc", "tcmalloc" or "mimalloc", as a process of the run maps it; "": none, or it is linked statically.
std::string OtherAllocatorOf(const RunModel& model);
// "Arrow's allocator" or "polars' jemalloc", which these libraries have for their own data, beside malloc; "": of any
// other file.
absl::string_view OwnAllocatorOf(absl::string_view module);
// How to make those that are mapped give back what they keep: sentences with a space before each; "": none is.
std::string AdviceOnOwnAllocators(const RunModel& model);
// What to do where the copies are by allocation.
std::string AdviceOnAllocator(absl::string_view allocator);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_OTHER_ALLOCATOR_H_
