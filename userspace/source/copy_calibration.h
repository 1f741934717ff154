// What a copy costs here: the "copy tax" is copies x this. Called once by `record`, before the probes are there.
#ifndef COWPROF_SOURCE_COPY_COST_H_
#define COWPROF_SOURCE_COPY_COST_H_

#include <cstdint>

namespace cowprof {

// Nanoseconds of CPU time that one copy-on-write copy of a page takes, its fault included: a forked child of ours
// writes to pages that it shares with us, and the least of a few rounds counts. Takes about 10 ms. 0 if it can't be
// measured.
double ReadCopyCost(uint64_t page_bytes);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_COPY_COST_H_
