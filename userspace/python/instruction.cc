// See instruction.h. Only the handful of forms that write a count are decoded; Intel SDM volume 2, 2.1 and appendix A.
#include "python/instruction.h"

#include <cstddef>

namespace cowprof {
namespace {

// Bytes of the ModRM byte with what follows it (SIB, displacement); 0: the operand is a register, no memory.
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

}  // namespace

WriteKind WriteKindOf(absl::Span<const uint8_t> code) {
  size_t at = 0;
  while (at < code.size() && (code[at] == 0xF0 || code[at] == 0x66 || (code[at] & 0xF0) == 0x40)) ++at;  // lock, REX
  if (at + 2 >= code.size()) return WriteKind::kOther;
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
  // A plain store of a register leaves the flags of the subtraction before it.
  if (opcode == 0x89) return IsJumpOnZero(code.subspan(end)) ? WriteKind::kDecrement : WriteKind::kOther;
  return WriteKind::kOther;
}

}  // namespace cowprof
