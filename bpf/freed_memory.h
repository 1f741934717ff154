// Which memory of a process was free at its fork, by glibc's malloc: walks the lists of free
// chunks in the parent, inside fork(), and notes the pages that lie wholly in one, and the words
// of pages that do in part. A first write there overwrites nothing that anybody needs. glibc's
// fork() holds the locks of all arenas meanwhile, so the lists are consistent; each chunk is
// checked all the same.
//
// malloc/malloc.c, the same from glibc 2.26 to 2.43: a chunk begins with the size of the chunk
// before it, if that is free, and its own size, whose lowest bit says that the one before is in
// use. A free chunk goes on with the links of its list. struct malloc_state has `top`,
// `last_remainder`, the heads of 127 lists (as the links of chunks that begin 16 bytes earlier),
// 16 bytes, and `next`.
#ifndef COWPROF_BPF_FREED_MEMORY_H_
#define COWPROF_BPF_FREED_MEMORY_H_

// How the processes with these serials, and those that they fork, allocate.
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_PROCESSES);
	__type(key, __u32);
	__type(value, struct cowprof_malloc);
} mallocs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_FREED_REGIONS);
	__type(key, cowprof_region_key);
	__type(value, struct cowprof_freed_pages);
} freed SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_FREED_PARTS);
	__type(key, __u64); // serial << 36 | number of the page
	__type(value, struct cowprof_freed_words);
} freed_parts SEC(".maps");

int heaps_known; // some process has a `heap` that is not COWPROF_HEAP_UNKNOWN
__u32 heaps_unsure; // number of times that one was set to neither of that and COWPROF_HEAP_WALKED

enum {
	TOP_CHUNK, // of an arena: the first to be looked at
	UNSORTED_LIST, // chunks that were freed lately, of any size
	LIST_OF_LARGEST = 126,
	LIST_OF_SMALLEST = 2,
	LISTS_BYTES = 254 * 8,
	LEAST_CHUNK = 32,
	MOST_ARENAS = 64,
	MOST_WALK_STEPS = 32768,
	BITS = 512, // of a row: pages of a region, words of a page
};

static __always_inline int read_words(__u64 words[2], __u64 from)
{
	return bpf_probe_read_user(words, 16, (void *)from);
}

// The bits below `n`: none if it is negative, all from 64 on. Without a branch, which would double
// what the verifier has to walk through.
static __always_inline __u64 bits_below(__s64 n)
{
	__s64 below = n, above = 63 - n;

	barrier_var(below); // or clang makes it a branch
	barrier_var(above);
	below >>= 63;
	above >>= 63;
	return (((1ull << (n & 63)) - 1) | above) & ~below;
}

static __always_inline void *row_in(void *map, __u64 key)
{
	__u64 none[BITS / 64] = {}, *row = bpf_map_lookup_elem(map, &key);

	if (row)
		return row;
	bpf_map_update_elem(map, &key, none, BPF_NOEXIST);
	return bpf_map_lookup_elem(map, &key);
}

// Sets bits [first, end) of a row of `freed`, or of `freed_parts`; the row is made if it is not there. Not
// static: see in_brk_heap().
__noinline int note_bits(__u32 parts, __u64 key, __u64 first, __u64 end)
{
	__u64 *row = parts ? row_in(&freed_parts, key) : row_in(&freed, key);

	if (!row)
		return 0;
#pragma unroll
	for (int i = 0; i < BITS / 64; i++)
		row[i] |= bits_below(end - 64 * i) & ~bits_below(first - 64 * i);
	return 1;
}

// A free chunk owns what is behind its first word, which is the end of the chunk before, up to and
// with the first word of the chunk behind. That one's size is written, too, when this is allocated.
static __always_inline void note_chunk(struct heap_walk *walk, __u64 chunk, __u64 bytes)
{
	walk->from = chunk + 8;
	walk->to = chunk + bytes + 16;
}

