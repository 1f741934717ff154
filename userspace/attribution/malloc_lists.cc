// Looks for heads of empty lists, which point at themselves, and then checks everything around them.
#include "attribution/malloc_lists.h"

#include <array>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "model/base_name.h"

namespace cowprof {
namespace {

constexpr uint64_t kMostDataBytes = 4 << 20;  // of one mapping
constexpr size_t kLists = 127;
constexpr size_t kFewestEmpty = 32;  // a process uses some of the sizes
// struct malloc_state behind the lists: binmap[4], next.
constexpr uint64_t kNextAt = 2 * kLists * sizeof(uint64_t) + 16;
// Where the lists are in it: from 2.27, from 2.43 (without fastbinsY), until 2.26.
constexpr uint32_t kListsAt[] = {112, 24, 104};
constexpr int kMostArenas = 1024;

// The head of a list is used as a chunk, whose links are 16 bytes behind its address.
constexpr uint64_t kLinksInChunk = 16;

bool IsLibc(const Mapping& mapping) {
  const absl::string_view name = BaseName(mapping.name);
  return absl::StartsWith(name, "libc.so.6") || absl::StartsWith(name, "libc-2.");
}

// The mapped file with the data to search; "" if there is none.
std::string FileWithMalloc(const std::vector<Mapping>& mappings) {
  std::string first;
  for (const Mapping& mapping : mappings) {
    if (IsLibc(mapping)) return mapping.name;
    if (first.empty() && absl::StartsWith(mapping.name, "/")) first = mapping.name;
    // musl, or a C library of another name.
    if (absl::StartsWith(BaseName(mapping.name), "ld-")) first = "-";
  }
  return first == "-" ? "" : first;
}

// Whether both neighbours of the head point back to it.
bool LinksAgree(uint64_t links, uint64_t next, uint64_t previous, const MemoryReader& memory) {
  const uint64_t head = links - kLinksInChunk;
  if (next == head && previous == head) return true;
  if (!IsUserPointer(next) || !IsUserPointer(previous)) return false;
  return ReadValue<uint64_t>(memory, next + kLinksInChunk + 8) == head &&
         ReadValue<uint64_t>(memory, previous + kLinksInChunk) == head;
}

// Follows `next` through all arenas back to the first one.
std::optional<uint32_t> ListsAt(uint64_t lists, const MemoryReader& memory) {
  for (const uint32_t lists_at : kListsAt) {
    uint64_t arena = lists - lists_at;
    for (int i = 0; i < kMostArenas; ++i) {
      const auto next = ReadValue<uint64_t>(memory, arena + lists_at + kNextAt);
      if (!next || !IsUserPointer(*next)) break;
      if (*next == lists - lists_at) return lists_at;
      arena = *next;
    }
  }
  return std::nullopt;
}

std::optional<cowprof_malloc> FindIn(const Mapping& mapping, const MemoryReader& memory) {
  std::vector<uint64_t> words((mapping.end - mapping.begin) / sizeof(uint64_t));
  ReadOrZero(memory, mapping.begin,
             absl::MakeSpan(reinterpret_cast<char*>(words.data()), words.size() * sizeof(uint64_t)));
  const auto address_of = [&](size_t word) { return mapping.begin + word * sizeof(uint64_t); };
  const auto is_empty = [&](size_t word) {
    return words[word] == address_of(word) - kLinksInChunk && words[word + 1] == words[word];
  };
  std::array<size_t, 2> empties = {};  // of the lists that would begin at the last even and the last odd word
  for (size_t first = 0; first + 2 * kLists <= words.size(); ++first) {
    size_t& empty = empties[first % 2];
    if (first >= 2) empty -= is_empty(first - 2) ? 1 : 0;
    for (size_t i = first < 2 ? 0 : kLists - 1; i < kLists; ++i) empty += is_empty(first + 2 * i) ? 1 : 0;
    if (empty < kFewestEmpty) continue;
    size_t agree = 0;
    while (agree < kLists &&
           LinksAgree(address_of(first + 2 * agree), words[first + 2 * agree], words[first + 2 * agree + 1], memory))
      ++agree;
    if (agree < kLists) continue;
    if (const auto lists_at = ListsAt(address_of(first), memory))
      return cowprof_malloc{.lists = address_of(first), .lists_at = *lists_at, .reserved = 0};
  }
  return std::nullopt;
}

}  // namespace

std::optional<cowprof_malloc> FindMallocLists(const std::vector<Mapping>& mappings, const MemoryReader& memory) {
  const std::string file = FileWithMalloc(mappings);
  if (file.empty()) return std::nullopt;
  for (const Mapping& mapping : mappings) {
    const bool is_data = mapping.name == file && mapping.writable && mapping.readable && !mapping.shared;
    if (!is_data || mapping.end - mapping.begin > kMostDataBytes) continue;
    if (const auto found = FindIn(mapping, memory)) return found;
  }
  return std::nullopt;
}

}  // namespace cowprof
