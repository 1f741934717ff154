// Classifies what a write hit (enum cowprof_shape) from the bytes around the address, and counts
// copies by it. The bytes are those before the write: the kernel allocates the new page before it
// copies. Records facts only; userspace/python/cause.h derives the cause.
#ifndef COWPROF_BPF_COPY_CAUSE_H_
#define COWPROF_BPF_COPY_CAUSE_H_

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, COWPROF_MAX_SITES);
	__type(key, struct cowprof_site_key);
	__type(value, __u8);
} sites SEC(".maps");

__u32 verdicts_known; // generation of `sites`

// Whether nothing is in the block, or nothing but what makes it was written to it: the pool's next
// free block, which a new one is linked to before anybody writes it, or the one before a block that
// is carved now (pymalloc_alloc(), pymalloc_pool_extend()). A block in use may begin with 0 or with
// the address of an object of its pool, too.
static int is_free_block(__u64 block, __u64 first_word, const __u32 *pool, __u32 block_bytes)
{
	__u64 next_free = pool[2] | (__u64)pool[3] << 32;

	return next_free &&
	       (block == next_free || next_free == (first_word ? first_word : block + block_bytes));
}

// Whether the write takes an object from one of CPython's free lists: the link to the next takes the
// place of its type, from 3.14 on that of its count.
static int is_of_free_list(struct thread_state *state, __u64 block)
{
	__u64 offset = state->address - block, count = state->words[0], type = state->words[1];

	if (offset && offset != 16) // behind the collector's links
		return 0;
	return count ? is_pointer(count) && is_type(state, type) : is_pointer(type);
}

// pymalloc pools are aligned to their size and start with struct pool_header (CPython's
// Objects/obmalloc.c).
static int shape_in_pool(struct thread_state *state, struct cowprof_image *image, __u64 *type)
{
	__u64 pool_base = state->address & ~((__u64)image->pool_bytes - 1), block, words[6] = {};
	__u32 pool[POOL_HEADER / 4], block_bytes;

	if (!image->pool_bytes || read_user(state, pool, sizeof(pool), pool_base))
		return 0;
	block = start_of_block(state->address, pool, image->pool_bytes);
	if (!block)
		return 0;
	if (block == pool_base)
		return COWPROF_SHAPE_POOL_HEADER;
	block_bytes = image->pool_bytes - pool[11];
	read_user(state, words, sizeof(words), block);
	if (is_free_block(block, words[0], pool, block_bytes) || is_of_free_list(state, block))
		return COWPROF_SHAPE_FREE_BLOCK;
	for (int i = 1; i < 6; i++) {
		if (8 * i >= block_bytes)
			words[i] = 0; // of the next block
	}
	// An object without a header, after a GC header, or after that and the pre-header of 3.11
	// and later.
	if (image->gc_header_bytes == 24) { // up to 3.7.3: it is at 24, never at 16
		words[2] = words[3];
		words[3] = words[4];
		words[4] = 0;
	}
	for (int i = 0; i < 3; i++) {
		if (words[2 * i] && !(words[2 * i] >> 32) && is_pointer(words[2 * i + 1]) &&
		    is_type(state, words[2 * i + 1])) {
			*type = words[2 * i + 1];
			// A new object that is filled, of which another page was written first.
			if (words[2 * i] == 1 && (block ^ state->address) & ~(__u64)(PAGE - 1))
				return COWPROF_SHAPE_FREE_BLOCK;
			return COWPROF_SHAPE_OBJECT;
		}
	}
	return COWPROF_SHAPE_PAYLOAD;
}

static int shape_in_header(struct thread_state *state, struct cowprof_image *image)
{
	__u32 collecting = 0;

	if (image->collecting)
		read_user(state, &collecting, sizeof(collecting), image->collecting);
	return collecting ? COWPROF_SHAPE_COLLECTION : COWPROF_SHAPE_LINK;
}

// Whether the word before is the address of a table of virtual functions, which follows the offset
// to the top of the object, 0, and the address of its type_info: another such address, and a name
// (Itanium C++ ABI, 2.5.2 and 2.9.4). c10::intrusive_ptr_target and std::_Sp_counted_base have their
// count behind it. `type`: that address.
static int follows_virtual_table(struct thread_state *state, __u64 address, __u64 *type)
{
	__u64 table = word_at(state, address - 8), words[2] = {};

	if (!is_pointer(table) || read_user(state, words, sizeof(words), table - 16) || words[0] ||
	    !is_pointer(words[1]))
		return 0;
	if (read_user(state, words, sizeof(words), words[1]) || !is_pointer(words[0]) ||
	    words[1] < 65536 || words[1] >> USER_ADDRESS_BITS)
		return 0;
	*type = table;
	return 1;
}

