// Decides whether an address is a Python type, and names it. The process keeps running while it is read: every pointer
// is checked before it is followed, every loop and size is bounded, and anything implausible is not a type.
#include "python/objects.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"

namespace cowprof {
namespace {

constexpr int kMaxMetaclassHops = 4;
constexpr size_t kMaxCachedTypes = 1 << 16;
constexpr uint64_t kMaxBasicBytes = 16 << 20, kMaxItemBytes = 1 << 20;

// Include/object.h, the same from 3.6 to 3.14.
constexpr uint64_t kHeapType = 1 << 9, kReady = 1 << 12, kHasGc = 1 << 14;
constexpr uint64_t kTypeSubclass = uint64_t{1} << 31;

uint64_t WordAt(const char* bytes, size_t offset) {
  uint64_t word;
  memcpy(&word, bytes + offset, sizeof(word));
  return word;
}

}  // namespace

std::optional<TypeReader::Head> TypeReader::ReadHead(uint64_t address) const {
  const TypeOffsets& offsets = interpreter_.layout.type;
  if (!IsUserPointer(address)) return std::nullopt;
  char bytes[kMaxHeadBytes];
  const size_t size = HeadBytesOf(interpreter_.layout).type;
  if (size > sizeof(bytes) || !memory_.Read(address, absl::MakeSpan(bytes, size))) return std::nullopt;
  return Head{WordAt(bytes, interpreter_.layout.object.type), WordAt(bytes, offsets.name),
              WordAt(bytes, offsets.basic_size), WordAt(bytes, offsets.item_size), WordAt(bytes, offsets.flags)};
}

// Follows type(t), type(type(t)), ...: each must be a metatype, the last one `type` itself.
bool TypeReader::IsType(uint64_t address, const Head& head) const {
  if (!(head.flags & kReady) || head.basic_size == 0 || head.basic_size > kMaxBasicBytes ||
      head.item_size > kMaxItemBytes || !IsUserAddress(head.name)) {
    return false;
  }
  if (address == interpreter_.type_type) return true;
  uint64_t meta = head.type;
  for (int hop = 0; hop < kMaxMetaclassHops; ++hop) {
    if (meta == interpreter_.type_type) return true;
    const std::optional<Head> next = ReadHead(meta);
    if (!next || !(next->flags & kTypeSubclass)) return false;
    meta = next->type;
  }
  return false;
}

std::string TypeReader::QualifiedName(uint64_t address, const Head& head) const {
  const PythonLayout& layout = interpreter_.layout;
  std::string plain = ReadCString(memory_, head.name, kMaxNameBytes).value_or("");
  if (!(head.flags & kHeapType)) return plain;
  const auto qualname_at = ReadValue<uint64_t>(memory_, address + layout.type.qualname);
  const auto dict = ReadValue<uint64_t>(memory_, address + layout.type.dict);
  std::optional<std::string> name;
  if (qualname_at) name = ReadString(layout, memory_, *qualname_at, kMaxNameBytes);
  if (!name) return plain;
  const uint64_t module_at = dict ? FindInDict(layout, memory_, *dict, "__module__") : 0;
  const auto module = ReadString(layout, memory_, module_at, kMaxNameBytes);
  // Ignore a __module__ that is not a str (a property, None).
  if (!module || module->empty() || *module == "builtins") return *name;
  return absl::StrCat(*module, ".", *name).substr(0, kMaxNameBytes);
}

std::optional<TypeInfo> TypeReader::Read(uint64_t address) {
  const std::optional<Head> read = ReadHead(address);
  const Head head = read.value_or(Head{});
  const auto known = cache_.find(address);
  if (known != cache_.end() && known->second.head == head) return known->second.info;

  std::optional<TypeInfo> info;
  if (read && IsType(address, head)) {
    info.emplace();
    info->name = QualifiedName(address, head);
    info->flags = head.flags;
    info->basic_size = head.basic_size;
    info->item_size = head.item_size;
    info->has_gc = (head.flags & kHasGc) != 0;
    if (info->name.empty()) info.reset();  // no readable name: not a type, or not yet
  }
  if (cache_.size() >= kMaxCachedTypes) cache_.clear();
  cache_[address] = {head, info};
  return info;
}

std::optional<std::string> TypeReader::NameOf(uint64_t address) {
  std::optional<TypeInfo> info = Read(address);
  if (!info) return std::nullopt;
  return std::move(info->name);
}

std::optional<TypeInfo> TypeReader::TypeOfObject(uint64_t address) {
  const ObjectOffsets& object = interpreter_.layout.object;
  if (!IsUserPointer(address)) return std::nullopt;
  char bytes[kMaxHeadBytes];
  const size_t size = HeadBytesOf(interpreter_.layout).object;
  if (size > sizeof(bytes) || !memory_.Read(address, absl::MakeSpan(bytes, size))) return std::nullopt;
  // Up to 3.11 the count is a word and never large; later its upper half has flags or nothing (Include/object.h,
  // Include/refcount.h). Free-threaded counts are split and biased: they reveal nothing.
  if (!interpreter_.layout.free_threaded) {
    const uint64_t count = WordAt(bytes, object.refcount);
    const bool whole_word = interpreter_.layout.minor < 14;
    if ((whole_word && (count == 0 || count >> 32 != 0)) || static_cast<uint32_t>(count) == 0) return std::nullopt;
  }
  return Read(WordAt(bytes, object.type));
}

std::optional<PoolBlock> ParsePool(absl::Span<const char> header, uint64_t address, uint64_t pool_bytes) {
  if (header.size() < kPoolHeaderBytes || pool_bytes < kLeastPoolBytes || (pool_bytes & (pool_bytes - 1)) != 0) {
    return std::nullopt;
  }
  // struct pool_header: ref.count 0, freeblock 8, nextpool 16, prevpool 24, arenaindex 32, szidx 36, nextoffset 40,
  // maxnextoffset 44.
  const auto half = [&header](size_t offset) {
    uint32_t value;
    memcpy(&value, header.data() + offset, sizeof(value));
    return value;
  };
  const uint64_t pool = address & ~(pool_bytes - 1);
  const uint32_t used = half(0), size_index = half(36), next_offset = half(40), max_next_offset = half(44);
  if (max_next_offset >= pool_bytes) return std::nullopt;
  const uint64_t block_bytes = pool_bytes - max_next_offset;
  const uint64_t index = uint64_t{size_index} + 1;
  if (block_bytes > 512 || (block_bytes != index * 8 && block_bytes != index * 16)) return std::nullopt;
  const uint64_t blocks = (pool_bytes - kPoolHeaderBytes) / block_bytes;
  if (used == 0 || used > blocks || next_offset < kPoolHeaderBytes || next_offset > pool_bytes ||
      (next_offset - kPoolHeaderBytes) % block_bytes != 0) {
    return std::nullopt;
  }
  const uint64_t free_block = WordAt(header.data(), 8);
  if (free_block != 0 && (free_block < pool + kPoolHeaderBytes || free_block - pool >= pool_bytes ||
                          (free_block - pool - kPoolHeaderBytes) % block_bytes != 0)) {
    return std::nullopt;
  }
  if (WordAt(header.data(), 16) % 8 != 0 || WordAt(header.data(), 24) % 8 != 0) return std::nullopt;

  PoolBlock block{.pool = pool, .block_bytes = static_cast<uint32_t>(block_bytes)};
  const uint64_t offset = address - pool;
  if (offset < kPoolHeaderBytes) {
    block.in_header = true;
    return block;
  }
  const uint64_t number = (offset - kPoolHeaderBytes) / block_bytes;
  if (number >= blocks) return std::nullopt;
  block.block = pool + kPoolHeaderBytes + number * block_bytes;
  block.ever_used = block.block - pool < next_offset;
  return block;
}

std::optional<bool> UsesPools(const Interpreter& interpreter, const MemoryReader& memory) {
  constexpr uint64_t kDebugBytes = 16;  // what PYTHONMALLOC=debug puts before a block
  if (interpreter.pool_bytes == 0) return false;
  const uint64_t head_bytes = interpreter.layout.gc_head_bytes;
  if (interpreter.main_interpreter == 0 || head_bytes == 0) return std::nullopt;
  const auto modules =
      ReadValue<uint64_t>(memory, interpreter.main_interpreter + interpreter.layout.interpreter.modules);
  if (!modules || !IsUserPointer(*modules) || !ReadValue<uint64_t>(memory, *modules)) return std::nullopt;
  char header[kPoolHeaderBytes];
  if (!memory.Read(*modules & ~(interpreter.pool_bytes - 1), absl::MakeSpan(header))) return false;
  const auto block = ParsePool(header, *modules, interpreter.pool_bytes);
  if (!block || block->in_header || !block->ever_used) return false;
  const uint64_t before = *modules - block->block;
  return before == head_bytes || before == head_bytes + kDebugBytes;
}

}  // namespace cowprof
