// What each capability gives cowprof, whether it is held, and what happens without: the table that `doctor` shows.
// docs/privileges.md has the same one; tests compare it with what really happens.
#ifndef COWPROF_CAPABILITY_FACTS_H_
#define COWPROF_CAPABILITY_FACTS_H_

#include <string>
#include <vector>

namespace cowprof {

struct CapabilityFact {
  const char *name, *gives, *without;
  bool held = false;  // and counts: those of a user namespace's root don't count for what is the host's
};
std::vector<CapabilityFact> ReadCapabilityFacts();

// One paragraph for the terminal.
std::string CapabilityText(const std::vector<CapabilityFact>& facts);

}  // namespace cowprof

#endif  // COWPROF_CAPABILITY_FACTS_H_
