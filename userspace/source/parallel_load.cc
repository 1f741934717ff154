// The caller's thread owns everything but what Loading says of its atomics, and a Job that the second thread has taken.
// What the kernel reads for a bpf(2) call of either does not change while both run.
#include "source/parallel_load.h"

#include <bpf/bpf.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "cowprof.h"
#include "cowprof.skel.h"

namespace cowprof {
namespace {

// As what libbpf opens a program that attaches to a type of the kernel. In the callback it becomes a tracing program:
// for those, libbpf would have read the kernel's BTF, which cowprof has read already.
constexpr bpf_prog_type kUntilLoaded = BPF_PROG_TYPE_RAW_TRACEPOINT;

struct Section {
  const char* handled;  // as libbpf_register_prog_handler() takes it
  bpf_attach_type attach_type;
  absl::string_view prefix;       // of the section
  absl::string_view type_prefix;  // of the type
  uint32_t kind;                  // of that type
};
constexpr Section kSections[] = {{"tp_btf+", BPF_TRACE_RAW_TP, "tp_btf/", "btf_trace_", BTF_KIND_TYPEDEF},
                                 {"fentry+", BPF_TRACE_FENTRY, "fentry/", "", BTF_KIND_FUNC},
                                 {"fexit+", BPF_TRACE_FEXIT, "fexit/", "", BTF_KIND_FUNC},
                                 {"iter+", BPF_TRACE_ITER, "iter/", "bpf_iter_", BTF_KIND_FUNC}};

// One program. Filled in by the callback; then written only by the thread that took it from the list, until the second
// thread is joined.
struct Job {
  Job* next;  // that is as large or smaller: what remains for the end is short
  bpf_program* program;
  std::vector<bpf_insn> instructions;
  bpf_attr attributes;  // points to `instructions`, and to what libbpf keeps until the object is closed
  int fd = -1;
};

class Loading {
 public:
  Loading(const std::vector<AttachTarget>& targets, bool take) : targets_(targets), take_(take) {}
  ~Loading() {
    while (Job* job = first_) {
      first_ = job->next;
      if (job->fd >= 0) close(job->fd);
      delete job;
    }
  }

  int Prepare(bpf_program* program, bpf_prog_load_opts* options);
  int LoadTaken();
  int second_thread() const { return second_thread_; }

 private:
  void Take(bpf_program* program, const bpf_prog_load_opts& options);
  void LoadSome(bool second_thread);
  static void* LoadSomeMore(void* loading) {
    static_cast<Loading*>(loading)->LoadSome(true);
    return nullptr;
  }

  const std::vector<AttachTarget>& targets_;
  const bool take_;
  Job* first_ = nullptr;
  // What both threads write: the first job that nobody has, and an error of one of them.
  std::atomic<Job*> free_{nullptr};
  std::atomic<int> error_{0};
  int second_thread_ = 0;  // how many jobs that took; its own until it is joined
};

Loading* current = nullptr;  // of LoadPrograms(), for the callback that libbpf calls in it

int PrepareProgram(bpf_program* program, bpf_prog_load_opts* options, long) {
  return current == nullptr ? -EINVAL : current->Prepare(program, options);
}

int Loading::Prepare(bpf_program* program, bpf_prog_load_opts* options) {
  for (const AttachTarget& target : targets_) {
    if (target.program != program) continue;
    if (target.id == 0) return -ESRCH;  // as libbpf
    options->attach_btf_id = target.id;
    if (int error = bpf_program__set_type(program, BPF_PROG_TYPE_TRACING)) return error;
  }
  if (!take_ || options->fd_array != nullptr) return 0;
  Take(program, *options);
  // r0 = 0; exit
  bpf_insn nothing[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0}, {.code = BPF_JMP | BPF_EXIT}};
  options->func_info_cnt = options->line_info_cnt = 0;
  return bpf_program__set_insns(program, nothing, std::size(nothing));
}

void Loading::Take(bpf_program* program, const bpf_prog_load_opts& options) {
  auto* job = new Job{.program = program};
  const bpf_insn* first = bpf_program__insns(program);
  job->instructions.assign(first, first + bpf_program__insn_cnt(program));
  bpf_attr& attributes = job->attributes;
  memset(&attributes, 0, sizeof(attributes));
  const auto address = [](const void* memory) { return reinterpret_cast<uintptr_t>(memory); };
  attributes.prog_type = bpf_program__type(program);
  attributes.expected_attach_type = options.expected_attach_type;
  attributes.license = address(COWPROF_LICENSE);
  attributes.kern_version = options.kern_version;
  attributes.prog_flags = options.prog_flags;
  attributes.attach_btf_id = options.attach_btf_id;
  attributes.insn_cnt = job->instructions.size();
  attributes.insns = address(job->instructions.data());
  attributes.prog_btf_fd = options.prog_btf_fd;
  attributes.func_info = address(options.func_info);
  attributes.func_info_cnt = options.func_info_cnt;
  attributes.func_info_rec_size = options.func_info_rec_size;
  attributes.line_info = address(options.line_info);
  attributes.line_info_cnt = options.line_info_cnt;
  attributes.line_info_rec_size = options.line_info_rec_size;
  const absl::string_view name = absl::string_view(bpf_program__name(program)).substr(0, BPF_OBJ_NAME_LEN - 1);
  memcpy(attributes.prog_name, name.data(), name.size());
  Job** place = &first_;
  while (*place != nullptr && (*place)->instructions.size() >= job->instructions.size()) place = &(*place)->next;
  job->next = std::exchange(*place, job);
}

// Runs on both threads.
void Loading::LoadSome(bool second_thread) {
  constexpr int kAttempts = 5;  // as libbpf: the verifier gives up when it is interrupted
  while (error_ == 0) {
    Job* job = free_;
    while (job != nullptr && !free_.compare_exchange_weak(job, job->next)) continue;
    if (job == nullptr) return;
    if (second_thread) ++second_thread_;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      job->fd = static_cast<int>(syscall(SYS_bpf, BPF_PROG_LOAD, &job->attributes, sizeof(job->attributes)));
      if (job->fd >= 0 || errno != EAGAIN) break;
    }
    if (job->fd < 0) error_ = -errno;
  }
}

