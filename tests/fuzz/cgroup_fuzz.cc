// Finds the memory cgroups of a process and reads their files: /proc/PID/cgroup, mountinfo, and the files of v1 and v2
// below a folder of this target.
#include "absl/strings/str_split.h"
#include "fixture_tree.h"
#include "fuzz.h"
#include "source/cgroup.h"

namespace cowprof {
namespace {

// "cgroup" and "mountinfo", separated by a line with a blank.
void FuzzPlan(absl::string_view text) {
  const std::pair<absl::string_view, absl::string_view> texts = absl::StrSplit(text, absl::MaxSplits("\n \n", 1));
  const std::vector<MemoryCgroup> levels = PlanMemoryCgroups(texts.first, texts.second);
  Require(levels.size() <= 4097, "no more levels than a kernel path can have");
  for (const MemoryCgroup& level : levels) {
    for (const absl::string_view part : absl::StrSplit(level.name, '/'))
      Require(part != "..", "a cgroup is below its mount");
  }
}

// One piece of text for each file of a cgroup.
void FuzzFiles(absl::string_view text, bool v2) {
  static const FixtureTree tree;
  const MemoryCgroup cgroup = {v2, "/job", "/job"};
  static constexpr const char* kFiles[2][4] = {
      {"memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "memory.oom_control"},
      {"memory.max", "memory.current", "memory.stat", "memory.events"}};
  const std::vector<absl::string_view> texts = absl::StrSplit(text, absl::MaxSplits("\n \n", 3));
  for (size_t i = 0; i < texts.size(); ++i) tree.Write(absl::StrCat("/job/", kFiles[v2][i]), std::string(texts[i]));
  static_cast<void>(ReadMemoryLimit(cgroup, tree.root()));
  const auto use = ReadMemoryUse(cgroup, tree.root());
  CountsChildren(cgroup, tree.root());
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const size_t parser = cowprof::PickOne(&input, 4);
  const std::string text = input.ConsumeRemainingBytesAsString();
  if (parser == 0) cowprof::FuzzPlan(text);
  if (parser == 1) static_cast<void>(cowprof::ParseMemoryLimit(text));
  if (parser >= 2) cowprof::FuzzFiles(text, parser == 3);
  return 0;
}
