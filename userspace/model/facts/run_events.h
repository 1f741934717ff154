// Adds events to the model of a run: who came, what it runs, how it ended.
#ifndef COWPROF_MODEL_FACTS_RUN_EVENTS_H_
#define COWPROF_MODEL_FACTS_RUN_EVENTS_H_

#include "model/facts/run_model.h"

namespace cowprof {

// nullptr if the process was not announced yet.
ProcessModel* Announced(int index, RunModel* model);
// Makes room for the processes that start in this sample. Before AppendEvent().
void Announce(const Sample& sample, RunModel* model);
// One of a process that was not announced is dropped.
void AppendEvent(const Event& event, RunModel* model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_RUN_EVENTS_H_