bool StartThread(void* (*run)(void*), void* argument, pthread_t* thread) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // which the thread inherits
  const int error = pthread_create(thread, nullptr, run, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

int Loading::LoadTaken() {
  free_ = first_;
  pthread_t thread;
  const bool started = StartThread(LoadSomeMore, this, &thread);
  LoadSome(false);
  if (started) pthread_join(thread, nullptr);  // from here on its writes are ours
  for (Job* job = first_; job != nullptr && error_ == 0; job = job->next) {
    if (dup3(job->fd, bpf_program__fd(job->program), O_CLOEXEC) < 0) error_ = -errno;
  }
  return error_;
}

}  // namespace

std::vector<AttachTarget> FindAttachTargets(const btf& kernel, const bpf_object& object) {
  std::vector<AttachTarget> targets;
  std::vector<std::string> names;  // of their types
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, &object) {
    if (!bpf_program__autoload(program)) continue;
    const absl::string_view name = bpf_program__section_name(program);
    for (const Section& section : kSections) {
      if (!absl::StartsWith(name, section.prefix)) continue;
      names.push_back(absl::StrCat(section.type_prefix, name.substr(section.prefix.size())));
      targets.push_back({program, section.kind});
    }
  }
  for (uint32_t id = 1; id < btf__type_cnt(&kernel); ++id) {
    const btf_type* type = btf__type_by_id(&kernel, id);
    const uint32_t kind = btf_kind(type);
    if (kind != BTF_KIND_TYPEDEF && kind != BTF_KIND_FUNC) continue;
    const absl::string_view name = btf__name_by_offset(&kernel, type->name_off);
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i].kind == kind && targets[i].id == 0 && names[i] == name) targets[i].id = id;
    }
  }
  return targets;
}

void HandleSections() {
  static bool handled = false;
  if (std::exchange(handled, true)) return;
  LIBBPF_OPTS(libbpf_prog_handler_opts, options, .prog_prepare_load_fn = PrepareProgram);
  for (const Section& section : kSections)
    libbpf_register_prog_handler(section.handled, kUntilLoaded, section.attach_type, &options);
  libbpf_register_prog_handler("perf_event", BPF_PROG_TYPE_PERF_EVENT, {}, &options);
}

int LoadingThreads() {
  cpu_set_t cpus;
  // Fails where there are more than 1024 CPUs.
  return sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) == 1 ? 1 : 2;
}

LoadResult LoadPrograms(cowprof_probes* skeleton, const std::vector<AttachTarget>& targets, int threads) {
  Loading loading(targets, threads > 1);
  current = &loading;
  LoadResult result = {.error = cowprof_probes::load(skeleton)};
  current = nullptr;
  if (result.error != 0 || threads == 1) return result;
  result.error = loading.LoadTaken();
  result.second_thread = loading.second_thread();
  return result;
}

}  // namespace cowprof
