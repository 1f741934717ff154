// Where in the program new memory is touched first: samples zero-filled pages with their Python
// stack, as copy_site.h does with copies. A thread takes a sample at most every 5 ms, and each
// stands for all new pages since the previous one.
#ifndef COWPROF_BPF_GROWTH_SITE_H_
#define COWPROF_BPF_GROWTH_SITE_H_

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_GROWTH_ROWS);
	__type(key, struct cowprof_growth_key);
	__type(value, struct cowprof_growth);
} growth SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_GROWTH_STACKS);
	__type(key, __u64);
	__type(value, struct cowprof_stack);
} growth_stacks SEC(".maps");

__u32 growth_stacks_kept; // since user space took them; reset by it

enum {
	GROWTH_GAP_NS = 5000000,
	LONGEST_GROWTH_PERIOD = 512, // pages; at most twice as many have no sample yet
};

static void plan_next_growth(struct thread_state *state)
{
	__u64 now = bpf_ktime_get_ns(), elapsed = now - state->new_sampled_ns;

	if (elapsed < GROWTH_GAP_NS && state->new_period < LONGEST_GROWTH_PERIOD)
		state->new_period = 2 * state->new_period + 1;
	else if (elapsed > 4 * GROWTH_GAP_NS)
		state->new_period /= 2;
	state->new_sampled_ns = now;
	state->new_pages = 0;
	state->new_gap = state->new_period ? bpf_get_prandom_u32() % (2 * state->new_period) : 0;
}

// Whether it has a row.
static int add_growth(struct cowprof_growth_key *key, __u64 pages)
{
	struct cowprof_growth one = { .pages = pages, .samples = 1 };
	struct cowprof_growth *row = bpf_map_lookup_elem(&growth, key);

	if (!row && !bpf_map_update_elem(&growth, key, &one, BPF_NOEXIST))
		return 1;
	if (!row) // another thread may have added it
		row = bpf_map_lookup_elem(&growth, key);
	if (!row)
		return 0;
	__sync_fetch_and_add(&row->pages, pages);
	__sync_fetch_and_add(&row->samples, 1);
	return 1;
}

static __noinline int sample_growth(struct thread_state *state)
{
	struct cowprof_growth_key key = { .serial = state->serial };
	struct cowprof_image *image;
	__u64 pages = state->new_pages, hash;
	__u32 image_id;

	if (state->images_learned != images_learned)
		learn_image(state);
	image_id = key.image = state->image;
	image = bpf_map_lookup_elem(&images, &image_id);
	plan_next_growth(state);
	if (!image || no_copy_sites)
		return 0;
	hash = walk_frames();
	if (hash)
		key.stack = keep_stack(state, hash, &growth_stacks, &growth_stacks_kept);
	if (!add_growth(&key, pages) || (hash && !key.stack))
		__sync_fetch_and_add(&losses.growth_dropped, pages);
	return 0;
}

static __always_inline void add_to_sample(struct thread_state *state, __u32 pages)
{
	state->new_pages += pages;
	if (state->new_pages > state->new_gap)
		sample_growth(state);
}

// Counts a new zero-filled page of the pending fault.
static __always_inline void count_new(struct thread_state *state)
{
	state->zero_fill_pages.now++;
	add_to_sample(state, 1);
}

#endif
