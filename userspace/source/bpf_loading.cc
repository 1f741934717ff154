// Loads on two threads, and once more on one if that fails: libbpf then says why, as it does on a host with one CPU.
#include "source/bpf_loading.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "source/namespaces.h"
#include "source/parallel_load.h"
#include "source/probe_plan.h"

namespace cowprof {
namespace {

absl::Status OpenProbes(const BpfOptions& options, const btf& kernel, const TypesFile& types, Skeleton* opened) {
  LIBBPF_OPTS(bpf_object_open_opts, open_options, .btf_custom_path = types.path().c_str());
  opened->reset(cowprof_probes::open(&open_options));
  cowprof_probes* skeleton = opened->get();
  if (skeleton == nullptr) return BpfStatus(errno, "open the probes");
  ChoosePrograms({options.copies, options.faults, options.signals, options.hugetlb, options.preemptible}, &kernel,
                 skeleton);
  bpf_map__set_max_entries(skeleton->maps.regions, options.max_regions);
  if (options.max_processes != 0) bpf_map__set_max_entries(skeleton->maps.processes, options.max_processes);
  if (options.max_cause_rows != 0) bpf_map__set_max_entries(skeleton->maps.causes, options.max_cause_rows);
  skeleton->rodata->every_copy = options.every_copy;
  skeleton->rodata->no_copy_sites = !options.copy_sites;
  const bool may_read = libbpf_probe_bpf_helper(BPF_PROG_TYPE_RAW_TRACEPOINT, BPF_FUNC_probe_read_kernel, nullptr) == 1;
  skeleton->rodata->kernel_reads = options.kernel_reads && may_read;
  skeleton->rodata->own_pids = !HasHostPids();
  if (!may_read && !HasHostPids()) {
    return absl::PermissionDeniedError(
        "cowprof runs in a pid namespace of its own, and this kernel does not let probes look up the ids that "
        "processes have in it (it is locked down)");
  }
  return types.Write(*bpf_object__btf(skeleton->obj), kernel);
}

}  // namespace

absl::Status LoadProbes(const BpfOptions& options, KernelBtf kernel, Skeleton* skeleton) {
  HandleSections();
  for (int threads = LoadingThreads();; threads = 1) {
    KeepWarnings();
    if (kernel == nullptr) kernel = ReadKernelBtf();
    if (kernel == nullptr) return BpfStatus(errno, "read the kernel's BTF");
    const TypesFile types;
    if (absl::Status status = OpenProbes(options, *kernel, types, skeleton); !status.ok()) return status;
    const std::vector<AttachTarget> targets = FindAttachTargets(*kernel, *(*skeleton)->obj);
    kernel = nullptr;  // the verifier is what takes most memory
    const int error = LoadPrograms(skeleton->get(), targets, threads).error;
    if (error == 0) return absl::OkStatus();
    skeleton->reset();
    if (threads == 1) return BpfStatus(-error, absl::StrCat("load the programs of ", options.copies));
  }
}

absl::Status AttachProbes(const BpfOptions& options, const cowprof_probes& skeleton, std::vector<Link>* links) {
  bpf_program* program = nullptr;
  bpf_object__for_each_program(program, skeleton.obj) {
    if (!bpf_program__autoload(program) || bpf_program__type(program) != BPF_PROG_TYPE_TRACING) continue;
    if (bpf_program__expected_attach_type(program) == BPF_TRACE_ITER) continue;
    Link link(bpf_program__attach_trace(program));
    if (link == nullptr) return BpfStatus(errno, absl::StrCat("attach the programs of ", options.copies));
    links->push_back(std::move(link));
  }
  if (options.faults != kRungPerfEvent) return absl::OkStatus();
  return AttachToFaultEvents(skeleton.progs.fault_event, links);
}

}  // namespace cowprof
