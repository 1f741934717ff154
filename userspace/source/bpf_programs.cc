// See bpf_programs.h.
#include "source/bpf_programs.h"

#include <bpf/btf.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "source/bpf_handles.h"
#include "source/probe_plan.h"

namespace cowprof {
namespace {

// Whether mark_victim takes a task (new) or a pid (old): stable kernels took the change over, so no version tells.
bool MarkVictimTakesTask(const btf* kernel) {
  const int id = btf__find_by_name_kind(kernel, "btf_trace_mark_victim", BTF_KIND_TYPEDEF);
  if (id < 0) return true;
  // typedef -> pointer -> function prototype, whose parameter 0 is the probe's own data.
  const btf_type* type = btf__type_by_id(kernel, id);
  type = btf__type_by_id(kernel, type->type);
  type = btf__type_by_id(kernel, type->type);
  if (!btf_is_func_proto(type) || btf_vlen(type) < 2) return true;
  return btf_is_ptr(btf__type_by_id(kernel, btf_params(type)[1].type));
}

std::vector<bpf_program*> ProgramsOf(const ProgramChoice& choice, bool folios, bool takes_task,
                                     const cowprof_probes& skeleton) {
  const auto& all = skeleton.progs;
  std::vector<bpf_program*> wanted = {all.process_fork, all.process_exec, all.process_exit, all.list_tasks,
                                      all.settle_threads};
  const auto want = [&](std::initializer_list<bpf_program*> programs) {
    wanted.insert(wanted.end(), programs.begin(), programs.end());
  };
  if (choice.signals)
    want({all.signal_sent, all.signal_delivered, takes_task ? all.oom_victim_task : all.oom_victim_pid});
  if (choice.faults == kRungTracepoints) want({all.fault_user, all.fault_kernel});
  if (choice.faults == kRungPerfEvent) want({all.fault_event});
  if (choice.copies == kRungTracepoints) want({all.page_alloc});
  if (choice.copies == kRungPerfEvent) want({all.event_page_alloc});
  if (choice.copies == kRungFentry)
    want({all.wp_begin, folios ? all.folio_added : all.page_added, all.wp_end, all.other_page_alloc});
  return wanted;
}

}  // namespace

void ChoosePrograms(const ProgramChoice& choice, cowprof_probes* skeleton) {
  bool folios = true, takes_task = true;
  if (btf* kernel = btf__load_vmlinux_btf()) {
    // Where there are both, copies go to that of folios.
    folios = btf__find_by_name_kind(kernel, "folio_add_new_anon_rmap", BTF_KIND_FUNC) > 0;
    takes_task = MarkVictimTakesTask(kernel);
    btf__free(kernel);
  }
  for (bpf_program* program : ProgramsOf(choice, folios, takes_task, *skeleton))
    bpf_program__set_autoload(program, true);
  bpf_map__set_autocreate(skeleton->maps.foreign_writes, choice.copies == kRungFentry);
  skeleton->rodata->faults_by_event = choice.faults == kRungPerfEvent;
}

uint64_t SkippedRuns(const cowprof_probes& skeleton) {
  const auto& all = skeleton.progs;
  uint64_t skipped = 0;
  for (const bpf_program* program : {all.wp_begin, all.folio_added, all.page_added, all.wp_end}) {
    bpf_prog_info info = {};
    __u32 length = sizeof(info);
    if (const int fd = bpf_program__fd(program); fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &length) == 0)
      skipped += info.recursion_misses;
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

// A CPU that comes online later is not watched: there is no event that would be told of it.
absl::StatusOr<std::vector<Link>> AttachToFaultEvents(bpf_program* program) {
  std::vector<Link> links;
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
    links.push_back(std::move(link));
  }
  return links;
}

}  // namespace cowprof
