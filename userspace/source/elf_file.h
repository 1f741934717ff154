// One ELF file on disk: its segments, sections, needed libraries and symbols. Called by native_symbols.cc and by
// python/interpreter.cc; knows nothing of processes. The file may be hostile (it comes out of a container): whatever
// is wrong with it is an error or an absence, never a crash, and no table above 256 MiB is loaded. x86-64 only.
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

// Addresses here are those of the file (p_vaddr, st_value): add the load bias for those of a process.
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
  // NotFound or PermissionDenied as the file system says; InvalidArgument: no ELF file of x86-64, or a broken one.
  static absl::StatusOr<ElfFile> Open(const std::string& path);

  ElfFile(ElfFile&&) = default;
  ElfFile& operator=(ElfFile&&) = default;

  // By address. Overlaps are left as they are.
  const std::vector<ElfSegment>& segments() const { return segments_; }
  const std::vector<std::string>& needed() const { return needed_; }  // DT_NEEDED
  bool position_independent() const { return position_independent_; }
  dev_t device() const { return device_; }
  ino_t inode() const { return inode_; }

  std::optional<ElfSection> FindSection(absl::string_view name) const;

  // The defined symbols of these names, in their order: .dynsym first, then .symtab. One pass over both tables; nothing
  // is kept. Thread-local symbols and imports are left out.
  std::vector<std::optional<ElfSymbol>> FindSymbols(absl::Span<const absl::string_view> names) const;
  std::optional<ElfSymbol> FindSymbol(absl::string_view name) const { return FindSymbols({name})[0]; }

  // The address of the byte at `offset` of the file; nullopt if no segment holds it.
  std::optional<uint64_t> AddressOfOffset(uint64_t offset) const;

  // The function that holds an address: its name as it stands in the table (mangled). The nearest one below, if the
  // address lies within its size; a size of 0 reaches up to the next function. "" if there is none. The first call
  // reads the symbol tables and keeps 24 bytes a function; names are read from the file when asked for.
  std::string FunctionAt(uint64_t address);
  size_t index_bytes() const { return functions_.capacity() * sizeof(Function); }  // what the index takes now

 private:
  struct Function {
    uint64_t address, name_offset;  // name_offset: of the file
    uint32_t bytes, rank;           // rank: which of several names at one address is preferred, the smallest
  };
  struct Table {  // a symbol table and the strings that it refers to
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
  void LoadIndex();
  bool IsInSegmentOf(uint64_t first, uint64_t second) const;  // one segment holds both

  Fd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  bool position_independent_ = false, has_index_ = false;
  std::vector<ElfSegment> segments_;
  std::vector<NamedSection> sections_;
  std::vector<std::string> needed_;
  std::vector<Table> tables_;
  std::vector<Function> functions_;
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_ELF_FILE_H_
