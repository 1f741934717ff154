// Programs that the kernel really verifies, on one thread and on two. Needs root; otherwise says so and passes (the
// system tests always run as root).
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "skip.h"
#include "source/bpf_handles.h"
#include "source/bpf_loading.h"
#include "source/kernel_btf.h"
#include "source/parallel_load.h"

namespace cowprof {
namespace {

// The programs of the best rung. `refused`: without a map that one of them needs.
struct Opened {
  Skeleton skeleton;
  std::vector<AttachTarget> targets;
};
Opened Open(bool refused) {
  HandleSections();
  KeepWarnings();
  const KernelBtf kernel = ReadKernelBtf();
  REQUIRE(kernel != nullptr);
  Opened opened = {.skeleton = Skeleton(cowprof_probes::open())};
  REQUIRE(opened.skeleton != nullptr);
  ChoosePrograms({.copies = "btf-tracepoints", .faults = "btf-tracepoints"}, kernel.get(), opened.skeleton.get());
  if (refused) bpf_map__set_autocreate(opened.skeleton->maps.causes, false);
  opened.targets = FindAttachTargets(*kernel, *opened.skeleton->obj);
  return opened;
}

int OpenDescriptors() {
  int open = 0;
  for (int fd = 0; fd < 256; ++fd) open += fcntl(fd, F_GETFD) >= 0;
  return open;
}

std::string NameInKernel(int fd) {
  bpf_prog_info info = {};
  __u32 length = sizeof(info);
  return bpf_obj_get_info_by_fd(fd, &info, &length) == 0 ? info.name : "";
}
uint32_t InstructionsInKernel(int fd) {
  bpf_prog_info info = {};
  __u32 length = sizeof(info);
  return bpf_obj_get_info_by_fd(fd, &info, &length) == 0 ? info.xlated_prog_len / 8 : 0;
}
// How many the verifier walked through. 0 before 5.16.
uint32_t VerifiedInKernel(int fd) {
  bpf_prog_info info = {};
  __u32 length = sizeof(info);
  return bpf_obj_get_info_by_fd(fd, &info, &length) == 0 ? info.verified_insns : 0;
}

constexpr sock_filter Load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }
constexpr sock_filter SkipUnless(uint32_t value, uint8_t skipped) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, skipped);
}
constexpr sock_filter kRefuse = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                      kAllow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);

// What `run` returned in a child with that seccomp filter.
int InChild(std::vector<sock_filter> filter, const std::function<int()>& run) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const sock_fprog program = {static_cast<unsigned short>(filter.size()), filter.data()};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      _exit(99);
    _exit(run());
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("two threads load the same programs as one, each under the descriptor that libbpf keeps") {
  if (LacksRoot()) return;
  std::vector<std::pair<std::string, uint32_t>> loaded[2];
  for (const int threads : {1, 2}) {
    Opened opened = Open(false);
    LoadResult result = LoadPrograms(opened.skeleton.get(), opened.targets, threads);
    if (Lacks("probes", result.error == 0, std::to_string(result.error))) return;
    // On a busy host the first may have done it all before the second runs.
    for (int more = 0; threads == 2 && result.second_thread == 0 && more < 20; ++more) {
      opened = Open(false);
      result = LoadPrograms(opened.skeleton.get(), opened.targets, threads);
    }
    CHECK((result.second_thread > 0) == (threads == 2));
    bpf_program* program = nullptr;
    bpf_object__for_each_program(program, opened.skeleton->obj) {
      if (!bpf_program__autoload(program)) continue;
      const int fd = bpf_program__fd(program);
      CHECK(NameInKernel(fd) == std::string(bpf_program__name(program)).substr(0, 15));
      CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
      loaded[threads - 1].emplace_back(bpf_program__name(program), InstructionsInKernel(fd));
    }
  }
  CHECK(loaded[0].size() > 8);
  CHECK(loaded[0] == loaded[1]);
}

// What an attach takes is mostly this. It was 55,128 on 6.18 before loops and results were written for the verifier.
// The walk over page tables, in five programs, is 3,400 of it.
TEST_CASE("the verifier has little to walk through") {
  if (LacksRoot()) return;
  Skeleton skeleton;
  const absl::Status loaded = LoadProbes({}, nullptr, &skeleton);
  if (Lacks("probes", loaded.ok(), std::string(loaded.message()))) return;
  uint32_t verified = 0;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton->obj) {
    if (bpf_program__autoload(program)) verified += VerifiedInKernel(bpf_program__fd(program));
  }
  if (Lacks("bpf_prog_info.verified_insns", verified > 0, "the kernel is older than 5.16")) return;
  CAPTURE(verified);
  CHECK(verified < 25000);
}

