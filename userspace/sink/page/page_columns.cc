#include "sink/page/page_columns.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace cowprof {
namespace {

// Below it, a code is at most 2 * (2^52 - 1) + 1, which a double holds to the last bit: that bit is the sign.
constexpr uint64_t kTooLarge = 1ull << 52;
constexpr char kSame = 1;  // the code of no difference

}  // namespace

void Column::AddOther(const Count& value) {
  AppendSame();
  if (!value || *value >= kTooLarge) {
    bytes_ += '\0';
    return;
  }
  const int64_t difference = static_cast<int64_t>(*value) - last_;
  last_ = static_cast<int64_t>(*value);
  uint64_t code = ((static_cast<uint64_t>(difference) << 1) ^ static_cast<uint64_t>(difference >> 63)) + 1;
  char encoded[8];  // 7 bits each: code is below 2^53
  size_t size = 0;
  for (; code >= 0x80; code >>= 7) encoded[size++] = static_cast<char>(code | 0x80);
  encoded[size++] = static_cast<char>(code);
  bytes_.append(encoded, size);
}

void Column::AppendSame() const {
  if (same_ > 0) bytes_.append(std::exchange(same_, 0), kSame);
}

const std::string& Column::bytes() const {
  AppendSame();
  return bytes_;
}

void Column::Halve(size_t first) {
  AppendSame();
  const Column whole = std::exchange(*this, {});
  int64_t value = 0;
  for (size_t i = 0, at = 0; i < whole.size_; ++i) {
    uint64_t code = 0, byte = 0x80;
    for (int shift = 0; byte & 0x80; shift += 7) {
      byte = static_cast<unsigned char>(whole.bytes_[at++]);
      code |= (byte & 0x7f) << shift;
    }
    const uint64_t zigzag = code - 1;
    if (code != 0) value += static_cast<int64_t>((zigzag >> 1) ^ -(zigzag & 1));
    const bool stays = (first + i) % 2 == 1 || i + 1 == whole.size_;
    if (stays) Add(code == 0 ? std::nullopt : Count(value));
  }
}

nlohmann::ordered_json ColumnFile::Append(Column column) { return Refer(columns_.emplace_back(std::move(column))); }

nlohmann::ordered_json ColumnFile::Refer(const Column& column) {
  const size_t offset = size_;
  parts_.push_back(column.bytes());
  size_ += column.bytes().size();
  return {offset, column.bytes().size(), column.size()};
}

}  // namespace cowprof
