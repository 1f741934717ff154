// Why a process ended, from evidence: which process sent the signal, which file was behind the address, whose limit the
// OOM killer served. Pure. bpf/signals.h gathers most of the evidence.
#ifndef COWPROF_MODEL_JUDGE_POST_MORTEM_H_
#define COWPROF_MODEL_JUDGE_POST_MORTEM_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/run_model.h"

namespace cowprof {

// The signal that ended a process. A process sent it, and that was seen.
struct FatalSignal {
  absl::Duration t;  // since the start of the recording
  int signal = 0;
  pid_t sender = 0;  // 0: outside of our pid namespace
  bool operator==(const FatalSignal&) const = default;
};

struct PostMortem {
  std::string cause;  // id of the diagnosis that explains it; "": none does
  std::string text;   // "killed by SIGKILL: the OOM killer, limit of cgroup /job"
  std::vector<std::string> evidence;
  // Not as its program ends processes: by exit 0, SIGTERM and the like, or SIGKILL from the parent. An OOM daemon's
  // signals, and those of the timeouts of gunicorn and uvicorn, are a bad end.
  bool badly = false;
  std::optional<FatalSignal> sent;
  bool operator==(const PostMortem&) const = default;
};
// Of a process that has ended; "running" for one that has not.
PostMortem PostMortemOf(const ProcessModel& process, const RunModel& model);

std::string NameOf(const ProcessModel& process);  // "worker 4711"
// The same, but "launcher 4711" of one that started ranks, and "trainer 4711" of a target that is one of them.
std::string NameOf(const ProcessModel& process, const RunModel& model);

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_POST_MORTEM_H_
