// The BPF object: counts page faults and copy-on-write copies per process and tracks a process
// tree. A rung is one way to see a copy: user space loads the programs of a single rung_*.h, plus
// those that all rungs share, and reads the rows once a tick. This side records facts and
// interprets none.
#include "kernel_types.h"

#include <linux/bpf.h>
#include <linux/errno.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cowprof.h"
#include "preemption.h"

char LICENSE[] SEC("license") = COWPROF_LICENSE;

// Not alphabetical: each header uses what those above it define.
#include "repeat.h"
#include "tracked_tasks.h"
#include "events.h"
#include "mappings.h"
#include "user_memory.h"
#include "python_frames.h"
#include "python_objects.h"
#include "copy_cause.h"
#include "copy_site.h"
#include "freed_memory.h"
#include "signals.h"
#include "recent_copies.h"
#include "process_tree.h"
#include "growth_site.h"
#include "fault_counts.h"
#include "hugetlb.h"
#include "rung_perf_event.h"
#include "rung_tracepoints.h"
#include "rung_fentry.h"

// Runs once a tick: adds what each tracked thread has counted to the row of its process.

__u64 settled_ns; // when that was done last; for user space

SEC("?iter/task")
int settle_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct thread_state *state;
	struct cowprof_process_row *row;

	if (!task) {
		settled_ns = now_ns();
		return 0;
	}
	state = existing_state(task);
	if (!state)
		return 0;
	row = bpf_map_lookup_elem(&processes, &state->process);
	if (!row)
		return 0;
	settle(row, state);
	row->mappings = THROUGH(task, mm, map_count);
	if (state->logged != state->pages_flushed)
		flush_pages(state);
	return 0;
}
