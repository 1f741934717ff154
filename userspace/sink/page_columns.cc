// See page_columns.h.
#include "sink/page_columns.h"

#include <nlohmann/json.hpp>

namespace cowprof {
namespace {

// A code is at most 2 * (2^52 - 1) + 1 then, which a double holds to the last bit: that one is the sign.
constexpr uint64_t kTooLarge = 1ull << 52;

}  // namespace

void Column::Add(const Count& value) {
  ++size_;
  if (!value || *value >= kTooLarge) {
    bytes_ += '\0';
    return;
  }
  const int64_t difference = static_cast<int64_t>(*value) - last_;
  last_ = static_cast<int64_t>(*value);
  uint64_t code = ((static_cast<uint64_t>(difference) << 1) ^ static_cast<uint64_t>(difference >> 63)) + 1;
  for (; code >= 0x80; code >>= 7) bytes_ += static_cast<char>(code | 0x80);
  bytes_ += static_cast<char>(code);
}

void Column::FillTo(size_t size) {
  while (size_ < size) Add(std::nullopt);
}

nlohmann::ordered_json ColumnFile::Append(const Column& column) {
  const size_t offset = bytes_.size();
  bytes_ += column.bytes();
  return {offset, column.bytes().size(), column.size()};
}

}  // namespace cowprof
