// Classifies the differing words of a page by the objects around them. Reads nothing outside the page and its
// neighbours, whatever the bytes are, and calls a word harmless only with evidence from both processes.
#include "python/page_diff.h"

#include <algorithm>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "python/memory_reader.h"

namespace cowprof {
namespace {

// Include/object.h, the same from 3.6 to 3.14.
constexpr uint64_t kHeapType = 1 << 9, kHasGc = 1 << 14;
constexpr uint64_t kTupleSubclass = 1 << 26, kBytesSubclass = 1 << 27, kUnicodeSubclass = 1 << 28;
constexpr uint64_t kTypeSubclass = uint64_t{1} << 31;

// PyASCIIObject.hash, PyBytesObject.ob_shash, PyTupleObject.ob_hash (3.14): all in the fourth word.
constexpr ptrdiff_t kHashWord = 3;
constexpr uint64_t kNoHash = ~uint64_t{0};  // -1: not computed yet

struct WordPair {
  uint64_t parent = 0, worker = 0;
};

bool MayBePointer(uint64_t word) { return word >= 65536 && word % 8 == 0; }

class Comparison {
 public:
  Comparison(const PageContext& context, absl::Span<const uint64_t> parent, absl::Span<const uint64_t> worker)
      : context_(context), parent_(parent), worker_(worker) {}

  // Classifies the differing word at `index`.
  PageDiff Classify(ptrdiff_t index) const {
    if (!context_.types) return PageDiff::kData;
    if (TypeOfHead(index)) return PageDiff::kRefcountOnly;
    if (IsInGcHead(index)) return PageDiff::kGcHeaderOnly;
    if (IsHash(index)) return PageDiff::kHashOnly;
    return PageDiff::kData;
  }

 private:
  static std::optional<uint64_t> WordOf(const PageNeighbours& near, absl::Span<const uint64_t> page, ptrdiff_t index) {
    constexpr ptrdiff_t kNear = kNeighbourWords;
    const ptrdiff_t size = page.size();
    if (index >= 0 && index < size) return page[index];
    if (index < 0 && index >= -kNear && near.before) return (*near.before)[index + kNear];
    if (index >= size && index < size + kNear && near.after) return (*near.after)[index - size];
    return std::nullopt;
  }

  std::optional<WordPair> At(ptrdiff_t index) const {
    const auto parent = WordOf(context_.parent, parent_, index);
    const auto worker = WordOf(context_.worker, worker_, index);
    if (!parent || !worker) return std::nullopt;
    return WordPair{*parent, *worker};
  }

  uint64_t AddressOf(ptrdiff_t index) const { return context_.address + 8 * static_cast<uint64_t>(index); }

  // A live object's count is never 0 and never reaches 2^32: since 3.12 only the lower half is written, and 3.14's
  // upper half is constant. Two values that both look like pointers are pointers: the slot before one that points to a
  // class, in a non-PIE executable, whose static objects are below 4 GiB.
  bool MayBeCounts(const WordPair& pair) const {
    const uint64_t mask = context_.layout.count_has_flags ? (uint64_t{1} << 48) - 1 : ~uint64_t{0};
    if ((pair.parent & ~mask) != (pair.worker & ~mask)) return false;
    const uint64_t parent = pair.parent & mask, worker = pair.worker & mask;
    if (parent == 0 || worker == 0 || parent >> 32 != 0 || worker >> 32 != 0) return false;
    return parent == worker || !MayBePointer(parent) || !MayBePointer(worker);
  }

  // The type of the object whose head is at `index`, if both processes have one there.
  std::optional<TypeTraits> TypeOfHead(ptrdiff_t index) const {
    const auto counts = At(index), type = At(index + 1);
    if (!counts || !type || type->parent != type->worker || !IsUserPointer(type->worker) || !MayBeCounts(*counts)) {
      return std::nullopt;
    }
    return context_.types(type->worker);
  }

