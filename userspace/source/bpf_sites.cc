#include "source/bpf_sites.h"

#include <algorithm>
#include <utility>

namespace cowprof {

BpfSites::BpfSites(cowprof_probes& skeleton)
    : skeleton_(skeleton),
      copy_stacks_{.map = bpf_map__fd(skeleton.maps.stacks), .room = COWPROF_MAX_STACKS, .read = {}},
      growth_stacks_{.map = bpf_map__fd(skeleton.maps.growth_stacks), .room = COWPROF_MAX_GROWTH_STACKS, .read = {}} {}

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
  return copy_sites;
}

std::vector<cowprof_frame> BpfSites::ReadStack(uint64_t stack) {
  cowprof_stack value;
  for (StackTable* table : {&copy_stacks_, &growth_stacks_}) {
    if (bpf_map_lookup_elem(table->map, &stack, &value) != 0) continue;
    table->read.push_back(stack);
    if (table->read.size() >= table->room / 4) {
      for (const uint64_t read : std::exchange(table->read, {})) bpf_map_delete_elem(table->map, &read);
    }
    return {value.frames, value.frames + std::min<uint32_t>(value.depth, COWPROF_MAX_FRAMES)};
  }
  return {};
}

}  // namespace cowprof
