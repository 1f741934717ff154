// The tracked processes and their threads: the maps that hold them, the per-thread state of a
// fault, and settling, which moves a thread's private counts into the rows that user space reads.
#ifndef COWPROF_BPF_TRACKED_TASKS_H_
#define COWPROF_BPF_TRACKED_TASKS_H_

#include "namespaces.h"

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_PROCESSES);
	__type(key, struct cowprof_process_key);
	__type(value, struct cowprof_process_row);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_CAUSE_ROWS);
	__type(key, struct cowprof_cause_key);
	__type(value, __u64);
} causes SEC(".maps");

// Images that user space identified after the process got its row: serial -> image.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, __u32);
} learned_images SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COWPROF_PAGE_RING_BYTES);
} copied_pages SEC(".maps");

// Number of rows in `processes` by the low bits of the pid. Most faults belong to untracked
// processes; a 0 here rejects them without a map lookup. Incremented before a row is created and
// decremented after it is deleted, so it is never 0 while a row exists. A process that did not fit
// into the map stays counted.
__u32 followed[COWPROF_FOLLOWED_SLOTS];

struct cowprof_losses losses;
__u32 images_learned; // generation of learned_images
int log_pages; // report which pages were copied
// Rows until the table has half the room it had at the last pull. Set by user space.
int cause_rows_left, place_rows_left;

// `now` is written by the owning thread only; `settled` of it is already in the row.
struct own_count {
	__u32 now, settled;
};

// A cause row cached by one thread. The counts continue when the slot is given another key.
struct cause_slot {
	struct cowprof_cause_key key;
	struct own_count looked; // copies classified by reading memory
	struct own_count told; // copies classified by the instruction alone
	__u32 verdicts_known; // generation of `sites` when it was asked for this ip
	__u32 tells; // the answer: this instruction always writes this shape
};

// Where a walk over the lists of free chunks is; see freed_memory.h. Not on the stack, where the
// verifier would keep apart the states of every step.
struct heap_walk {
	__u64 lists, first_arena; // of the arena at hand; the address of the first one
	__u64 head, chunk; // of the list at hand; the next in it
	__u64 from, to; // addresses still to be noted
	__u32 list, arenas;
	__u32 serial, lists_at;
	__u32 partly; // something could not be read, or there was too much
	__u32 reserved;
};

enum { MOST_FETCHED = 128 };

// One thread: its current fault, from the tracepoint until the allocation or the next fault, and
// its counts. The fields that every copy uses come first, in two cache lines, because each line
// that a copy touches was evicted by the two pages that it moves. The struct starts 8 or 16 bytes
// into a line: behind struct bpf_local_storage_data, and on newer kernels a list node (on 6.18: 16).
struct thread_state {
	__u64 address;
	__u64 ip, sp, call; // user registers; those of the system call if the kernel faulted
	cowprof_region_key last_region;
	__u8 pending; // 1 + n: a page of order n > 0 was allocated for it, and a smaller one may follow
	__u8 present, write; // from the error code
	__u8 kernel_mode;
	__u8 reading; // a probe reads user memory; ignore faults it causes
	__u8 looked; // `words` is valid
	__u8 replacing; // rung fentry: do_wp_page() runs
	__u8 installed; // rung fentry: do_wp_page() has installed a new page
	__u8 sample; // the next copy is sampled; see copy_site.h
	__u8 slot; // of the last copy; while not looked: the slot that knows the instruction
	__u8 next_victim;
	__u8 shape; // of the last copy; read back from here, so that the verifier forgets its value
	__u32 copies_left; // until the next sample
	cowprof_region_key plain_region; // see freed_memory.h
	__u32 plain_since;
	__u32 serial, image, images_learned;
	struct own_count faults, write_protect_faults, zero_fill_pages;
	__u32 logged, pages_flushed; // entries of the log; those of them that were sent
	__u32 new_pages, new_gap; // see growth_site.h

	struct own_count kernel_faults;
	__u32 huge; // small pages in the huge page of the last fault that got one, until it is counted
	__u8 huge_is; // enum huge_page
	__u8 huge_refused; // the cgroup had no room for it
	__u16 mapping; // enum mapping, of the region that was looked up last
	cowprof_region_key mapping_region;

