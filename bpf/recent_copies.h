// Recognizes the copy that the kernel discards: two threads that write one shared page at once both
// allocate and copy; wp_page_copy() rechecks the PTE under its lock and drops one copy.
#ifndef COWPROF_BPF_RECENT_COPIES_H_
#define COWPROF_BPF_RECENT_COPIES_H_

// The latest copies of one process, hashed by page. Taken over by the next process with such a
// serial that copies; a copy is discarded within microseconds of the other.
static struct recent_copies {
	__u32 serial;
	__u32 forks; // since it was taken over
	__u64 pages[COWPROF_RECENT_COPIES];
} recent_copies[COWPROF_RECENT_SLOTS];

static __always_inline struct recent_copies *recent_copies_of(__u32 serial)
{
	return &recent_copies[serial & (COWPROF_RECENT_SLOTS - 1)];
}

// At a fork, which makes the pages copyable again.
static void forget_copies(__u32 serial)
{
	struct recent_copies *recent = recent_copies_of(serial);

	if (recent->serial == serial)
		__sync_fetch_and_add(&recent->forks, 1);
}

// Whether another thread of the process copied the same page recently, and the process has not
// forked since. Besides a fork, only merging by KSM, and dropping or replacing a private mapping of
// a file, make a page copyable again; copies by another thread after that can be missed.
static int lost_race(__u32 serial, __u64 address, __u32 tid)
{
	struct recent_copies *recent = recent_copies_of(serial);
	__u64 page = address >> 12, key, old;

	if (!serial) // the overflow row mixes address spaces
		return 0;
	if (recent->serial != serial) {
		__builtin_memset(recent, 0, sizeof(*recent));
		recent->serial = serial;
	}
	key = page << 28 | (__u64)(recent->forks & 63) << 22 | (tid & 0x3fffff);
	old = __sync_lock_test_and_set(&recent->pages[page & (COWPROF_RECENT_COPIES - 1)], key);
	return (old ^ key) >> 22 == 0 && old != key;
}

#endif
