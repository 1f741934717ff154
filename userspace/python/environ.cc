#include "python/environ.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "model/base_name.h"
#include "python/cached_memory.h"

namespace cowprof {
namespace {

constexpr size_t kMostVariables = 4096;
constexpr size_t kPointersAtOnce = 64;

bool IsCLibrary(absl::string_view path) {
  const absl::string_view name = BaseName(path);
  return absl::StartsWith(name, "libc.so") || absl::StartsWith(name, "libc-2.") || absl::StartsWith(name, "ld-musl");
}

std::shared_ptr<ElfFile> OpenMapped(const ProcFs& proc, pid_t pid, const Mapping& mapping, ElfCache* elf_cache) {
  for (const std::string& path : PathsOfMapping(proc.PathOf(pid, ""), mapping)) {
    if (std::shared_ptr<ElfFile> file = elf_cache->Open(path)) return file;
  }
  return nullptr;
}

// 0: the file does not define it.
uint64_t EnvironIn(const ElfFile& file, const Mapping& first) {
  const std::optional<uint64_t> bias = LoadBias(file, first);
  if (!bias) return 0;
  for (const std::optional<ElfSymbol>& symbol : file.FindSymbols({"environ", "__environ", "_environ"})) {
    if (symbol && symbol->bytes == sizeof(uint64_t)) return symbol->address + *bias;
  }
  return 0;
}

// The addresses of the strings. nullopt: can't be read, or there are more than any program has.
std::optional<std::vector<uint64_t>> ReadPointers(const MemoryReader& memory, uint64_t address) {
  const auto array = IsUserPointer(address) ? ReadValue<uint64_t>(memory, address) : std::nullopt;
  if (!array || !IsUserPointer(*array)) return std::nullopt;
  std::vector<uint64_t> pointers;
  while (pointers.size() < kMostVariables) {
    const uint64_t next = *array + 8 * pointers.size();
    // What crosses no page can be read as a whole.
    const uint64_t in_page = (kLeastPageBytes - next % kLeastPageBytes) / 8;
    uint64_t words[kPointersAtOnce];
    const size_t count = std::min<uint64_t>(in_page, kPointersAtOnce);
    if (!memory.Read(next, absl::MakeSpan(reinterpret_cast<char*>(words), count * 8))) return std::nullopt;
    const uint64_t* const end = std::find(words, words + count, uint64_t{0});
    pointers.insert(pointers.end(), static_cast<const uint64_t*>(words), end);
    if (end != words + count) return pointers;
  }
  return std::nullopt;
}

}  // namespace

uint64_t FindEnviron(const ProcFs& proc, pid_t pid, ElfCache* elf_cache) {
  const absl::StatusOr<std::vector<Mapping>> mappings = proc.ReadMaps(pid);
  if (!mappings.ok()) return 0;
  const std::string executable = proc.ReadExecutable(pid);
  uint64_t of_library = 0;
  absl::string_view last;
  for (const Mapping& mapping : *mappings) {
    // The first mapping of each file.
    if (mapping.name == last) continue;
    last = mapping.name;
    const bool is_executable = !executable.empty() && mapping.name == executable;
    if (!is_executable && (of_library != 0 || !IsCLibrary(mapping.name))) continue;
    const std::shared_ptr<ElfFile> file = OpenMapped(proc, pid, mapping, elf_cache);
    const uint64_t found = file == nullptr ? 0 : EnvironIn(*file, mapping);
    if (found != 0 && is_executable) return found;
    if (found != 0) of_library = found;
  }
  return of_library;
}

std::optional<JobVariables> EnvironReader::ReadChanged(const MemoryReader& process) {
  const CachedMemory memory(process);  // most variables are side by side
  std::optional<std::vector<uint64_t>> pointers = ReadPointers(memory, address_);
  if (!pointers || *pointers == pointers_) return std::nullopt;
  JobVariables variables;
  for (const uint64_t pointer : *pointers) {
    // A string that was freed meanwhile is something else, and not a variable of the list.
    if (!IsUserAddress(pointer)) continue;
    const auto text = ReadCString(memory, pointer, kLongestVariable + 1);
    if (text) AddVariable(*text, &variables);
  }
  pointers_ = *std::move(pointers);
  return variables;
}

}  // namespace cowprof
