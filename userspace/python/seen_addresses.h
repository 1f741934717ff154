// The addresses of objects that a walk has met, as a bit for each 8 bytes of a page. What a walk meets lies side by
// side: the bits take less memory than a hash table of the addresses, and the next one is mostly in a cache line at
// hand.
#ifndef COWPROF_PYTHON_SEEN_ADDRESSES_H_
#define COWPROF_PYTHON_SEEN_ADDRESSES_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/container/node_hash_map.h"
#include "python/memory_reader.h"

namespace cowprof {

class SeenAddresses {
 public:
  SeenAddresses() = default;
  SeenAddresses(const SeenAddresses&) = delete;
  SeenAddresses& operator=(const SeenAddresses&) = delete;

  // Whether it is met for the first time. Addresses of the same 8 bytes are one.
  bool Insert(uint64_t address) {
    const uint64_t page = address / kLeastPageBytes;
    Known& known = recent_[page % recent_.size()];
    if (known.bits == nullptr || known.page != page) known = {page, &pages_[page]};
    uint64_t& word = (*known.bits)[address / kWordBytes % kWords];
    const uint64_t bit = uint64_t{1} << address / 8 % 64;
    if ((word & bit) != 0) return false;
    word |= bit;
    ++size_;
    return true;
  }
  size_t size() const { return size_; }
  void Clear() {
    pages_.clear();
    recent_ = {};
    size_ = 0;
  }

 private:
  static constexpr uint64_t kWordBytes = 64 * 8, kWords = kLeastPageBytes / kWordBytes;
  using Bits = std::array<uint64_t, kWords>;
  struct Known {
    uint64_t page = 0;
    Bits* bits = nullptr;
  };
  absl::node_hash_map<uint64_t, Bits> pages_;
  std::array<Known, 64> recent_;
  size_t size_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_SEEN_ADDRESSES_H_
