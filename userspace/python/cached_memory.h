// Keeps the pages that a walk has read, so that a million small reads become some thousand. What it has is as old as
// its first read of the page: make a new one to look again.
#ifndef COWPROF_PYTHON_CACHED_MEMORY_H_
#define COWPROF_PYTHON_CACHED_MEMORY_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "python/memory_reader.h"

namespace cowprof {

class CachedMemory : public MemoryReader {
 public:
  explicit CachedMemory(const MemoryReader& memory) : memory_(memory) {}
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    if (bytes.size() > kMostCached) return memory_.Read(address, bytes);
    while (!bytes.empty()) {
      const uint64_t page = address / kLeastPageBytes, within = address % kLeastPageBytes;
      const char* data = Page(page);
      if (data == nullptr) return memory_.Read(address, bytes);
      const size_t take = std::min<size_t>(bytes.size(), kLeastPageBytes - within);
      memcpy(bytes.data(), data + within, take);
      bytes.remove_prefix(take);
      address += take;
    }
    return true;
  }
  uint64_t pages_read() const { return pages_read_; }

 private:
  static constexpr size_t kMostPages = 8192;  // 32 MiB
  static constexpr size_t kMostCached = 64 << 10;
  const char* Page(uint64_t page) const {
    if (page == last_ && last_data_ != nullptr) return last_data_;
    auto found = pages_.find(page);
    if (found == pages_.end()) {
      if (pages_.size() >= kMostPages) pages_.clear();
      auto data = std::make_unique<char[]>(kLeastPageBytes);
      ++pages_read_;
      if (!memory_.Read(page * kLeastPageBytes, absl::MakeSpan(data.get(), kLeastPageBytes))) return nullptr;
      found = pages_.emplace(page, std::move(data)).first;
    }
    last_ = page;
    return last_data_ = found->second.get();
  }
  const MemoryReader& memory_;
  mutable absl::flat_hash_map<uint64_t, std::unique_ptr<char[]>> pages_;
  mutable uint64_t last_ = 0, pages_read_ = 0;
  mutable const char* last_data_ = nullptr;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_CACHED_MEMORY_H_