	struct cause_slot slots[COWPROF_THREAD_SLOTS];
	__u64 words[4]; // memory at the address before the write
	__u8 fetched[2 * MOST_FETCHED]; // by user_memory.h
	__u64 type; // address of the type of the object that the last looked-at copy hit; 0: unknown
	struct cowprof_process_key process;
	__u32 gap, period; // of samples
	__u32 samples; // taken so far
	__u32 new_period;
	__u64 sampled_ns, new_sampled_ns;
	struct cowprof_page_log log;
	struct heap_walk walk;
	struct cowprof_stack stack; // too large for the BPF stack
	struct cowprof_delivery delivery; // the last one; kind 0: it was reported
};
_Static_assert(__builtin_offsetof(struct thread_state, new_pages) <= 2 * 64 - 16,
	       "what every copy uses lies in two cache lines");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

static __always_inline __u32 *tracked_slot(struct task_struct *task)
{
	return &followed[(__u32)task->tgid & (COWPROF_FOLLOWED_SLOTS - 1)];
}

static __always_inline int may_be_tracked(struct task_struct *task)
{
	return *tracked_slot(task) != 0;
}

// Of the process of any of its tasks.
static __always_inline struct cowprof_process_key key_of(struct task_struct *task)
{
	struct cowprof_process_key key = {
		.pid = task->tgid,
		.start_ns = THROUGH(task, group_leader, start_boottime),
	};

	return key;
}

// Of the process of any of its tasks; NULL if that is not tracked.
static __always_inline struct cowprof_process_row *row_of(struct task_struct *task)
{
	struct cowprof_process_key key;

	if (!may_be_tracked(task))
		return 0;
	key = key_of(task);
	return bpf_map_lookup_elem(&processes, &key);
}

static __u32 image_of(struct cowprof_process_row *row)
{
	__u32 *learned = bpf_map_lookup_elem(&learned_images, &row->serial);

	if (learned)
		row->image = *learned;
	return row->image;
}

// The state of a thread, or NULL if it has none yet.
static __always_inline struct thread_state *existing_state(struct task_struct *task)
{
	return may_be_tracked(task) ? bpf_task_storage_get(&threads, task, 0, 0) : 0;
}

static struct thread_state *new_state(struct task_struct *task)
{
	struct cowprof_process_key key = key_of(task);
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &key);
	struct thread_state *state;

	if (!row)
		return 0;
	state = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state) {
		// The memory comes from a small reserve, which is refilled as far as the thread's
		// memory cgroup has room; since f484f4a3e058 (6.19) from kmalloc_nolock(), which
		// may fail at any time and always fails on a CPU without CMPXCHG16B.
		__sync_fetch_and_add(&losses.threads_refused, 1);
		return 0;
	}
	state->process = key;
	state->serial = row->serial;
	state->images_learned = images_learned;
	state->image = image_of(row);
	state->sample = 1; // always sample the first copy
	return state;
}

// The state of a thread of a tracked process, created if needed; NULL for any other. `task` is the
// current task or its new child.
static __always_inline struct thread_state *state_of(struct task_struct *task)
{
	struct thread_state *state;

	if (!may_be_tracked(task))
		return 0;
	state = bpf_task_storage_get(&threads, task, 0, 0);
	return state ? state : new_state(task);
}

static void learn_image(struct thread_state *state)
{
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &state->process);

	state->images_learned = images_learned;
	state->image = row ? image_of(row) : 0;
}

// ---- Settling: once a tick by the iterator, and by the thread itself when it exits ----

#define READ_ONCE(x) (*(volatile typeof(x) *)&(x))

// Returns the unsettled part of a count and marks it settled. One of two concurrent callers gets it.
static __u32 take(struct own_count *count)
{
	__u32 now = READ_ONCE(count->now), settled = READ_ONCE(count->settled);

	if (now == settled || __sync_val_compare_and_swap(&count->settled, settled, now) != settled)
		return 0;
	return now - settled;
}

