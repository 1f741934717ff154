// Names the native code at an address of a process: the file that is mapped there and the function in it. Opens files
// on demand and keeps them in an ElfCache that all processes share, since workers map the same libraries.
#ifndef COWPROF_SOURCE_NATIVE_SYMBOLS_H_
#define COWPROF_SOURCE_NATIVE_SYMBOLS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "source/elf_file.h"
#include "source/procfs.h"

namespace cowprof {

struct NativeSymbol {
  std::string module;  // base name of the file, "libtorch_cpu.so"; "[vdso]"; bytes as the target chose them
  std::string symbol;  // demangled, at most 1,000 bytes; "" if none is known
  bool operator==(const NativeSymbol&) const = default;
};

// ELF files by (device, inode). Evicts the least recently used when their indexes exceed `max_bytes` or there are more
// than 256 files. A single larger file stays as long as it is the last one used.
class ElfCache {
 public:
  explicit ElfCache(size_t max_bytes = size_t{64} << 20) : max_bytes_(max_bytes) {}
  // The file at `path`, opened or cached; nullptr if it is not a readable ELF file.
  std::shared_ptr<ElfFile> Open(const std::string& path);
  void Trim();  // call after an index grew
  size_t index_bytes() const;

 private:
  struct Entry {
    std::shared_ptr<ElfFile> file;
    uint64_t used = 0;
  };
  size_t max_bytes_;
  uint64_t clock_ = 0;
  absl::flat_hash_map<std::pair<dev_t, ino_t>, Entry> files_;
};

class NativeSymbols {
 public:
  // `process_folder` is "/proc/PID". Files are opened below process_folder/root; if deleted or missing there, through
  // process_folder/map_files (needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), then by their plain path. `cache` must
  // outlive this.
  NativeSymbols(std::vector<Mapping> mappings, std::string process_folder, ElfCache* cache);

  // nullopt: no file is mapped at `address`. Caches up to 64 Ki answers.
  std::optional<NativeSymbol> Find(uint64_t address);
  // Whether executable memory that is no file's was mapped there: code that is generated at run time.
  bool IsGenerated(uint64_t address) const;

 private:
  const Mapping* MappingAt(uint64_t address) const;  // null: none
  std::shared_ptr<ElfFile> OpenFile(const Mapping& mapping) const;
  std::optional<NativeSymbol> Resolve(uint64_t address) const;

  std::vector<Mapping> mappings_;  // by address
  std::string process_folder_;
  ElfCache* cache_;
  absl::flat_hash_map<uint64_t, std::optional<NativeSymbol>> answers_;
};

// What to add to an address of the file for that of the process. `first`: the first mapping of the file. nullopt: no
// segment of the file begins there.
std::optional<uint64_t> LoadBias(const ElfFile& file, const Mapping& first);

// Paths at which the file behind a mapping can be opened, best first. Below process_folder/root a path means what it
// means to the target; a deleted file has only process_folder/map_files, which needs privileges.
std::vector<std::string> PathsOfMapping(const std::string& process_folder, const Mapping& mapping);

// The result of abi::__cxa_demangle(); the name itself if it is not mangled, or would become too long.
std::string Demangle(const std::string& name);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_NATIVE_SYMBOLS_H_
