#include "source/bpf_sites.h"

#include <algorithm>
#include <utility>

namespace cowprof {

absl::StatusOr<std::vector<CopySiteRow>> BpfSites::Pull() {
  const int map = bpf_map__fd(skeleton_.maps.copy_sites);
  const auto rows = ReadHash<cowprof_copy_site_key, cowprof_copy_site>(map, "copy_sites");
  if (!rows.ok()) return rows.status();
  std::vector<CopySiteRow> copy_sites;
  int room = COWPROF_MAX_PLACE_ROWS - static_cast<int>(rows->size());
  for (const auto& [key, copy_site] : *rows) {
    copy_sites.push_back({key.cause.serial, key.cause.image, static_cast<cowprof_shape>(key.cause.shape), key.cause.ip,
                          key.type, key.stack, copy_site.copies, copy_site.samples, copy_site.squares});
    if (ended_.contains(key.cause.serial) && bpf_map_delete_elem(map, &key) == 0) ++room;
  }
  skeleton_.bss->place_rows_left = room / 2;
  const int growth_map = bpf_map__fd(skeleton_.maps.growth);
  const auto growth = ReadHash<cowprof_growth_key, cowprof_growth>(growth_map, "growth");
  if (!growth.ok()) return growth.status();
  for (const auto& [key, row] : *growth) {
    copy_sites.push_back({.serial = key.serial,
                          .image = key.image,
                          .shape = COWPROF_SHAPE_NEW,
                          .stack = key.stack,
                          .copies = row.pages,
                          .samples = row.samples});
    if (ended_.contains(key.serial)) bpf_map_delete_elem(growth_map, &key);
  }
  ended_.clear();
  TakeStacks();
  return copy_sites;
}

// After the rows: a row is added after its stack. A sample that is being taken may have its stack here and its row in
// the next pull.
void BpfSites::TakeStacks() {
  earlier_stacks_ = std::exchange(stacks_, {});
  skeleton_.bss->growth_stacks_kept = 0;
  for (const bpf_map* table : {skeleton_.maps.stacks, skeleton_.maps.growth_stacks}) {
    const auto rows = ReadHash<uint64_t, cowprof_stack>(bpf_map__fd(table), "stacks", bpf_map_lookup_and_delete_batch);
    if (!rows.ok()) continue;  // those that were not taken stay for the next pull
    for (const auto& [key, stack] : *rows) {
      stacks_.try_emplace(key, stack.frames, stack.frames + std::min<uint32_t>(stack.depth, COWPROF_MAX_FRAMES));
    }
  }
}

std::vector<cowprof_frame> BpfSites::ReadStack(uint64_t stack) const {
  for (const auto* stacks : {&stacks_, &earlier_stacks_}) {
    if (const auto found = stacks->find(stack); found != stacks->end()) return found->second;
  }
  return {};
}

}  // namespace cowprof
