#include "model/judge/other_allocator.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace cowprof {
namespace {

constexpr char kArrow[] = "Arrow's allocator", kPolars[] = "polars' jemalloc";

}  // namespace

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

// pyarrow has jemalloc or mimalloc in libarrow.so.N; polars has jemalloc in polars.abi3.so, _polars_runtime.abi3.so.
absl::string_view OwnAllocatorOf(absl::string_view module) {
  if (absl::StartsWith(module, "libarrow.so")) return kArrow;
  absl::ConsumePrefix(&module, "_");
  return absl::StartsWith(module, "polars") && absl::StrContains(module, ".so") ? kPolars : "";
}

std::string AdviceOnOwnAllocators(const RunModel& model) {
  bool arrow = false, polars = false;
  for (const NumberedRegion& one : model.regions) {
    if (one.region.kind != RegionKind::kFile) continue;
    const absl::string_view own = OwnAllocatorOf(one.region.name);
    arrow |= own == kArrow;
    polars |= own == kPolars;
  }
  return absl::StrCat(
      arrow ? " pyarrow has an allocator of its own, which pyarrow.default_memory_pool().release_unused() makes give "
              "back what it can; with ARROW_DEFAULT_MEMORY_POOL=system in the environment it uses malloc instead."
            : "",
      polars ? " polars has a jemalloc of its own, which gives back more with _RJEM_MALLOC_CONF=muzzy_decay_ms:500 in "
               "the environment."
             : "");
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
