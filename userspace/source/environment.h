// A process's place in a distributed job, from its environment: an allow-list of variables that launchers set. Pure; no
// other variable is kept, looked at by its value, or passed on.
#ifndef COWPROF_SOURCE_ENVIRONMENT_H_
#define COWPROF_SOURCE_ENVIRONMENT_H_

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "model/facts/identity.h"

namespace cowprof {

inline constexpr size_t kLongestVariable = 300;          // bytes of "NAME=VALUE" that are worth reading
inline constexpr size_t kMaxEnvironmentBytes = 1 << 20;  // of /proc/PID/environ: the target may have any amount

// The variables of the allow-list that a process has.
using JobVariables = std::map<absl::string_view, std::string>;

// Adds the variable, "NAME=VALUE", if the allow-list has its name. As in getenv(3), the first of two counts.
void AddVariable(absl::string_view variable, JobVariables* variables);

// Of /proc/PID/environ: each variable ends in a NUL.
JobVariables ParseEnvironment(absl::string_view text);

// A rank is a number below a million, and below the size of the job where that is known; otherwise it is not taken for
// one. Takes all numbers from one launcher. Of a process that Lightning's own launcher started on another host than the
// first, only the local rank is known. `before`: what the process was; at the end of a training Lightning removes
// WORLD_SIZE, and what is left looks like a script's.
RankFacts RankFactsOf(const JobVariables& variables, const RankFacts& before = {});

}  // namespace cowprof

#endif  // COWPROF_SOURCE_ENVIRONMENT_H_
