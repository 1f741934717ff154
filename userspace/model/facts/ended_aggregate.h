// Rows of many: ended processes that are no longer told one by one, summed up, so that a recording's memory does not
// grow with every process that ever lived. Called by growth.cc at the end of each sample; read by whoever sums all
// rows.
#ifndef COWPROF_MODEL_FOLD_H_
#define COWPROF_MODEL_FOLD_H_

#include "model/growth.h"

namespace cowprof {

// Where more processes have ended than a quarter above `most_ended`, sums up all but that many. What stays: the first
// ones that were followed, those that were killed, and of the others those that had most.
void Fold(Growth* growth);

// Every process, alone or in a row of many.
template <typename Visit>
void ForEachRow(const Growth& growth, const Visit& visit) {
  for (const ProcessGrowth& process : growth.processes) visit(process);
  for (const ProcessGrowth& row : growth.folded) visit(row);
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_FOLD_H_
