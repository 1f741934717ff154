#include "model/format.h"

#include <algorithm>
#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "model/utf8.h"

namespace cowprof {
namespace {

// C0, DEL, C1, zero-width characters, line separators, and bidirectional controls, which reorder a terminal's line.
bool IsControl(uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || point == 0x61c || (point >= 0x200b && point <= 0x200f) ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) || point == 0xfeff;
}

std::string Escaped(char byte) { return absl::StrFormat("\\x%02x", static_cast<unsigned char>(byte)); }

}  // namespace

std::string HumanBytes(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = bytes;
  size_t unit = 0;
  // 1023.96 KiB would be printed as 1024.0 KiB.
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string HumanBytes(const Count& bytes) { return bytes ? HumanBytes(*bytes) : "-"; }

std::string HumanCount(uint64_t count) {
  std::string digits = absl::StrCat(count);
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, ",");
  return digits;
}

std::string HumanCount(const Count& count) { return count ? HumanCount(*count) : "-"; }

std::string HumanDuration(absl::Duration t) {
  const double seconds = std::clamp(absl::ToDoubleSeconds(t), 0.0, 1e15);
  if (seconds < 99.95) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d h %02d min", whole / 3600, whole / 60 % 60);
}

std::string Plural(uint64_t count, absl::string_view noun) {
  return absl::StrCat(HumanCount(count), " ", noun, count == 1 ? "" : "s");
}

std::string WithArticle(absl::string_view noun) {
  const bool vowel = !noun.empty() && absl::StrContains("aeioAEIO", noun.substr(0, 1));
  return absl::StrCat(vowel ? "an " : "a ", noun);
}

std::string Printable(absl::string_view text, size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    const Utf8Sequence sequence = Utf8SequenceOf(text);
    const size_t length = IsControl(sequence.point) ? 0 : sequence.length;
    const std::string piece = length > 0 ? std::string(text.substr(0, length)) : Escaped(text[0]);
    if (out.size() + piece.size() > max_bytes) return out + "...";
    out += piece;
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string ValidUtf8(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t length = Utf8SequenceOf(text).length;
    absl::StrAppend(&out, length > 0 ? text.substr(0, length) : Escaped(text[0]));
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

std::string FormatLimit(const LimitSample& limit) {
  switch (limit.kind) {
    case LimitKind::kShm:
      return "shared memory (/dev/shm)";
    case LimitKind::kShmInodes:
      return "files in shared memory (/dev/shm)";
    case LimitKind::kCgroupV1:
    case LimitKind::kCgroupV2:
      return absl::StrCat("cgroup ", Printable(limit.name, 60));
    case LimitKind::kHost:
      return "the host's memory";
    case LimitKind::kAddressSpace:
      return "address space (RLIMIT_AS)";
    case LimitKind::kDescriptors:
      return "file descriptors";
    case LimitKind::kMappings:
      return "memory mappings (vm.max_map_count)";
    case LimitKind::kCommit:
      return "memory that may be committed (vm.overcommit_memory=2)";
  }
  return "";
}

std::string HumanAmount(LimitKind kind, const Count& amount) {
  return CountsBytes(kind) ? HumanBytes(amount) : HumanCount(amount);
}

}  // namespace cowprof
