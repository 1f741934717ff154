// Which sketch is told for which finding. That each one works is shown by tests/system/test_fix_sketch.py.
#include "model/judge/fix_sketch.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"

namespace cowprof {
namespace {

BlameRow Type(const std::string& type, uint64_t refcounts, uint64_t headers = 0) {
  BlameRow row = {.type = type, .copies = refcounts + headers};
  row.causes[static_cast<int>(Cause::kRefcount)] = refcounts;
  row.causes[static_cast<int>(Cause::kGcHeader)] = headers;
  return row;
}

}  // namespace

TEST_CASE("fix sketch: the container is told by the types that were copied by their counts") {
  CHECK(ContainerOf({}) == Container::kAny);
  CHECK(ContainerOf({Type("", 100)}) == Container::kAny);
  CHECK(ContainerOf({Type("str", 90), Type("dict", 5), Type("code", 5)}) == Container::kStrings);
  CHECK(ContainerOf({Type("str", 70), Type("dict", 20)}) == Container::kDicts);
  CHECK(ContainerOf({Type("str", 70), Type("dict", 20), Type("__main__.Item", 30)}) == Container::kObjects);
  CHECK(ContainerOf({Type("int", 60), Type("tuple", 20)}) == Container::kTuples);
  CHECK(ContainerOf({Type("int", 60), Type("list", 20)}) == Container::kLists);
  CHECK(ContainerOf({Type("int", 50), Type("float", 20)}) == Container::kNumbers);
  CHECK(ContainerOf({Type("numpy.ndarray", 50)}) == Container::kArrays);
  CHECK(ContainerOf({Type("torch.Tensor", 50)}) == Container::kTensors);
  CHECK(ContainerOf({Type("str", 90), Type("multiprocessing.synchronize.Lock", 20)}) == Container::kStrings);
  CHECK(ContainerOf({Type("str", 60), Type("int", 30)}) == Container::kAny);
  // What was copied for another reason is none of it.
  CHECK(ContainerOf({Type("str", 90), Type("dict", 0, 900)}) == Container::kStrings);
}

TEST_CASE("fix sketch: every container has one of its own, with a part before and a part after") {
  std::vector<std::string> seen;
  for (int container = 0; container <= static_cast<int>(Container::kTensors); ++container) {
    const std::string sketch = FixSketch("cow-refcount", static_cast<Container>(container));
    CHECK(absl::StartsWith(sketch, "# before"));
    CHECK(absl::StrContains(sketch, "\n\n# after"));
    CHECK_FALSE(absl::EndsWith(sketch, "\n"));
    for (const std::string& other : seen) CHECK(sketch != other);
    seen.push_back(sketch);
  }
}

TEST_CASE("fix sketch: other findings") {
  CHECK(absl::StrContains(FixSketch("cow-gc-header", Container::kDicts), "gc.freeze()"));
  CHECK(FixSketch("shm-near-full", Container::kAny) == FixSketch("shm-full", Container::kStrings));
  CHECK(FixSketch("clean", Container::kStrings).empty());
  CHECK(FixSketch("oom-host", Container::kStrings).empty());
}

}  // namespace cowprof
