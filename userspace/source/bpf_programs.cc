// Chooses variants of programs by what the kernel's BTF has, never by version.
#include "source/bpf_programs.h"

#include <bpf/btf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "source/bpf_handles.h"
#include "source/probe_plan.h"

namespace cowprof {
namespace {

// Whether mark_victim takes a task (new) or a pid (old). Stable kernels backported the change, so versions don't tell.
bool MarkVictimTakesTask(const btf* kernel) {
  const int id = btf__find_by_name_kind(kernel, "btf_trace_mark_victim", BTF_KIND_TYPEDEF);
  if (id < 0) return true;
  // typedef -> pointer -> function prototype; its parameter 0 is the probe's private data.
  const btf_type* type = btf__type_by_id(kernel, id);
  type = btf__type_by_id(kernel, type->type);
  type = btf__type_by_id(kernel, type->type);
  if (!btf_is_func_proto(type) || btf_vlen(type) < 2) return true;
  return btf_is_ptr(btf__type_by_id(kernel, btf_params(type)[1].type));
}

struct KernelKind {
  bool folios = true;                                  // if both exist, copies use the one of folios
  bool hugetlb_folios = false, hugetlb_pages = false;  // which of the two functions the kernel has
  bool mark_victim_takes_task = true;
  bool tracepoints_are_preemptible = false;
};
KernelKind KindOfKernel(const btf* kernel, bool hugetlb) {
  if (kernel == nullptr) return {};
  return {
      .folios = btf__find_by_name_kind(kernel, "folio_add_new_anon_rmap", BTF_KIND_FUNC) > 0,
      .hugetlb_folios = hugetlb && btf__find_by_name_kind(kernel, "hugetlb_add_new_anon_rmap", BTF_KIND_FUNC) > 0,
      .hugetlb_pages = hugetlb && btf__find_by_name_kind(kernel, "hugepage_add_new_anon_rmap", BTF_KIND_FUNC) > 0,
      .mark_victim_takes_task = MarkVictimTakesTask(kernel),
      // BTF lists per-CPU variables. This one belongs to tracepoint_srcu, under which tracepoints run with preemption
      // enabled. Before 6.13 that was the case for idle CPUs only, and the guard type did not exist.
      .tracepoints_are_preemptible = btf__find_by_name_kind(kernel, "tracepoint_srcu_srcu_data", BTF_KIND_VAR) > 0 &&
                                     btf__find_by_name_kind(kernel, "class_srcu_fast_notrace_t", BTF_KIND_TYPEDEF) > 0};
}

void Want(bpf_program* program) { bpf_program__set_autoload(program, true); }

// Two instances of a program: what one misses, the other sees; see bpf/preemption.h.
struct Pair {
  bpf_program *program, *again;
};
void WantPair(const Pair& pair, bool preemptible_tracepoints) {
  Want(pair.program);
  const bool tracepoint = bpf_program__expected_attach_type(pair.program) == BPF_TRACE_RAW_TP;
  if (preemptible_tracepoints || !tracepoint) Want(pair.again);
}

uint64_t SkippedRuns(const bpf_program* program) {
  bpf_prog_info info = {};
  __u32 length = sizeof(info);
  const int fd = bpf_program__fd(program);
  return fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &length) == 0 ? info.recursion_misses : 0;
}

}  // namespace

void ChoosePrograms(const ProgramChoice& choice, const btf* types, cowprof_probes* skeleton) {
  const KernelKind kernel = KindOfKernel(types, choice.hugetlb);
  const auto& all = skeleton->progs;
  const bool fentry = choice.copies == kRungFentry,
             preemptible = kernel.tracepoints_are_preemptible || choice.preemptible;
  const struct {
    bool wanted;
    Pair pair;
  } pairs[] = {{true, {all.process_fork, all.process_fork_again}},
               {true, {all.process_exec, all.process_exec_again}},
               {true, {all.process_exit, all.process_exit_again}},
               {choice.copies == kRungTracepoints, {all.page_alloc, all.page_alloc_again}},
               {choice.copies == kRungPerfEvent, {all.event_page_alloc, all.event_page_alloc_again}},
               {fentry, {all.wp_begin, all.wp_begin_again}},
               {fentry, {all.wp_end, all.wp_end_again}},
               {fentry, {all.other_page_alloc, all.other_page_alloc_again}},
               {fentry && kernel.folios, {all.folio_added, all.folio_added_again}},
               {fentry && !kernel.folios, {all.page_added, all.page_added_again}},
               {kernel.hugetlb_folios, {all.hugetlb_added, all.hugetlb_added_again}},
               {kernel.hugetlb_pages, {all.hugepage_added, all.hugepage_added_again}}};
  for (const auto& [wanted, pair] : pairs) {
    if (wanted) WantPair(pair, preemptible);
  }
  const bool tracepoints = choice.faults == kRungTracepoints, event = choice.faults == kRungPerfEvent;
  const struct {
    bool wanted;
    bpf_program* program;
  } programs[] = {{true, all.list_tasks},
                  {true, all.settle_threads},
                  {choice.signals, all.signal_sent},
                  {choice.signals, all.signal_delivered},
                  {choice.signals, kernel.mark_victim_takes_task ? all.oom_victim_task : all.oom_victim_pid},
                  {tracepoints, all.fault_user},
                  {tracepoints, all.fault_kernel},
                  {event, all.fault_event}};
  for (const auto& [wanted, program] : programs) {
    if (wanted) Want(program);
  }
  bpf_map__set_autocreate(skeleton->maps.foreign_writes, fentry);
  skeleton->rodata->faults_by_event = event;
}

uint64_t SkippedRuns(const cowprof_probes& skeleton) {
  uint64_t skipped = 0;
  bpf_program* again = nullptr;
  bpf_object__for_each_program(again, skeleton.obj) {
    absl::string_view name = bpf_program__name(again);
    if (!absl::ConsumeSuffix(&name, "_again") || bpf_program__fd(again) < 0) continue;
    const bpf_program* program = bpf_object__find_program_by_name(skeleton.obj, std::string(name).c_str());
    skipped += std::min(SkippedRuns(program), SkippedRuns(again));
  }
  return skipped;
}

int OpenFaultEvent(int cpu) {
  perf_event_attr attributes = {
      .type = PERF_TYPE_SOFTWARE, .size = sizeof(attributes), .config = PERF_COUNT_SW_PAGE_FAULTS, .sample_period = 1};
  return static_cast<int>(
      syscall(SYS_perf_event_open, &attributes, /*pid=*/-1, cpu, /*group=*/-1, PERF_FLAG_FD_CLOEXEC));
}

void LinkDeleter::operator()(bpf_link* link) const { bpf_link__destroy(link); }

// CPUs that come online later are not watched: nothing notifies cowprof of them.
absl::Status AttachToFaultEvents(bpf_program* program, std::vector<Link>* links) {
  const int cpus = libbpf_num_possible_cpus();
  if (cpus < 0) return BpfStatus(-cpus, "count the CPUs");
  for (int cpu = 0; cpu < cpus; ++cpu) {
    const int event = OpenFaultEvent(cpu);
    if (event < 0 && errno == ENODEV) continue;  // offline
    if (event < 0) return BpfStatus(errno, absl::StrCat("open the perf event of page faults on CPU ", cpu));
    Link link(bpf_program__attach_perf_event(program, event));
    if (link == nullptr) {
      const int error = errno;
      close(event);
      return BpfStatus(error, "attach a program to the perf event of page faults");
    }
    links->push_back(std::move(link));
  }
  return absl::OkStatus();
}

}  // namespace cowprof