// One row: of whole pages, or of the words of one page.
static __always_inline long note_part(struct heap_walk *walk)
{
	__u64 serial = (__u64)walk->serial << 36, from = walk->from, to = walk->to;
	__u64 page = from >> 12, end_page = to >> 12, first, end;
	int noted;

	if (from & (PAGE - 1) || page == end_page) {
		end = page == end_page ? to : (page + 1) << 12;
		// A region with parts has a row, so that most copies need one lookup.
		noted = note_bits(0, serial | page >> 9, 0, 0) &&
			note_bits(1, serial | page, (from & (PAGE - 1)) >> 3,
				  (end - (page << 12)) >> 3);
		walk->from = end;
	} else {
		first = page & (BITS - 1);
		end = first + end_page - page;
		if (end > BITS)
			end = BITS;
		noted = note_bits(0, serial | page >> 9, first, end);
		walk->from = (page + end - first) << 12;
	}
	if (noted)
		return 0;
	__sync_fetch_and_add(&losses.heaps_dropped, 1); // once: this ends the walk
	walk->partly = 1;
	return 1;
}

static __always_inline int is_chunk(__u64 chunk, __u64 bytes)
{
	return is_pointer(chunk) && !(chunk & 15) && !(bytes & 15) && bytes >= LEAST_CHUNK &&
	       bytes < 1ull << USER_ADDRESS_BITS && chunk + bytes < 1ull << USER_ADDRESS_BITS;
}

static __always_inline long note_top(struct heap_walk *walk)
{
	__u64 words[2] = {}, top;

	walk->list = UNSORTED_LIST;
	walk->head = walk->chunk = 0;
	if (read_words(words, walk->lists - 16))
		goto unknown;
	top = words[0];
	if (top == walk->lists - 16) // nothing was allocated yet
		return 0;
	if (read_words(words, top) || !is_chunk(top, words[1] & ~7ull))
		goto unknown;
	note_chunk(walk, top, words[1] & ~7ull);
	return 0;
unknown:
	walk->partly = 1;
	return 0;
}

static __always_inline long next_arena(struct heap_walk *walk)
{
	__u64 words[2] = {};

	if (read_words(words, walk->lists + LISTS_BYTES + 16) || !is_pointer(words[0]) ||
	    ++walk->arenas > MOST_ARENAS) {
		walk->partly = 1;
		return 1;
	}
	if (words[0] == walk->first_arena)
		return 1;
	walk->lists = words[0] + walk->lists_at;
	walk->list = TOP_CHUNK;
	return 0;
}

static __always_inline long next_list(struct heap_walk *walk)
{
	__u64 words[2] = {};

	if (walk->list == TOP_CHUNK)
		return note_top(walk);
	if (walk->list < UNSORTED_LIST || walk->list > LIST_OF_LARGEST)
		return next_arena(walk);
	walk->head = walk->chunk = walk->lists + 16 * (walk->list - 1) - 16;
	// The largest chunks first: there may be too many small ones.
	walk->list = walk->list == UNSORTED_LIST    ? LIST_OF_LARGEST :
		     walk->list == LIST_OF_SMALLEST ? LIST_OF_LARGEST + 1 :
						      walk->list - 1;
	if (read_words(words, walk->head + 16))
		walk->partly = 1;
	else
		walk->chunk = words[0];
	return 0;
}

static __always_inline long next_chunk(struct heap_walk *walk)
{
	__u64 own[2] = {}, behind[2] = {}, chunk = walk->chunk, bytes;

	walk->chunk = walk->head; // unless all is well
	if (!is_pointer(chunk) || read_words(own, chunk + 8))
		goto unknown;
	bytes = own[0] & ~7ull;
	if (!is_chunk(chunk, bytes) || read_words(behind, chunk + bytes) || behind[0] != bytes ||
	    behind[1] & 1)
		goto unknown;
	note_chunk(walk, chunk, bytes);
	walk->chunk = own[1];
	return 0;
unknown:
	walk->partly = 1;
	return 0;
}