// Any write that did not hit the head of an object.
static __noinline int shape_elsewhere(struct thread_state *state, struct cowprof_image *image,
				      __u64 *type)
{
	__u64 address = state->address & ~7ull, head[3] = {}, distance;
	int shape, found;

	for (distance = 8; distance <= 32 && distance <= image->gc_header_bytes; distance += 8) {
		if (read_user(state, head, 16, address + distance))
			continue;
		found = has_live_object(head[0], head[1], address + distance);
		if (found == UNREADABLE)
			return COWPROF_SHAPE_UNREAD;
		if (found == AN_OBJECT && word_at(state, head[1] + TYPE_FLAGS) & TYPE_HAVE_GC) {
			*type = head[1];
			return shape_in_header(state, image);
		}
	}
	if (word_at(state, address) == -1ull && !read_user(state, head, 16, address - 24) &&
	    has_live_object(head[0], head[1], address - 24) == AN_OBJECT) {
		*type = head[1];
		return COWPROF_SHAPE_HASH;
	}
	shape = shape_in_pool(state, image, type);
	if (shape)
		return shape;
	if (in_running_code(state, image))
		return COWPROF_SHAPE_CODE;
	return follows_virtual_table(state, address, type) ? COWPROF_SHAPE_COUNTED :
							     COWPROF_SHAPE_OUTSIDE;
}

static __always_inline int shape_of(struct thread_state *state, __u64 *type)
{
	__u64 *words = state->words;
	__u32 id = state->image;
	struct cowprof_image *image = bpf_map_lookup_elem(&images, &id);
	int found = NO_OBJECT;

	if (!image)
		return COWPROF_SHAPE_UNREAD;
	if (!(state->address & 7) && !(words[0] >> 32) && is_pointer(words[1]))
		found = has_type(state->address, words[1]);
	if (found == UNREADABLE)
		return COWPROF_SHAPE_UNREAD;
	if (found == AN_OBJECT) {
		*type = words[1];
		return !words[0]     ? COWPROF_SHAPE_DEAD_OBJECT :
		       words[0] == 1 ? COWPROF_SHAPE_LAST_REFERENCE :
				       COWPROF_SHAPE_REFCOUNT;
	}
	return shape_elsewhere(state, image, type);
}

// ---- Counting: usually one of the thread's slots already holds the row ----

static __u32 slots_of(__u64 ip)
{
	return ip * 0x9e3779b97f4a7c15ull >> 62 << 2;
}

static void ask_for_verdict(struct cause_slot *slot)
{
	struct cowprof_site_key key = { .ip = slot->key.ip, .image = slot->key.image };
	__u8 *shape = bpf_map_lookup_elem(&sites, &key);

	slot->tells = shape && *shape == slot->key.shape;
	slot->verdicts_known = verdicts_known;
}

// Whether the slot counts copies of a process in which no Python interpreter was identified.
static __always_inline int is_unread(struct cause_slot *slot, __u32 serial)
{
	const struct cowprof_cause_key unread = { .serial = serial, .shape = COWPROF_SHAPE_UNREAD };

	return same_cause(&slot->key, &unread);
}

static void count_in_slot(struct thread_state *state, const struct cowprof_cause_key *key)
{
	struct cause_slot *slot;
	struct cowprof_process_row *row;
	__u32 first = slots_of(key->ip);

	for (__u32 i = 0; i < 4; i++) {
		slot = &state->slots[first + i & (COWPROF_THREAD_SLOTS - 1)];
		if (!same_cause(&slot->key, key))
			continue;
		state->slot = first + i;
		slot->looked.now++;
		if (slot->verdicts_known != verdicts_known)
			ask_for_verdict(slot);
		return;
	}
	row = bpf_map_lookup_elem(&processes, &state->process);
	if (!row)
		return;
	first += state->next_victim++ & 3;
	// Keeps the compiler from dropping the mask below; verifiers up to 6.1 would lose the
	// bound.
	barrier_var(first);
	state->slot = first;
	slot = &state->slots[first & (COWPROF_THREAD_SLOTS - 1)];
	settle_slot(row, slot);
	slot->key = *key;
	slot->looked.now++;
	ask_for_verdict(slot);
}

// Whether the slot knows the shape from the instruction alone.
static int site_tells(struct thread_state *state, __u32 slot)
{
	struct cause_slot *known = &state->slots[slot & (COWPROF_THREAD_SLOTS - 1)];

	return known->key.ip == state->ip && known->tells &&
	       known->verdicts_known == verdicts_known;
}

// Reads the bytes at the fault address, unless the instruction alone tells the shape: a read costs
// about a third of a copy. Must run at the fault, before the kernel examines the page: where the
// direct map is unknown, a read marks the page accessed, so that wp_page_copy() would find its PTE
// changed, discard its copy and take the fault again. Once the page is marked, further reads change
// nothing.
static __always_inline void look(struct thread_state *state)
{
	__u32 room = PAGE - (state->address & (PAGE - 1)), first = slots_of(state->ip);

	state->looked = 0;
	if (!state->sample) {
		if (state->kernel_mode)
			return;
		if (site_tells(state, state->slot)) // often the same as last time
			return;
		for (__u32 i = 0; i < 4; i++) {
			state->slot = first + i;
			if (site_tells(state, first + i))
				return;
		}
	}
	if (room > sizeof(state->words))
		room = sizeof(state->words);
	__builtin_memset(state->fetched, 0, sizeof(state->words));
	state->looked = 1;
	fetch(state->address, room);
	__builtin_memcpy(state->words, state->fetched, sizeof(state->words));
}

#endif
