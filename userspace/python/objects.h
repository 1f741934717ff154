// Resolves an address to the Python type that lives there. The addresses are whatever BPF found in memory that it does
// not understand: most are not types, and nothing that they point at can be trusted.
#ifndef COWPROF_PYTHON_OBJECTS_H_
#define COWPROF_PYTHON_OBJECTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

inline constexpr size_t kMaxNameBytes = 200;  // of a type or a function; longer names are truncated

struct TypeInfo {
  // tp_name of static types ("numpy.ndarray", "str"); module and qualified name of others ("__main__.Outer.Inner"),
  // without "builtins.". Bytes as the target chose them, control characters included.
  std::string name;
  uint64_t flags = 0;       // tp_flags
  uint64_t basic_size = 0;  // bytes, tp_basicsize
  uint64_t item_size = 0;   // bytes, tp_itemsize
  bool has_gc = false;      // Py_TPFLAGS_HAVE_GC: instances have a GC head
};

// Resolves types of one process image. The interpreter and the memory must outlive it.
class TypeReader {
 public:
  TypeReader(const Interpreter& interpreter, const MemoryReader& memory) : interpreter_(interpreter), memory_(memory) {}

  // The type at `address`, if it is one: its metaclass chain ends in this interpreter's PyType_Type after at most 4
  // hops, and its flags and sizes are plausible. Every call reads the head of the object and uses the cache only if it
  // is unchanged: the memory of a class may have been reused.
  std::optional<TypeInfo> Read(uint64_t address);
  std::optional<std::string> NameOf(uint64_t address);

  // The type of the object at `address`, if it looks like an object: a type and a plausible reference count.
  std::optional<TypeInfo> TypeOfObject(uint64_t address);

  size_t cached() const { return cache_.size(); }

 private:
  struct Head {
    uint64_t type = 0, name = 0, basic_size = 0, item_size = 0, flags = 0;
    bool operator==(const Head&) const = default;
  };
  struct Cached {
    Head head;
    std::optional<TypeInfo> info;
  };

  std::optional<Head> ReadHead(uint64_t address) const;
  bool IsType(uint64_t address, const Head& head) const;
  std::string QualifiedName(uint64_t address, const Head& head) const;

  const Interpreter& interpreter_;
  const MemoryReader& memory_;
  absl::flat_hash_map<uint64_t, Cached> cache_;  // emptied when it reaches 64 Ki entries
};

// A str of the target in UTF-8, cut at `max_bytes`. nullopt if it is not a compact string or can't be read. Lone
// surrogates become '?'.
std::optional<std::string> ReadString(const PythonLayout& layout, const MemoryReader& memory, uint64_t address,
                                      size_t max_bytes);

// The value of an int or bool (whose type is not looked at), of at most 60 bits. nullopt: larger, or unreadable.
std::optional<int64_t> ReadInt(const PythonLayout& layout, const MemoryReader& memory, uint64_t object);

inline constexpr size_t kMaxKeyBytes = 1024;  // of a key that is looked up, UTF-8

struct DictSearch {
  size_t most = 4096;         // entries to compare
  bool newest_first = false;  // from the last entry on: sooner for names that were added just now
  size_t compared = 0;        // is increased
  bool whole = false;         // is set. False: there may be such a key that was not seen
  bool readable = false;  // is set. False: it is not whole since memory could not be read, as while the dict is resized
};

// The address of the value of `key` (a str, in UTF-8) in the dict at `address`, 0 if none was found.
uint64_t FindInDict(const PythonLayout& layout, const MemoryReader& memory, uint64_t address, absl::string_view key,
                    DictSearch* search = nullptr);

// The table behind a dict's ma_keys, or a class's ht_cached_keys.
struct KeysTable {
  uint64_t entries = 0;                    // address of the first entry
  size_t count = 0;                        // entries in use or once used; as the target claims, at most 2^32
  size_t entry_bytes = 0, key_offset = 0;  // the value follows the key
};
std::optional<KeysTable> ReadKeysTable(const PythonLayout& layout, const MemoryReader& memory, uint64_t keys);

// ---- pymalloc ----

inline constexpr uint64_t kLeastPoolBytes = 4096;  // POOL_SIZE there up to 3.9, whatever the page size; larger since
inline constexpr size_t kPoolHeaderBytes = 48;     // struct pool_header, Objects/obmalloc.c, the same from 3.6 to 3.14

struct PoolBlock {
  uint64_t pool = 0;         // address of the pool
  uint32_t block_bytes = 0;  // 8 to 512
  bool in_header = false;    // the address lies in the header; `block` is 0
  uint64_t block = 0;        // address of the block's first byte
  bool ever_used = false;    // below `nextoffset`: it was allocated at least once
};

// Interprets `header`, the 48 bytes at `address` rounded down to `pool_bytes`, as the header of a pool in use, and
// finds the block that contains `address`. nullopt: not a valid pool, or the address is behind its last block.
std::optional<PoolBlock> ParsePool(absl::Span<const char> header, uint64_t address, uint64_t pool_bytes);

// Whether small objects lie in pools, as sys.modules does: a dict that is made early and stays. nullopt: can't be read.
std::optional<bool> UsesPools(const Interpreter& interpreter, const MemoryReader& memory);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_OBJECTS_H_
