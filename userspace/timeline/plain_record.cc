#include "timeline/plain_record.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/match.h"

namespace cowprof {
namespace {

constexpr size_t kMostKeys = 64;
constexpr size_t kMostDigits = 19;        // any such number is below 2^64
constexpr size_t kMostDigitsOfReal = 15;  // as an integer it is exact in a double; so is the power of ten
constexpr double kPowersOf10[] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

struct Digits {
  uint64_t number;
  int count;  // 8: more may follow
};

// The digits that 8 bytes begin with, all at once; the first byte is the least significant one of `bytes`.
Digits DigitsIn(uint64_t bytes) {
  uint64_t digits = bytes ^ 0x3030303030303030;
  // A byte above 9 has a bit in its upper half, or gets one when 6 is added; a carry only reaches the bytes behind it.
  const uint64_t others = (digits | (digits + 0x0606060606060606)) & 0xf0f0f0f0f0f0f0f0;
  const int count = std::countr_zero(others) / 8;
  if (count == 0) return {0, 0};
  digits <<= 64 - 8 * count;             // leading zeros
  digits = digits * 10 + (digits >> 8);  // every other byte: the number that two digits make
  const uint64_t mask = 0x000000ff000000ff;
  return {((digits & mask) * (100 + (1000000ull << 32)) + (digits >> 16 & mask) * (1 + (10000ull << 32))) >> 32, count};
}

}  // namespace

Count CountInOther(const PlainCell& cell) { return NumberIn<uint64_t>(cell); }

const PlainRecord::List* PlainRecord::Find(absl::string_view key) const {
  const auto found = std::find_if(lists_.begin(), lists_.end(), [&](const List& list) { return list.key == key; });
  return found == lists_.end() ? nullptr : &*found;
}

bool PlainRecord::Skip(absl::string_view expected) {
  if (!absl::StartsWith(absl::string_view(at_, end_ - at_), expected)) return false;
  at_ += expected.size();
  return true;
}

bool PlainRecord::ReadText(absl::string_view* text) {
  if (!Skip('"')) return false;
  const char* const begin = at_;
  for (; at_ != end_ && *at_ != '"'; ++at_) {
    if (*at_ < ' ' || *at_ > '~' || *at_ == '\\') return false;
  }
  *text = absl::string_view(begin, at_ - begin);
  return Skip('"');
}

// Most of a recording is numbers of at most 7 digits. False: this is none, or too near to the end to tell.
inline bool PlainRecord::ReadShortCount(PlainCell* cell) {
  uint64_t bytes;
  if (std::endian::native != std::endian::little || end_ - at_ < static_cast<ptrdiff_t>(sizeof(bytes))) return false;
  std::memcpy(&bytes, at_, sizeof(bytes));
  const auto [number, count] = DigitsIn(bytes);
  if (count == 0 || count == sizeof(bytes) || at_[count] == '.' || (count > 1 && *at_ == '0')) return false;
  cell->kind = PlainCell::Kind::kCount;
  cell->count = number;
  at_ += count;
  return true;
}

bool PlainRecord::ReadNumber(PlainCell* cell) {
  const char *const begin = at_, *const end = end_;
  const char* at = begin;
  uint64_t number = 0;
  for (; at != end && IsDigit(*at); ++at) number = number * 10 + (*at - '0');
  at_ = at;
  const size_t digits = at - begin;
  if (digits == 0 || digits > kMostDigits || (digits > 1 && *begin == '0')) return false;
  if (at == end || *at != '.') {
    cell->kind = PlainCell::Kind::kCount;
    cell->count = number;
    return true;
  }
  const char* const fraction = ++at;
  for (; at != end && IsDigit(*at); ++at) number = number * 10 + (*at - '0');
  at_ = at;
  const size_t places = at - fraction;
  if (places == 0 || digits + places > kMostDigitsOfReal) return false;
  cell->kind = PlainCell::Kind::kReal;
  cell->real = static_cast<double>(number) / kPowersOf10[places];
  return true;
}

inline bool PlainRecord::ReadCell(std::vector<PlainCell>* cells, bool inner) {
  PlainCell& cell = cells->emplace_back();
  return ReadShortCount(&cell) || ReadOther(&cell, inner);
}

bool PlainRecord::ReadOther(PlainCell* cell, bool inner) {
  if (at_ == end_) return false;
  if (IsDigit(*at_)) return ReadNumber(cell);
  if (*at_ == '"') {
    absl::string_view text;
    if (!ReadText(&text) || text.size() > UINT32_MAX) return false;
    cell->kind = PlainCell::Kind::kText;
    cell->size = text.size();
    cell->text = text.data();
    return true;
  }
  if (*at_ != '[') return Skip("null");
  if (inner) return false;
  ++at_;
  cell->kind = PlainCell::Kind::kList;
  cell->count = inner_.size();
  if (Skip(']')) return true;
  do {
    if (!ReadCell(&inner_, true)) return false;
  } while (Skip(','));
  if (!Skip(']') || inner_.size() - cell->count > UINT32_MAX) return false;
  cell->size = inner_.size() - cell->count;
  return true;
}

bool PlainRecord::ReadRow() {
  const size_t first = cells_.size();
  if (!Skip('[')) return false;
  do {
    if (!ReadCell(&cells_, false)) return false;
  } while (Skip(','));
  rows_.push_back({first, cells_.size() - first});
  return Skip(']');
}

bool PlainRecord::ReadRows(absl::string_view key) {
  const size_t first = rows_.size();
  if (!Skip('[')) return false;
  do {
    if (!ReadRow()) return false;
  } while (Skip(','));
  if (!Skip(']')) return false;
  lists_.push_back({key, first, rows_.size()});
  return true;
}

// Goes to the comma or brace that ends the value. It need not be valid: whoever parses it finds that out.
bool PlainRecord::SkipValue() {
  size_t depth = 0;
  for (; at_ != end_; ++at_) {
    switch (*at_) {
      case '"':
        for (++at_; at_ != end_ && *at_ != '"'; ++at_) {
          if (*at_ == '\\' && ++at_ == end_) return false;
        }
        if (at_ == end_) return false;
        break;
      case '[':
      case '{':
        ++depth;
        break;
      case ']':
      case '}':
        if (depth == 0) return true;
        --depth;
        break;
      case ',':
        if (depth == 0) return true;
        break;
    }
  }
  return false;
}

bool PlainRecord::ReadMember() {
  const char* const member = at_;
  absl::string_view key;
  if (!ReadText(&key) || !Skip(':') || keys_.size() == kMostKeys) return false;
  // Of members with the same key the last one counts: the parser knows.
  if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) return false;
  keys_.push_back(key);
  const char* const value = at_;
  const size_t rows = rows_.size(), cells = cells_.size(), inner = inner_.size();
  if (ReadRows(key)) return true;
  rows_.resize(rows);
  cells_.resize(cells);
  inner_.resize(inner);
  at_ = value;
  if (!SkipValue()) return false;
  rest_ += rest_.empty() ? '{' : ',';
  rest_.append(member, at_ - member);
  return true;
}

bool PlainRecord::Read(absl::string_view record) {
  at_ = record.data();
  end_ = at_ + record.size();
  keys_ = {"t", "type"};
  lists_.clear();
  rows_.clear();
  cells_.clear();
  inner_.clear();
  rest_.clear();
  PlainCell t;
  if (!Skip("{\"t\":") || !ReadNumber(&t) || !Skip(",\"type\":\"sample\"")) return false;
  t_ = *NumberIn<double>(t);
  while (Skip(',')) {
    if (!ReadMember()) return false;
  }
  if (!rest_.empty()) rest_ += '}';
  return Skip('}') && at_ == end_;
}

}  // namespace cowprof
