// Finds glibc's malloc in a process: the lists of free chunks of its first arena, which has no symbol in stripped
// libraries.
#ifndef COWPROF_ATTRIBUTION_MALLOC_LISTS_H_
#define COWPROF_ATTRIBUTION_MALLOC_LISTS_H_

#include <optional>
#include <vector>

#include "cowprof.h"
#include "python/memory_reader.h"
#include "source/proc_text.h"

namespace cowprof {

// Searches the writable data of libc.so, or of the executable where none is mapped (a static program), for an array of
// 127 lists whose links all agree, which `next` of struct malloc_state follows (malloc/malloc.c, glibc 2.26 to 2.43).
// nullopt: another allocator, or nothing was allocated yet. `memory`: only what is present (PresentMemory); the
// process may change it meanwhile.
std::optional<cowprof_malloc> FindMallocLists(const std::vector<Mapping>& mappings, const MemoryReader& memory);

}  // namespace cowprof

#endif  // COWPROF_ATTRIBUTION_MALLOC_LISTS_H_
