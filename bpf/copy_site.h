// Where in the program copies happen: samples copies with their Python stack. A thread takes a
// sample at most every 2 ms. A Python thread starts at one every 0.2 ms and slows down, since each
// further sample adds less information. A sample stands for all copies since the previous one. Gaps
// are random, to avoid aliasing with periodic behaviour of the program.
#ifndef COWPROF_BPF_COPY_SITE_H_
#define COWPROF_BPF_COPY_SITE_H_

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_PLACE_ROWS);
	__type(key, struct cowprof_copy_site_key);
	__type(value, struct cowprof_copy_site);
} copy_sites SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_STACKS);
	__type(key, __u64);
	__type(value, struct cowprof_stack);
} stacks SEC(".maps");

const volatile int every_copy;
const volatile int no_copy_sites;

enum {
	FIRST_SAMPLES = 2048, // over which the gap grows from FIRST_GAP_NS to GAP_NS
	FIRST_GAP_NS = 200000,
	GAP_NS = 2000000,
	LONGEST_PERIOD = 4096,
};

// Stores the thread's stack, which has this hash, in a table; returns the key there, or 0: no room.
// `kept`, if not NULL, counts those put into the growth stacks; news once they fill half of them.
static __always_inline __u64 keep_stack(struct thread_state *state, __u64 hash, void *table,
					__u32 *kept)
{
	if (bpf_map_lookup_elem(table, &hash))
		return hash;
	if (bpf_map_update_elem(table, &hash, &state->stack, BPF_ANY))
		return 0;
	if (kept && __sync_fetch_and_add(kept, 1) == COWPROF_MAX_GROWTH_STACKS / 2)
		announce_news();
	return hash;
}

// Whether it has a row.
static int add_copy_site(struct cowprof_copy_site_key *key, __u64 copies)
{
	struct cowprof_copy_site one = { .copies = copies,
					 .samples = 1,
					 .squares = copies * copies };
	struct cowprof_copy_site *site = bpf_map_lookup_elem(&copy_sites, key);

	if (!site && !bpf_map_update_elem(&copy_sites, key, &one, BPF_NOEXIST)) {
		__sync_fetch_and_add(&place_rows_left, -1);
		if (key->stack)
			announce_news();
		return 1;
	}
	if (!site)
		site = bpf_map_lookup_elem(&copy_sites, key);
	if (!site) {
		__sync_fetch_and_add(&losses.place_rows_dropped, copies);
		return 0;
	}
	__sync_fetch_and_add(&site->copies, copies);
	__sync_fetch_and_add(&site->samples, 1);
	__sync_fetch_and_add(&site->squares, copies * copies);
	return 1;
}

static void plan_next_sample(struct thread_state *state)
{
	__u64 now = bpf_ktime_get_ns(), elapsed = now - state->sampled_ns;
	__u64 wanted = GAP_NS;

	if (state->image && state->samples < FIRST_SAMPLES)
		wanted = FIRST_GAP_NS + (GAP_NS - FIRST_GAP_NS) * state->samples++ / FIRST_SAMPLES;
	if (elapsed < wanted && state->period < LONGEST_PERIOD)
		state->period = 2 * state->period + 1;
	else if (elapsed > 4 * wanted)
		state->period /= 2;
	if (every_copy)
		state->period = 0;
	state->sampled_ns = now;
	state->gap = state->copies_left =
		state->period ? 1 + bpf_get_prandom_u32() % (2 * state->period) : 1;
	state->sample = state->gap == 1;
}

static __noinline int sample_copy_site(struct thread_state *state)
{
	struct cause_slot *slot = &state->slots[state->slot & (COWPROF_THREAD_SLOTS - 1)];
	struct cowprof_copy_site_key key = { .cause = slot->key };
	__u64 copies = state->gap ? state->gap : 1, hash;

	key.cause.ip = state->ip; // without an image, too: user space names its symbol
	if (state->image && state->looked)
		key.type = state->type;
	if (no_copy_sites) {
		plan_next_sample(state);
		return 0;
	}
	hash = walk_frames();
	if (hash)
		key.stack = keep_stack(state, hash, &stacks, 0);
	if (add_copy_site(&key, copies) && hash && !key.stack) // counted, but without a line
		__sync_fetch_and_add(&losses.place_rows_dropped, copies);
	plan_next_sample(state);
	return 0;
}

#endif
