// Rung fentry: a page that is added to anonymous memory while do_wp_page() runs in the same thread
// is a copy. Exact for every way into do_wp_page(), including GUP and writes by other processes.
// Address and instruction are recorded earlier, by the tracepoint or the perf event of the fault,
// because memory must not be read here: a read marks the page accessed, so that the kernel finds
// its PTE changed, discards its copy and takes the fault again.
#ifndef COWPROF_BPF_RUNG_FENTRY_H_
#define COWPROF_BPF_RUNG_FENTRY_H_

enum { VM_FAULT_RETRY = 0x400 }; // nothing was done; do_wp_page() will run again

// Faults come from the perf event, without an error code: count write-protection faults here.
const volatile int faults_by_event;

// A write into a tracked process by another one: process_vm_writev(2), ptrace(2) or /proc/PID/mem.
// Stored with the writer's task.
struct foreign_write {
	struct cowprof_process_key owner;
	__u64 address;
	__u8 replacing, installed;
};
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct foreign_write);
} foreign_writes SEC(".maps");

static __u64 address_of(struct vm_fault *fault)
{
	return bpf_core_field_exists(fault->real_address) ? fault->real_address : fault->address;
}

static void begin_foreign(struct task_struct *writer, struct vm_fault *fault)
{
	struct task_struct *owner = fault->vma->vm_mm->owner;
	struct cowprof_process_key key;
	struct foreign_write *write;

	if (!owner)
		return;
	key = key_of(owner);
	if (!bpf_map_lookup_elem(&processes, &key))
		return;
	write = bpf_task_storage_get(&foreign_writes, writer, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!write)
		return;
	write->owner = key;
	write->address = address_of(fault);
	write->replacing = 1;
	write->installed = 0;
}

// A fault that no other program opened comes from GUP, which raises no exception. For a fault that
// brought its page back from swap, memory has not been read yet; it can be now, as the page has
// just been mapped accessed.
static void begin_own(struct task_struct *task, struct thread_state *state, struct vm_fault *fault)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	__u64 address = address_of(fault);

	if ((state->address ^ address) >> 12 || !same_registers(state, regs)) {
		state->address = address;
		take_registers(state, regs);
		state->kernel_mode = !(fault->flags & FAULT_FLAG_USER);
		state->present = state->pending = 0;
	}
	if (state->images_learned != images_learned)
		learn_image(state);
	if (!state->present && state->image && !state->kernel_mode)
		look(state);
	state->replacing = 1;
	state->installed = 0;
}

PROG_TWICE("?fentry/do_wp_page", wp_begin, struct vm_fault *fault)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state;

	if (fault->vma->vm_mm != task->mm) {
		if (bpf_core_field_exists(task->mm->owner))
			begin_foreign(task, fault);
		return 0;
	}
	state = state_of(task);
	if (state)
		begin_own(task, state, fault);
	return 0;
}

static int add_page(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = existing_state(task);
	struct foreign_write *write = bpf_task_storage_get(&foreign_writes, task, 0, 0);

	if (state)
		state->installed = 1;
	if (write)
		write->installed = 1;
	return 0;
}

PROG_TWICE("?fentry/folio_add_new_anon_rmap", folio_added)
{
	return add_page();
}

// Called instead before 6.5.
PROG_TWICE("?fentry/page_add_new_anon_rmap", page_added)
{
	return add_page();
}

static void end_foreign(struct foreign_write *write, int upgrade)
{
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &write->owner);
	struct cowprof_cause_key key = { .shape = COWPROF_SHAPE_KERNEL };

	if (!row)
		return;
	__sync_fetch_and_add(&row->counts.write_protect_faults, 1);
	add_region((__u64)row->serial << 36 | write->address >> COWPROF_REGION_SHIFT);
	if (upgrade) {
		__sync_fetch_and_add(&row->counts.zero_upgrades, 1);
		return;
	}
	key.serial = row->serial;
	add_cause(row, &key, 1);
}

static void end_own(struct thread_state *state, int upgrade)
{
	struct cowprof_process_row *row;

	touch_region(state);
	if (!upgrade) {
		count_copy_out_of_line(state);
		return;
	}
	row = bpf_map_lookup_elem(&processes, &state->process);
	if (row)
		__sync_fetch_and_add(&row->counts.zero_upgrades, 1);
}

// `page` is the page that was replaced; NULL for the shared zero page, which makes it an upgrade.
PROG_TWICE("?fexit/do_wp_page", wp_end, struct vm_fault *fault, unsigned int result)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = existing_state(task);
	struct foreign_write *write = bpf_task_storage_get(&foreign_writes, task, 0, 0);

	if (write && write->replacing) {
		write->replacing = 0;
		if (write->installed)
			end_foreign(write, !fault->page);
	} else if (state && state->replacing) {
		state->replacing = 0;
		if (!(result & VM_FAULT_RETRY) && (faults_by_event || !state->present))
			state->write_protect_faults.now++;
		if (state->installed)
			end_own(state, !fault->page);
	}
	return 0;
}

// All allocations but copies and upgrades, which wp_end() counts.
PROG_TWICE("?tp_btf/mm_page_alloc", other_page_alloc, struct page *page, unsigned int order,
	   unsigned int gfp, int migratetype)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = close_fault(task, order, gfp);
	struct cowprof_process_row *row;

	if (!state || state->replacing)
		return 0;
	if (order) {
		note_huge(task, state, order, state->present && !faults_by_event);
		return 0;
	}
	if (gfp & GFP_ZERO) {
		count_new(state);
		return 0;
	}
	row = bpf_map_lookup_elem(&processes, &state->process);
	if (row)
		count_missing(task, row, state);
	return 0;
}

#endif
