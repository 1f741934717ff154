#include "recorder/native_callers.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cowprof {
namespace {

constexpr uint64_t kStackBytes = 16384;  // of a native stack, searched for return addresses
constexpr size_t kMostCallers = 40, kShownCallers = 3;
constexpr size_t kOwnCallers = 6;  // of a wait of Python's own, python is among the innermost

bool IsCLibrary(absl::string_view module) {
  return absl::StartsWith(module, "libc.so") || absl::StartsWith(module, "libc-") ||
         absl::StartsWith(module, "libpthread");
}

bool IsPython(absl::string_view module) {
  return absl::StartsWith(module, "python") || absl::StartsWith(module, "libpython");
}

}  // namespace

std::vector<NativeSymbol> CallersOf(NativeSymbols* symbols, const MemoryReader& memory,
                                    const std::vector<Mapping>& mappings, const ThreadWait& thread) {
  std::vector<NativeSymbol> callers;
  if (thread.instruction == 0) return callers;
  if (auto here = symbols->Find(thread.instruction)) callers.push_back(*std::move(here));
  std::vector<char> stack(kStackBytes);
  ReadOrZero(memory, thread.stack_pointer & ~uint64_t{7}, absl::MakeSpan(stack));
  for (size_t at = 0; at + 8 <= stack.size() && callers.size() < kMostCallers; at += 8) {
    uint64_t word;
    memcpy(&word, stack.data() + at, sizeof(word));
    const auto mapping =
        std::partition_point(mappings.begin(), mappings.end(), [word](const Mapping& m) { return m.end <= word; });
    if (mapping == mappings.end() || mapping->begin + 8 > word || !mapping->executable) continue;
    unsigned char before[7];
    if (!memory.Read(word - 7, absl::MakeSpan(reinterpret_cast<char*>(before), sizeof(before)))) continue;
    // call rel32, or call through a register or memory (FF /2) of 2, 3, 6 or 7 bytes.
    const auto indirect = [&before](size_t bytes) {
      return before[7 - bytes] == 0xff && (before[8 - bytes] >> 3 & 7) == 2;
    };
    if (before[2] != 0xe8 && !indirect(2) && !indirect(3) && !indirect(6) && !indirect(7)) continue;
    if (auto symbol = symbols->Find(word - 1)) callers.push_back(*std::move(symbol));
  }
  return callers;
}

bool IsOpenMp(absl::string_view module) {
  return absl::StartsWith(module, "libgomp") || absl::StartsWith(module, "libiomp") ||
         absl::StartsWith(module, "libomp");
}

std::string WaitingLibrary(absl::Span<const NativeSymbol> callers) {
  std::string library;
  for (const NativeSymbol& caller : callers.subspan(0, kOwnCallers)) {
    if (IsPython(caller.module)) return "";
    if (library.empty() && !IsCLibrary(caller.module) && !absl::StartsWith(caller.module, "libstdc++"))
      library = caller.module;
  }
  return absl::StrContains(library, ".so") ? library : "";
}

std::string ShownCallers(absl::Span<const NativeSymbol> callers) {
  std::vector<std::string> shown;
  for (const NativeSymbol& caller : callers) {
    if (shown.size() == kShownCallers) break;
    std::string text = caller.symbol.empty() ? caller.module : absl::StrCat(caller.module, ": ", caller.symbol);
    if (shown.empty() || shown.back() != text) shown.push_back(std::move(text));
  }
  return absl::StrJoin(shown, "; ");
}

std::string CallerOfOpenMp(absl::Span<const NativeSymbol> callers) {
  for (const NativeSymbol& caller : callers) {
    if (absl::StartsWith(caller.symbol, "at::")) return caller.symbol.substr(0, caller.symbol.find('('));
  }
  for (const NativeSymbol& caller : callers) {
    if (!IsOpenMp(caller.module) && !IsCLibrary(caller.module)) return caller.symbol;
  }
  return "";
}

}  // namespace cowprof
