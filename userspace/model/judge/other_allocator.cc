#include "model/judge/other_allocator.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace cowprof {

std::string OtherAllocatorOf(const RunModel& model) {
  // A screen asks at each tick, and there may be a million regions.
  for (const NumberedRegion& one : model.regions) {
    absl::string_view file = one.region.name;
    if (one.region.kind != RegionKind::kFile || !absl::ConsumePrefix(&file, "lib")) continue;
    for (const absl::string_view name : {"jemalloc", "tcmalloc", "mimalloc"}) {
      if (absl::StartsWith(file, name)) return std::string(name);
    }
  }
  return "";
}

std::string AdviceOnAllocator(absl::string_view allocator) {
  return absl::StrCat(
      "Where the line above only allocates, nothing has to be done: it is the workers' own memory, whatever page it "
      "lies on.",
      allocator == "jemalloc"
          ? " MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0 gives freed memory back to the kernel at once; the workers "
            "then get most of theirs as new pages, for more page faults."
          : "");
}

}  // namespace cowprof
