// Counting, shared by all rungs: matches an allocation with the fault it belongs to, and adds what
// it was for to the right counter.
#ifndef COWPROF_BPF_FAULT_COUNTS_H_
#define COWPROF_BPF_FAULT_COUNTS_H_

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024); // set before loading, from the target's size
	__type(key, cowprof_region_key);
	__type(value, __u8); // always 1; the map is a set
} regions SEC(".maps");

enum {
	FAULT_PRESENT = 1, // x86 error code: protection fault on a present page
	FAULT_WRITE = 2,
	GFP_MOVABLE_USER = 0x2 | 0x8, // HIGHMEM | MOVABLE: set for pages of user memory
	GFP_ZERO = 0x100,
};

// The user registers identify a fault: they stay the same until the thread resumes.
static __always_inline void take_registers(struct thread_state *state, struct pt_regs *user_regs)
{
	state->ip = REGS_IP(user_regs);
	state->sp = user_regs->sp;
	state->call = REGS_CALL(user_regs);
}

static __always_inline int same_registers(struct thread_state *state, struct pt_regs *user_regs)
{
	return REGS_IP(user_regs) == state->ip && user_regs->sp == state->sp &&
	       REGS_CALL(user_regs) == state->call;
}

// Records that the process has acquired a private page in this region.
static __always_inline void add_region(cowprof_region_key key)
{
	__u8 touched = 1;

	if (!bpf_map_lookup_elem(&regions, &key) &&
	    bpf_map_update_elem(&regions, &key, &touched, BPF_ANY))
		__sync_fetch_and_add(&losses.regions_dropped, 1);
}

// Threads tend to stay in one region, so the last one is cached.
static __always_inline void touch_region(struct thread_state *state)
{
	cowprof_region_key key = (__u64)state->serial << 36 |
				 state->address >> COWPROF_REGION_SHIFT;

	if (state->last_region == key)
		return;
	state->last_region = key;
	if (state->serial) // no sweep of the overflow row
		add_region(key);
}

// Two threads that write one shared page at once both allocate and copy; wp_page_copy() rechecks
// the PTE under its lock and discards one copy. Detects the second: another thread of the process
// copied the same page recently, and the process has not forked since. Only a fork makes an
// anonymous page copyable again.
static int lost_race(struct cowprof_process_row *row, __u64 address, __u32 tid)
{
	__u64 page = address >> 12;
	__u64 key = page << 28 | (__u64)(row->forks & 63) << 22;
	__u64 *slot = &row->recent[page & (COWPROF_RECENT_COPIES - 1)];
	__u64 old = __sync_lock_test_and_set(slot, key | (tid & 0x3fffff));

	if (!row->serial) // the overflow row mixes address spaces
		return 0;
	return (old ^ key) >> 22 == 0 && (old & 0x3fffff) != (tid & 0x3fffff);
}

// Counts an allocation for a page that was not present, other than a single zeroed page: a private
// copy of a file page, shared memory, a page from swap, or a new huge page.
static void count_missing(struct task_struct *task, struct cowprof_process_row *row,
			  struct thread_state *state, unsigned int order)
{
	enum mapping mapping = MAPPING_OTHER;

	// bpf_find_vma() exists since 5.17 (7c7e3d31e785); without it these pages are not counted.
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_find_vma))
		bpf_find_vma(task, state->address, classify_mapping, &mapping, 0);
	if (mapping == MAPPING_SHM)
		__sync_fetch_and_add(&row->counts.shm_pages, 1ull << order);
	else if (mapping == MAPPING_ANONYMOUS && order)
		__sync_fetch_and_add(&row->counts.zero_fill_pages, 1ull << order);
	else if (mapping == MAPPING_ANONYMOUS)
		__sync_fetch_and_add(&row->counts.swap_ins, 1);
	else if (mapping == MAPPING_PRIVATE_FILE && state->write)
		// do_cow_fault() allocates its own page before any for the page cache.
		__sync_fetch_and_add(&row->counts.file_copies, 1);
}

