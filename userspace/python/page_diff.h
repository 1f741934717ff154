// Compares a worker's copy of a page with the parent's page, word by word: they are identical, differ only in what
// CPython writes when it reads (reference counts, GC heads, cached hashes), or differ in data. Pure; knows neither
// processes nor the cause that a probe found.
#ifndef COWPROF_PYTHON_PAGE_DIFF_H_
#define COWPROF_PYTHON_PAGE_DIFF_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "model/facts/enum_names.h"
#include "python/interpreter.h"
#include "python/objects.h"

namespace cowprof {

// A page with several kinds of differing words gets the most frequent kind, except that a single word of data makes it
// kData. Ties are decided by the order below.
enum class PageDiff { kIdentical, kRefcountOnly, kGcHeaderOnly, kHashOnly, kData };
template <>
inline constexpr auto kNamesOf<PageDiff> = NamesFor<PageDiff>("identical", "refcount_only", "gc_header_only",
                                                              "hash_only", "data");

// How the words around an object's head are laid out; depends on the version.
struct HeadLayout {
  uint32_t gc_head_bytes = 16;  // before an object of a GC type; 24 or 32 up to 3.7
  // 3.14: the upper 16 bits of the count's word are flags that never change (Include/refcount.h); 0 before.
  bool count_has_flags = false;
};

// nullopt: unsupported build (free-threaded: counts and GC bits share a word; Py_TRACE_REFS: list links before the
// count; unknown version). Of its pages it can only be said whether they are identical.
std::optional<HeadLayout> HeadLayoutOf(const Interpreter& interpreter);

// The properties of a type that determine the words around its instances.
struct TypeTraits {
  bool has_gc = false;       // instances have a GC head ...
  bool is_metatype = false;  // ... but instances that are types only if `on_heap`: static types have none
  bool on_heap = false;      // the type itself was allocated, not static
  bool caches_hash = false;  // in the word at +24: str, bytes, tuple since 3.14, and their subclasses
};
TypeTraits TraitsOf(uint64_t tp_flags, uint32_t minor);

// The type at an address, if it is one. Called several times per differing word, so it should be fast.
using TypeLookup = std::function<std::optional<TypeTraits>(uint64_t)>;
// Asks `types` once per address and caches the answer, for one look at one process. `types` must outlive it.
TypeLookup LookUpIn(TypeReader& types, uint32_t minor);

// An object's head may be on the page before its hash, its type on the page after its count. The farthest case: the
// type of an object whose 32-byte GC head begins in the last word of the page.
inline constexpr size_t kNeighbourWords = 5;
struct PageNeighbours {
  using Words = std::optional<std::array<uint64_t, kNeighbourWords>>;  // nullopt: unreadable, or not needed
  Words before, after;                                                 // ascending addresses, adjacent to the page
};

struct PageContext {
  uint64_t address = 0;  // of the page, the same in both processes
  HeadLayout layout;
  TypeLookup types;               // empty: no Python in the process, so that every difference is data
  PageNeighbours parent, worker;  // may differ as well
};

// Both pages have the same number of words; 512 in practice, but any number works. A differing word is
//   a refcount, if the next word is the same type in both processes and both values can be counts;
//   part of a GC head, if the object that belongs to it follows, the same in both processes;
//   a cached hash, if it is at +24 of a str, bytes or tuple (3.14) and -1 in one of the two, mostly the parent, which
//     keeps running after the fork and may have written its page as well;
//   otherwise data: an object's contents, pool headers and free lists of the allocator, inline caches of bytecode, and
//     words that can't be verified because a neighbour is missing. So the harmless shares are never overstated.
PageDiff ComparePages(const PageContext& context, absl::Span<const uint64_t> parent_page,
                      absl::Span<const uint64_t> worker_page);

// Whether ComparePages() would use the neighbours: a word close enough to an end of the page differs.
bool NeedsNeighbours(absl::Span<const uint64_t> parent_page, absl::Span<const uint64_t> worker_page);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PAGE_DIFF_H_