static long walk_step(__u32 step, void *unused)
{
	struct thread_state *state = existing_state(bpf_get_current_task_btf());
	struct heap_walk *walk;

	if (!state)
		return 1;
	walk = &state->walk;
	if (step == MOST_WALK_STEPS - 1) {
		walk->partly = 1;
		return 1;
	}
	if (walk->from < walk->to)
		return note_part(walk);
	return walk->chunk == walk->head ? next_list(walk) : next_chunk(walk);
}

// Notes what is free in the current process, which forks the one with this serial. Returns what is
// known of the child's heap.
static __noinline int walk_heap(struct thread_state *forker, __u32 forker_serial, __u32 serial)
{
	struct cowprof_malloc *malloc = bpf_map_lookup_elem(&mallocs, &forker_serial);
	struct heap_walk *walk = &forker->walk;

	if (!malloc || !bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop))
		return COWPROF_HEAP_UNKNOWN;
	// A failed update leaves the heaps of the child's own children unknown.
	bpf_map_update_elem(&mallocs, &serial, malloc, BPF_ANY);
	__builtin_memset(walk, 0, sizeof(*walk));
	walk->lists = malloc->lists;
	walk->lists_at = malloc->lists_at;
	walk->first_arena = malloc->lists - malloc->lists_at;
	walk->serial = serial;
	heaps_known = 1;
	forker->reading = 1;
	bpf_loop(MOST_WALK_STEPS, walk_step, 0, 0);
	forker->reading = 0;
	if (walk->partly)
		__sync_fetch_and_add(&heaps_unsure, 1);
	return walk->partly ? COWPROF_HEAP_PARTLY : COWPROF_HEAP_WALKED;
}

// Not static: the verifier then walks it once, and not once for each state that it is called in.
__noinline int in_brk_heap(__u64 address)
{
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;

	return mm && address >= mm->start_brk && address < mm->brk;
}

// Whether nothing was free in the region of the copy, as far as is known since the last copy there.
// Copies tend to stay in one region, and most regions have nothing that was free. Rows are made
// before their process runs; what its heap is changes only with `heaps_unsure`.
static __always_inline int is_plain(struct thread_state *state)
{
	return state->plain_region == state->last_region && state->plain_since == heaps_unsure;
}

// What the write hit, given what it is by the bytes there: a page that was free has nothing on it,
// whatever its bytes look like. After touch_region().
static __noinline int shape_in_heap(struct thread_state *state, int shape)
{
	struct cowprof_process_row *row;
	cowprof_region_key key = state->last_region;
	__u64 page = state->address >> 12, word = state->address >> 3 & (BITS - 1);
	__u64 part_key = (__u64)state->serial << 36 | page;
	struct cowprof_freed_pages *region;
	struct cowprof_freed_words *part;
	__u32 unsure = heaps_unsure;

	if (is_plain(state))
		return shape;
	region = bpf_map_lookup_elem(&freed, &key);
	row = region || unsure ? bpf_map_lookup_elem(&processes, &state->process) : 0;
	if (!row || row->heap == COWPROF_HEAP_UNKNOWN ||
	    (!region && row->heap == COWPROF_HEAP_WALKED)) {
		state->plain_region = key;
		state->plain_since = unsure;
		return shape;
	}
	if (region && row->heap != COWPROF_HEAP_FORGOTTEN) {
		page &= BITS - 1;
		if (region->pages[page >> 6 & 7] >> (page & 63) & 1)
			goto free;
		part = bpf_map_lookup_elem(&freed_parts, &part_key);
		if (part && part->words[word >> 6 & 7] >> (word & 63) & 1)
			goto free;
	}
	if (row->heap == COWPROF_HEAP_WALKED || !in_brk_heap(state->address))
		return shape;
	// Only what would be taken for data otherwise.
	return shape == COWPROF_SHAPE_KERNEL ? COWPROF_SHAPE_UNSURE_KERNEL :
	       shape == COWPROF_SHAPE_UNREAD || shape == COWPROF_SHAPE_OUTSIDE ?
					       COWPROF_SHAPE_UNSURE :
					       shape;
free:
	return state->kernel_mode ? COWPROF_SHAPE_FREED_KERNEL : COWPROF_SHAPE_FREED;
}

#endif
