// Decodes the records of the event ring buffer. Pure.
#ifndef COWPROF_SOURCE_BPF_EVENTS_H_
#define COWPROF_SOURCE_BPF_EVENTS_H_

#include <cstddef>
#include <optional>

#include "source/fault_source.h"

namespace cowprof {

// nullopt: not an event. Forks and exits come from the table's rows, which a full ring buffer can't lose.
std::optional<SeenEvent> SeenEventOf(const void* record, size_t size);

// What a process was at `now`, by a row that was read later. kNotYet: forked since, or its fork is being written down.
enum class RowState { kNotYet, kLiving, kEnded };
RowState StateAt(uint64_t now, const cowprof_process_row& row);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_EVENTS_H_
