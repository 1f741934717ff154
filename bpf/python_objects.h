// Finds CPython's objects and pymalloc's blocks in the memory of a thread, from the bytes alone.
#ifndef COWPROF_BPF_PYTHON_OBJECTS_H_
#define COWPROF_BPF_PYTHON_OBJECTS_H_

// Addresses known to be type objects. In another image the same address may be anything.
struct type_key {
	__u64 address;
	__u64 image;
};
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, COWPROF_MAX_TYPES);
	__type(key, struct type_key);
	__type(value, __u8);
} types SEC(".maps");

enum {
	POOL_HEADER = 48,
	POOL_BLOCK_MAX = 512,
	HEADERS = 32, // most bytes of headers before an object
	TYPE_SIZES = 32, // offset of PyTypeObject.tp_basicsize, followed by tp_itemsize
	TYPE_FLAGS = 168, // offset of PyTypeObject.tp_flags
	STR_STATE = 32, // offset of PyASCIIObject.state
	STR_KIND_SHIFT = 2, // its bits from there on: kind:3, compact:1, ascii:1
};
#define TYPE_HAVE_GC (1ull << 14) // Py_TPFLAGS_HAVE_GC
#define TYPE_SUBCLASS (1ull << 31) // Py_TPFLAGS_TYPE_SUBCLASS
#define UNICODE_SUBCLASS (1ull << 28) // Py_TPFLAGS_UNICODE_SUBCLASS

static int is_pointer(__u64 word)
{
	return word >= 65536 && word < 1ull << USER_ADDRESS_BITS && !(word & 7);
}

// The type of a type object is PyType_Type or a metaclass: a type flagged Py_TPFLAGS_TYPE_SUBCLASS
// whose own chain of types ends at PyType_Type.
static int is_type(struct thread_state *state, __u64 address)
{
	struct type_key key = { .address = address, .image = state->image };
	struct cowprof_image *image;
	__u32 id = state->image;
	__u8 yes = 1;

	if (bpf_map_lookup_elem(&types, &key))
		return 1;
	image = bpf_map_lookup_elem(&images, &id);
	if (!image)
		return 0;
	for (int i = 0; i < 4; i++) {
		address = word_at(state, address + 8);
		if (address == image->type_type) {
			// A failed update costs another check next time.
			bpf_map_update_elem(&types, &key, &yes, BPF_ANY);
			return 1;
		}
		if (!is_pointer(address) || !(word_at(state, address + TYPE_FLAGS) & TYPE_SUBCLASS))
			return 0;
	}
	return 0;
}

static __u64 start_of_block(__u64 address, const __u32 *pool, __u32 pool_bytes)
{
	__u64 base = address & ~((__u64)pool_bytes - 1);
	__u64 first = base + POOL_HEADER;
	__u32 count = pool[0], size_class = pool[9], next = pool[10];
	__u32 block_bytes = pool_bytes - pool[11];

	if (!block_bytes || block_bytes > POOL_BLOCK_MAX || !count ||
	    count > pool_bytes / block_bytes || next < POOL_HEADER || next > pool_bytes ||
	    (block_bytes != (size_class + 1) * 16 && block_bytes != (size_class + 1) * 8))
		return 0;
	return address < first ? base : first + (address - first) / block_bytes * block_bytes;
}

// Whether malloc gave out exactly this address for so many bytes: before it is the size of its
// chunk, which is theirs and one word, rounded up to 16, or 16 more where too little was left to be
// a chunk of its own; the next chunk says that this one is in use (glibc's malloc/malloc.c).
static int is_malloc_chunk(struct thread_state *state, __u64 address, __u64 bytes)
{
	__u64 size = word_at(state, address - 8) & ~7ull, least = (bytes + 8 + 15) & ~15ull;

	return size >= 32 && (size == least || size == least + 16) &&
	       (word_at(state, address + size - 8) & 1);
}

