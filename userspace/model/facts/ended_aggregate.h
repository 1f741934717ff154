// Aggregates: ended processes that are no longer listed one by one but summed up, so that the memory of a recording
// does not grow with every process that ever lived.
#ifndef COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_
#define COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_

#include "model/facts/run_model.h"

namespace cowprof {

// Once more than 1.25 * `most_ended` processes have ended, sums up all but `most_ended` of them. Keeps the first
// processes that were followed, then those that were killed, then those that had most memory.
void AggregateEnded(RunModel* model);

// Visits every process, listed or aggregated.
template <typename Visit>
void ForEachRow(const RunModel& model, const Visit& visit) {
  for (const ProcessModel& process : model.processes) visit(process);
  for (const ProcessModel& row : model.ended_aggregates) visit(row);
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_
