// Types, objects, strings and dicts in damaged memory; arenas of pymalloc among mappings; heads of objects in regions.
#include "attribution/regions.h"
#include "hostile_memory.h"
#include "python/object_heads.h"
#include "python/objects.h"

namespace cowprof {
namespace {

void ReadTypes(const RecordedPython& python, const HostileMemory& memory) {
  TypeReader types(python.interpreter, memory);
  for (int i = 0; i < 4; ++i) {
    const auto type = types.Read(memory.Address());
    Require(!type || type->name.size() <= kMaxNameBytes, "a name of a bounded size");
    static_cast<void>(types.TypeOfObject(memory.Address()));
  }
  const PythonLayout& layout = python.interpreter.layout;
  FindInDict(layout, memory, memory.Address(), "__module__");
  const auto text = ReadString(layout, memory, memory.Address(), 100);
  Require(!text || text->size() <= 100, "a string of a bounded size");
}

void LookForArenas(const RecordedPython& python, const HostileMemory& memory, FuzzedDataProvider* input) {
  std::vector<Region> regions;
  uint64_t at = memory.Address() % (1ull << 46) / 4096 * 4096;
  for (int i = input->ConsumeIntegralInRange(0, 3); i > 0; --i) {
    at += input->ConsumeIntegral<uint16_t>() * uint64_t{4096};
    const uint64_t end = at + (1 + input->ConsumeIntegral<uint16_t>() % 2048) * uint64_t{4096};
    regions.push_back({input->ConsumeBool() ? RegionKind::kMmap : RegionKind::kHeap, "", at, end});
    at = end;
  }
  const uint64_t pool = input->ConsumeBool() ? 4096 : 16384;
  uint64_t before = 0;
  for (const Region& region : SplitArenas(regions, memory, pool, 64 * pool)) {
    Require(before <= region.start && region.start < region.end, "regions in order, none empty");
    before = region.end;
  }
  if (regions.empty()) return;
  TypeReader types(python.interpreter, memory);
  const std::optional<HeadLayout> layout = HeadLayoutOf(python.interpreter);
  if (!layout) return;
  const RegionHeads heads =
      LookForHeads(regions[0], kLeastPageBytes, memory, *layout, LookUpIn(types, python.interpreter.layout.minor));
  Require(heads.with_heads <= heads.pages && heads.pages <= 256, "a bounded look");
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cowprof;
  FuzzedDataProvider input(data, size);
  const RecordedPython& python = RecordedPythons()[PickOne(&input, RecordedPythons().size())];
  const HostileMemory memory(python.recording, &input);
  if (input.ConsumeBool()) {
    ReadTypes(python, memory);
  } else {
    LookForArenas(python, memory, &input);
  }
  return 0;
}
