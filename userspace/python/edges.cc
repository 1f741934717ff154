// Reads the references of a container in batches (declared in graph.h); a batch that can't be read ends the container
// and marks it torn.
#include <algorithm>
#include <cstring>

#include "python/graph.h"

namespace cowprof {
namespace {

constexpr uint64_t kBatch = 128;
constexpr uint64_t kMostEmpty = uint64_t{1} << 26;  // of one table: a second or two
constexpr uint64_t kDequeBlock = 64;  // BLOCKLEN, Modules/_collectionsmodule.c; a block is {left, items, right}

uint64_t WordAt(const std::vector<char>& bytes, size_t offset) {
  uint64_t word;
  memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

}  // namespace

Edges Edges::Fields(std::vector<Edge> edges) {
  Edges all;
  all.fields_ = std::move(edges);
  return all;
}

bool Edges::Refill(const MemoryReader& memory) {
  batch_first_ = at_;
  batch_count_ = std::min(kBatch, count_ - at_);
  batch_.resize(batch_count_ * entry_bytes_);
  if (!memory.Read(address_ + at_ * entry_bytes_, absl::MakeSpan(batch_))) return false;
  if (values_ == 0) return true;
  batch_values_.resize(batch_count_ * 8);
  return memory.Read(values_ + at_ * 8, absl::MakeSpan(batch_values_));
}

// From block to block; its end is known once it is there.
bool Edges::NextOfDeque(const MemoryReader& memory, Edge* edge) {
  if (at_ >= count_) return false;
  if (block_index_ == kDequeBlock && batch_count_ != 0) {
    address_ = WordAt(batch_, 8 * kDequeBlock);
    block_index_ = batch_count_ = 0;
  }
  if (batch_count_ == 0) {
    batch_.resize(8 * (kDequeBlock + 1));
    torn_ |=
        block_index_ >= kDequeBlock || !IsUserPointer(address_) || !memory.Read(address_ + 8, absl::MakeSpan(batch_));
    if (torn_) return false;
    batch_count_ = kDequeBlock;
  }
  *edge = {.kind = EdgeKind::kIndex, .object = WordAt(batch_, 8 * block_index_++), .index = at_++};
  return true;
}

bool Edges::SkipTo(uint64_t index) {
  if (kind_ != Kind::kArray) return false;
  at_ = std::min(index, count_);
  batch_first_ = batch_count_ = 0;
  return true;
}

bool Edges::Next(const MemoryReader& memory, Edge* edge) {
  if (key_pending_) {
    key_pending_ = false;
    *edge = value_;
    return true;
  }
  if (kind_ == Kind::kFields) {
    if (at_ >= fields_.size()) return false;
    *edge = fields_[at_++];
    return true;
  }
  if (kind_ == Kind::kDeque) return NextOfDeque(memory, edge);
  while (at_ < count_ && empty_ <= kMostEmpty) {
    if (at_ >= batch_first_ + batch_count_ && !Refill(memory)) {
      torn_ = true;
      return false;
    }
    const size_t i = at_ - batch_first_;
    const uint64_t index = at_++;
    if (kind_ == Kind::kArray) {
      *edge = {.kind = edge_, .object = WordAt(batch_, i * 8), .index = index};
      return true;
    }
    if (kind_ == Kind::kSet) {
      // A deleted element is a dummy whose hash is -1, which no other has.
      const uint64_t object = WordAt(batch_, i * 16);
      if (object == 0 || WordAt(batch_, i * 16 + 8) == UINT64_MAX) {
        ++empty_;
        continue;
      }
      *edge = {.kind = EdgeKind::kElement, .object = object};
      return true;
    }
    const uint64_t key = WordAt(batch_, i * entry_bytes_ + key_offset_);
    const uint64_t value =
        values_ != 0 ? WordAt(batch_values_, i * 8) : WordAt(batch_, i * entry_bytes_ + key_offset_ + 8);
    if (key == 0 || value == 0) {  // deleted, or not set
      ++empty_;
      continue;
    }
    *edge = {.kind = edge_, .object = value, .name = key};
    if (edge_ == EdgeKind::kValue) {
      value_ = *edge;
      key_pending_ = true;
      *edge = {.kind = EdgeKind::kKey, .object = key, .name = key};
    }
    return true;
  }
  torn_ |= at_ < count_;
  return false;
}

}  // namespace cowprof
