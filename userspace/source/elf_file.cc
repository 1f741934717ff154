// Parses ELF files with libelf, through read(2) and never mmap(2): a file that its owner truncates meanwhile must cause
// a short read, not a SIGBUS. Checks every offset and size against the file's size before libelf loads anything. A
// libelf handle lives for one call only, so that an open file costs its section list and index, not its tables.
#include "source/elf_file.h"

#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

constexpr uint64_t kMaxTableBytes = uint64_t{256} << 20;
constexpr size_t kMaxHeaders = 1 << 16;  // sections or segments
constexpr size_t kMaxNeeded = 4096;
// A hostile file may give the longest name to each of its sections and libraries. With the NUL.
constexpr size_t kMaxSectionNameBytes = 64, kMaxNeededBytes = NAME_MAX + 1;
constexpr size_t kMaxSymbolNameBytes = 8192;  // the longest in libtorch_cpu.so 1.13 has 3,300

using ElfHandle = std::unique_ptr<Elf, int (*)(Elf*)>;

ElfHandle Begin(const Fd& fd) {
  static const unsigned version = elf_version(EV_CURRENT);  // libelf requires this call once
  (void)version;
  return ElfHandle(elf_begin(fd.fd(), ELF_C_READ, nullptr), elf_end);
}

// The data of a section if its size is plausible; owned by the handle.
Elf_Data* LoadSection(Elf* elf, size_t index, uint64_t file_bytes) {
  Elf_Scn* section = elf_getscn(elf, index);
  GElf_Shdr header;
  if (section == nullptr || gelf_getshdr(section, &header) == nullptr) return nullptr;
  if (header.sh_type == SHT_NOBITS || header.sh_size > kMaxTableBytes || header.sh_size > file_bytes ||
      header.sh_offset > file_bytes - header.sh_size) {
    return nullptr;
  }
  Elf_Data* data = elf_getdata(section, nullptr);
  return data != nullptr && data->d_buf != nullptr ? data : nullptr;
}

// The NUL-terminated text at `offset` of a string table; "" if there is none, or it takes more than `most` bytes.
absl::string_view TextAt(const Elf_Data* strings, uint64_t offset, size_t most) {
  if (strings == nullptr || offset >= strings->d_size) return {};
  const char* begin = static_cast<const char*>(strings->d_buf) + offset;
  const size_t limit = std::min<size_t>(strings->d_size - offset, most);
  const size_t bytes = strnlen(begin, limit);
  return bytes < limit ? absl::string_view(begin, bytes) : absl::string_view();
}

uint64_t FileBytes(const Fd& fd) {
  struct stat info;
  return fstat(fd.fd(), &info) == 0 && info.st_size > 0 ? info.st_size : 0;
}

bool IsFunction(const GElf_Sym& symbol) {
  const int type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_value != 0 && (type == STT_FUNC || type == STT_GNU_IFUNC);
}

bool IsAddressable(const GElf_Sym& symbol) {
  const int type = GELF_ST_TYPE(symbol.st_info);
  return symbol.st_shndx != SHN_UNDEF && symbol.st_shndx != SHN_ABS && symbol.st_value != 0 && type != STT_TLS &&
         type != STT_SECTION && type != STT_FILE;
}

// Of several names at one address, prefer the global one: it is the name used in the source.
uint32_t RankOf(const GElf_Sym& symbol) {
  const int binding = GELF_ST_BIND(symbol.st_info);
  return binding == STB_GLOBAL ? 0 : binding == STB_WEAK ? 1 : 2;
}

absl::Status Broken(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("read ", path, " as an ELF file: ", why));
}

std::vector<ElfSegment> LoadSegments(Elf* elf) {
  std::vector<ElfSegment> segments;
  size_t count = 0;
  if (elf_getphdrnum(elf, &count) != 0) return segments;
  for (size_t i = 0; i < std::min(count, kMaxHeaders); ++i) {
    GElf_Phdr header;
    if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr) break;
    if (header.p_type != PT_LOAD || header.p_memsz == 0) continue;
    segments.push_back({header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz, (header.p_flags & PF_W) != 0,
                        (header.p_flags & PF_X) != 0});
  }
  std::sort(segments.begin(), segments.end(),
            [](const ElfSegment& a, const ElfSegment& b) { return a.address < b.address; });
  return segments;
}

}  // namespace

absl::StatusOr<ElfFile> ElfFile::Open(const std::string& path) {
  ElfFile file;
  absl::Status status = file.Load(path);
  if (!status.ok()) return status;
  return file;
}

