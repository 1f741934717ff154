// The files of /proc/PID, and the regions made from its mappings. A process chooses its name, its arguments, and the
// paths that it maps.
#include "attribution/regions.h"
#include "fuzz.h"
#include "source/proc_text.h"

namespace cowprof {
namespace {

void FuzzMaps(absl::string_view text) {
  const std::vector<Mapping> mappings = ParseMaps(text);
  for (const Mapping& mapping : mappings) Require(mapping.begin < mapping.end, "a mapping has pages");
  std::vector<Region> known;
  const std::vector<Region> regions = ClassifyMappings(mappings);
  for (const AddressRange& range : NumberRegions(regions, &known)) {
    Require(range.start < range.end && range.number < known.size(), "a range has pages and a number");
  }
}

void FuzzOne(size_t parser, const std::string& text) {
  switch (parser) {
    case 0:
      static_cast<void>(ParseStat(text));
      return;
    case 1:
      ParseStatus(text);
      return;
    case 2:
      static_cast<void>(ParseRollup(text));
      return;
    case 3:
      return FuzzMaps(text);
    case 4:
      JoinCommandLine(text);
      return;
    case 5:
      ParseSoftLimit(text, "Max open files");
      ParseSoftLimit(text, "Max address space");
      return;
    case 6:
      ParseHostMemory(text);
      return;
  }
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FuzzedDataProvider input(data, size);
  const size_t parser = cowprof::PickOne(&input, 7);
  cowprof::FuzzOne(parser, input.ConsumeRemainingBytesAsString());
  return 0;
}
