// What the programs of all rungs count with: which fault an allocation belongs to, and where what it was for is added.
// Included by cowprof.bpf.c only.
#ifndef COWPROF_BPF_FAULT_COUNTS_H_
#define COWPROF_BPF_FAULT_COUNTS_H_

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);	// set before loading, by the size of the target
	__type(key, cowprof_region_key);
	__type(value, __u8);	// always 1: it is a set
} regions SEC(".maps");

enum {
	FAULT_PRESENT = 1,	// x86 error code: the page was there, access was denied
	FAULT_WRITE = 2,
	GFP_MOVABLE_USER = 0x2 | 0x8,	// HIGHMEM | MOVABLE: what a page of user memory is allocated with
	GFP_ZERO = 0x100,
};

// The thread's user registers name its fault, until it runs on.
static __always_inline void take_registers(struct thread_state *state, struct pt_regs *user_regs)
{
	state->ip = REGS_IP(user_regs);
	state->sp = user_regs->sp;
	state->call = REGS_CALL(user_regs);
}

static __always_inline int same_registers(struct thread_state *state, struct pt_regs *user_regs)
{
	return REGS_IP(user_regs) == state->ip && user_regs->sp == state->sp && REGS_CALL(user_regs) == state->call;
}

// Notes that the process has a page of its own in this region now.
static __always_inline void add_region(cowprof_region_key key)
{
	__u8 touched = 1;

	if (!bpf_map_lookup_elem(&regions, &key) && bpf_map_update_elem(&regions, &key, &touched, BPF_ANY))
		__sync_fetch_and_add(&losses.regions_dropped, 1);
}

// A thread mostly stays in one region for a while.
static void touch_region(struct thread_state *state)
{
	cowprof_region_key key = (__u64)state->serial << 36 | state->address >> COWPROF_REGION_SHIFT;

	if (state->last_region == key || !state->serial)	// the overflow row is not swept
		return;
	state->last_region = key;
	add_region(key);
}

// Two threads that write one shared page at the same time both allocate and copy; the kernel keeps one (wp_page_copy compares
// the PTE again under its lock). Told by: another thread of the process copied this very page lately, and the process has not
// forked since, which alone makes an anonymous page copyable again.
static int lost_race(struct cowprof_process_row *row, __u64 address, __u32 tid)
{
	__u64 page = address >> 12;
	__u64 key = page << 28 | (__u64)(row->forks & 63) << 22;
	__u64 *slot = &row->recent[page & (COWPROF_RECENT_COPIES - 1)];
	__u64 old = __sync_lock_test_and_set(slot, key | (tid & 0x3fffff));

	if (!row->serial)	// the overflow row is of many address spaces
		return 0;
	return (old ^ key) >> 22 == 0 && (old & 0x3fffff) != (tid & 0x3fffff);
}

// The page was not there, and no single zeroed one was taken for it: a private copy of a file page, shared memory, a page from
// swap, or a huge page of new memory.
static void count_missing(struct task_struct *task, struct cowprof_process_row *row, struct thread_state *state,
			  unsigned int order)
{
	enum mapping mapping = MAPPING_OTHER;

	// Since 5.17 (7c7e3d31e785); before, such pages are not told apart and not counted.
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_find_vma))
		bpf_find_vma(task, state->address, classify_mapping, &mapping, 0);
	if (mapping == MAPPING_SHM)
		__sync_fetch_and_add(&row->counts.shm_pages, 1ull << order);
	else if (mapping == MAPPING_ANONYMOUS && order)
		__sync_fetch_and_add(&row->counts.zero_fill_pages, 1ull << order);
	else if (mapping == MAPPING_ANONYMOUS)
		__sync_fetch_and_add(&row->counts.swap_ins, 1);
	else if (mapping == MAPPING_PRIVATE_FILE && state->write)	// do_cow_fault() takes its page before the page cache does
		__sync_fetch_and_add(&row->counts.file_copies, 1);
}

static void count_copy(struct thread_state *state)
{
	struct cowprof_cause_key key = {.serial = state->serial};
	__u32 count = state->log.count;
	struct cause_slot *slot;
	__u64 type = 0;

	if (state->image && !state->kernel_mode && !state->looked) {
		slot = &state->slots[state->slot & (COWPROF_THREAD_SLOTS - 1)];
		key = slot->key;
		slot->told.now++;
	} else {
		key.image = state->image;
		key.ip = state->image ? state->ip : 0;
		key.shape = state->kernel_mode ? COWPROF_SHAPE_KERNEL
			    : state->image     ? shape_of(state, &type)
					       : COWPROF_SHAPE_UNREAD;
		count_in_slot(state, &key);
	}
	if (log_pages) {
		state->log.pages[count & (COWPROF_PAGE_LOG - 1)] = (state->address & ~(__u64)(PAGE - 1)) | key.shape;
		state->log.count = count + 1;
		if (count + 1 == COWPROF_PAGE_LOG) {
			tell_pages(state);
			state->log.count = state->pages_told = 0;
		}
	}
	if (state->sample)
		sample_place(state, &key, type);
	else if (--state->copies_left <= 1)
		state->sample = 1;
}

// The allocation belongs to the pending fault only while the thread's user registers still are those of the fault: a later
// system call has others. A fault of the kernel has those of its system call all along, and that call may go on to fill the
// page cache after a reuse: read-ahead says NORETRY, a copy never does (a huge page of new memory may).
static int belongs_to_fault(struct task_struct *task, struct thread_state *state, unsigned int gfp)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	unsigned int noretry = 1u << 16;

	if (bpf_core_enum_value_exists(enum ___gfp_bits, ___GFP_NORETRY_BIT))
		noretry = 1u << bpf_core_enum_value(enum ___gfp_bits, ___GFP_NORETRY_BIT);
	if (state->kernel_mode && state->present && gfp & noretry)
		return 0;
	return same_registers(state, regs);
}

// The pending fault that this allocation of user memory belongs to, or NULL. It is closed by it.
static __always_inline struct thread_state *close_fault(struct task_struct *task, unsigned int gfp)
{
	struct thread_state *state;

	if ((gfp & GFP_MOVABLE_USER) != GFP_MOVABLE_USER)
		return 0;
	state = own_state(task);
	if (!state || !state->pending || !belongs_to_fault(task, state, gfp))
		return 0;
	state->pending = 0;
	touch_region(state);
	return state;
}

#endif
