// Why and where pages were copied, as plain data: causes, sites in the program, regions and pages of an address space.
// Part of a Sample (model/facts/sample.h). No I/O, no clock, no pointers.
#ifndef COWPROF_MODEL_FACTS_COPY_SITE_H_
#define COWPROF_MODEL_FACTS_COPY_SITE_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "model/facts/enum_names.h"

namespace cowprof {

// Of frames, of sites and of regions: a reader of a recording takes no more of each.
inline constexpr int kMostNumbers = 1'000'000;

// Why a page was copied: what the first write to it hit.
enum class Cause {
  kRefcount,   // the reference count of a live object, which was only read
  kGcHeader,   // the collector's header before an object, during a collection
  kAllocator,  // pymalloc: a pool's header, a free block, an object of a free list
  kBytecode,   // instructions that specialise themselves
  kHash,       // a hash that the object caches once it is computed
  kData,       // the contents of an object, or memory that is not an object
  kFree,       // an object was released: its last reference went, or it left the collector's list
  kKernel,     // the kernel wrote, in a system call
  kUnknown,
  kNativeRefcount,  // the reference count of a C++ object, such as a torch tensor's
  kMallocReuse,     // memory that glibc's malloc had free when the process was forked. Last: recordings number causes
};
template <>
inline constexpr auto kNamesOf<Cause> = NamesFor<Cause>("refcount", "gc_header", "allocator", "bytecode", "hash",
                                                        "data", "free", "kernel", "unknown", "native_refcount",
                                                        "malloc_reuse");
inline constexpr int kCauses = kCountOf<Cause>;
using CauseCounts = std::array<uint64_t, kCauses>;  // copies, by Cause

// Copies by all causes together.
inline uint64_t Sum(const CauseCounts& counts) { return std::accumulate(counts.begin(), counts.end(), uint64_t{0}); }

inline void Add(const CauseCounts& counts, CauseCounts* sum) {
  for (size_t cause = 0; cause < counts.size(); ++cause) (*sum)[cause] += counts[cause];
}

// How the causes were found: by reading memory at the copy (`looked`), or by an instruction that always writes the same
// field (`told`). One in a few copies by such instructions is read all the same (`audited`); `contradicted` counts
// those with another cause.
struct CauseEvidence {
  uint64_t looked = 0, told = 0, audited = 0, contradicted = 0;
  bool operator==(const CauseEvidence&) const = default;
};

// A line of Python. `file` is as the interpreter spells it.
struct Frame {
  std::string file, function;
  int line = 0;  // 0: unknown
  auto operator<=>(const Frame&) const = default;
};

// What was written, by which native code and on which line. Copies that agree in all of these share one site.
struct CopySite {
  Cause cause = Cause::kUnknown;
  std::string type;            // of the object that was written; "": none
  std::string module, symbol;  // native code: file and function; "": not known
  std::vector<int> frames;     // the Python stack, innermost first, as frame numbers
  bool operator==(const CopySite&) const = default;
};

// Copies of one process at one site, cumulative: `samples` sampled copies that stand for `copies`. `squares`: the sum
// of the squares of what each sample stands for; copies^2 / squares is the effective sample size.
struct CopySiteCount {
  int index = 0;  // of the process
  int copy_site = 0;
  uint64_t copies = 0, samples = 0, squares = 0;
  bool operator==(const CopySiteCount&) const = default;
};

// Where new memory was touched first: the Python stack, innermost first, as frame numbers. Of an import, only the
// innermost frame of the import system and what called it.
struct GrowthSite {
  std::vector<int> frames;
  bool operator==(const GrowthSite&) const = default;
};

// New pages of one process at one site, cumulative: `samples` sampled pages that stand for `pages`, whether or not they
// were freed later.
struct GrowthCount {
  int index = 0;  // of the process
  int site = 0;
  uint64_t pages = 0, samples = 0;
  bool operator==(const GrowthCount&) const = default;
};

// `pages` adjacent pages of one process that were copied by the same cause since the last record of pages.
struct PageRun {
  int index = 0;
  Cause cause = Cause::kUnknown;
  uint64_t first_page = 0;  // address / page size
  uint64_t pages = 0;
  bool operator==(const PageRun&) const = default;
};

enum class RegionKind { kPymallocArena, kHeap, kMmap, kFile, kStack, kOther };
template <>
inline constexpr auto kNamesOf<RegionKind> = NamesFor<RegionKind>("pymalloc-arena", "heap", "mmap", "file", "stack",
                                                                  "other");

// A part of an address space that can hold private pages.
struct Region {
  RegionKind kind = RegionKind::kOther;
  std::string name;             // file: base name; "[heap]", "[stack]", "thread stack", "[anon:...]"; "" if it has none
  uint64_t start = 0, end = 0;  // bytes; end is exclusive
  bool operator==(const Region&) const = default;
};

// A region of the address space of process `index`, which the processes forked from it keep until they call exec.
struct NumberedRegion {
  int index = 0;
  Region region;
  bool operator==(const NumberedRegion&) const = default;
};

// A region that has become larger than it was known to be, as the heap does while data is loaded; or that is there
// again, where others were in between.
struct GrownRegion {
  int region = 0;  // number, in order of appearance
  uint64_t bytes = 0;
  bool operator==(const GrownRegion&) const = default;
};

// Pages of one process in one region, as its last sweep found them; see SweepFigures.
struct RegionCount {
  int index = 0;
  int region = 0;  // number, in order of appearance
  uint64_t private_pages = 0, shared_pages = 0, diverged_pages = 0, same_pages = 0, new_pages = 0;
  bool operator==(const RegionCount&) const = default;
};

// How many pages of a region have heads of Python objects (reference count and type); reading an object writes its
// head. Of `pages` pages examined, `with_heads` had any; `heads` is the total, where a page counts for two at most.
struct RegionHeads {
  int region = 0;
  uint64_t pages = 0, with_heads = 0, heads = 0;
  bool operator==(const RegionHeads&) const = default;
};

// A sample of the pages that a worker no longer shares with its parent, compared byte by byte; cumulative.
struct VerifyFigures {
  uint64_t pages = 0;
  uint64_t identical = 0, refcount_only = 0, gc_header_only = 0, hash_only = 0, data = 0;
  bool operator==(const VerifyFigures&) const = default;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_COPY_SITE_H_
