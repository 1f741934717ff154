// Who a process is: how it was started, what it is for, and its place in a distributed job. Facts that were read from
// its frames and its environment; roles.h makes a role of them. Plain data.
#ifndef COWPROF_MODEL_FACTS_IDENTITY_H_
#define COWPROF_MODEL_FACTS_IDENTITY_H_

#include <cstdint>
#include <map>
#include <string>

#include "model/facts/count.h"
#include "model/facts/enum_names.h"

namespace cowprof {

// Which of Python's start methods made a process, as the frames below its own code say. One that was forked from the
// program itself has none.
enum class StartMethod { kUnknown, kSpawn, kForkserver, kLoky };
template <>
inline constexpr auto kNamesOf<StartMethod> = NamesFor<StartMethod>("", "spawn", "forkserver", "loky");

// What a Python process runs, by the function that its main thread is in.
enum class Duty {
  kUnknown,
  kLoader,      // PyTorch's DataLoader: _worker_loop
  kPool,        // multiprocessing.Pool, concurrent.futures, joblib's loky
  kTrainer,     // torch.multiprocessing.spawn
  kForkserver,  // multiprocessing's
  kTracker,     // multiprocessing's or loky's resource tracker
  kManager,     // multiprocessing.Manager
};
template <>
inline constexpr auto kNamesOf<Duty> = NamesFor<Duty>("", "loader", "pool", "trainer", "forkserver", "tracker",
                                                      "manager");

// The variables that gave a process its rank, most specific first: where several are set, the first one counts. Slurm
// sets its own around torchrun, which sets RANK. Lightning's own launcher sets none: see source/environment.cc.
enum class RankSource { kNone, kTorch, kOpenMpi, kPmi, kSlurm, kKubernetes, kLightning };
template <>
inline constexpr auto kNamesOf<RankSource> = NamesFor<RankSource>("", "torch", "open-mpi", "pmi", "slurm", "kubernetes",
                                                                  "lightning");

// No job has more: larger numbers, in an environment or a recording, are no ranks.
inline constexpr uint64_t kMostRanks = 1'000'000;

// A process's place in a distributed job, from an allow-list of variables of its environment.
struct RankFacts {
  RankSource source = RankSource::kNone;  // kNone: it has no rank
  Count rank, local_rank, world_size;
  std::string job_id;  // printable ASCII, at most 128 bytes; "": none
  bool operator==(const RankFacts&) const = default;
};

// A worker of PyTorch's DataLoader, as the locals of its loop say.
struct LoaderWorker {
  uint64_t worker_id = 0, num_workers = 0;
  Count batch;  // the number of the last batch that it was seen to have begun: counts from 0 over all workers
  bool operator==(const LoaderWorker&) const = default;
};

// Which run this is, so that recordings of one job can be put side by side. Nothing else of the environment is kept.
struct RunIdentity {
  std::string host, boot_id;                  // of the recorder's; boot_id: /proc/sys/kernel/random/boot_id
  RankFacts rank;                             // of the target
  std::map<std::string, std::string> labels;  // --label
  bool operator==(const RunIdentity&) const = default;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_IDENTITY_H_
