// environment.cc on what launchers set, on text that is not a number, and on secrets.
#include "source/environment.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

RankFacts Facts(std::vector<std::string> variables, const RankFacts& before = {}) {
  std::string text;
  for (const std::string& variable : variables) text += variable + '\0';
  return RankFactsOf(ParseEnvironment(text), before);
}

}  // namespace

TEST_CASE("environment: torchrun, Open MPI, MPICH, Slurm, Kubernetes") {
  CHECK(Facts({"PATH=/bin", "RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=abc"}) ==
        RankFacts{RankSource::kTorch, 3u, 1u, 8u, "abc"});
  CHECK(Facts({"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_SIZE=2"}) ==
        RankFacts{RankSource::kOpenMpi, 0u, 0u, 2u, ""});
  CHECK(Facts({"PMI_RANK=1", "PMI_SIZE=2"}) == RankFacts{RankSource::kPmi, 1u, {}, 2u, ""});
  CHECK(Facts({"SLURM_PROCID=5", "SLURM_LOCALID=1", "SLURM_NTASKS=8", "SLURM_JOB_ID=4711"}) ==
        RankFacts{RankSource::kSlurm, 5u, 1u, 8u, "4711"});
  CHECK(Facts({"JOB_COMPLETION_INDEX=2"}) == RankFacts{RankSource::kKubernetes, 2u, {}, {}, ""});
  CHECK(Facts({"JOB_COMPLETION_INDEX=2", "RANK=5", "=1"}) == RankFacts{RankSource::kTorch, 5u, {}, {}, ""});
}

TEST_CASE("environment: the numbers of one launcher, the job of the scheduler") {
  CHECK(Facts({"SLURM_PROCID=0", "SLURM_NTASKS=1", "SLURM_JOB_ID=4711", "RANK=7", "WORLD_SIZE=8",
               "TORCHELASTIC_RUN_ID=abc"}) == RankFacts{RankSource::kTorch, 7u, {}, 8u, "4711"});
  CHECK(Facts({"RANK=x", "LOCAL_RANK=1", "SLURM_PROCID=2"}) == RankFacts{RankSource::kSlurm, 2u, {}, {}, ""});
}

TEST_CASE("environment: Lightning's own launcher sets no RANK") {
  CHECK(Facts({"NODE_RANK=0", "LOCAL_RANK=3", "WORLD_SIZE=4"}) == RankFacts{RankSource::kLightning, 3u, 3u, 4u, ""});
  CHECK(Facts({"NODE_RANK=0", "LOCAL_RANK=3"}) == RankFacts{RankSource::kLightning, 3u, 3u, {}, ""});  // at its end
  // Two hosts with four ranks each: no number is that of a rank of the first host.
  CHECK(Facts({"NODE_RANK=1", "LOCAL_RANK=3", "WORLD_SIZE=8"}) == RankFacts{RankSource::kLightning, {}, 3u, 8u, ""});
  CHECK(Facts({"LOCAL_RANK=3", "WORLD_SIZE=8"}) == RankFacts{RankSource::kLightning, {}, 3u, 8u, ""});
  // Who has a rank, or something else in its place, has it from there: torchrun, a script of the user.
  CHECK(Facts({"NODE_RANK=0", "LOCAL_RANK=1", "WORLD_SIZE=8", "RANK=5"}) ==
        RankFacts{RankSource::kTorch, 5u, 1u, 8u, ""});
  CHECK(Facts({"NODE_RANK=0", "LOCAL_RANK=1", "WORLD_SIZE=8", "RANK=x"}) == RankFacts{});
}

