// Decodes UTF-8 (RFC 3629).
#ifndef COWPROF_MODEL_UTF8_H_
#define COWPROF_MODEL_UTF8_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace cowprof {

// The UTF-8 sequence at the front of a text. Length 0: it is malformed, overlong or a surrogate.
struct Utf8Sequence {
  size_t length = 0;
  uint32_t point = 0;
};

inline Utf8Sequence Utf8SequenceOf(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead};
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  uint32_t point = lead & (0xff >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    point = point << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (point < kLeast[length] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return {};
  return {length, point};
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_UTF8_H_