  bool HasGcHead(ptrdiff_t object) const {
    const std::optional<TypeTraits> type = TypeOfHead(object);
    if (!type || !type->has_gc) return false;
    if (!type->is_metatype) return true;
    const std::optional<TypeTraits> itself = context_.types(AddressOf(object));
    return itself && itself->on_heap;
  }

  // 16 bytes are next and prev; 24 bytes are next, prev and gc_refs; 32 bytes are these and 8 bytes of padding for the
  // alignment of long double (PyGC_Head, Include/objimpl.h of 3.7.3 and 3.7.4).
  bool IsInGcHead(ptrdiff_t index) const {
    const ptrdiff_t words = context_.layout.gc_head_bytes / 8;
    for (ptrdiff_t distance = words == 4 ? 2 : 1; distance <= words; ++distance) {
      if (HasGcHead(index + distance)) return true;
    }
    return false;
  }

  bool IsHash(ptrdiff_t index) const {
    const auto hash = At(index);
    if (!hash || (hash->parent == kNoHash) == (hash->worker == kNoHash)) return false;
    const std::optional<TypeTraits> type = TypeOfHead(index - kHashWord);
    return type && type->caches_hash;
  }

  const PageContext& context_;
  absl::Span<const uint64_t> parent_, worker_;
};

}  // namespace

std::optional<HeadLayout> HeadLayoutOf(const Interpreter& interpreter) {
  const PythonLayout& layout = interpreter.layout;
  if (!layout.usable || interpreter.free_threaded || layout.free_threaded || interpreter.trace_refs ||
      interpreter.type_type == 0 || layout.gc_head_bytes == 0) {
    return std::nullopt;
  }
  return HeadLayout{.gc_head_bytes = layout.gc_head_bytes, .count_has_flags = layout.minor >= 14};
}

TypeTraits TraitsOf(uint64_t tp_flags, uint32_t minor) {
  const uint64_t hashed = kUnicodeSubclass | kBytesSubclass | (minor >= 14 ? kTupleSubclass : 0);
  return {.has_gc = (tp_flags & kHasGc) != 0,
          .is_metatype = (tp_flags & kTypeSubclass) != 0,
          .on_heap = (tp_flags & kHeapType) != 0,
          .caches_hash = (tp_flags & hashed) != 0};
}

TypeLookup LookUpIn(TypeReader& types, uint32_t minor) {
  // Shared, because std::function copies its target.
  auto known = std::make_shared<absl::flat_hash_map<uint64_t, std::optional<TypeTraits>>>();
  return [&types, minor, known](uint64_t address) {
    const auto [entry, is_new] = known->try_emplace(address);
    if (is_new) {
      const std::optional<TypeInfo> info = types.Read(address);
      if (info) entry->second = TraitsOf(info->flags, minor);
    }
    return entry->second;
  };
}

PageDiff ComparePages(const PageContext& context, absl::Span<const uint64_t> parent_page,
                      absl::Span<const uint64_t> worker_page) {
  if (parent_page.size() != worker_page.size()) return PageDiff::kData;
  const Comparison comparison(context, parent_page, worker_page);
  std::array<size_t, kCountOf<PageDiff>> words = {};
  for (size_t i = 0; i < parent_page.size(); ++i) {
    if (parent_page[i] == worker_page[i]) continue;
    const PageDiff kind = comparison.Classify(i);
    if (kind == PageDiff::kData) return kind;
    ++words[static_cast<size_t>(kind)];
  }
  // The first maximum; without differing words all are 0 and the first is kIdentical.
  return static_cast<PageDiff>(std::max_element(words.begin(), words.end()) - words.begin());
}

bool NeedsNeighbours(absl::Span<const uint64_t> parent_page, absl::Span<const uint64_t> worker_page) {
  const size_t edge = std::min({kNeighbourWords, parent_page.size(), worker_page.size()});
  return parent_page.first(edge) != worker_page.first(edge) || parent_page.last(edge) != worker_page.last(edge);
}

}  // namespace cowprof
