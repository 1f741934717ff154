// Records of a recording, one a line, through the plain reader and through the JSON parser alone: both must take each
// for the same.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "fuzz.h"
#include "record_readers.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Random bytes soon end the JSON, so two of three mutations keep to what could be in a record.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 3 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> lines = absl::StrSplit(absl::string_view(reinterpret_cast<char*>(data), size), '\n');
  for (unsigned changes = 1 + random() % 4; changes > 0; --changes) {
    std::string& line = lines[random() % lines.size()];
    line = random() % 2 == 0 ? cowprof::WithOddValue(line, &random) : cowprof::WithOddText(line, &random);
  }
  const std::string text = absl::StrJoin(lines, "\n");
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cowprof::RecordReaders readers;
  for (absl::string_view line : absl::StrSplit(absl::string_view(reinterpret_cast<const char*>(data), size), '\n'))
    cowprof::Require(readers.Agree(line), "both readers take a record for the same");
  return 0;
}
