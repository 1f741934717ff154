// How many pages of a region hold heads of Python's objects: the reference count and the type, which a read writes. The
// rest of a large object's pages is never copied by reading. Called by the collector when a worker is forked; looks at
// a bounded number of pages only.
#ifndef COWPROF_PYTHON_OBJECT_HEADS_H_
#define COWPROF_PYTHON_OBJECT_HEADS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "model/sample.h"
#include "python/memory_reader.h"
#include "python/page_diff.h"

namespace cowprof {

// The head of an object in a piece of memory: where its count stands, as a number of words, and what its type is.
struct ObjectHead {
  size_t word = 0;
  uint64_t type = 0;
  TypeTraits traits;
};
// Of objects that are not immortal, in a piece of memory that begins at a multiple of 16.
std::vector<ObjectHead> FindHeads(absl::Span<const uint64_t> words, const HeadLayout& layout, const TypeLookup& types);

// Heads in a piece of memory that begins at a multiple of 16: words that can be a count before the address of a type.
uint64_t CountHeads(absl::Span<const uint64_t> words, const HeadLayout& layout, const TypeLookup& types);

// Of at most 256 pages that are spread over the region, those that could be read. `region` of the result is 0.
RegionHeads LookForHeads(const Region& region, const MemoryReader& memory, const HeadLayout& layout,
                         const TypeLookup& types);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_OBJECT_HEADS_H_
