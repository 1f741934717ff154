// Rows of many: ended processes that are no longer told one by one, summed up, so that a recording's memory does not
// grow with every process that ever lived. Called by run_model.cc at the end of each sample; read by whoever sums all
// rows.
#ifndef COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_
#define COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_

#include "model/facts/run_model.h"

namespace cowprof {

// Where more processes have ended than a quarter above `most_ended`, sums up all but that many. What stays: the first
// ones that were followed, those that were killed, and of the others those that had most.
void AggregateEnded(RunModel* model);

// Every process, alone or in a row of many.
template <typename Visit>
void ForEachRow(const RunModel& model, const Visit& visit) {
  for (const ProcessModel& process : model.processes) visit(process);
  for (const ProcessModel& row : model.ended_aggregates) visit(row);
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_
