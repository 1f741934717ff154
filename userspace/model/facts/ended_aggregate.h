// Aggregates: ended processes that are no longer listed one by one but summed up, so that the memory of a recording
// does not grow with every process that ever lived.
#ifndef COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_
#define COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_

#include "model/facts/run_model.h"

namespace cowprof {

// Once more than 1.25 * `most_ended` processes have ended, sums up all but `most_ended` of them. Keeps the first
// processes that were followed, then those that ended badly, then those that had most memory. Those that ended in the
// last sample stay until the next one: who is told of their ends after this asks the model how they ended.
void AggregateEnded(RunModel* model);

// Visits every process, listed or aggregated.
template <typename Visit>
void ForEachRow(const RunModel& model, const Visit& visit) {
  for (const ProcessModel& process : model.processes) visit(process);
  for (const ProcessModel& row : model.ended_aggregates) visit(row);
}

// Sums up those that have ended since the last call. Call before a sample is added, and only then.
void SettleEnded(RunModel* model);

// Of what they inherited, in pages: of all workers, ended or not.
uint64_t CopiesOfWorkers(const RunModel& model);

// SumOf() of the living processes and of all, at once: it is asked at each sample.
struct LivingAndAll {
  Totals living, all;
};
LivingAndAll SumsOf(const RunModel& model);

// Visits those that were alive at some time since the sample before the last; all, in a model not made of samples.
template <typename Model, typename Visit>
void ForEachLately(Model& model, const Visit& visit) {
  if (!model.accounts_for_all()) {
    for (auto& process : model.processes) visit(process);
    return;
  }
  for (const int index : model.lately) visit(*model.Find(index));
}

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_ENDED_AGGREGATE_H_
