// What differs between a worker's copy of a page and the parent's page, word by word: nothing, only what CPython
// writes when it merely reads (reference counts, GC heads, cached hashes), or data. Pure: bytes and a question about
// types go in, a verdict comes out. Called by verify.cc; knows no process and no cause that a probe found.
#ifndef COWPROF_PYTHON_PAGE_DIFF_H_
#define COWPROF_PYTHON_PAGE_DIFF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "python/interpreter.h"
#include "python/objects.h"

namespace cowprof {

// A page with several kinds of differing words is called after the most numerous kind of word, data excepted: one word
// of data makes the page kData. Between equal numbers the order below decides, refcounts first.
enum class PageDiff { kIdentical, kRefcountOnly, kGcHeaderOnly, kHashOnly, kData };
inline constexpr size_t kPageDiffs = 5;
absl::string_view NameOf(PageDiff diff);  // "refcount_only", as in the report

// What a word's place next to an object's head means, by version (facts §3.1).
struct HeadLayout {
  uint32_t gc_head_bytes = 16;  // before an object of a collected type; 32 up to 3.7
  // 3.14: the 16 highest bits of the count's word are flags, and never change; before they are 0 (facts §3.1).
  bool count_has_flags = false;
};

// nullopt: this build is not understood (free-threaded: counts and GC bits share a word; Py_TRACE_REFS: list links
// before the count; no layout of this version). Then nothing can be said of its pages but whether they are identical.
std::optional<HeadLayout> HeadLayoutOf(const Interpreter& interpreter);

// What must be known of a type to understand the words around its instances.
struct TypeTraits {
  bool has_gc = false;       // instances have a GC head ...
  bool is_metatype = false;  // ... but if they are types, only those with `on_heap`: static types have none
  bool on_heap = false;      // the type itself was allocated
  bool caches_hash = false;  // in the word at +24: str and bytes, tuple from 3.14 on, and what derives from them
};
TypeTraits TraitsOf(uint64_t tp_flags, uint32_t minor);

// Whether an address is a type's, and which. Asked several times a differing word, so it should be quick.
using TypeLookup = std::function<std::optional<TypeTraits>(uint64_t)>;
// Asks `types` once an address and keeps the answer: for one look at one process. `types` must outlive it.
TypeLookup LookUpIn(TypeReader& types, uint32_t minor);

// An object's head may lie on the page before its hash, its type on the page after its count. The farthest: the type
// of an object whose 32-byte GC head begins in the last word of the page.
inline constexpr size_t kNeighbourWords = 5;
struct PageNeighbours {
  using Words = std::optional<std::array<uint64_t, kNeighbourWords>>;  // nullopt: couldn't be read, or not wanted
  Words before, after;                                                 // in order of address, adjacent to the page
};

struct PageContext {
  uint64_t address = 0;  // of the page, in both processes
  HeadLayout layout;
  TypeLookup types;               // none: no Python in the process, so that whatever differs is data
  PageNeighbours parent, worker;  // they may differ as the pages do
};

// Both pages have the same number of words; 512 in practice, but any will do. A differing word is
//   a refcount: its successor is the same type in both processes, and both values can be counts;
//   of a GC head: it stands where the head of a collected object is that follows at its place, the same in both;
//   a cached hash: at +24 of a str, bytes or tuple (3.14), -1 in one of the two. Mostly in the parent's; but a parent
//     runs on after the fork, and a page that it wrote has diverged as well;
//   otherwise data: an object's contents, the allocator's pool header and free lists, inline caches of bytecode, and
//     what can't be verified because a neighbour is missing. So the harmless shares never say too much.
PageDiff ComparePages(const PageContext& context, absl::Span<const uint64_t> parent_page,
                      absl::Span<const uint64_t> worker_page);

// Whether ComparePages would look at the neighbours: a word differs that is near enough to an end of the page.
bool NeedsNeighbours(absl::Span<const uint64_t> parent_page, absl::Span<const uint64_t> worker_page);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PAGE_DIFF_H_
