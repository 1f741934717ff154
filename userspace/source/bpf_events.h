// The records of the ring buffer of events, as user space knows them. Pure; called by bpf_faults.cc only, for each
// record.
#ifndef COWPROF_SOURCE_BPF_EVENTS_H_
#define COWPROF_SOURCE_BPF_EVENTS_H_

#include <cstddef>
#include <optional>

#include "source/fault_source.h"

namespace cowprof {

// nullopt: no event of its own. Forks and exits stand in the rows, which a full ring buffer can't lose.
std::optional<SeenEvent> SeenEventOf(const void* record, size_t size);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_EVENTS_H_
