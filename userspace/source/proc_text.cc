// Every function accepts any bytes: a process chooses its own name and arguments, and its end can truncate a file. No
// I/O, no state.
#include "source/proc_text.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "model/saturating.h"

namespace cowprof {
namespace {

// No address space has 2^60 bytes; the bound also keeps sums of three such figures from overflowing.
constexpr uint64_t kMaxKib = uint64_t{1} << 50;

// Parses all of `text` or fails: no sign before an unsigned number, no blanks, no overflow.
template <typename T>
bool ParseNumber(absl::string_view text, T* value, int base = 10) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *value, base);
  return error == std::errc() && rest == end;
}

bool IsBlank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

absl::string_view TakeLine(absl::string_view* text) {
  const absl::string_view line = text->substr(0, text->find('\n'));
  text->remove_prefix(std::min(text->size(), line.size() + 1));
  return line;
}

absl::string_view TakeWord(absl::string_view* text) {
  const auto begin = std::find_if_not(text->begin(), text->end(), IsBlank);
  const auto end = std::find_if(begin, text->end(), IsBlank);
  const absl::string_view word = text->substr(begin - text->begin(), end - begin);
  text->remove_prefix(end - text->begin());
  return word;
}

// Calls visit(key, value) for every line of the form "Key:   value".
template <typename Visit>
void ForEachField(absl::string_view text, Visit visit) {
  while (!text.empty()) {
    const absl::string_view line = TakeLine(&text);
    const size_t colon = line.find(':');
    if (colon != line.npos) visit(line.substr(0, colon), line.substr(colon + 1));
  }
}

// "   112 kB". The unit is required: without it the number may have been truncated.
Count ParseKib(absl::string_view value) {
  uint64_t kib = 0;
  if (!ParseNumber(TakeWord(&value), &kib) || kib > kMaxKib) return std::nullopt;
  if (TakeWord(&value) != "kB") return std::nullopt;
  return kib * 1024;
}

template <typename Struct, typename Member>
struct Field {
  absl::string_view key;
  Member Struct::*member;
};

constexpr Field<ProcStatus, Count> kStatusFields[] = {
    {"RssAnon", &ProcStatus::anon_bytes},
    {"RssFile", &ProcStatus::file_bytes},
    {"RssShmem", &ProcStatus::shmem_bytes},
    {"VmSwap", &ProcStatus::swap_bytes},
};

// Fields with the same member are added up.
constexpr Field<RollupFigures, uint64_t> kRollupFields[] = {
    {"Rss", &RollupFigures::rss_bytes},
    {"Pss", &RollupFigures::pss_bytes},
    {"Private_Clean", &RollupFigures::private_bytes},
    {"Private_Dirty", &RollupFigures::private_bytes},
    {"Private_Hugetlb", &RollupFigures::private_bytes},
    {"Anonymous", &RollupFigures::anonymous_bytes},
    {"Swap", &RollupFigures::swap_bytes},
};

constexpr Field<HostMemory, Count> kHostMemoryFields[] = {
    {"MemTotal", &HostMemory::total_bytes},           {"MemAvailable", &HostMemory::available_bytes},
    {"SwapTotal", &HostMemory::swap_total_bytes},     {"SwapFree", &HostMemory::swap_free_bytes},
    {"CommitLimit", &HostMemory::commit_limit_bytes}, {"Committed_AS", &HostMemory::committed_bytes},
};

std::vector<pid_t> ParsePids(absl::string_view text) {
  std::vector<pid_t> pids;
  for (auto word = TakeWord(&text); !word.empty(); word = TakeWord(&text)) {
    pid_t pid = 0;
    if (!ParseNumber(word, &pid) || pid < 0) return {};
    pids.push_back(pid);
  }
  return pids;
}

// "7f00-7f10 rw-p 00000000 fe:00 1234     /a name"
std::optional<Mapping> ParseMapping(absl::string_view line) {
  Mapping mapping;
  const absl::string_view range = TakeWord(&line), access = TakeWord(&line);
  const absl::string_view offset = TakeWord(&line), device = TakeWord(&line);
  const size_t dash = range.find('-'), colon = device.find(':');
  unsigned major_number = 0, minor_number = 0;
  if (dash == range.npos || access.size() != 4 || colon == device.npos ||
      !ParseNumber(device.substr(0, colon), &major_number, 16) ||
      !ParseNumber(device.substr(colon + 1), &minor_number, 16) ||
      !ParseNumber(range.substr(0, dash), &mapping.begin, 16) ||
      !ParseNumber(range.substr(dash + 1), &mapping.end, 16) || mapping.begin >= mapping.end ||
      !ParseNumber(offset, &mapping.offset, 16) || !ParseNumber(TakeWord(&line), &mapping.inode)) {
    return std::nullopt;
  }
  mapping.device = makedev(major_number, minor_number);
  mapping.readable = access[0] == 'r';
  mapping.writable = access[1] == 'w';
  mapping.executable = access[2] == 'x';
  mapping.shared = access[3] == 's';
  // The rest of the line without its padding; a path may contain blanks.
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  mapping.name = std::string(line);
  return mapping;
}

}  // namespace

