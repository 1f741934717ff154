// Which parts an address space has: pymalloc arenas one by one, the brk heap, anonymous mappings, private files,
// stacks. Counts no page and keeps nothing.
#ifndef COWPROF_ATTRIBUTION_REGIONS_H_
#define COWPROF_ATTRIBUTION_REGIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "model/facts/sample.h"
#include "python/memory_reader.h"
#include "source/pagemap.h"
#include "source/procfs.h"

namespace cowprof {

// Classifies mappings, in the order of their addresses. Leaves out shared and unreadable ones and the kernel's own
// ("[vdso]"); adjacent pieces of one file become one region. Two answers are guesses, since maps doesn't say: a
// thread's stack (writable anonymous memory of 16 KiB to 64 MiB right above an inaccessible anonymous mapping of at
// most 64 KiB, as pthread_create of glibc and musl lay it out) and a module's zeroed data (anonymous memory of at most
// 16 MiB right behind a mapping of a file that also has code: "libc.so.6 (bss)").
std::vector<Region> ClassifyMappings(const std::vector<Mapping>& mappings);

// Finds the arenas of pymalloc in anonymous regions and puts each in as a region of its own, named "" and starting at
// its first pool. The rest keeps its kind, except that what follows an arena in a stack or a bss was neither and
// becomes kMmap. `pool_bytes`: Interpreter::pool_bytes; `arena_bytes`: 64 times that on every CPython from 3.6 to 3.14.
// Unchanged if pool_bytes is 0. Reads two headers an arena (48 bytes each), some more where a row of arenas begins, and
// two for each `arena_bytes` of other memory: hand in a PresentMemory. Arenas that are swapped out are not found. Takes
// any bytes: what the target writes meanwhile may hide an arena, or fake one, until the next call.
std::vector<Region> SplitArenas(const std::vector<Region>& regions, const MemoryReader& memory, uint64_t pool_bytes,
                                uint64_t arena_bytes);

// Numbers the regions of one address space (and of those forked from it) for sweeps. A region's number is its place in
// *known, and stays the same as long as its start and kind do. Appends new regions, updates ends and names, and keeps
// those that are gone. Returns the ranges of `now`; a region has none if kMaxRanges are known already.
std::vector<AddressRange> NumberRegions(const std::vector<Region>& now, std::vector<Region>* known);

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_REGIONS_H_