static void add_cause(struct cowprof_process_row *row, const struct cowprof_cause_key *key,
		      __u64 copies)
{
	__u64 *total = bpf_map_lookup_elem(&causes, key);

	if (!total) {
		if (!bpf_map_update_elem(&causes, key, &copies, BPF_NOEXIST)) {
			__sync_fetch_and_add(&cause_rows_left, -1);
			return;
		}
		total = bpf_map_lookup_elem(&causes, key); // another thread may have added it
	}
	if (total) {
		__sync_fetch_and_add(total, copies);
		return;
	}
	__sync_fetch_and_add(&row->counts.rowless_copies, copies);
	__sync_fetch_and_add(&losses.cause_rows_dropped, copies);
}

static int same_cause(const struct cowprof_cause_key *a, const struct cowprof_cause_key *b)
{
	return a->ip == b->ip && *(__u64 *)a == *(__u64 *)b;
}

// The owner settles a slot before giving it another key, so a concurrent change of the key shows
// either as nothing to settle or as two reads of the key that differ.
static void settle_slot_count(struct cowprof_process_row *row, struct cause_slot *slot,
			      struct own_count *count, int told)
{
	struct cowprof_cause_key key = { .ip = READ_ONCE(slot->key.ip) };
	__u32 now, settled;

	*(__u64 *)&key = READ_ONCE(*(__u64 *)&slot->key);
	now = READ_ONCE(count->now);
	settled = READ_ONCE(count->settled);
	if (now == settled || key.ip != READ_ONCE(slot->key.ip) ||
	    *(__u64 *)&key != READ_ONCE(*(__u64 *)&slot->key))
		return;
	key.told = told;
	if (__sync_val_compare_and_swap(&count->settled, settled, now) == settled)
		add_cause(row, &key, now - settled);
}

static void settle_slot(struct cowprof_process_row *row, struct cause_slot *slot)
{
	settle_slot_count(row, slot, &slot->looked, 0);
	settle_slot_count(row, slot, &slot->told, 1);
}

enum huge_page {
	HUGE_NEW,
	HUGE_UPGRADE, // in the place of the shared huge page of zeroes
	HUGE_SHM,
};

// Whoever takes the huge page counts it or, if smaller ones took its place, drops it.
static __u32 take_huge(struct thread_state *state)
{
	__u32 pages = READ_ONCE(state->huge);

	return pages && __sync_val_compare_and_swap(&state->huge, pages, 0) == pages ? pages : 0;
}

static void settle_huge(struct cowprof_process_row *row, struct thread_state *state)
{
	int upgrade = state->huge_is == HUGE_UPGRADE;
	__u32 pages = take_huge(state);

	if (!pages)
		return;
	if (state->huge_is == HUGE_SHM) {
		__sync_fetch_and_add(&row->counts.shm_pages, pages);
		return;
	}
	__sync_fetch_and_add(&row->counts.zero_fill_pages, pages - upgrade);
	__sync_fetch_and_add(&row->counts.zero_upgrades, upgrade);
}

struct settling {
	struct cowprof_process_row *row;
	struct thread_state *state;
};

static __noinline long settle_one(__u32 slot, void *context)
{
	struct settling *settling = context;

	settle_slot(settling->row, &settling->state->slots[slot & (COWPROF_THREAD_SLOTS - 1)]);
	return 0;
}

static void settle(struct cowprof_process_row *row, struct thread_state *state)
{
	struct settling settling = { row, state };
	__u32 count;

	if ((count = take(&state->faults)))
		__sync_fetch_and_add(&row->counts.faults, count);
	if ((count = take(&state->kernel_faults)))
		__sync_fetch_and_add(&row->counts.kernel_faults, count);
	if ((count = take(&state->write_protect_faults)))
		__sync_fetch_and_add(&row->counts.write_protect_faults, count);
	if ((count = take(&state->zero_fill_pages)))
		__sync_fetch_and_add(&row->counts.zero_fill_pages, count);
	settle_huge(row, state);
	repeat(COWPROF_THREAD_SLOTS, settle_one, &settling);
}

static void flush_pages(struct thread_state *state)
{
	__u32 first = state->pages_flushed, count = state->logged;

	if (first >= count)
		return;
	state->log.serial = state->serial;
	state->log.first = first;
	state->log.count = count;
	state->pages_flushed = count;
	if (bpf_ringbuf_output(&copied_pages, &state->log, sizeof(state->log), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&losses.pages_dropped, count - first);
}

#endif
