// Reads memory of the current process: the page of its fault where the kernel will read it to copy
// it, in the map of all physical memory, if that was looked for and found. A read at the user's address would set
// the accessed bit of a page that is about to be replaced, and have a hypervisor that keeps page
// tables in software map it for the kernel and unmap it again (40 us, measured).
#ifndef COWPROF_BPF_USER_MEMORY_H_
#define COWPROF_BPF_USER_MEMORY_H_

enum {
	PAGE = 4096,
	PTE_PRESENT = 1,
	PTE_USER = 1 << 2,
	PTE_HUGE = 1 << 7, // in a table above the last one
	MOST_GIB = 16384, // of physical memory
	MOST_GIB_WITHOUT_LOOP = 256, // the verifier walks through each
};

// User space sets all but `base` before the first scan of the process tree, which finds that.
struct {
	__u64 base; // where the map begins; 0: unknown
	__u64 address, word, frame; // of a page of cowprof, and what is there; frame 0: unknown
	int pipe; // file descriptor: this page is the first one in it
} direct_map;

static __always_inline int read_kernel(void *to, __u32 bytes, __u64 from)
{
	return kernel_reads ? bpf_probe_read_kernel(to, bytes, (void *)from) : -EPERM;
}

#if defined(__TARGET_ARCH_x86)
// Where the map has the page of the current process's memory that `address` is in; 0: absent, or
// not for user space: the target chooses the address, and the kernel's memory is in the same tables.
// Walks them as a CPU does (Intel SDM volume 3, 5.5 and 5.6). Another thread may unmap the page
// meanwhile: what is read then is anybody's, and makes this copy's cause wrong at most. Not static:
// see walk_frames().
__noinline __u64 walk_page_tables(__u64 address)
{
	const __u64 frames = 0x000ffffffffff000ull;
	struct mm_struct *mm = bpf_get_current_task_btf()->mm;
	__u64 table = mm && bpf_core_field_exists(mm->pgd) ? (__u64)mm->pgd : 0, entry;
	// The map begins in the upper half of what 48 bits reach, or lower with 57
	// (Documentation/arch/x86/x86_64/mm.rst).
	int shift = table < 0xffff800000000000ull ? 48 : 39;

	if (!table || address >> (shift + 8)) // not canonical, or the kernel's
		return 0;
	for (int level = 0; level < 5 && shift >= 12; level++, shift -= 9) {
		if (read_kernel(&entry, sizeof(entry), table + (address >> shift & 511) * 8) ||
		    !(entry & PTE_PRESENT) || !(entry & PTE_USER))
			return 0;
		table = direct_map.base + (entry & frames);
		if (shift == 12)
			return table;
		if (shift < 39 && entry & PTE_HUGE)
			return (table & ~((1ull << shift) - 1)) +
			       (address & ((1ull << shift) - PAGE));
	}
	return 0;
}

struct map_search {
	__u64 mm, pgd; // of cowprof
	__u64 pages; // address of struct page of frame 0
};

// Where a kernel has renamed one, memory is read at the user's address; the probes load all the same.
static __always_inline int has_fields(void)
{
	return (bpf_core_field_exists(struct ptdesc, pt_mm) ||
		bpf_core_field_exists(struct page, pt_mm)) &&
	       bpf_core_field_exists(struct mm_struct, pgd) &&
	       bpf_core_field_exists(struct task_struct, files) &&
	       bpf_core_field_exists(struct files_struct, fdt) &&
	       bpf_core_field_exists(struct fdtable, fd) &&
	       bpf_core_field_exists(struct file, private_data) &&
	       bpf_core_field_exists(struct pipe_inode_info, bufs) &&
	       bpf_core_field_exists(struct pipe_buffer, page);
}

