// Decodes only the few forms that write a count; Intel SDM volume 2, 2.1 and appendix A.
#include "python/instruction.h"

#include <cstddef>

namespace cowprof {
namespace {

bool IsRex(uint8_t byte) { return (byte & 0xF0) == 0x40; }

// Length of the ModRM byte, SIB and displacement; 0: the operand is a register, not memory.
size_t OperandBytes(absl::Span<const uint8_t> code) {
  if (code.empty()) return 0;
  const int mod = code[0] >> 6, rm = code[0] & 7;
  if (mod == 3) return 0;
  size_t bytes = 1;
  bool base_is_displacement = mod == 0 && rm == 5;  // relative to the instruction
  if (rm == 4) {
    if (code.size() < 2) return 0;
    ++bytes;
    base_is_displacement = mod == 0 && (code[1] & 7) == 5;
  }
  return bytes + (mod == 1 ? 1 : mod == 2 || base_is_displacement ? 4 : 0);
}

bool IsJumpOnZero(absl::Span<const uint8_t> code) {
  if (!code.empty() && (code[0] == 0x74 || code[0] == 0x75)) return true;
  return code.size() >= 2 && code[0] == 0x0F && (code[1] == 0x84 || code[1] == 0x85);
}

// Whether `code` is `test %reg,%reg; je` of the register whose low three bits are `reg`.
bool IsTestOf(absl::Span<const uint8_t> code, int reg) {
  if (!code.empty() && IsRex(code[0])) code.remove_prefix(1);
  return code.size() > 2 && code[0] == 0x85 && code[1] == (0xC0 | reg << 3 | reg) && IsJumpOnZero(code.subspan(2));
}

// Whether the instruction right before compares something, so that the next branch depends on it: cmp or test of two
// operands, with and without a displacement, and cmp with a small number.
bool EndsInComparison(absl::Span<const uint8_t> before) {
  const auto compares = [](uint8_t opcode) { return opcode == 0x39 || opcode == 0x3B || opcode == 0x85; };
  const auto at = [&](size_t from_end) { return from_end <= before.size() ? before[before.size() - from_end] : 0; };
  return (compares(at(2)) && at(1) >= 0xC0) ||                             // two registers
         (compares(at(3)) && at(2) >> 6 == 1 && (at(2) & 7) != 4) ||       // 8-bit displacement
         (compares(at(6)) && (at(5) >> 6 == 2 || (at(5) & 0xC7) == 5)) ||  // 32-bit displacement
         (at(3) == 0x83 && (at(2) & 0xF8) == 0xF8) || (at(6) == 0x81 && (at(5) & 0xF8) == 0xF8);
}

// As in memcpy and memset, and where the first words of a new object are written together.
bool IsBulk(absl::Span<const uint8_t> code) {
  while (!code.empty() && (code[0] == 0x66 || code[0] == 0xF2 || code[0] == 0xF3 || IsRex(code[0])))
    code.remove_prefix(1);
  if (code.size() < 2) return false;
  switch (code[0]) {
    case 0x62:  // EVEX
    case 0xC4:  // VEX
    case 0xC5:
    case 0xA4:  // movs
    case 0xA5:
    case 0xAA:  // stos
    case 0xAB:
      return true;
    case 0x0F:
      break;
    default:
      return false;
  }
  switch (code[1]) {
    case 0x11:  // movups, movupd, movss, movsd
    case 0x13:  // movlps
    case 0x17:  // movhps
    case 0x29:  // movaps
    case 0x2B:  // movntps
    case 0x7F:  // movdqa, movdqu
    case 0xD6:  // movq
    case 0xE7:  // movntdq
      return true;
    default:
      return false;
  }
}

}  // namespace

WriteKind WriteKindOf(absl::Span<const uint8_t> code, absl::Span<const uint8_t> before) {
  if (IsBulk(code)) return WriteKind::kBulk;
  size_t at = 0;
  while (at < code.size() && (code[at] == 0xF0 || code[at] == 0x66 || IsRex(code[at]))) ++at;  // lock, REX
  if (at + 2 >= code.size()) return WriteKind::kOther;
  if (code[at] == 0x0F && code[at + 1] == 0xC1)
    return code[0] == 0xF0 && OperandBytes(code.subspan(at + 2)) > 0 ? WriteKind::kAdd : WriteKind::kOther;
  const uint8_t opcode = code[at], extension = code[at + 1] >> 3 & 7;
  const size_t operand = OperandBytes(code.subspan(at + 1)), end = at + 1 + operand;
  if (operand == 0 || end >= code.size()) return WriteKind::kOther;
  if (opcode == 0x83) {  // group 1, with a signed byte
    const int by = static_cast<int8_t>(code[end]);
    if (extension == 0) return by == 1 ? WriteKind::kIncrement : by == -1 ? WriteKind::kDecrement : WriteKind::kOther;
    if (extension == 5) return by == 1 ? WriteKind::kDecrement : by == -1 ? WriteKind::kIncrement : WriteKind::kOther;
    return WriteKind::kOther;
  }
  if (opcode == 0xFF)  // group 5
    return extension == 0 ? WriteKind::kIncrement : extension == 1 ? WriteKind::kDecrement : WriteKind::kOther;
  if (opcode != 0x89) return WriteKind::kOther;
  // A plain store of a register preserves the flags of the subtraction before it.
  const absl::Span<const uint8_t> next = code.subspan(end);
  const bool on_zero = (IsJumpOnZero(next) && !EndsInComparison(before)) || IsTestOf(next, extension);
  return on_zero ? WriteKind::kDecrement : WriteKind::kOther;
}

}  // namespace cowprof
