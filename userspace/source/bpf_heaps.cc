#include "source/bpf_heaps.h"

#include <utility>

namespace cowprof {

// The probes use a process's notes until it calls exec, which replaces its memory, or forks. It may live long after
// that, and every command of a shell calls exec.
void BpfHeaps::Look(const cowprof_process_row& row, bool ended) {
  if (row.vforked) return;  // nothing was noted
  const bool in_use = row.heap == COWPROF_HEAP_WALKED || row.heap == COWPROF_HEAP_PARTLY;
  const bool noted = in_use || row.heap == COWPROF_HEAP_FORGOTTEN || row.execs != 0;
  if (!noted || (in_use && !ended)) return;
  const bool is_new = ended ? deleted_.erase(row.serial) == 0 : deleted_.insert(row.serial).second;
  if (is_new) useless_.insert(row.serial);
}

// Rows are told apart by serial only.
absl::Status BpfHeaps::MakeRoom(cowprof_probes& skeleton) {
  const absl::flat_hash_set<uint32_t> serials = std::exchange(useless_, {});
  if (serials.empty()) return absl::OkStatus();
  static_assert(sizeof(cowprof_freed_pages) == sizeof(cowprof_freed_words));
  for (const bpf_map* table : {skeleton.maps.freed, skeleton.maps.freed_parts}) {
    const auto rows = ReadHash<uint64_t, cowprof_freed_pages>(bpf_map__fd(table), "freed memory");
    if (!rows.ok()) return rows.status();
    for (const auto& [key, unused] : *rows) {
      if (serials.contains(static_cast<uint32_t>(key >> 36))) bpf_map_delete_elem(bpf_map__fd(table), &key);
    }
  }
  return absl::OkStatus();
}

}  // namespace cowprof