// Counts a copy under the cause that memory gives. `told`: the instruction has given it already, and
// only malloc's free memory is left to ask. Returns the shape.
static __noinline int count_by_cause(struct thread_state *state, int told)
{
	struct cowprof_cause_key key = { .serial = state->serial };
	struct cause_slot *slot = &state->slots[state->slot & (COWPROF_THREAD_SLOTS - 1)];
	int shape;

	state->type = 0;
	if (told) {
		key = slot->key;
	} else {
		key.image = state->image;
		key.ip = state->image ? state->ip : 0;
		state->shape = state->kernel_mode ? COWPROF_SHAPE_KERNEL :
			       state->image	  ? shape_of(state, &state->type) :
						    COWPROF_SHAPE_UNREAD;
		barrier();
		key.shape = state->shape;
	}
	shape = heaps_known ? shape_in_heap(state, key.shape) : key.shape;
	if (shape != key.shape) {
		key.shape = shape;
		state->type = told = 0;
	}
	if (told)
		slot->told.now++;
	else
		count_in_slot(state, &key);
	return key.shape;
}

static __always_inline void log_page(struct thread_state *state, int shape)
{
	__u32 count = state->logged;

	state->log.pages[count & (COWPROF_PAGE_LOG - 1)] = (state->address & ~(__u64)(PAGE - 1)) |
							   shape;
	state->logged = count + 1;
	if (count + 1 == COWPROF_PAGE_LOG) {
		flush_pages(state);
		state->logged = state->pages_flushed = 0;
	}
}

// After touch_region(). Most copies have the cause of the copy before, in a region without free
// memory.
static __always_inline void count_copy(struct thread_state *state)
{
	struct cause_slot *slot = &state->slots[state->slot & (COWPROF_THREAD_SLOTS - 1)];
	int told = state->image && !state->kernel_mode && !state->looked;
	int plain = !heaps_known || is_plain(state);
	int shape = slot->key.shape;

	if (plain && told)
		slot->told.now++;
	else if (plain && !state->image && !state->kernel_mode && is_unread(slot, state->serial))
		slot->looked.now++;
	else
		shape = count_by_cause(state, told);
	if (log_pages)
		log_page(state, shape);
	if (state->sample)
		sample_copy_site(state);
	else if (--state->copies_left <= 1)
		state->sample = 1;
}

// For the other rungs: out of line, which keeps their programs small.
static __noinline int count_copy_out_of_line(struct thread_state *state)
{
	count_copy(state);
	return 0;
}

// An allocation belongs to the pending fault only while the user registers are still those of the
// fault; a later system call has others. A fault in kernel mode has the registers of its system
// call throughout, and after a reuse that call may go on to fill the page cache. Read-ahead
// allocates with __GFP_NORETRY, which a copy never does (a new huge page may).
static __always_inline int belongs_to_fault(struct task_struct *task, struct thread_state *state,
					    unsigned int gfp)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	unsigned int noretry = 1u << 16;

	if (bpf_core_enum_value_exists(enum ___gfp_bits, ___GFP_NORETRY_BIT))
		noretry = 1u << bpf_core_enum_value(enum ___gfp_bits, ___GFP_NORETRY_BIT);
	if (state->kernel_mode && state->present && gfp & noretry)
		return 0;
	return same_registers(state, regs);
}

// Closes the pending fault that this allocation of user memory belongs to and returns its thread,
// or NULL.
static __always_inline struct thread_state *close_fault(struct task_struct *task, unsigned int gfp)
{
	struct thread_state *state;

	if ((gfp & GFP_MOVABLE_USER) != GFP_MOVABLE_USER)
		return 0;
	state = existing_state(task);
	if (!state || !state->pending || !belongs_to_fault(task, state, gfp))
		return 0;
	state->pending = 0;
	touch_region(state);
	return state;
}

#endif
