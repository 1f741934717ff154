// What it takes to pickle all items into one buffer, each by itself: the fix that cow-refcount proposes.
#ifndef COWPROF_MODEL_JUDGE_PACKING_H_
#define COWPROF_MODEL_JUDGE_PACKING_H_

#include <cstdint>
#include <string>

#include "model/judge/diagnosis_facts.h"

namespace cowprof {

// The container of which workers are sent most objects; null: it was not read, or is none.
const PickleItems* ItemsOf(const Facts& facts);

// What the buffer would hold, by a sample of the items. 0: not known.
uint64_t PackedBytes(const Facts& facts);

// Whether the items are the values of a dict.
bool AreReadByKey(const Facts& facts);

// Items that share objects: a buffer in which each has its own would be three times as large as they are now, or
// larger, and this says so.
// "": it would not be, or it is not known.
std::string WhyNotPacked(const Facts& facts);

// What to keep instead of many objects that all read.
std::string AdviceOnItems(const Facts& facts);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_PACKING_H_
