// One ELF file on disk: its segments, sections, needed libraries and symbols. Knows nothing about processes. The file
// is untrusted (it may come from a container): any defect is an error or an absence, never a crash, and tables above
// 256 MiB are not loaded. x86-64 only.
#ifndef COWPROF_SOURCE_ELF_FILE_H_
#define COWPROF_SOURCE_ELF_FILE_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "posix/fd.h"

struct Elf;  // libelf.h

namespace cowprof {

// Addresses are those of the file (p_vaddr, st_value); add the load bias to get those of a process.
struct ElfSegment {  // PT_LOAD
  uint64_t offset = 0, address = 0, file_bytes = 0, memory_bytes = 0;
  bool writable = false, executable = false;
};

struct ElfSection {
  uint64_t address = 0, bytes = 0;
};

struct ElfSymbol {
  uint64_t address = 0, bytes = 0;
  bool operator==(const ElfSymbol&) const = default;
};

class ElfFile {
 public:
  // NotFound or PermissionDenied from the file system; InvalidArgument: not a valid ELF file;
  // Unimplemented: one that is not for x86-64.
  static absl::StatusOr<ElfFile> Open(const std::string& path);

  ElfFile(ElfFile&&) = default;
  ElfFile& operator=(ElfFile&&) = default;

  // By address; may overlap.
  const std::vector<ElfSegment>& segments() const { return segments_; }
  const std::vector<std::string>& needed() const { return needed_; }  // DT_NEEDED; not names above NAME_MAX bytes
  bool position_independent() const { return position_independent_; }
  dev_t device() const { return device_; }
  ino_t inode() const { return inode_; }

  // Only sections whose name has less than 64 bytes.
  std::optional<ElfSection> FindSection(absl::string_view name) const;

  // The defined symbols with these names, in the same order; looks in .dynsym, then in .symtab. One pass over both
  // tables, nothing is cached. Ignores thread-local symbols and imports.
  std::vector<std::optional<ElfSymbol>> FindSymbols(absl::Span<const absl::string_view> names) const;

  // The address of the byte at file offset `offset`; nullopt if no segment contains it.
  std::optional<uint64_t> AddressOfOffset(uint64_t offset) const;

  // The mangled name of the function that contains an address: the nearest one below, if the address lies within its
  // size; a size of 0 extends to the next function. "" if there is none. The first call reads the symbol tables and
  // keeps 24 bytes per function; names are read from the file on demand.
  std::string FunctionAt(uint64_t address);
  // Memory that the file takes now: sections, segments, needed libraries and functions.
  size_t index_bytes() const { return bytes_ + functions_.capacity() * sizeof(Function); }

 private:
  struct Function {
    uint64_t address, name_offset;  // name_offset: within the file
    uint32_t bytes, rank;           // rank: of several names at one address, the one with the smallest wins
  };
  struct Table {  // a symbol table and its string table
    size_t index, strings;
    uint64_t strings_offset, strings_bytes;
  };
  struct NamedSection {
    std::string name;
    ElfSection section;
  };

  ElfFile() = default;
  absl::Status Load(const std::string& path);
  void LoadNeeded(Elf* elf, size_t index, size_t strings_index, uint64_t file_bytes);
  void CountBytes();
  void LoadIndex();
  bool IsInSegmentOf(uint64_t first, uint64_t second) const;  // whether one segment contains both

  Fd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool position_independent_ = false, has_index_ = false;
  std::vector<ElfSegment> segments_;
  std::vector<NamedSection> sections_;
  std::vector<std::string> needed_;
  std::vector<Table> tables_;
  std::vector<Function> functions_;
  size_t bytes_ = 0;  // of all but functions_, which grow later
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_ELF_FILE_H_