TEST_CASE("environment: Lightning's ranks below one task of Slurm, MPI or Kubernetes have that task's number") {
  const std::vector<std::string> tasks[] = {
      {"SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=1"},
      {"SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=4"},  // sbatch without srun
      {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_SIZE=2"},
      {"JOB_COMPLETION_INDEX=0"}};
  for (const std::vector<std::string>& task : tasks) {
    std::vector<std::string> variables = task;
    for (const char* variable : {"NODE_RANK=0", "LOCAL_RANK=2", "WORLD_SIZE=4"}) variables.push_back(variable);
    CHECK(Facts(variables) == RankFacts{RankSource::kLightning, 2u, 2u, 4u, ""});
  }
  // One process per node by mpirun, the second node: its number, 1, is that of a rank of the first.
  CHECK(Facts({"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_LOCAL_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "NODE_RANK=1",
               "LOCAL_RANK=0", "WORLD_SIZE=8"}) == RankFacts{RankSource::kLightning, {}, 0u, 8u, ""});
  // A script that passes the task's own numbers on.
  CHECK(Facts({"SLURM_PROCID=5", "SLURM_LOCALID=1", "SLURM_NTASKS=8", "LOCAL_RANK=1", "WORLD_SIZE=8"}) ==
        RankFacts{RankSource::kSlurm, 5u, 1u, 8u, ""});
  const std::vector<std::string> passed_on = {"SLURM_PROCID=4", "SLURM_LOCALID=0", "SLURM_NTASKS=8", "NODE_RANK=1",
                                              "LOCAL_RANK=0"};
  CHECK(Facts(passed_on) == RankFacts{RankSource::kSlurm, 4u, 0u, 8u, ""});
  // The same of a process that was one of Lightning's: its training has ended.
  const RankFacts before = {RankSource::kLightning, {}, 0u, 16u, ""};
  CHECK(Facts(passed_on, before) == RankFacts{RankSource::kLightning, {}, 0u, {}, ""});
  CHECK(Facts({"SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_NTASKS=1", "NODE_RANK=0", "LOCAL_RANK=2"}) ==
        RankFacts{RankSource::kLightning, 2u, 2u, {}, ""});
}

TEST_CASE("environment: what does not name a rank") {
  for (const std::string rank :
       {"", "gold", "-1", "+1", " 1", "1 ", "1e3", "0x1", "1000000", "99999999999999999999999"})
    CHECK(Facts({"RANK=" + rank}) == RankFacts{});
  CHECK(Facts({"RANK=8", "WORLD_SIZE=8"}) == RankFacts{});
  CHECK(Facts({"RANKS=1", "MYRANK=1", "rank=1", "RANK"}) == RankFacts{});
  CHECK(Facts({"RANK=1", "RANK=2"}).rank == 1u);  // as getenv(3)
  CHECK(Facts({"LOCAL_RANK=1"}) == RankFacts{});
  CHECK(Facts({"LOCAL_RANK=-1", "WORLD_SIZE=2"}) == RankFacts{});
  CHECK(Facts({"LOCAL_RANK=2", "WORLD_SIZE=2"}) == RankFacts{});
  CHECK(Facts({"NODE_RANK=0", "WORLD_SIZE=2"}) == RankFacts{});
}

TEST_CASE("environment: a job's id is printable, short, and not torchrun's word for none") {
  CHECK(Facts({"TORCHELASTIC_RUN_ID=none"}).job_id.empty());
  CHECK(Facts({"SLURM_JOB_ID=", "PBS_JOBID=7.host"}).job_id == "7.host");
  CHECK(Facts({"SLURM_JOB_ID=a b"}).job_id.empty());
  CHECK(Facts({"SLURM_JOB_ID=\x1b[31m"}).job_id.empty());
  CHECK(Facts({"SLURM_JOB_ID=" + std::string(129, '1')}).job_id.empty());
  CHECK(Facts({"SLURM_JOB_ID=" + std::string(100'000, '1')}).job_id.empty());
}

TEST_CASE("environment: no variable is kept that the list does not name") {
  JobVariables variables = ParseEnvironment(std::string("TOKEN=RANK=1\0RANK=2\0AWS_SECRET=x", 32));
  CHECK(variables == JobVariables{{"RANK", "2"}});
}

}  // namespace cowprof
