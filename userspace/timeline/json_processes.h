// The part of a sample record that says how each process stands: counters, figures of /proc, causes, what Python tells,
// roll-ups and sweeps. Owns the keys of this part; json_timeline owns the record. Pure.
#ifndef COWPROF_TIMELINE_JSON_PROCESSES_H_
#define COWPROF_TIMELINE_JSON_PROCESSES_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/facts/sample.h"

namespace cowprof {

struct SampleRecord;

// Appends `,"processes":[...],...` without rows that did not change since `written`, which holds processes by index,
// and without the lists that are empty. Brings `written` up to date: without the processes that ended.
void EncodeProcesses(const Sample& sample, std::map<int, ProcessSample>* written, std::string* out);
// Removes the processes that ended in this sample, which is the last to have them.
void DropEnded(Sample* sample);
// The reverse of EncodeProcesses: applies what changed to `processes`, which are those of the sample before, sorted by
// index.
void DecodeProcesses(const SampleRecord& record, std::vector<ProcessSample>* processes);

// For the header: the columns of each kind of row. In two parts, since existing files list those of limits in between.
nlohmann::ordered_json NamesOfProcessColumns();
nlohmann::ordered_json NamesOfPythonColumns();

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_PROCESSES_H_
