// What each step of counting a copy costs: the two tracepoints of rung btf-tracepoints with more and more of the work, and the same
// work done in other ways. fault_steps.py compiles it once for each STEP.
#include "kernel_types.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define ENTRY_OF_FAULTS 0 // a program that does nothing
#define ENTRIES 1 // both of them
#define ENTRY_OF_PAGES 2 // the one of allocations alone
#define STRANGERS_BY_TABLE 3 // rejects by the table of pids, as cowprof does
#define STRANGERS_BY_TASK 4 // rejects by the task's own pointer to its storage
#define STORAGE 5 // finds the thread's state in task storage, as cowprof does
#define CPU_SLOTS 6 // in a slot of the CPU
#define THREAD_SLOTS 7 // in a slot of a fixed table, by tid
#define FAULT 8 // STORAGE, and notes the fault, finds it again, and counts
#define PAGES_ALONE 9 // counts allocations by their flags, without the fault

struct state {
	__u64 address, ip, sp, call;
	__u32 tid, faults, copies;
	__u8 pending, present, write;
};

struct task_struct___storage {
	void *bpf_storage;
} CORE;

__u32 followed[4096];
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct state);
} threads SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct state);
} cpu_slots SEC(".maps");
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct state);
} thread_slots SEC(".maps");

// The state of the current thread, found in the way of STEP; NULL ends the program.
static __always_inline struct state *state_of(struct task_struct *task, int may_create)
{
	__u32 slot = 0;

	if (STEP == ENTRY_OF_FAULTS || STEP == ENTRIES || STEP == ENTRY_OF_PAGES)
		return 0;
	if (STEP == STRANGERS_BY_TASK) {
		struct task_struct___storage *own = (void *)task;

		if (!own->bpf_storage)
			return 0;
		followed[0]++; // keeps the branch
		return 0;
	}
	// The table is empty for STRANGERS_BY_TABLE, and inverted for the others: all are tracked.
	if (STEP == STRANGERS_BY_TABLE) {
		if (followed[(__u32)task->tgid & 4095])
			followed[0]++;
		return 0;
	}
	if (followed[(__u32)task->tgid & 4095])
		return 0;
	if (STEP == CPU_SLOTS)
		return bpf_map_lookup_elem(&cpu_slots, &slot);
	if (STEP == THREAD_SLOTS) {
		struct state *state;

		slot = (__u32)task->pid & 4095;
		state = bpf_map_lookup_elem(&thread_slots, &slot);
		if (state && state->tid != (__u32)task->pid)
			state->tid = task->pid; // nothing else is done about two threads in one slot
		return state;
	}
	return bpf_task_storage_get(&threads, task, 0, may_create ? BPF_LOCAL_STORAGE_GET_F_CREATE : 0);
}

#if STEP != ENTRY_OF_PAGES && STEP != PAGES_ALONE
SEC("tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	struct state *state = state_of(bpf_get_current_task_btf(), 1);

	if (!state)
		return 0;
	state->faults++;
	if (STEP == FAULT) {
		state->present = !!(error_code & 1);
		state->write = !!(error_code & 2);
		state->address = address;
		state->ip = REGS_IP(regs);
		state->sp = regs->sp;
		state->call = REGS_CALL(regs);
	}
	state->pending = 1;
	return 0;
}
#endif

#if STEP != ENTRY_OF_FAULTS
SEC("tp_btf/mm_page_alloc")
int BPF_PROG(page_alloc, struct page *page, unsigned int order, unsigned int gfp, int migratetype)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct state *state;

	if (STEP == ENTRIES || STEP == ENTRY_OF_PAGES)
		return 0;
	if ((gfp & 0xa) != 0xa) // __GFP_HIGHMEM | __GFP_MOVABLE: user memory
		return 0;
	state = state_of(task, STEP == PAGES_ALONE);
	if (!state || (STEP != PAGES_ALONE && !state->pending))
		return 0;
	if (STEP == FAULT) {
		struct pt_regs *regs = (void *)bpf_task_pt_regs(task);

		if (REGS_IP(regs) != state->ip || regs->sp != state->sp || REGS_CALL(regs) != state->call || !state->present)
			return 0;
	}
	state->pending = 0;
	if (order == 0 && !(gfp & 0x100)) // __GFP_ZERO
		state->copies++;
	return 0;
}
#endif
