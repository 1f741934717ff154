// What each capability gives cowprof, whether it is held, and what is missing without it: the table that `doctor`
// shows. docs/privileges.md has the same table; tests compare it with what really happens.
#ifndef COWPROF_RECORDER_CAPABILITY_FACTS_H_
#define COWPROF_RECORDER_CAPABILITY_FACTS_H_

#include <string>
#include <vector>

namespace cowprof {

struct CapabilityFact {
  const char *name, *gives, *without;
  bool held = false;  // or another that gives the same; effective on the host, not in another user namespace only
};
std::vector<CapabilityFact> ReadCapabilityFacts();

// The same as a paragraph for the terminal.
std::string CapabilityText(const std::vector<CapabilityFact>& facts);

}  // namespace cowprof

#endif  // COWPROF_RECORDER_CAPABILITY_FACTS_H_