absl::StatusOr<ProcStat> ParseStat(absl::string_view text) {
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) {
    return absl::InvalidArgumentError("parse stat: no name in parentheses");
  }
  ProcStat stat;
  stat.comm = std::string(text.substr(open + 1, close - open - 1));
  text.remove_prefix(close + 1);
  std::array<absl::string_view, 24> field;  // by the numbers of proc(5): 3 is the state
  for (size_t n = 3; n < field.size(); ++n) field[n] = TakeWord(&text);
  // Something must follow the last number: otherwise it may have been truncated.
  if (text.empty() || field[3].size() != 1 || !ParseNumber(field[4], &stat.parent) || stat.parent < 0 ||
      !ParseNumber(field[9], &stat.flags) || !ParseNumber(field[14], &stat.user_ticks) ||
      !ParseNumber(field[15], &stat.system_ticks) || !ParseNumber(field[20], &stat.threads) ||
      !ParseNumber(field[22], &stat.start_ticks) || !ParseNumber(field[23], &stat.virtual_bytes)) {
    return absl::InvalidArgumentError("parse stat: a field is missing or not a number");
  }
  stat.state = field[3][0];
  uint64_t minor = 0, major = 0;
  stat.faults = ParseNumber(field[10], &minor) && ParseNumber(field[12], &major) ? minor + major : 0;
  for (size_t n = 24; n <= 52; ++n) {
    const absl::string_view word = TakeWord(&text);
    if (n == 28) ParseNumber(word, &stat.stack_start);
    if (n == 50) ParseNumber(word, &stat.environment_start);
    if (n == 51) ParseNumber(word, &stat.environment_end);
    if (n == 52) ParseNumber(word, &stat.exit_status);
  }
  return stat;
}

// A process can't forge a field through its name: unlike stat, status escapes a newline in it as "\n".
ProcStatus ParseStatus(absl::string_view text) {
  ProcStatus status;
  ForEachField(text, [&status](absl::string_view key, absl::string_view value) {
    for (const auto& field : kStatusFields) {
      if (key == field.key) status.*field.member = ParseKib(value);
    }
    if (key == "Tgid") ParseNumber(TakeWord(&value), &status.process);
    if (key == "NSpid") status.namespace_pids = ParsePids(value);
  });
  return status;
}

absl::StatusOr<RollupFigures> ParseRollup(absl::string_view text) {
  RollupFigures rollup;
  bool has_rss = false, shared = false;
  ForEachField(text, [&](absl::string_view key, absl::string_view value) {
    // "7f00-7f10 rw-s 00000000 00" of the first line of a mapping: no field has a blank in its name.
    const size_t blank = key.find(' ');
    if (blank != key.npos) shared = absl::EndsWith(key.substr(0, blank + 5), "s");
    for (const auto& field : kRollupFields) {
      if (key != field.key || (shared && field.member == &RollupFigures::private_bytes)) continue;
      const Count bytes = ParseKib(value);
      rollup.*field.member += bytes.value_or(0);
      has_rss |= key == "Rss" && bytes;
    }
  });
  if (!has_rss) return absl::InvalidArgumentError("parse smaps_rollup: no Rss line");
  return rollup;
}

HostMemory ParseHostMemory(absl::string_view text) {
  HostMemory memory;
  ForEachField(text, [&memory](absl::string_view key, absl::string_view value) {
    for (const auto& field : kHostMemoryFields) {
      if (key == field.key) memory.*field.member = ParseKib(value);
    }
  });
  return memory;
}

// "/dev/zram0   partition   8388604   1024   100": file, type, size and used in KiB, priority. From another mount
// namespace the file may be "/zram0".
ZramSwap ParseZramSwap(absl::string_view text) {
  ZramSwap zram;
  while (!text.empty()) {
    absl::string_view line = TakeLine(&text);
    const absl::string_view file = TakeWord(&line), type = TakeWord(&line);
    absl::string_view name = file.substr(file.find_last_of('/') + 1);
    uint64_t device = 0, size = 0, used = 0;
    if (type != "partition" || !absl::ConsumePrefix(&name, "zram") || !ParseNumber(name, &device)) continue;
    if (!ParseNumber(TakeWord(&line), &size) || !ParseNumber(TakeWord(&line), &used) || size > kMaxKib || used > size)
      continue;
    zram.total_bytes += size * 1024;
    zram.free_bytes += (size - used) * 1024;
  }
  return zram;
}

// "size                            4    8589934592": name, type, value.
uint64_t ParseShrinkableArc(absl::string_view text) {
  uint64_t size = 0, least = 0;
  while (!text.empty()) {
    absl::string_view line = TakeLine(&text);
    const absl::string_view name = TakeWord(&line);
    TakeWord(&line);
    if (name == "size") ParseNumber(TakeWord(&line), &size);
    if (name == "c_min") ParseNumber(TakeWord(&line), &least);
  }
  return SaturatingSubtract(size, least);
}

std::vector<Mapping> ParseMaps(absl::string_view text) {
  std::vector<Mapping> mappings;
  while (!text.empty()) {
    std::optional<Mapping> mapping = ParseMapping(TakeLine(&text));
    if (mapping) mappings.push_back(*std::move(mapping));
  }
  return mappings;
}

// A program that sets its title leaves a tail of NULs where its longer arguments were.
std::string JoinCommandLine(absl::string_view nul_separated) {
  while (absl::EndsWith(nul_separated, absl::string_view("\0", 1))) nul_separated.remove_suffix(1);
  std::string line(nul_separated.substr(0, kMaxCommandBytes));
  std::replace(line.begin(), line.end(), '\0', ' ');
  return line;
}

Count ParseSoftLimit(absl::string_view text, absl::string_view row) {
  while (!text.empty()) {
    absl::string_view line = TakeLine(&text);
    if (!absl::StartsWith(line, row)) continue;
    line.remove_prefix(row.size());
    if (line.empty() || line[0] != ' ') continue;
    uint64_t soft = 0;
    if (ParseNumber(TakeWord(&line), &soft)) return soft;
    return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace cowprof
