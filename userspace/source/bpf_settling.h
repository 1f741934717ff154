// Adds what each tracked thread has counted to the row of its process: bpf_faults.cc calls it before it reads rows.
#ifndef COWPROF_SOURCE_BPF_SETTLING_H_
#define COWPROF_SOURCE_BPF_SETTLING_H_

#include <sys/types.h>

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "source/bpf_handles.h"

namespace cowprof {

// Walks the threads of the processes that are known, as long as they are all, the kernel can (Linux 6.1) and it is
// cheaper; otherwise all threads of the host, some 2 us each.
class Settling {
 public:
  explicit Settling(cowprof_probes& skeleton) : skeleton_(skeleton) {}

  // `all`: all of the host's: a thread that ends as its process is walked leaves those behind it for the next time.
  absl::Status Run(bool all);
  // Call before the rows are read, and with the processes in them.
  void BeginRows() { serial_of_rows_ = skeleton_.bss->last_serial; }
  void EndRows(const std::vector<pid_t>& living);

 private:
  struct LinkDeleter {
    void operator()(bpf_link* link) const { bpf_link__destroy(link); }
  };
  using Walk = std::unique_ptr<bpf_link, LinkDeleter>;

  bool KnowsAll() const;
  absl::Status WalkAll();
  absl::Status WalkKnown();

  cowprof_probes& skeleton_;
  uint32_t serial_of_rows_ = 0;
  absl::flat_hash_map<pid_t, Walk> known_;                 // of living processes; null: not walked yet
  absl::Duration cost_of_all_ = absl::InfiniteDuration();  // CPU time, of the last walk
};

}  // namespace cowprof

#endif  // COWPROF_SOURCE_BPF_SETTLING_H_
