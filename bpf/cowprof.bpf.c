// The probes: count page faults and copy-on-write copies per process in the kernel, and follow a tree of processes.
// User space (userspace/source/bpf_faults.cc) pulls the rows once a tick, and loads the programs of one rung only: rung_*.h has those of
// each way to see a copy, the others are for all. Nothing here decides what a number means.
#include "kernel_types.h"

#include <linux/bpf.h>
#include <linux/errno.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cowprof.h"
#include "preemption.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#include "following.h"

#include "events.h"
#include "mappings.h"
#include "python_frames.h"

#include "copy_cause.h"
#include "copy_place.h"
#include "deaths.h"
#include "process_tree.h"

#include "fault_counts.h"

#include "hugetlb.h"
#include "rung_perf_event.h"
#include "rung_tracepoints.h"

#include "rung_fentry.h"

// ---- Once a tick: what the threads have counted goes to the rows of their processes ----

SEC("?iter/task")
int settle_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_state *state;
	struct cowprof_process_row *row;

	if (!task)
		return 0;
	state = own_state(task);
	if (!state)
		return 0;
	row = bpf_map_lookup_elem(&processes, &state->process);
	if (!row)
		return 0;
	settle(row, state);
	if (state->log.count != state->pages_told)
		tell_pages(state);
	return 0;
}
