// Keeps the pages that a walk has read, so that a million small reads become some thousand. What it has is as old as
// its first read of the page: make a new one to look again. One that wraps another caches nothing itself.
#ifndef COWPROF_PYTHON_CACHED_MEMORY_H_
#define COWPROF_PYTHON_CACHED_MEMORY_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>

#include "absl/types/span.h"
#include "python/memory_reader.h"

namespace cowprof {

class CachedMemory : public MemoryReader {
 public:
  explicit CachedMemory(const MemoryReader& memory)
      : memory_(memory), is_kept_(dynamic_cast<const CachedMemory*>(&memory) != nullptr) {}
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    if (is_kept_ || bytes.size() > kMostCached) return memory_.Read(address, bytes);
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

  void Forget() {
    pieces_ = {};
    last_data_ = nullptr;
  }

 private:
  static constexpr size_t kMostCached = 64 << 10;
  // 16 MiB at most. A page has one place, by its number: what a walk meets lies side by side, so that few pages push
  // each other out.
  static constexpr uint64_t kPieces = 256, kPiecePages = 16;
  struct Piece {
    uint64_t pages[kPiecePages] = {};  // which page is there; 0: none
    char data[kPiecePages][kLeastPageBytes];
  };
  const char* Page(uint64_t page) const {
    if (page == last_ && last_data_ != nullptr) return last_data_;
    if (page == 0) return nullptr;
    std::unique_ptr<Piece>& piece = pieces_[page / kPiecePages % kPieces];
    if (piece == nullptr) piece.reset(new Piece);
    const uint64_t at = page % kPiecePages;
    if (piece->pages[at] != page) {
      last_data_ = nullptr;
      // One by one, and the whole piece where the walk goes on from page to page.
      const bool ahead = Holds(page - 1) && ReadAhead(piece.get(), page);
      if (!ahead && !memory_.Read(page * kLeastPageBytes, absl::MakeSpan(piece->data[at], kLeastPageBytes))) {
        piece->pages[at] = 0;
        return nullptr;
      }
      piece->pages[at] = page;
    }
    last_ = page;
    return last_data_ = piece->data[at];
  }
  bool Holds(uint64_t page) const {
    const Piece* const piece = pieces_[page / kPiecePages % kPieces].get();
    return piece != nullptr && piece->pages[page % kPiecePages] == page;
  }
  // Reads this page and those after it in the piece, up to the first that is there. False: one of them is not present.
  bool ReadAhead(Piece* piece, uint64_t page) const {
    const uint64_t at = page % kPiecePages;
    uint64_t count = 1;
    while (at + count < kPiecePages && piece->pages[at + count] != page + count) ++count;
    std::fill_n(piece->pages + at, count, 0);
    const absl::Span<char> data = absl::MakeSpan(piece->data[at], count * kLeastPageBytes);
    if (!memory_.ReadIfPresent(page * kLeastPageBytes, data)) return false;
    std::iota(piece->pages + at, piece->pages + at + count, page);
    return true;
  }
  const MemoryReader& memory_;
  const bool is_kept_;
  mutable std::array<std::unique_ptr<Piece>, kPieces> pieces_;
  mutable uint64_t last_ = 0;
  mutable const char* last_data_ = nullptr;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_CACHED_MEMORY_H_
