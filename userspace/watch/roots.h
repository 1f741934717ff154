// Which processes are roots of training runs, from what was seen of all that may be part of one. Pure.
#ifndef COWPROF_WATCH_ROOTS_H_
#define COWPROF_WATCH_ROOTS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "model/facts/identity.h"
#include "model/facts/process_id.h"

namespace cowprof {

enum class Why : uint32_t { kRank, kForks, kMatch };

// A process that was looked at.
struct SeenProcess {
  ProcessId id;
  pid_t parent = 0;
  uid_t user = 0;
  bool execed = false;  // since it was forked
  bool python = false;
  bool ranked = false;         // its environment has a rank
  bool matches = false;        // --match
  Duty duty = Duty::kUnknown;  // by its frames
  StartMethod start = StartMethod::kUnknown;
  std::optional<Why> was;  // a root before: between two epochs it keeps no workers
};

struct Root {
  ProcessId id;
  uid_t user = 0;
  Why why = Why::kRank;
  bool operator==(const Root&) const = default;
};

// Oldest first. Descendants of a root are never roots themselves. A root by its rank or its workers is the process
// that was executed, not a child that it forked.
std::vector<Root> FindRoots(const std::vector<SeenProcess>& seen);

}  // namespace cowprof

#endif  // COWPROF_WATCH_ROOTS_H_
