// What no diagnosis explains. As long as there is any, nobody can say that all is well. Pure; part of Judge().
#ifndef COWPROF_MODEL_JUDGE_UNEXPLAINED_H_
#define COWPROF_MODEL_JUDGE_UNEXPLAINED_H_

#include <cstdint>
#include <string>

#include "model/judge/diagnosis_facts.h"

namespace cowprof {

// "2 of 34 workers ended badly: worker 4711 was killed by SIGSEGV, and 1 more."; of the first of them. The same of
// ranks, and of a launcher, or a target without ranks: "The trainer 4700 was killed by SIGKILL from bash (pid 77), and
// 6 processes with it." In the order in which it happened. "": all ended well.
std::string EndsSentence(const RunModel& model, const Findings& findings);

// Of a worker, or of a rank that was forked: what a fork does to children may explain that, but not their parent's end.
bool ChildEndedBadly(const RunModel& model);

// What was copied to be released belongs to no finding. "; releasing objects copied another 300.0 MiB": beside the
// finding that has most copies, `copies`, if these are fewer. "": otherwise.
std::string ReleasedBeside(const Facts& facts, uint64_t copies);
// How to do without; of programs without Python it is not known whether they do. "": as above.
std::string AdviceOnReleasing(const Facts& facts, uint64_t copies);

// Returns a sentence about the worst of what is unexplained of memory: an OOM kill, a process that copied more than
// noise, workers whose pages were not examined or whose past is unknown. "": there is nothing of the kind.
// `facts.findings` needs the sums and the ends.
std::string UnexplainedMemory(const Facts& facts);
// The same, or of bad ends, which come first.
std::string Unexplained(const Facts& facts);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_UNEXPLAINED_H_
