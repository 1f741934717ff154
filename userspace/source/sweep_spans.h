// Which addresses a sweep reads, in pieces of 2 MiB. Spans, since a program may map terabytes that hold nothing. Pure.
#ifndef COWPROF_SOURCE_SWEEP_SPANS_H_
#define COWPROF_SOURCE_SWEEP_SPANS_H_

#include <cstdint>
#include <vector>

#include "source/proc_text.h"

namespace cowprof {

inline constexpr uint64_t kRegionBytes = 2 << 20;

// Addresses, multiples of 2 MiB; `end` is exclusive.
struct AddressSpan {
  uint64_t begin = 0, end = 0;
  bool operator==(const AddressSpan&) const = default;
};

// All of these return spans that ascend and do not touch.
// Every private mapping whose pages can be copies.
std::vector<AddressSpan> SpansToSweep(const std::vector<Mapping>& mappings);
// Of these, anonymous memory in hugetlb pages, as far as the name tells: that of a file on a hugetlbfs could be any.
std::vector<AddressSpan> HugetlbSpans(std::vector<Mapping> mappings);
// Pieces that are given by their addresses, sorted and each once.
std::vector<AddressSpan> SpansOf(const std::vector<uint64_t>& regions);

uint64_t PiecesIn(const std::vector<AddressSpan>& spans);
bool Contains(const std::vector<AddressSpan>& spans, uint64_t address);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_SWEEP_SPANS_H_
