// Estimates how many pages of a region contain heads of Python objects, that is a reference count and a type. Reading
// an object writes its head; the other pages of a large object are never copied by reading. Samples a bounded number
// of pages.
#ifndef COWPROF_PYTHON_OBJECT_HEADS_H_
#define COWPROF_PYTHON_OBJECT_HEADS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "model/facts/sample.h"
#include "python/memory_reader.h"
#include "python/page_diff.h"

namespace cowprof {

// The head of an object in a piece of memory: the index of its reference count in words, and its type.
struct ObjectHead {
  size_t word = 0;
  uint64_t type = 0;
  TypeTraits traits;
};
// Heads of objects that are not immortal, in a piece of memory whose address is a multiple of 16. So are
// theirs, or of 8 where GC heads have 24 bytes.
std::vector<ObjectHead> FindHeads(absl::Span<const uint64_t> words, const HeadLayout& layout, const TypeLookup& types);

// Their number: words that can be a reference count, followed by the address of a type.
uint64_t CountHeads(absl::Span<const uint64_t> words, const HeadLayout& layout, const TypeLookup& types);

// Reads at most 256 pages, spread over the region. `region` of the result is 0.
RegionHeads LookForHeads(const Region& region, uint64_t page_bytes, const MemoryReader& memory,
                         const HeadLayout& layout, const TypeLookup& types);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_OBJECT_HEADS_H_
