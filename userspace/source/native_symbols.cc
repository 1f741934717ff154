// Joins the mappings of a process with the symbols of the files behind them. Opens files through the target's view of
// the file system. Their contents are untrusted, and so are the names: a mangled name of 100 bytes can stand for
// gigabytes, so names that could grow too much are not demangled.
#include "source/native_symbols.h"

#include <cxxabi.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "model/base_name.h"

namespace cowprof {
namespace {

constexpr size_t kMaxSymbolBytes = 1000;
constexpr double kMaxDemangledBytes = 64 << 20;
constexpr size_t kMaxAnswers = 1 << 16;
constexpr size_t kMaxFiles = 256;
constexpr absl::string_view kDeleted = " (deleted)";

// "_", "1A_": the rest of a substitution (after S) or of a template parameter (after T).
bool IsReference(absl::string_view rest) {
  size_t i = 0;
  while (i < rest.size() && (absl::ascii_isdigit(rest[i]) || absl::ascii_isupper(rest[i]))) ++i;
  return i < rest.size() && rest[i] == '_';
}

// Whether the demangled text certainly stays below kMaxDemangledBytes. A part of a mangled name can refer to a whole
// earlier part: a name of 387 bytes was seen to stand for 1.1 GB, which would take 4 s. With r references the text
// grows at most by 3^(r/3), when each part refers to the previous one three times; a pack expansion repeats its
// contents once per element, and there are fewer elements than bytes. Of the 23,340 mangled functions of
// libtorch_cpu.so 1.13 all but 4 pass.
bool DemanglesToLittle(absl::string_view name) {
  double bytes = static_cast<double>(name.size());
  for (size_t i = 0; i + 1 < name.size(); ++i) {
    if ((name[i] == 'S' || name[i] == 'T') && IsReference(name.substr(i + 1))) bytes *= 1.4423;  // 3^(1/3)
    if (name[i] == 'D' && name[i + 1] == 'p') bytes *= static_cast<double>(name.size());
    if (bytes > kMaxDemangledBytes) return false;
  }
  return true;
}

}  // namespace

std::string Demangle(const std::string& name) {
  std::string cut = name.substr(0, kMaxSymbolBytes);
  if (!absl::StartsWith(name, "_Z") || !DemanglesToLittle(name)) return cut;
  int status = 0;
  const std::unique_ptr<char, decltype(&free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), free);
  return text == nullptr ? cut : std::string(text.get(), strnlen(text.get(), kMaxSymbolBytes));
}

std::shared_ptr<ElfFile> ElfCache::Open(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) return nullptr;
  // An open file keeps its inode number, so this can't be a later file that reused it.
  const auto found = files_.find({info.st_dev, info.st_ino});
  if (found != files_.end()) {
    found->second.used = ++clock_;
    return found->second.file;
  }
  absl::StatusOr<ElfFile> file = ElfFile::Open(path);
  if (!file.ok()) return nullptr;
  const std::pair<dev_t, ino_t> key(file->device(), file->inode());
  Entry& entry = files_[key];
  entry = {std::make_shared<ElfFile>(*std::move(file)), ++clock_};
  std::shared_ptr<ElfFile> opened = entry.file;
  Trim();
  return opened;
}

void ElfCache::Trim() {
  size_t bytes = index_bytes();
  while (files_.size() > 1 && (bytes > max_bytes_ || files_.size() > kMaxFiles)) {
    const auto oldest = std::min_element(files_.begin(), files_.end(),
                                         [](const auto& a, const auto& b) { return a.second.used < b.second.used; });
    bytes -= oldest->second.file->index_bytes();
    files_.erase(oldest);
  }
}

size_t ElfCache::index_bytes() const {
  size_t bytes = 0;
  for (const auto& [key, entry] : files_) bytes += entry.file->index_bytes();
  return bytes;
}

NativeSymbols::NativeSymbols(std::vector<Mapping> mappings, std::string process_folder, ElfCache* cache)
    : mappings_(std::move(mappings)), process_folder_(std::move(process_folder)), cache_(cache) {
  std::sort(mappings_.begin(), mappings_.end(), [](const Mapping& a, const Mapping& b) { return a.begin < b.begin; });
}

std::optional<NativeSymbol> NativeSymbols::Find(uint64_t address) {
  const auto known = answers_.find(address);
  if (known != answers_.end()) return known->second;
  if (answers_.size() >= kMaxAnswers) answers_.clear();
  std::optional<NativeSymbol> answer = Resolve(address);
  answers_[address] = answer;
  return answer;
}

const Mapping* NativeSymbols::MappingAt(uint64_t address) const {
  auto next = std::upper_bound(mappings_.begin(), mappings_.end(), address,
                               [](uint64_t value, const Mapping& mapping) { return value < mapping.begin; });
  if (next == mappings_.begin()) return nullptr;
  const Mapping& mapping = *std::prev(next);
  return address < mapping.end ? &mapping : nullptr;
}

bool NativeSymbols::IsGenerated(uint64_t address) const {
  const Mapping* mapping = MappingAt(address);
  return mapping != nullptr && mapping->executable && !absl::StartsWith(mapping->name, "/");
}

std::optional<NativeSymbol> NativeSymbols::Resolve(uint64_t address) const {
  const Mapping* at = MappingAt(address);
  if (at == nullptr) return std::nullopt;
  const Mapping& mapping = *at;
  if (mapping.name == "[vdso]" || mapping.name == "[vsyscall]") return NativeSymbol{mapping.name, ""};
  if (!absl::StartsWith(mapping.name, "/")) return std::nullopt;  // anonymous memory

  NativeSymbol symbol{std::string(BaseName(absl::StripSuffix(mapping.name, kDeleted))), ""};
  const std::shared_ptr<ElfFile> file = OpenFile(mapping);
  if (file == nullptr) return symbol;
  const std::optional<uint64_t> in_file = file->AddressOfOffset(address - mapping.begin + mapping.offset);
  if (!in_file) return symbol;
  const size_t before = file->index_bytes();
  symbol.symbol = Demangle(file->FunctionAt(*in_file));
  if (file->index_bytes() != before) cache_->Trim();
  return symbol;
}

std::optional<uint64_t> LoadBias(const ElfFile& file, const Mapping& first) {
  constexpr uint64_t kPageMask = ~uint64_t{4095};
  if (!file.position_independent()) return 0;
  for (const ElfSegment& segment : file.segments()) {
    if ((segment.offset & kPageMask) == first.offset) return first.begin - (segment.address & kPageMask);
  }
  return std::nullopt;
}

std::vector<std::string> PathsOfMapping(const std::string& process_folder, const Mapping& mapping) {
  const std::string mapped = absl::StrFormat("%s/map_files/%x-%x", process_folder, mapping.begin, mapping.end);
  // The path of a deleted file may now name another file with other addresses.
  if (absl::EndsWith(mapping.name, kDeleted)) return {mapped};
  const std::string path = absl::StrReplaceAll(mapping.name, {{"\\012", "\n"}});  // the kernel's only escape
  return {absl::StrCat(process_folder, "/root", path), mapped, path};
}

std::shared_ptr<ElfFile> NativeSymbols::OpenFile(const Mapping& mapping) const {
  for (const std::string& path : PathsOfMapping(process_folder_, mapping)) {
    std::shared_ptr<ElfFile> file = cache_->Open(path);
    if (file != nullptr) return file;
  }
  return nullptr;
}

}  // namespace cowprof