absl::Status ElfFile::Load(const std::string& path) {
  // O_NONBLOCK: a FIFO of the target must not block us.
  fd_ = Fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!fd_.ok() || fstat(fd_.fd(), &info) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
  if (!S_ISREG(info.st_mode)) return Broken(path, "it is not a regular file");
  device_ = info.st_dev;
  inode_ = info.st_ino;
  const uint64_t file_bytes = info.st_size;

  const ElfHandle elf = Begin(fd_);
  GElf_Ehdr header;
  if (elf == nullptr || elf_kind(elf.get()) != ELF_K_ELF || gelf_getehdr(elf.get(), &header) == nullptr) {
    return Broken(path, "it has no ELF header");
  }
  if (gelf_getclass(elf.get()) != ELFCLASS64 || header.e_machine != EM_X86_64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return absl::UnimplementedError(absl::StrCat(path, ": it is not for x86-64"));
  }
  position_independent_ = header.e_type == ET_DYN;
  segments_ = LoadSegments(elf.get());

  size_t names_index = 0, count = 0;
  if (elf_getshdrstrndx(elf.get(), &names_index) != 0 || elf_getshdrnum(elf.get(), &count) != 0) count = 0;
  const Elf_Data* names = count == 0 ? nullptr : LoadSection(elf.get(), names_index, file_bytes);
  bool has_dynamic = false;  // loads one: a hostile file may have thousands, and each would keep its tables
  for (size_t i = 1; i < std::min(count, kMaxHeaders); ++i) {
    Elf_Scn* section = elf_getscn(elf.get(), i);
    GElf_Shdr shdr;
    if (section == nullptr || gelf_getshdr(section, &shdr) == nullptr) break;
    if (const absl::string_view name = TextAt(names, shdr.sh_name, kMaxSectionNameBytes); !name.empty())
      sections_.push_back({std::string(name), {shdr.sh_addr, shdr.sh_size}});
    if (shdr.sh_type == SHT_DYNAMIC && !std::exchange(has_dynamic, true)) {
      LoadNeeded(elf.get(), i, shdr.sh_link, file_bytes);
    } else if ((shdr.sh_type == SHT_DYNSYM || shdr.sh_type == SHT_SYMTAB) && tables_.size() < 2) {
      GElf_Shdr strings;
      Elf_Scn* linked = elf_getscn(elf.get(), shdr.sh_link);
      if (linked == nullptr || gelf_getshdr(linked, &strings) == nullptr || strings.sh_type != SHT_STRTAB) continue;
      const Table table{i, shdr.sh_link, strings.sh_offset, strings.sh_size};
      // .dynsym first, wherever it is.
      tables_.insert(shdr.sh_type == SHT_DYNSYM ? tables_.begin() : tables_.end(), table);
    }
  }
  CountBytes();
  return absl::OkStatus();
}

void ElfFile::CountBytes() {
  bytes_ = segments_.capacity() * sizeof(ElfSegment) + sections_.capacity() * sizeof(NamedSection) +
           needed_.capacity() * sizeof(std::string);
  for (const NamedSection& section : sections_) bytes_ += section.name.capacity();
  for (const std::string& library : needed_) bytes_ += library.capacity();
}

void ElfFile::LoadNeeded(Elf* elf, size_t index, size_t strings_index, uint64_t file_bytes) {
  Elf_Data* dynamic = LoadSection(elf, index, file_bytes);
  const Elf_Data* strings = LoadSection(elf, strings_index, file_bytes);
  if (dynamic == nullptr || strings == nullptr) return;
  for (int i = 0; needed_.size() < kMaxNeeded; ++i) {
    GElf_Dyn entry;
    if (gelf_getdyn(dynamic, i, &entry) == nullptr || entry.d_tag == DT_NULL) break;
    if (entry.d_tag != DT_NEEDED) continue;
    if (const absl::string_view name = TextAt(strings, entry.d_un.d_val, kMaxNeededBytes); !name.empty())
      needed_.emplace_back(name);
  }
}

std::optional<ElfSection> ElfFile::FindSection(absl::string_view name) const {
  for (const NamedSection& section : sections_) {
    if (section.name == name) return section.section;
  }
  return std::nullopt;
}

