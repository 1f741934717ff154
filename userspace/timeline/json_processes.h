// The part of a sample record that says how each process stands: counters, figures of /proc, causes, what Python tells,
// roll-ups and sweeps. Owns the keys of this part; json_timeline owns the record. Pure.
#ifndef COWPROF_TIMELINE_JSON_PROCESSES_H_
#define COWPROF_TIMELINE_JSON_PROCESSES_H_

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "model/facts/sample.h"

namespace cowprof {

// Appends `,"processes":[...],...` without rows that did not change since `written`, which holds processes by index,
// and without the lists that are empty. Brings `written` up to date: without the processes that ended.
void EncodeProcesses(const Sample& sample, std::map<int, ProcessSample>* written, std::string* out);
// The reverse: applies what changed to `processes`, and makes them the sample's. Removes those that ended, which are in
// this sample for the last time: decode its events first.
void DecodeProcesses(const nlohmann::ordered_json& record, std::map<int, ProcessSample>* processes, Sample* sample);

// For the header: the columns of each kind of row. In two parts, since existing files list those of limits in between.
nlohmann::ordered_json NamesOfProcessColumns();
nlohmann::ordered_json NamesOfPythonColumns();

}  // namespace cowprof

#endif  // COWPROF_TIMELINE_JSON_PROCESSES_H_
