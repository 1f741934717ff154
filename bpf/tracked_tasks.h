// Who is followed, and what is counted of them: the maps of processes and threads, and the way from a thread's own counts to the
// rows that user space reads. Included by cowprof.bpf.c only.
#ifndef COWPROF_BPF_FOLLOWING_H_
#define COWPROF_BPF_FOLLOWING_H_

#include "view.h"

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

// Processes whose image user space has learned since their row was made: serial -> image.
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

// How many rows `processes` has for pids with these low bits: faults of strangers, which all come by, mostly end at a 0 here, without a call.
// Added to before a row is made and taken from after it is deleted, so never 0 where there is one. A process that the table had no room
// for stays in.
__u32 followed[COWPROF_FOLLOWED_SLOTS];

struct cowprof_losses losses;
__u32 images_learned;	// changes whenever learned_images does
int log_pages;	// tell which pages were copied
int cause_rows_left, place_rows_left;	// until that table is half as empty as at the last pull; set by user space

// What only the thread itself writes; `settled` of it is in the row already.
struct own_count {
	__u32 now, settled;
};

// A row of the table of causes that a thread keeps to itself. The counts go on when the key changes.
struct cause_slot {
	struct cowprof_cause_key key;
	struct own_count looked, told;	// copies where memory was read; where the instruction was enough
	__u32 verdicts_known;	// the state of the table of sites when it was asked for this ip
	__u32 tells;	// it said: this instruction always writes this shape
};

// A fault that is being handled, from its tracepoint until its allocation or the thread's next fault; and what the thread counted.
struct thread_state {
	struct cowprof_process_key process;
	__u64 address;
	__u64 ip, sp, call;	// user registers; of the system call, if the kernel faulted
	cowprof_region_key last_region;
	__u32 serial, image, images_learned, execs;
	struct own_count faults, write_protect_faults, zero_fill_pages;
	__u8 pending;
	__u8 present, write;	// from the error code
	__u8 kernel_mode;
	__u8 reading;	// a probe reads user memory: a fault of that is ours
	__u8 looked;	// `words` were read
	__u8 replacing, installed;	// rung fentry: do_wp_page() runs; it has put in a page
	__u8 sample;	// the next copy is to be a sample; see copy_place.h
	__u8 slot;	// that has the instruction already, if not looked
	__u8 next_victim;
	__u64 words[4];	// of memory at the address, before the write
	__u32 copies_left, gap, period, samples;	// until the next sample; taken so far
	__u64 sampled_ns;
	struct cause_slot slots[COWPROF_THREAD_SLOTS];
	struct cowprof_page_log log;
	__u32 pages_told;	// of the log, by the last tick
	struct cowprof_stack stack;	// does not fit on the BPF stack
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

static __always_inline __u32 *followed_slot(struct task_struct *task)
{
	return &followed[(__u32)task->tgid & (COWPROF_FOLLOWED_SLOTS - 1)];
}

static __always_inline int may_be_followed(struct task_struct *task)
{
	return *followed_slot(task) != 0;
}

static struct cowprof_process_key key_of(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	struct cowprof_process_key key = {.pid = task->tgid, .start_ns = leader->start_boottime};

	return key;
}

static struct cowprof_process_row *row_of(struct task_struct *task)
{
	struct cowprof_process_key key = key_of(task);

	return bpf_map_lookup_elem(&processes, &key);
}

static __u32 image_of(struct cowprof_process_row *row)
{
	__u32 *learned = bpf_map_lookup_elem(&learned_images, &row->serial);

	if (learned)
		row->image = *learned;
	return row->image;
}

// The state that a thread has already.
static __always_inline struct thread_state *own_state(struct task_struct *task)
{
	return may_be_followed(task) ? bpf_task_storage_get(&threads, task, 0, 0) : 0;
}

static struct thread_state *new_state(struct task_struct *task)
{
	struct cowprof_process_row *row = row_of(task);
	struct thread_state *state;

	if (!row)
		return 0;
	state = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state) {	// since f484f4a3e058 (6.19) from kmalloc_nolock(), which may fail, and does always without CMPXCHG16B
		__sync_fetch_and_add(&losses.threads_refused, 1);
		return 0;
	}
	state->process = key_of(task);
	state->serial = row->serial;
	state->images_learned = images_learned;
	state->image = image_of(row);
	state->sample = 1;	// the first copy of all
	return state;
}

// The state of a thread of a followed process, or NULL for everybody else. `task` is the current task or its new child.
static __always_inline struct thread_state *state_of(struct task_struct *task)
{
	struct thread_state *state;

	if (!may_be_followed(task))
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

// ---- From the thread to the rows: once a tick by the iterator, and at the thread's end by itself ----

#define READ(place) (*(volatile typeof(place) *)&(place))

// What is not settled yet, and is from here on: of two that try at once, one gets it.
static __u32 take(struct own_count *count)
{
	__u32 now = READ(count->now), settled = READ(count->settled);

	if (now == settled || __sync_val_compare_and_swap(&count->settled, settled, now) != settled)
		return 0;
	return now - settled;
}

static void add_cause(struct cowprof_process_row *row, const struct cowprof_cause_key *key, __u64 copies)
{
	__u64 *total = bpf_map_lookup_elem(&causes, key);

	if (!total) {
		if (!bpf_map_update_elem(&causes, key, &copies, BPF_NOEXIST)) {
			__sync_fetch_and_add(&cause_rows_left, -1);
			return;
		}
		total = bpf_map_lookup_elem(&causes, key);	// another thread was first
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

// The owner gives a slot another key only after it has settled it: then there is nothing to take, or the key is seen to differ.
static void settle_slot_count(struct cowprof_process_row *row, struct cause_slot *slot, struct own_count *count, int told)
{
	struct cowprof_cause_key key = {.ip = READ(slot->key.ip)};
	__u32 now, settled;

	*(__u64 *)&key = READ(*(__u64 *)&slot->key);
	now = READ(count->now);
	settled = READ(count->settled);
	if (now == settled || key.ip != READ(slot->key.ip) || *(__u64 *)&key != READ(*(__u64 *)&slot->key))
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

static void settle(struct cowprof_process_row *row, struct thread_state *state)
{
	__u32 count;

	if ((count = take(&state->faults)))
		__sync_fetch_and_add(&row->counts.faults, count);
	if ((count = take(&state->write_protect_faults)))
		__sync_fetch_and_add(&row->counts.write_protect_faults, count);
	if ((count = take(&state->zero_fill_pages)))
		__sync_fetch_and_add(&row->counts.zero_fill_pages, count);
	for (int i = 0; i < COWPROF_THREAD_SLOTS; i++)
		settle_slot(row, &state->slots[i]);
}

static void tell_pages(struct thread_state *state)
{
	__u32 first = state->pages_told, count = state->log.count;

	if (first >= count)
		return;
	state->log.serial = state->serial;
	state->log.first = first;
	state->pages_told = count;
	if (bpf_ringbuf_output(&copied_pages, &state->log, sizeof(state->log), BPF_RB_NO_WAKEUP))
		__sync_fetch_and_add(&losses.pages_dropped, count - first);
}

#endif