std::vector<std::optional<ElfSymbol>> ElfFile::FindSymbols(absl::Span<const absl::string_view> names) const {
  std::vector<std::optional<ElfSymbol>> found(names.size());
  absl::flat_hash_map<absl::string_view, size_t> wanted;
  for (size_t i = 0; i < names.size(); ++i) wanted.emplace(names[i], i);
  size_t missing = wanted.size();
  const uint64_t file_bytes = FileBytes(fd_);
  for (const Table& table : tables_) {
    if (missing == 0) break;
    const ElfHandle elf = Begin(fd_);
    if (elf == nullptr) break;
    Elf_Data* symbols = LoadSection(elf.get(), table.index, file_bytes);
    const Elf_Data* strings = LoadSection(elf.get(), table.strings, file_bytes);
    if (symbols == nullptr || strings == nullptr) continue;
    const size_t count = symbols->d_size / sizeof(Elf64_Sym);
    for (size_t i = 0; i < count && missing > 0; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(symbols, static_cast<int>(i), &symbol) == nullptr) break;
      if (!IsAddressable(symbol)) continue;
      const auto name = wanted.find(TextAt(strings, symbol.st_name, kMaxSymbolNameBytes));
      if (name == wanted.end() || found[name->second]) continue;
      found[name->second] = ElfSymbol{symbol.st_value, symbol.st_size};
      --missing;
    }
  }
  // A name may be requested twice.
  for (size_t i = 0; i < names.size(); ++i) found[i] = found[wanted[names[i]]];
  return found;
}

std::optional<uint64_t> ElfFile::AddressOfOffset(uint64_t offset) const {
  for (const ElfSegment& segment : segments_) {
    if (offset >= segment.offset && offset - segment.offset < segment.file_bytes) {
      return segment.address + (offset - segment.offset);
    }
  }
  return std::nullopt;
}

void ElfFile::LoadIndex() {
  has_index_ = true;
  const uint64_t file_bytes = FileBytes(fd_);
  for (const Table& table : tables_) {
    const ElfHandle elf = Begin(fd_);
    Elf_Data* symbols = elf == nullptr ? nullptr : LoadSection(elf.get(), table.index, file_bytes);
    if (symbols == nullptr) continue;
    const size_t count = symbols->d_size / sizeof(Elf64_Sym);
    for (size_t i = 0; i < count; ++i) {
      GElf_Sym symbol;
      if (gelf_getsym(symbols, static_cast<int>(i), &symbol) == nullptr) break;
      if (!IsFunction(symbol) || symbol.st_name >= table.strings_bytes) continue;
      functions_.push_back({symbol.st_value, table.strings_offset + symbol.st_name,
                            static_cast<uint32_t>(std::min<uint64_t>(symbol.st_size, UINT32_MAX)), RankOf(symbol)});
    }
  }
  // At one address: functions with a size before those without, then by rank. Only the first is kept.
  std::sort(functions_.begin(), functions_.end(), [](const Function& a, const Function& b) {
    return std::make_tuple(a.address, a.bytes == 0, a.rank, a.name_offset) <
           std::make_tuple(b.address, b.bytes == 0, b.rank, b.name_offset);
  });
  const auto end = std::unique(functions_.begin(), functions_.end(),
                               [](const Function& a, const Function& b) { return a.address == b.address; });
  functions_.erase(end, functions_.end());
  functions_.shrink_to_fit();
}

std::string ElfFile::FunctionAt(uint64_t address) {
  if (!has_index_) LoadIndex();
  auto next = std::upper_bound(functions_.begin(), functions_.end(), address,
                               [](uint64_t value, const Function& function) { return value < function.address; });
  if (next == functions_.begin()) return "";
  const Function& function = *std::prev(next);
  const uint64_t distance = address - function.address;
  // Without a size the last function extends to the end of its segment.
  if (function.bytes != 0 ? distance >= function.bytes
                          : next == functions_.end() && !IsInSegmentOf(function.address, address)) {
    return "";
  }
  std::array<char, kMaxSymbolNameBytes> name;
  const ssize_t got = pread(fd_.fd(), name.data(), name.size(), static_cast<off_t>(function.name_offset));
  if (got <= 0) return "";
  const size_t bytes = strnlen(name.data(), got);
  return bytes < static_cast<size_t>(got) ? std::string(name.data(), bytes) : "";
}

bool ElfFile::IsInSegmentOf(uint64_t first, uint64_t second) const {
  for (const ElfSegment& segment : segments_) {
    const auto holds = [&segment](uint64_t a) {
      return a >= segment.address && a - segment.address < segment.memory_bytes;
    };
    if (holds(first) && holds(second)) return true;
  }
  return false;
}

}  // namespace cowprof