TEST_CASE("where no thread can be started, one loads all") {
  if (LacksRoot()) return;
  const std::vector<sock_filter> no_threads = {
      Load(offsetof(seccomp_data, nr)), SkipUnless(SYS_clone3, 1), kRefuse, SkipUnless(SYS_clone, 1), kRefuse, kAllow};
  const int second = InChild(no_threads, [] {
    const Opened opened = Open(false);
    const LoadResult result = LoadPrograms(opened.skeleton.get(), opened.targets, 2);
    return result.error != 0 ? 98 : result.second_thread;
  });
  if (Lacks("probes", second != 98, "they do not load")) return;
  CHECK(second == 0);
}

TEST_CASE("a program that is refused on two threads leaves nothing, and libbpf says of one why") {
  if (LacksRoot()) return;
  const int before = OpenDescriptors();
  std::string said[2];
  for (const int threads : {1, 2}) {
    {
      const Opened opened = Open(true);
      const LoadResult result = LoadPrograms(opened.skeleton.get(), opened.targets, threads);
      REQUIRE(result.error < 0);
      said[threads - 1] = std::string(BpfStatus(-result.error, "load").message());
    }
    CHECK(OpenDescriptors() == before);
  }
  CAPTURE(said[0], said[1]);
  CHECK(said[0].find("BPF map 'causes'") != std::string::npos);
  CHECK(said[1].find("prog '") == std::string::npos);
}

TEST_CASE("on one CPU libbpf loads each itself") {
  if (LacksRoot()) return;
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof(before), &before) == 0);
  if (Lacks("two CPUs", CPU_COUNT(&before) > 1, "this machine has one")) return;
  CHECK(LoadingThreads() == 2);
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  REQUIRE(sched_setaffinity(0, sizeof(one), &one) == 0);
  CHECK(LoadingThreads() == 1);
  Skeleton skeleton;
  const absl::Status loaded = LoadProbes({}, nullptr, &skeleton);
  sched_setaffinity(0, sizeof(before), &before);
  if (Lacks("probes", loaded.ok(), std::string(loaded.message()))) return;
  CHECK(bpf_program__insn_cnt(skeleton->progs.page_alloc) > 2);  // libbpf kept it
}

TEST_CASE("what each program of any rung attaches to is looked for, except a perf event") {
  if (LacksRoot()) return;
  const Opened opened = Open(false);
  const KernelBtf kernel = ReadKernelBtf();
  size_t with_target = 0;
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, opened.skeleton->obj) {
    bpf_program__set_autoload(program, true);
    with_target += std::string(bpf_program__section_name(program)) != "perf_event";
  }
  CHECK(with_target > 30);
  CHECK(FindAttachTargets(*kernel, *opened.skeleton->obj).size() == with_target);
}

TEST_CASE("a program that has nothing to attach to is refused") {
  if (LacksRoot()) return;
  for (const int threads : {1, 2}) {
    Opened opened = Open(false);
    REQUIRE_FALSE(opened.targets.empty());
    for (const AttachTarget& target : opened.targets) CHECK(target.id != 0);
    opened.targets.back().id = 0;
    CHECK(LoadPrograms(opened.skeleton.get(), opened.targets, threads).error == -ESRCH);
  }
}

// The kernel is told the size of what it is asked for, by which these calls differ from libbpf's.
TEST_CASE("what two threads can't load, one loads as libbpf does") {
  if (LacksRoot()) return;
  const std::vector<sock_filter> only_libbpf = {Load(offsetof(seccomp_data, nr)),
                                                SkipUnless(SYS_bpf, 5),
                                                Load(offsetof(seccomp_data, args[0])),
                                                SkipUnless(BPF_PROG_LOAD, 3),
                                                Load(offsetof(seccomp_data, args[2])),
                                                SkipUnless(sizeof(bpf_attr), 1),
                                                kRefuse,
                                                kAllow};
  const int error = InChild(only_libbpf, [] {
    const Opened opened = Open(false);
    return -LoadPrograms(opened.skeleton.get(), opened.targets, 2).error;
  });
  CHECK(error == EPERM);
  const auto load = [] {
    Skeleton skeleton;
    return LoadProbes({}, nullptr, &skeleton).ok() ? 0 : 1;
  };
  if (Lacks("probes", load() == 0, "they do not load")) return;
  CHECK(InChild(only_libbpf, load) == 0);
}

TEST_CASE("what nobody can load is told as libbpf tells it") {
  if (LacksRoot()) return;
  Skeleton skeleton;
  const absl::Status refused = LoadProbes({.max_regions = 0}, nullptr, &skeleton);
  CHECK(skeleton == nullptr);
  CAPTURE(refused.message());
  CHECK(refused.message().find("load the programs of btf-tracepoints: ") == 0);
  CHECK(refused.message().find("(failed to load BPF skeleton") != std::string::npos);
}

}  // namespace cowprof