static __noinline long is_map_at(__u32 gib, void *context)
{
	struct map_search *search = context;
	__u64 physical = ((__u64)gib << 30) + (search->pgd & ((1ull << 30) - 1));
	__u64 page = search->pages + physical / PAGE * bpf_core_type_size(struct page);
	struct mm_struct *mm = bpf_core_field_exists(struct ptdesc, pt_mm) ?
				       BPF_CORE_READ((struct ptdesc *)page, pt_mm) :
				       BPF_CORE_READ((struct page *)page, pt_mm);

	if ((__u64)mm != search->mm)
		return 0;
	direct_map.base = search->pgd - physical;
	return 1;
}

// Where physical memory begins in the map is a multiple of 1 GiB (kernel_randomize_memory()). So the
// address of the top page table leaves a few frames that it may have, and the right one's struct
// page says whose table it is (pgd_set_mm()). Must run in a system call of cowprof.
static void find_direct_map(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct map_search search = { .mm = (__u64)task->mm };
	__u64 files, file = 0, word = 0, page, frame = direct_map.frame;
	struct pipe_inode_info *pipe;

	direct_map.frame = 0;
	if (!kernel_reads || !has_fields() || !frame)
		return;
	files = (__u64)THROUGH(task, files, fdt);
	if (read_kernel(&file, sizeof(file),
			(__u64)BPF_CORE_READ((struct fdtable *)files, fd) + 8 * direct_map.pipe))
		return;
	pipe = BPF_CORE_READ((struct file *)file, private_data);
	search.pgd = (__u64)THROUGH(task, mm, pgd);
	search.pages =
		(__u64)BPF_CORE_READ(pipe, bufs, page) - frame * bpf_core_type_size(struct page);
	repeat(bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop) ? MOST_GIB :
									     MOST_GIB_WITHOUT_LOOP,
	       is_map_at, &search);
	if (!direct_map.base)
		return;
	page = walk_page_tables(direct_map.address);
	if (!page || read_kernel(&word, sizeof(word), page + (direct_map.address & (PAGE - 1))) ||
	    word != direct_map.word)
		direct_map.base = 0;
}
#else
static __always_inline __u64 walk_page_tables(__u64 address)
{
	return 0;
}

static void find_direct_map(void)
{
}
#endif

// `bytes`, of which the verifier may have forgotten that they are 1 to MOST_FETCHED.
static __always_inline __u32 bounded(__u32 bytes)
{
	barrier_var(bytes);
	return ((bytes - 1) & (MOST_FETCHED - 1)) + 1;
}

// Reads 1 to MOST_FETCHED bytes into the current thread's state.
__noinline int fetch(__u64 from, __u32 bytes)
{
	struct thread_state *state = existing_state(bpf_get_current_task_btf());
	__u32 size = PAGE - (from & (PAGE - 1)), done = 0;
	__u64 page;
	int error;

	if (!state)
		return -EFAULT;
	if (!direct_map.base) {
		// A read of an absent page fires the page-fault tracepoint as well; `reading` marks
		// that fault as ours.
		state->reading = 1;
		error = bpf_probe_read_user(state->fetched, bounded(bytes), (void *)from);
		state->reading = 0;
		return error;
	}
	for (int part = 0; part < 2 && done < bytes; part++) {
		if (size > bytes - done)
			size = bytes - done;
		page = walk_page_tables(from + done);
		if (!page || read_kernel(&state->fetched[done & (MOST_FETCHED - 1)], bounded(size),
					 page + (from + done & (PAGE - 1))))
			return -EFAULT;
		done += size;
		size = bytes;
	}
	return 0;
}

// `bytes`: a constant.
static __always_inline int read_user(struct thread_state *state, void *to, __u32 bytes, __u64 from)
{
	int error = fetch(from, bytes);

	if (!error)
		__builtin_memcpy(to, state->fetched, bytes);
	return error;
}

// 0: unreadable.
static __always_inline __u64 word_at(struct thread_state *state, __u64 address)
{
	__u64 word = 0;

	read_user(state, &word, sizeof(word), address);
	return word;
}

#endif
