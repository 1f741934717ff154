// Keeps a link for each process: what it costs to make one is most of a walk.
#include "source/bpf_settling.h"

#include <time.h>

#include <cerrno>
#include <utility>

#include "posix/clock.h"
#include "posix/fd.h"

namespace cowprof {
namespace {

// Of one process, measured; and the most that are worth a descriptor each.
constexpr absl::Duration kCostOfOne = absl::Microseconds(10);
constexpr size_t kMostProcesses = 256;

absl::Status RunToEnd(const bpf_link* link) {
  const Fd walk(bpf_iter_create(bpf_link__fd(link)));
  if (!walk.ok()) return BpfStatus(errno, "start iter/task settle_threads");
  char none[64];  // it writes nothing
  ssize_t got;
  while ((got = read(walk.fd(), none, sizeof(none))) > 0 || (got < 0 && (errno == EINTR || errno == EAGAIN))) {
  }
  return got == 0 ? absl::OkStatus() : BpfStatus(errno, "read iter/task settle_threads");
}

}  // namespace

absl::Status Settling::Run(bool all) {
  const bool known = !all && KnowsAll() && known_.size() <= kMostProcesses &&
                     static_cast<double>(known_.size()) * kCostOfOne < cost_of_all_;
  return known ? WalkKnown() : WalkAll();
}

// The probes add a row before they give it a serial. Those of the overflow row are in none.
bool Settling::KnowsAll() const {
  return skeleton_.bss->walks_processes && !known_.empty() && serial_of_rows_ == skeleton_.bss->last_serial &&
         skeleton_.bss->losses.processes_dropped == 0;
}

absl::Status Settling::WalkAll() {
  const absl::Duration before = ReadClock(CLOCK_THREAD_CPUTIME_ID);
  absl::StatusOr<std::string> walked = RunIterator(skeleton_.progs.settle_threads);
  cost_of_all_ = ReadClock(CLOCK_THREAD_CPUTIME_ID) - before;
  return walked.status();
}

absl::Status Settling::WalkKnown() {
  for (auto& [pid, walk] : known_) {
    if (walk == nullptr) {
      bpf_iter_link_info of_process = {};
      of_process.task.pid = pid;
      bpf_iter_attach_opts options = {};
      options.sz = sizeof(options);
      options.link_info = &of_process;
      options.link_info_len = sizeof(of_process);
      walk.reset(bpf_program__attach_iter(skeleton_.progs.settle_threads, &options));
      if (walk == nullptr) return WalkAll();  // out of descriptors
    }
    if (absl::Status status = RunToEnd(walk.get()); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void Settling::EndRows(const std::vector<pid_t>& living) {
  absl::flat_hash_map<pid_t, Walk> before = std::exchange(known_, {});
  for (const pid_t pid : living) known_[pid] = std::move(before[pid]);
}

}  // namespace cowprof