// Sets the size of a str without characters and that of a character. Only a compact one has them
// behind its head, which is shorter if all are ASCII (CPython's Include/cpython/unicodeobject.h);
// `sizes` holds that of the longest head.
static void size_str(struct thread_state *state, __u64 object, __u64 *sizes)
{
	__u64 bits = word_at(state, object + STR_STATE) >> STR_KIND_SHIFT, kind = bits & 7;
	int compact = bits >> 3 & 1, ascii = bits >> 4 & 1;

	sizes[1] = compact ? kind : 0;
	if (compact) // with the 0 at its end; up to 3.11 a str has a pointer to wchar_t, too
		sizes[0] += kind - (!ascii ? 8 : sizes[0] == 80 ? 32 : 24);
}

enum { NO_OBJECT, AN_OBJECT, UNREADABLE }; // whether an object is at an address

// Rejects memory that only looks like an object, such as an array of numbers and pointers to a
// type. A small object is at the start of a pool block or after the headers in it; a large one is
// in malloc's memory, where it stays when it is made smaller (the bytes that pickle.dumps() returns),
// and a static one in a file mapping. The page with the pool's header may be swapped out.
static int lies_like_object(struct thread_state *state, struct cowprof_image *image, __u64 object,
			    __u64 type)
{
	__u64 pool_base = object & ~((__u64)image->pool_bytes - 1), block, before, sizes[2] = {},
	      flags, count;
	enum mapping mapping = MAPPING_OTHER;
	__u32 pool[POOL_HEADER / 4], headers = 0;
	int unread;

	if (!image->pool_bytes)
		return AN_OBJECT;
	unread = read_user(state, pool, sizeof(pool), pool_base);
	if (!unread) {
		block = start_of_block(object, pool, image->pool_bytes);
		if (block && block != pool_base) {
			before = object - block;
			if (before & 15) // 40: after that of PYTHONMALLOC=debug
				return image->gc_header_bytes == 24 &&
				       (before == 24 || before == 40);
			return before <= 48;
		}
	}
	read_user(state, sizes, sizeof(sizes), type + TYPE_SIZES);
	flags = word_at(state, type + TYPE_FLAGS);
	if (flags & UNICODE_SUBCLASS)
		size_str(state, object, sizes);
	count = word_at(state, object + 16); // ob_size, or length of a str
	if ((__s64)count < 0)
		count = -count; // ob_size of a negative int
	if (sizes[1] && count < 1ull << 40)
		sizes[0] += count * sizes[1];
	if (sizes[0] + (flags & TYPE_HAVE_GC ? HEADERS : 0) > POOL_BLOCK_MAX)
		return AN_OBJECT;
	if (flags & TYPE_HAVE_GC)
		headers = image->gc_header_bytes;
	if (sizes[1] && is_malloc_chunk(state, object - headers, headers + sizes[0]))
		return AN_OBJECT;
	// bpf_find_vma() exists since 5.17 (7c7e3d31e785); without it a small object outside a pool
	// is accepted.
	if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_find_vma))
		return AN_OBJECT;
	if (bpf_find_vma(bpf_get_current_task_btf(), object, classify_mapping, &mapping, 0) ==
	    -EBUSY)
		return UNREADABLE;
	if (unread && mapping == MAPPING_ANONYMOUS)
		return UNREADABLE;
	return mapping == MAPPING_PRIVATE_FILE ? AN_OBJECT : NO_OBJECT;
}

// Whether an object of this type is at the address. Not static: see walk_frames().
__noinline int has_type(__u64 address, __u64 type)
{
	struct thread_state *state = existing_state(bpf_get_current_task_btf());
	struct cowprof_image *image;
	__u32 id;

	if (!state)
		return NO_OBJECT;
	id = state->image;
	image = bpf_map_lookup_elem(&images, &id);
	if (!image || !is_type(state, type))
		return NO_OBJECT;
	return lies_like_object(state, image, address, type);
}

static int has_live_object(__u64 refcount, __u64 type, __u64 address)
{
	if (!refcount || refcount >> 32 || !is_pointer(type))
		return NO_OBJECT;
	return has_type(address, type);
}

#endif
