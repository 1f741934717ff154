// The time that pickle.loads() takes for an item, from the kinds of objects in it and rates that were measured on
// another host. Pure.
#ifndef COWPROF_MODEL_ESTIMATE_UNPICKLE_COST_H_
#define COWPROF_MODEL_ESTIMATE_UNPICKLE_COST_H_

#include <optional>

#include "absl/strings/string_view.h"
#include "model/estimate/pickle_cost.h"
#include "model/facts/pickle_mix.h"

namespace cowprof {

// CPU time of the average item, with both ends; `python`: "3.11.2". nullopt: no rates are known for that version, or
// for a kind that the items hold.
std::optional<SecondsRange> ItemTimeOf(const PickleItems& items, absl::string_view python);

}  // namespace cowprof

#endif  // COWPROF_MODEL_ESTIMATE_UNPICKLE_COST_H_
