// Spells the keys of losses.
#include "timeline/json_losses.h"

#include "timeline/json_fields.h"

namespace cowprof {
namespace {

constexpr struct {
  const char* name;
  uint64_t Losses::*value;
} kLosses[] = {{"events_dropped", &Losses::events_dropped},
               {"processes_dropped", &Losses::processes_dropped},
               {"unattributed_copies", &Losses::unattributed_copies},
               {"regions_dropped", &Losses::regions_dropped},
               {"unclassified_copies", &Losses::unclassified_copies},
               {"unplaced_copies", &Losses::unplaced_copies},
               {"unplaced_new_pages", &Losses::unplaced_new_pages},
               {"heaps_dropped", &Losses::heaps_dropped},
               {"pages_dropped", &Losses::pages_dropped},
               {"threads_refused", &Losses::threads_refused},
               {"probes_skipped", &Losses::probes_skipped},
               {"unreadable", &Losses::unreadable},
               {"records_dropped", &Losses::records_dropped}};

}  // namespace

Json EncodeLosses(const Losses& losses) {
  Json json = Json::object();
  for (const auto& loss : kLosses) json[loss.name] = losses.*loss.value;
  return json;
}

Losses DecodeLosses(const Json& json) {
  Losses losses;
  for (const auto& loss : kLosses) losses.*loss.value = NumberOf<uint64_t>(json, loss.name);
  return losses;
}

}  // namespace cowprof
