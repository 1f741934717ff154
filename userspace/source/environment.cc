// Only this file spells names of environment variables of launchers.
#include "source/environment.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace cowprof {
namespace {

constexpr size_t kLongestJobId = 128;

struct Launcher {
  RankSource source;
  absl::string_view rank, local_rank, world_size;  // "": it has none
};
constexpr Launcher kLaunchers[] = {
    {RankSource::kTorch, "RANK", "LOCAL_RANK", "WORLD_SIZE"},  // torchrun, accelerate, deepspeed
    {RankSource::kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    {RankSource::kPmi, "PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},  // MPICH, Intel MPI
    {RankSource::kSlurm, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
    {RankSource::kKubernetes, "JOB_COMPLETION_INDEX", "", ""},  // an indexed Job: which of its pods
};

// Of the host among the job's, from 0. Lightning's own launcher sets it beside LOCAL_RANK and WORLD_SIZE, but no RANK.
constexpr absl::string_view kNodeRank = "NODE_RANK";

// The first that is set names the job.
constexpr absl::string_view kJobIds[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "TORCHELASTIC_RUN_ID"};

bool IsAllowed(absl::string_view name) {
  if (name.empty()) return false;
  if (name == kNodeRank) return true;
  if (std::find(std::begin(kJobIds), std::end(kJobIds), name) != std::end(kJobIds)) return true;
  return std::any_of(std::begin(kLaunchers), std::end(kLaunchers), [&](const Launcher& launcher) {
    return name == launcher.rank || name == launcher.local_rank || name == launcher.world_size;
  });
}

Count NumberOf(const JobVariables& variables, absl::string_view name) {
  const auto found = variables.find(name);
  uint64_t number = 0;
  // SimpleAtoi accepts blanks and a sign.
  if (found == variables.end() || !std::all_of(found->second.begin(), found->second.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(found->second, &number) || number > kMostRanks) {
    return std::nullopt;
  }
  return number;
}

std::string JobIdOf(const JobVariables& variables) {
  for (const absl::string_view name : kJobIds) {
    const auto found = variables.find(name);
    if (found == variables.end()) continue;
    const std::string& id = found->second;
    const bool printable = std::all_of(id.begin(), id.end(), absl::ascii_isgraph);
    // torchrun's default is the word "none".
    if (!id.empty() && id.size() <= kLongestJobId && printable && id != "none") return id;
  }
  return "";
}

// Each host of a job counts from 0, and how many ranks the hosts before this one have is not told: only on the first
// host is the local rank the rank. At the end of a training Lightning removes WORLD_SIZE.
std::optional<RankFacts> OfLightning(const JobVariables& variables) {
  const Launcher& torch = kLaunchers[0];
  const Count local_rank = NumberOf(variables, torch.local_rank), world_size = NumberOf(variables, torch.world_size),
              node_rank = NumberOf(variables, kNodeRank);
  if (variables.contains(torch.rank) || !local_rank || *local_rank >= kMostRanks || !(world_size || node_rank) ||
      (world_size && *local_rank >= *world_size))
    return std::nullopt;
  return RankFacts{.source = RankSource::kLightning,
                   .rank = node_rank == 0u ? local_rank : std::nullopt,
                   .local_rank = local_rank,
                   .world_size = world_size,
                   .job_id = JobIdOf(variables)};
}

}  // namespace

void AddVariable(absl::string_view variable, JobVariables* variables) {
  const size_t equals = variable.find('=');
  if (equals == variable.npos || variable.size() > kLongestVariable) return;
  const absl::string_view name = variable.substr(0, equals);
  if (!IsAllowed(name)) return;
  // The map's keys outlive `variable`.
  const auto keep = [&](absl::string_view constant) {
    if (name == constant) variables->try_emplace(constant, variable.substr(equals + 1));
  };
  for (const Launcher& launcher : kLaunchers) {
    keep(launcher.rank);
    keep(launcher.local_rank);
    keep(launcher.world_size);
  }
  keep(kNodeRank);
  for (const absl::string_view id : kJobIds) keep(id);
}

JobVariables ParseEnvironment(absl::string_view text) {
  JobVariables variables;
  for (const absl::string_view variable : absl::StrSplit(text, '\0')) AddVariable(variable, &variables);
  return variables;
}

RankFacts RankFactsOf(const JobVariables& variables, const RankFacts& before) {
  const std::optional<RankFacts> lightning = OfLightning(variables);
  RankFacts facts = {.job_id = JobIdOf(variables)};
  for (const Launcher& launcher : kLaunchers) {
    const Count rank = NumberOf(variables, launcher.rank), world_size = NumberOf(variables, launcher.world_size);
    if (!rank || *rank >= kMostRanks || (world_size && *rank >= *world_size)) continue;
    const Count local_rank = NumberOf(variables, launcher.local_rank);
    // A task of Slurm or MPI in which Lightning starts a process for each GPU: all of them have the task's number.
    // A script may also pass on the numbers of its own task.
    const bool same =
        lightning && lightning->local_rank == local_rank &&
        (lightning->world_size ? lightning->world_size == world_size : before.source != RankSource::kLightning);
    if (lightning && !same) continue;
    facts.source = launcher.source;
    facts.rank = rank;
    facts.local_rank = local_rank;
    facts.world_size = world_size;
    return facts;
  }
  return lightning.value_or(facts);
}

}  // namespace cowprof
