// Names the native code at an address of a process: the file that is mapped there and the function in it. Called by
// the collector for the instruction that wrote a page. Files are opened when first asked for, and kept in an ElfCache
// that all processes share, since workers map the same libraries.
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

// ELF files by (device, inode), the least recently used given back when their indexes exceed `max_bytes` or there are
// more than 256 of them. One file may be larger than that: it stays as long as it is the last one used.
class ElfCache {
 public:
  explicit ElfCache(size_t max_bytes = size_t{64} << 20) : max_bytes_(max_bytes) {}
  // The file behind `path`, opened or kept; nullptr if it is no ELF file that can be read.
  std::shared_ptr<ElfFile> Open(const std::string& path);
  void Trim();  // called by NativeSymbols after an index grew
  size_t index_bytes() const;
  size_t files() const { return files_.size(); }

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
  // `process_folder` is "/proc/PID". A file is opened below process_folder/root; a deleted one, or one that isn't
  // there, through process_folder/map_files (needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE), then by its plain path.
  // `cache` must outlive this.
  NativeSymbols(std::vector<Mapping> mappings, std::string process_folder, ElfCache* cache);

  // nullopt: no file is mapped at `address`. Answers are kept, at most 64 Ki of them.
  std::optional<NativeSymbol> Find(uint64_t address);

 private:
  std::shared_ptr<ElfFile> OpenFile(const Mapping& mapping) const;
  std::optional<NativeSymbol> Resolve(uint64_t address) const;

  std::vector<Mapping> mappings_;  // by address
  std::string process_folder_;
  ElfCache* cache_;
  absl::flat_hash_map<uint64_t, std::optional<NativeSymbol>> answers_;
};

// Where the file behind a mapping can be opened, the best way first. Below process_folder/root a path means what it
// means to the target; a deleted file has only process_folder/map_files, which needs privileges.
std::vector<std::string> PathsOfMapping(const std::string& process_folder, const Mapping& mapping);

// What abi::__cxa_demangle makes of a name; the name itself if it is no mangled one, or too long to be worth it.
std::string Demangle(const std::string& name);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_NATIVE_SYMBOLS_H_
