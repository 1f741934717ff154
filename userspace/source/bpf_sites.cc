#include "source/bpf_sites.h"

#include <algorithm>

#include "posix/clock.h"

namespace cowprof {
namespace {

// A thread takes up to 500 samples of copies a second, and 200 of new memory, each of which may bring back a stack.
constexpr absl::Duration kClearEvery = absl::Seconds(2);

}  // namespace

BpfSites::BpfSites(cowprof_probes& skeleton)
    : skeleton_(skeleton),
      copy_stacks_{.map = bpf_map__fd(skeleton.maps.stacks), .room = COWPROF_MAX_STACKS},
      growth_stacks_{.map = bpf_map__fd(skeleton.maps.growth_stacks), .room = COWPROF_MAX_GROWTH_STACKS} {}

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
    ++table->read;
    return {value.frames, value.frames + std::min<uint32_t>(value.depth, COWPROF_MAX_FRAMES)};
  }
  return {};
}

void BpfSites::ForgetStacks(const absl::flat_hash_set<uint64_t>& stacks) {
  const absl::Duration now = ReadClock(CLOCK_MONOTONIC);
  for (StackTable* table : {&copy_stacks_, &growth_stacks_}) {
    table->told.insert(stacks.begin(), stacks.end());
    if (table->told.empty() || (table->read < table->room / 4 && now < table->next)) continue;
    const auto rows = ReadHash<uint64_t, cowprof_stack>(table->map, "stacks");
    if (!rows.ok()) continue;
    for (const auto& [key, unused] : *rows) {
      if (table->told.contains(key)) bpf_map_delete_elem(table->map, &key);
    }
    table->told.clear();
    table->read = 0;
    table->next = now + kClearEvery;
  }
}

}  // namespace cowprof
