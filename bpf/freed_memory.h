// Which memory of a process was free at its fork, by glibc's malloc: walks the lists of free chunks
// in the parent, inside fork(), and notes the pages that lie wholly in one. A first write to such a
// page overwrites nothing that anybody needs. glibc's fork() holds the locks of all arenas
// meanwhile, so the lists are consistent; each chunk is checked all the same.
//
// malloc/malloc.c, the same from glibc 2.26 to 2.43: a chunk begins with the size of the chunk
// before it, if that is free, and its own size, whose lowest bit says that the one before is in use.
// A free chunk goes on with the links of its list. struct malloc_state has `top`, `last_remainder`,
// the heads of 127 lists (as the links of chunks that begin 16 bytes earlier), 16 bytes, and `next`.
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

struct cowprof_freed_pages no_pages; // template
int heaps_known; // some process has a `heap` that is not COWPROF_HEAP_UNKNOWN

enum {
	TOP_CHUNK, // of an arena: the first to be looked at
	UNSORTED_LIST, // chunks that were freed lately, of any size
	FIRST_SORTED_LIST, // of the largest chunks
	LAST_SORTED_LIST = FIRST_SORTED_LIST + 27, // of chunks from 4 KiB on
	LIST_OF_LARGEST = 126,
	LISTS_BYTES = 254 * 8,
	LEAST_CHUNK = 32,
	MOST_ARENAS = 64,
	MOST_WALK_STEPS = 65536,
	REGION_PAGES = 512,
};

static __always_inline int read_words(__u64 words[2], __u64 from)
{
	return bpf_probe_read_user(words, 16, (void *)from);
}

// The first page belongs in part to the chunk before, the last to the one behind.
static __always_inline void note_chunk(struct heap_walk *walk, __u64 chunk, __u64 bytes)
{
	walk->page = (chunk >> 12) + 1;
	walk->end_page = (chunk + bytes) >> 12;
}

// Up to 64 pages of one row: without a loop, which the verifier would walk through at every step.
static __always_inline long note_pages(struct heap_walk *walk)
{
	cowprof_region_key key = (__u64)walk->serial << 36 |
				 walk->page >> (COWPROF_REGION_SHIFT - 12);
	__u64 first = walk->page & 63, word = walk->page >> 6 & 7, bits = -1ull << first;
	__u64 count = walk->end_page - walk->page;
	struct cowprof_freed_pages *region = bpf_map_lookup_elem(&freed, &key);

	if (!region) {
		bpf_map_update_elem(&freed, &key, &no_pages, BPF_NOEXIST);
		region = bpf_map_lookup_elem(&freed, &key);
	}
	if (!region) {
		walk->partly = 1;
		return 1;
	}
	if (count < 64 - first)
		bits &= (1ull << ((first + count) & 63)) - 1;
	else
		count = 64 - first;
	region->pages[word] |= bits;
	walk->page += count;
	return 0;
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
	__u64 words[2] = {}, number;

	if (walk->list == TOP_CHUNK)
		return note_top(walk);
	if (walk->list > LAST_SORTED_LIST)
		return next_arena(walk);
	number = walk->list == UNSORTED_LIST ? 1 :
					       LIST_OF_LARGEST - (walk->list - FIRST_SORTED_LIST);
	walk->list++;
	walk->head = walk->chunk = walk->lists + 16 * (number - 1) - 16;
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
	if (walk->page < walk->end_page)
		return note_pages(walk);
	return walk->chunk == walk->head ? next_list(walk) : next_chunk(walk);
}

// Notes what is free in the current process, which forks the one with this serial. Returns what is
// known of the child's heap.
static __noinline int walk_heap(struct thread_state *forker, __u32 forker_serial, __u32 serial)
{
	struct cowprof_malloc *malloc = bpf_map_lookup_elem(&mallocs, &forker_serial);
	struct heap_walk *walk = &forker->walk;

	// bpf_loop() exists since 5.17 (e6f2dd0f8067).
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
	return walk->partly ? COWPROF_HEAP_PARTLY : COWPROF_HEAP_WALKED;
}

// What the write hit, given what it is by the bytes there: a page that was free has nothing on it,
// whatever its bytes look like.
static __noinline int shape_in_heap(struct thread_state *state, int shape)
{
	struct cowprof_process_row *row;
	cowprof_region_key key = (__u64)state->serial << 36 |
				 state->address >> COWPROF_REGION_SHIFT;
	__u64 page = state->address >> 12 & (REGION_PAGES - 1);
	struct cowprof_freed_pages *region;
	struct mm_struct *mm;

	row = bpf_map_lookup_elem(&processes, &state->process);
	if (!row || row->heap == COWPROF_HEAP_UNKNOWN)
		return shape;
	region = row->heap == COWPROF_HEAP_FORGOTTEN ? 0 : bpf_map_lookup_elem(&freed, &key);
	if (region && region->pages[page >> 6 & 7] >> (page & 63) & 1)
		return state->kernel_mode ? COWPROF_SHAPE_FREED_KERNEL : COWPROF_SHAPE_FREED;
	mm = bpf_get_current_task_btf()->mm;
	if (row->heap == COWPROF_HEAP_WALKED || !mm || state->address < mm->start_brk ||
	    state->address >= mm->brk)
		return shape;
	// Only what would be taken for data otherwise.
	return shape == COWPROF_SHAPE_KERNEL  ? COWPROF_SHAPE_UNSURE_KERNEL :
	       shape == COWPROF_SHAPE_UNREAD || shape == COWPROF_SHAPE_OUTSIDE ?
						COWPROF_SHAPE_UNSURE :
						shape;
}

#endif
