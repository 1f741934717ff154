// Decodes the three line tables of CPython as PyCode_Addr2Line does (declared in frames.h). Pure; accepts any bytes: a
// table may be truncated anywhere or contain garbage.
#include "python/frames.h"

namespace cowprof {
namespace {

unsigned char ByteAt(absl::string_view table, size_t index) { return static_cast<unsigned char>(table[index]); }

// Garbage may exceed the range of an int: wrap around as unsigned numbers do.
int Add(int line, int delta) { return static_cast<int>(static_cast<unsigned>(line) + static_cast<unsigned>(delta)); }

// 3.6 to 3.9, Objects/codeobject.c PyCode_Addr2Line: pairs of u8 bytes and i8 lines.
int LineOfLnotab(absl::string_view table, int line, int64_t byte_offset) {
  int64_t address = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    address += ByteAt(table, i);
    if (address > byte_offset) break;
    line = Add(line, static_cast<signed char>(table[i + 1]));
  }
  return line;
}

// 3.10, Objects/codeobject.c advance(): pairs of u8 bytes and i8 lines, where -128 means no line.
int LineOfLinetable(absl::string_view table, int line, int64_t byte_offset) {
  int64_t end = 0;
  for (size_t i = 0; i + 1 < table.size(); i += 2) {
    end += ByteAt(table, i);
    const int delta = static_cast<signed char>(table[i + 1]);
    if (delta != -128) line = Add(line, delta);
    if (byte_offset < end) return delta == -128 ? 0 : line;
  }
  return 0;
}

// Objects/codeobject.c scan_varint(), scan_signed_varint(): 6 bits per byte, bit 6 set if more follow.
int SignedVarint(absl::string_view table, size_t index) {
  uint32_t value = 0;
  for (unsigned shift = 0; index < table.size() && shift < 32; ++index, shift += 6) {
    value |= static_cast<uint32_t>(ByteAt(table, index) & 63) << shift;
    if (!(ByteAt(table, index) & 64)) break;
  }
  const int half = static_cast<int>(value >> 1);
  return value & 1 ? -half : half;
}

// 3.11 and later, Objects/codeobject.c get_line_delta() and advance(), Objects/locations.md. An entry begins with a
// byte that has bit 7 set, its form in bits 3 to 6 and its length in units minus one in bits 0 to 2.
int LineOfLocations(absl::string_view table, int line, int64_t byte_offset) {
  constexpr unsigned kOneLine0 = 10, kOneLine2 = 12, kNoColumns = 13, kLong = 14, kNone = 15;
  int64_t end = 0;
  size_t i = 0;
  while (i < table.size()) {
    const unsigned form = ByteAt(table, i) >> 3 & 15;
    end += ((ByteAt(table, i) & 7) + 1) * 2;
    if (form == kNoColumns || form == kLong) {
      line = Add(line, SignedVarint(table, i + 1));
    } else if (form >= kOneLine0 && form <= kOneLine2) {
      line = Add(line, static_cast<int>(form - kOneLine0));
    }
    if (byte_offset < end) return form == kNone ? 0 : line;
    do {
      ++i;
    } while (i < table.size() && !(ByteAt(table, i) & 128));
  }
  return 0;
}

}  // namespace

int LineOf(LineTableKind kind, absl::string_view line_table, int first_line, int64_t byte_offset) {
  if (byte_offset < 0) return first_line < 0 ? 0 : first_line;
  int line = 0;
  switch (kind) {
    case LineTableKind::kLnotab:
      line = LineOfLnotab(line_table, first_line, byte_offset);
      break;
    case LineTableKind::kLinetable:
      line = LineOfLinetable(line_table, first_line, byte_offset);
      break;
    case LineTableKind::kLocations:
      line = LineOfLocations(line_table, first_line, byte_offset);
      break;
  }
  return line < 0 ? 0 : line;
}

}  // namespace cowprof
