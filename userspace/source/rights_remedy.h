// What to type to give cowprof the rights that it lacks: its own command line again, with sudo, or what its container
// must be started with. For messages only: a command line does not belong into a recording.
#ifndef COWPROF_SOURCE_RIGHTS_REMEDY_H_
#define COWPROF_SOURCE_RIGHTS_REMEDY_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "posix/rights.h"

namespace cowprof {

enum class Container { kNone, kDocker, kPodman, kKubernetes, kUnknown };  // kUnknown: one, of whatever kind

struct Caller {
  std::vector<std::string> words;  // of cowprof's command line
  bool root = false;               // or what the namespace takes for it
  bool host_users = true;          // otherwise capabilities end at its user namespace
  Container container = Container::kNone;
  CapabilitySet bounding = ~CapabilitySet{0};  // what root has here at most
};
Caller ReadCaller();

// One word for a POSIX shell.
std::string ShellQuoted(absl::string_view word);
// "sudo $(command -v cowprof) --attach 4711". "": the words are too long for a message, or not printable.
std::string SudoLine(const Caller& caller);
// An imperative without a final period. `capabilities`: those that are missing, such as "CAP_BPF".
std::string RightsRemedy(const Caller& caller, const std::vector<std::string>& capabilities);

}  // namespace cowprof

#endif  // COWPROF_SOURCE_RIGHTS_REMEDY_H_
