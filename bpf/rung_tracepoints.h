// Rung btf-tracepoints: the exception's tracepoint opens a fault with its address and error code,
// an allocation in the same thread closes it. Exact. Attaches where kprobes do not exist and fentry
// is refused.
#ifndef COWPROF_BPF_RUNG_TRACEPOINTS_H_
#define COWPROF_BPF_RUNG_TRACEPOINTS_H_

static __always_inline int open_fault(struct thread_state *state, __u64 address,
				      struct pt_regs *user_regs, __u64 error_code, int kernel_mode)
{
	if (state->reading)
		return 0;
	if (state->pending > 1)
		keep_huge(state);
	state->kernel_faults.now += kernel_mode;
	state->present = !!(error_code & FAULT_PRESENT);
	state->write = !!(error_code & (FAULT_WRITE | FAULT_SHADOW_STACK));
	state->faults.now++;
	state->write_protect_faults.now += state->present && state->write;
	state->address = address;
	take_registers(state, user_regs);
	state->kernel_mode = kernel_mode;
	state->replacing = 0;
	state->pending = 1;
	if (!state->present || !state->write)
		return 0;
	if (state->images_learned != images_learned)
		learn_image(state);
	if (state->image)
		look(state);
	return 0;
}

SEC("?tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	struct thread_state *state = state_of(bpf_get_current_task_btf());

	return state ? open_fault(state, address, regs, error_code, 0) : 0;
}

SEC("?tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = state_of(task);

	if (!state || (long)address < 0) // kernel address
		return 0;
	return open_fault(state, address, (void *)bpf_task_pt_regs(task), error_code, 1);
}

// Counts an allocation that filled a missing page or replaced the shared zero page.
static __noinline int count_other(struct task_struct *task, struct thread_state *state)
{
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &state->process);

	if (!row)
		return 0;
	if (!state->present)
		count_missing(task, row, state);
	else
		__sync_fetch_and_add(&row->counts.zero_upgrades, 1);
	return 0;
}

PROG_TWICE("?tp_btf/mm_page_alloc", page_alloc, struct page *page, unsigned int order,
	   unsigned int gfp, int migratetype)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = close_fault(task, order, gfp);
	unsigned int zeroed = gfp & GFP_ZERO;

	if (!state)
		return 0;
	// A new page and a copy, the two most frequent cases, need no row.
	if (order)
		note_huge(task, state, order, state->present);
	else if (!state->present && zeroed)
		count_new(state);
	else if (!state->present || zeroed)
		count_other(task, state);
	else if ((!state->kernel_mode && task->signal->nr_threads == 1) ||
		 !lost_race(state->serial, state->address, task->pid))
		count_copy(state);
	return 0;
}

#endif
