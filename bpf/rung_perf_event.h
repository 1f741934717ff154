// Rung perf-event: the page-faults software event opens a fault, an allocation in the same thread
// closes it. The event has no error code, so every unzeroed page of private memory counts as a
// copy, including one from swap: an upper bound. Since 5.9 the event fires before the fault is
// handled, which the cause needs.
#ifndef COWPROF_BPF_RUNG_PERF_EVENT_H_
#define COWPROF_BPF_RUNG_PERF_EVENT_H_

// struct bpf_perf_event_data (include/uapi/linux/bpf_perf_event.h). Redefined because its
// user-space struct pt_regs clashes with the kernel's, which kernel_types.h declares.
struct fault_event {
#if defined(__TARGET_ARCH_x86)
	__u64 below_ip[16], ip, above_ip[4];
#elif defined(__TARGET_ARCH_arm64)
	__u64 below_ip[32], ip, above_ip[1];
#endif
	__u64 sample_period, address;
};

// The error code is unknown. `present` is set only so that memory is read before the write.
static void open_unknown_fault(struct thread_state *state, struct pt_regs *user_regs, __u64 address,
			       int kernel_mode)
{
	if (state->pending > 1)
		keep_huge(state);
	state->kernel_faults.now += kernel_mode;
	state->faults.now++;
	state->address = address;
	take_registers(state, user_regs);
	state->kernel_mode = kernel_mode;
	state->replacing = 0;
	state->present = state->pending = 1;
	state->write = 0;
	if (state->images_learned != images_learned)
		learn_image(state);
	if (state->image)
		look(state);
}

SEC("?perf_event")
int fault_event(struct fault_event *event)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = state_of(task);

	if (!state || state->reading || (long)event->address < 0)
		return 0;
	open_unknown_fault(state, (void *)bpf_task_pt_regs(task), event->address,
			   (long)event->ip < 0);
	return 0;
}

static void count_unknown(struct task_struct *task, struct thread_state *state)
{
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &state->process);
	enum mapping mapping = mapping_at(task, state, MAPPING_ANONYMOUS); // the most common case

	if (!row)
		return;
	if (mapping == MAPPING_SHM)
		__sync_fetch_and_add(&row->counts.shm_pages, 1);
	else if (mapping != MAPPING_OTHER && !lost_race(state->serial, state->address, task->pid))
		count_copy_out_of_line(state);
}

PROG_TWICE("?tp_btf/mm_page_alloc", event_page_alloc, struct page *page, unsigned int order,
	   unsigned int gfp, int migratetype)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = close_fault(task, order, gfp);

	if (!state)
		return 0;
	if (order)
		note_huge(task, state, order, 0);
	else if (gfp & GFP_ZERO)
		count_new(state);
	else
		count_unknown(task, state);
	return 0;
}

#endif
