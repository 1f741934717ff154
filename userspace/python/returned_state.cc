// Instructions and offsets were read from compiled functions of 3.8.18, 3.9.18, 3.10.13, 3.11.7, 3.12.1, 3.13.0 and
// 3.14.1, before and after they had run often enough to be specialised.
#include "python/returned_state.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace cowprof {
namespace {

// A version's code for `return self.__dict__`: RESUME (from 3.11 on), LOAD_FAST, LOAD_ATTR, its cache, RETURN_VALUE.
struct ByteCode {
  int first_minor, last_minor;
  uint8_t resume, quick_resume, load_fast, load_attribute, quick_load_attribute, return_value;
  uint32_t cache;  // instructions
};
constexpr ByteCode kByteCodes[] = {
    {8, 10, 0, 0, 124, 106, 106, 83, 0},      {11, 11, 151, 150, 124, 106, 39, 83, 4},
    {12, 12, 151, 151, 124, 106, 106, 83, 9}, {13, 13, 149, 207, 85, 82, 82, 36, 9},
    {14, 14, 128, 196, 86, 80, 80, 35, 9},
};
constexpr uint32_t kOldCode = 48, kBytes = 32, kOldNames = 64, kNames = 32;  // co_code and what it holds; co_names
// *args, **keywords, generators and coroutines, Include/cpython/code.h.
constexpr uint32_t kOtherKinds = 0x4 | 0x8 | 0x20 | 0x80 | 0x100 | 0x200;

}  // namespace

bool ReturnsOwnDict(const ObjectGraph& graph, uint64_t function) {
  const int minor = static_cast<int>(graph.layout().minor);
  const ByteCode* known = std::find_if(std::begin(kByteCodes), std::end(kByteCodes), [&](const ByteCode& row) {
    return row.first_minor <= minor && minor <= row.last_minor;
  });
  const uint64_t code = graph.Pointer(function + graph.state().function_code);
  if (known == std::end(kByteCodes) || code == 0) return false;
  const auto number = [&](uint64_t address) { return ReadValue<int32_t>(graph.memory(), address); };
  const auto flags = ReadValue<uint32_t>(graph.memory(), code + graph.state().code_flags);
  const uint64_t arguments = code + graph.state().code_arguments;
  if (number(arguments) != 1 || number(arguments + 8) != 0 || !flags || (*flags & kOtherKinds) != 0) return false;
  const bool old = minor < 11;
  const uint64_t names = graph.Pointer(code + (old ? kOldNames : kNames));
  if (graph.Text(graph.Pointer(names + graph.layout().container.tuple_items)) != "__dict__") return false;
  // A size in bytes up to 3.10, in instructions from 3.11 on.
  const uint64_t instructions = 3 + known->cache + (old ? 0 : 1);
  const uint64_t bytes = old ? graph.Pointer(code + kOldCode) : 0;
  const uint64_t size = graph.Pointer((old ? bytes : code) + graph.layout().object.var_size);
  if (size != (old ? 2 * instructions : instructions)) return false;
  uint64_t at = old ? bytes + kBytes : code + graph.layout().code.adaptive;
  const auto is_next = [&](uint8_t one, uint8_t other) {
    const auto found = ReadValue<uint16_t>(graph.memory(), at);  // with an argument of 0
    at += 2;
    return found && (*found == one || *found == other);
  };
  if (!old && !is_next(known->resume, known->quick_resume)) return false;
  if (!is_next(known->load_fast, known->load_fast)) return false;
  if (!is_next(known->load_attribute, known->quick_load_attribute)) return false;
  at += uint64_t{2} * known->cache;
  return is_next(known->return_value, known->return_value);
}

}  // namespace cowprof
