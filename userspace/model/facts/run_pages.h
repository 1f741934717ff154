// Adds to the model of a run where copies happened: regions of address spaces, copied pages in them, and copy sites.
#ifndef COWPROF_MODEL_FACTS_RUN_PAGES_H_
#define COWPROF_MODEL_FACTS_RUN_PAGES_H_

#include "model/facts/run_model.h"

namespace cowprof {

// What is of a process that was not announced, or of an unknown region or site, is left out. Pages that lie in no
// region are, too.
void AppendRegions(const Sample& sample, RunModel* model);
void AppendCopySites(const Sample& sample, RunModel* model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_RUN_PAGES_H_
