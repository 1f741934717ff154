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
	FAULT_SHADOW_STACK = 1 << 6, // by call or ret; since 6.6, and taken for a write
	GFP_MOVABLE_USER = 0x2 | 0x8, // HIGHMEM | MOVABLE: set for pages of user memory
	GFP_FS = 0x80,
	GFP_ZERO = 0x100,
	PF_MEMALLOC = 0x800, // of a task: it is reclaiming memory
};

// A bit of the running kernel.
#define GFP(name)                                                                    \
	(1u << (bpf_core_enum_value_exists(enum ___gfp_bits, ___GFP_##name##_BIT) ?  \
			bpf_core_enum_value(enum ___gfp_bits, ___GFP_##name##_BIT) : \
			___GFP_##name##_BIT))

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

// What the address of the fault belongs to. It cannot be looked up while another thread holds or
// awaits mmap_lock for writing (-EBUSY): then what the thread last found in this region, or else
// `unknown`. After touch_region().
static enum mapping mapping_at(struct task_struct *task, struct thread_state *state,
			       enum mapping unknown)
{
	enum mapping mapping = MAPPING_OTHER;

	// bpf_find_vma() exists since 5.17 (7c7e3d31e785).
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_find_vma))
		return MAPPING_OTHER;
	if (bpf_find_vma(task, state->address, classify_mapping, &mapping, 0) == -EBUSY)
		return state->mapping_region == state->last_region ? state->mapping : unknown;
	state->mapping = mapping;
	state->mapping_region = state->last_region;
	return mapping;
}

// Counts a page of order 0 for an address that had none, other than a zeroed page: a private copy
// of a file page, shared memory, or a page from swap.
static void count_missing(struct task_struct *task, struct cowprof_process_row *row,
			  struct thread_state *state)
{
	enum mapping mapping = mapping_at(task, state, MAPPING_OTHER);

	if (mapping == MAPPING_SHM)
		__sync_fetch_and_add(&row->counts.shm_pages, 1);
	else if (mapping == MAPPING_ANONYMOUS)
		__sync_fetch_and_add(&row->counts.swap_ins, 1);
	else if (mapping == MAPPING_PRIVATE_FILE && state->write)
		// do_cow_fault() allocates its own page before any for the page cache.
		__sync_fetch_and_add(&row->counts.file_copies, 1);
}

// ---- Huge pages ----

// The kernel allocates a huge page before it charges the memory cgroup, and falls back to a smaller
// one if the charge fails (do_huge_pmd_anonymous_page(), alloc_anon_folio(),
// shmem_alloc_and_add_folio()). So a huge page counts from the thread's next fault or the next tick
// on. A tick within the fault counts one too many.

// After close_fault(). `upgrade`: in the place of a page of zeroes.
static __noinline int note_huge(struct task_struct *task, struct thread_state *state,
				unsigned int order, int upgrade)
{
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &state->process);
	enum mapping mapping = mapping_at(task, state, MAPPING_ANONYMOUS);
	__u32 pages = 1u << (order & 31);

	if (row)
		settle_huge(row, state);
	if (mapping != MAPPING_ANONYMOUS && mapping != MAPPING_SHM) {
		state->pending = 1; // of the page cache, or of hugetlb, which has its own program
		return 0;
	}
	state->huge_is = mapping == MAPPING_SHM ? HUGE_SHM : upgrade ? HUGE_UPGRADE : HUGE_NEW;
	barrier();
	state->huge = pages;
	if (mapping == MAPPING_ANONYMOUS && !state->huge_refused)
		add_to_sample(state, pages);
	return 0;
}

// The last fault got a huge page and nothing smaller.
static __noinline int keep_huge(struct thread_state *state)
{
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &state->process);

	if (state->huge_refused && state->huge_is != HUGE_SHM)
		state->new_pages += 1u << (state->pending - 1 & 31); // of the next sample
	state->huge_refused = 0;
	if (row)
		settle_huge(row, state);
	return 0;
}

// Whether this page takes the place of the huge one. No other allocation of the same system call
// does: a small page of anonymous memory is zeroed.
static __noinline int replaces_huge(struct thread_state *state, unsigned int order,
				    unsigned int gfp)
{
	if (order + 1 >= state->pending ||
	    (!order && state->huge_is != HUGE_SHM && !(gfp & GFP_ZERO)))
		return 0;
	state->huge_refused = 1;
	take_huge(state);
	return 1;
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
// fault; a later system call has others, unless it is the same one in a loop. Read-ahead of the page
// cache allocates with __GFP_NORETRY, as nothing does that a fault takes for itself, except for a
// huge page, which has __GFP_NOMEMALLOC as well. A fault in kernel mode has the registers of its
// system call throughout, which may go on to write into the page cache (__GFP_WRITE), or to read
// ahead as btrfs and squashfs do (without __GFP_FS, which a page for a fault has). Within a fault
// the kernel may move a page to the thread's node (alloc_misplaced_dst_folio(); alloc_pages_mpol()
// allocates a new huge page with both bits), and reclaim memory by compressing it.
static __always_inline int belongs_to_fault(struct task_struct *task, struct thread_state *state,
					    unsigned int order, unsigned int gfp)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	unsigned int noretry = GFP(NORETRY);

	if (gfp & GFP(THISNODE) && (!order || !(gfp & noretry)))
		return 0;
	if (gfp & noretry && (!(gfp & GFP(NOMEMALLOC)) || (state->kernel_mode && state->present)))
		return 0;
	if (state->kernel_mode && (gfp & (GFP(WRITE) | GFP_FS)) != GFP_FS)
		return 0;
	return !(task->flags & PF_MEMALLOC) && same_registers(state, regs);
}

// Returns the thread whose pending fault this allocation of user memory is for, or NULL. The fault
// stays pending if the page is huge: a smaller one may take its place.
static __always_inline struct thread_state *close_fault(struct task_struct *task,
							unsigned int order, unsigned int gfp)
{
	struct thread_state *state;

	if ((gfp & GFP_MOVABLE_USER) != GFP_MOVABLE_USER)
		return 0;
	state = existing_state(task);
	if (!state || !state->pending || !belongs_to_fault(task, state, order, gfp))
		return 0;
	if (state->pending > 1 && !replaces_huge(state, order, gfp))
		return 0;
	state->pending = order ? 1 + (order & 31) : 0;
	touch_region(state);
	return state;
}

#endif
