// Rung perf-event: the software event of page faults opens a fault, an allocation in the same thread closes it. It has no error code:
// what replaces a page of user memory and is not zeroed is taken for a copy, one from swap as well: an upper bound. Since 5.9 the event
// comes before the fault is handled, as it must for the cause to be seen. Included by cowprof.bpf.c only.
#ifndef COWPROF_BPF_RUNG_PERF_EVENT_H_
#define COWPROF_BPF_RUNG_PERF_EVENT_H_

// struct bpf_perf_event_data of the kernel's ABI (include/uapi/linux/bpf_perf_event.h), whose struct pt_regs would meet the kernel's own.
struct fault_event {
#if defined(__TARGET_ARCH_x86)
	__u64 below_ip[16], ip, above_ip[4];
#elif defined(__TARGET_ARCH_arm64)
	__u64 below_ip[32], ip, above_ip[1];
#endif
	__u64 sample_period, address;
};

// `present` stands for not known: it only says that memory is worth a look before it is written.
static void open_unknown_fault(struct thread_state *state, struct pt_regs *user_regs, __u64 address, int kernel_mode)
{
	struct cowprof_process_row *row = kernel_mode ? bpf_map_lookup_elem(&processes, &state->process) : 0;

	if (row)
		__sync_fetch_and_add(&row->counts.kernel_faults, 1);
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
	open_unknown_fault(state, (void *)bpf_task_pt_regs(task), event->address, (long)event->ip < 0);
	return 0;
}

// Where the mappings are being changed by another thread the address can't be looked up: it is taken for what most are.
static void count_unknown(struct task_struct *task, struct thread_state *state, unsigned int order)
{
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &state->process);
	enum mapping mapping = MAPPING_OTHER;

	if (!row)
		return;
	if (bpf_find_vma(task, state->address, classify_mapping, &mapping, 0) == -EBUSY)
		mapping = MAPPING_ANONYMOUS;
	if (mapping == MAPPING_SHM)
		__sync_fetch_and_add(&row->counts.shm_pages, 1ull << order);
	else if (mapping == MAPPING_ANONYMOUS && order)
		__sync_fetch_and_add(&row->counts.zero_fill_pages, 1ull << order);
	else if (mapping != MAPPING_OTHER && !order && !lost_race(row, state->address, task->pid))
		count_copy(state);
}

PROG_TWICE("?tp_btf/mm_page_alloc", event_page_alloc, struct page *page, unsigned int order, unsigned int gfp, int migratetype)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = close_fault(task, gfp);

	if (!state)
		return 0;
	if (gfp & GFP_ZERO)
		state->zero_fill_pages.now += 1u << (order & 31);
	else
		count_unknown(task, state, order);
	return 0;
}

#endif
