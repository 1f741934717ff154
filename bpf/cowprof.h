// The only contract between the probes and user space: structs, enums and limits. Plain C that
// compiles as BPF C and as C++ and includes nothing, so that both sides see the same layout. Every
// struct is 8-byte aligned without implicit padding.
#ifndef COWPROF_BPF_COWPROF_H_
#define COWPROF_BPF_COWPROF_H_

#define COWPROF_LICENSE "Dual BSD/GPL" // of the probes

enum {
	COWPROF_MAX_PROCESSES = 16384, // alive, or ended since the last tick
	COWPROF_FOLLOWED_SLOTS = 4096, // power of two
	COWPROF_MANY_ENDED = 1024, // exits since the last tick that trigger the next one early
	COWPROF_RING_BYTES = 1 << 20,
	COWPROF_PAGE_RING_BYTES = 4 << 20,
	COWPROF_BELL_BYTES = 4096, // one page, the least
	COWPROF_REGION_SHIFT = 21, // a region is 2 MiB
	COWPROF_RECENT_COPIES = 16, // of a process; power of two
	COWPROF_RECENT_SLOTS = 4096, // power of two
	COWPROF_COMM_BYTES = 16,
	COWPROF_MAX_FREED_REGIONS = 16384, // of all living processes together
	COWPROF_MAX_FREED_PARTS = 16384, // pages that were free in part, of all processes together
	COWPROF_MAX_IMAGES = 1024, // distinct Python programs
	COWPROF_MAX_TYPES = 16384,
	COWPROF_MAX_SITES = 16384,
	COWPROF_MAX_CAUSE_ROWS = 32768,
	COWPROF_MAX_PLACE_ROWS = 16384,
	COWPROF_MAX_STACKS = 4096,
	COWPROF_MAX_GROWTH_ROWS = 8192,
	COWPROF_MAX_GROWTH_STACKS = 1024,
	COWPROF_MAX_FRAMES = 48, // of a stack, innermost first
	COWPROF_THREAD_SLOTS = 16, // cause rows cached per thread between ticks
	COWPROF_PAGE_LOG = 64, // copied pages buffered per thread; power of two
	COWPROF_DELIVERY_FRAMES = 4,
	// Name of a file or cgroup. A container's cgroup name contains a hash of 64 digits.
	COWPROF_NAME_BYTES = 96,
};

// Identifies a process in the maps, uniquely until reboot. The all-zero key is the overflow row.
struct cowprof_process_key {
	unsigned int pid; // thread group id in the initial pid namespace
	unsigned int reserved;
	unsigned long long start_ns; // start_boottime of the group leader
};

// Identifies a process to user space: in cowprof's own pid and time namespaces, as in its /proc.
struct cowprof_process_id {
	unsigned int pid; // 0: not visible in that pid namespace
	unsigned int reserved;
	unsigned long long start_ns;
};

// Monotonic counters of one process. FaultCounts in user space documents each.
struct cowprof_counts {
	unsigned long long faults;
	unsigned long long kernel_faults;
	unsigned long long write_protect_faults;
	// Copies that found no room in the cause table; all others are counted there.
	unsigned long long rowless_copies;
	unsigned long long zero_upgrades;
	unsigned long long zero_fill_pages;
	unsigned long long file_copies;
	unsigned long long shm_pages;
	unsigned long long swap_ins;
};

struct cowprof_process_row {
	struct cowprof_counts counts;
	struct cowprof_process_id id;
	struct cowprof_process_id parent; // the process that forked it; zero for the target
	// Times are CLOCK_BOOTTIME in cowprof's time namespace.
	unsigned long long forked_ns; // 0: found at attach
	unsigned long long exited_ns; // 0: alive
	unsigned int serial; // creation order; stands for the process in region and cause keys
	int exit_code; // as wait(2) reports it
	char comm[COWPROF_COMM_BYTES]; // as of fork, last exec or exit
	unsigned int execs; // as the kernel counts them
	unsigned int image; // key of its cowprof_image; 0: not Python, or not known yet
	unsigned int heap; // enum cowprof_heap
	unsigned int vforked; // it had its parent's memory itself at the fork, and no copy of it
	unsigned int handled; // crash signals delivered to a handler since the last exec
	unsigned int crash_signals; // bits: which were delivered since then
	unsigned int mappings; // as of the last tick that saw a thread of it; 0: none did
};

// What is known of the memory that malloc had free when the process was forked.
enum cowprof_heap {
	COWPROF_HEAP_UNKNOWN = 0, // not glibc's malloc, or not recognized
	COWPROF_HEAP_WALKED, // all
	COWPROF_HEAP_PARTLY, // it was too much, or could not be read
	COWPROF_HEAP_FORGOTTEN, // nothing: it has forked since, or was there at attach
};

// A bit for each page of a 2 MiB region, which has the key of a cowprof_region_key.
struct cowprof_freed_pages {
	unsigned long long pages[8];
};
// A bit for each 8 bytes of a page.
struct cowprof_freed_words {
	unsigned long long words[8];
};

// glibc's malloc in a process. Every arena is a struct malloc_state; the first one is static.
struct cowprof_malloc {
	unsigned long long lists; // address of the first one's lists of free chunks
	unsigned int lists_at; // offset of these in a struct malloc_state
	unsigned int reserved;
};

// How to read the CPython state of all processes that run one program image. Written by user space
// from the interpreter's own tables. Offsets are in bytes, addresses are those of the process.
struct cowprof_image {
	unsigned long long type_type; // PyType_Type
	unsigned long long collecting; // address of an int, nonzero during a collection; 0: unknown
	unsigned long long thread_state_at; // offset from the TLS base to the PyThreadState *
	unsigned int pool_bytes; // pymalloc pool size; 0: another allocator
	unsigned int gc_header_bytes; // before a GC-tracked object: 16; 24 or 32 up to 3.7
	// Offset of the current frame in PyThreadState. In 3.11 and 3.12 that is a pointer to a
	// struct with the frame at frame_indirection; -1: direct.
	unsigned int thread_frame;
	int frame_indirection;
	unsigned int frame_code, frame_previous, frame_instruction; // each at most 120
	unsigned int instruction_bytes; // of frame_instruction: 4: index, 8: pointer
	// Offset of the self-specializing bytecode in PyCodeObject; 0: none (up to 3.10).
	unsigned int code_bytes_at;
	unsigned int reserved;
};

// What the written byte belongs to, by memory alone. userspace/python/cause.h derives the cause.
enum cowprof_shape {
	COWPROF_SHAPE_UNREAD = 0, // not a known Python, or memory could not be read
	COWPROF_SHAPE_KERNEL, // written by the kernel in a system call
	COWPROF_SHAPE_REFCOUNT, // reference count of a live object
	COWPROF_SHAPE_LAST_REFERENCE, // same, was 1: the instruction decides whether the object dies
	COWPROF_SHAPE_DEAD_OBJECT, // same, was 0: an object is taken from a free list
	COWPROF_SHAPE_COLLECTION, // GC header of an object, during a collection
	COWPROF_SHAPE_LINK, // same, otherwise: a neighbour enters or leaves the GC list
	COWPROF_SHAPE_HASH, // 24 bytes into an object, was -1: hash not computed yet
	COWPROF_SHAPE_CODE, // bytecode of the running code object
	COWPROF_SHAPE_POOL_HEADER,
	COWPROF_SHAPE_FREE_BLOCK, // free pool block; starts with a free-list link
	COWPROF_SHAPE_PAYLOAD, // pool block that is neither free nor an object
	COWPROF_SHAPE_OBJECT, // any other byte of a live object
	COWPROF_SHAPE_OUTSIDE, // neither a pool nor an object's head
	COWPROF_SHAPE_COUNTED, // same, 8 bytes into a C++ object, where those with a count have it
	COWPROF_SHAPE_NEW, // no copy: the first touch of new memory; of growth rows only
	COWPROF_SHAPE_FREED, // a page that malloc had free when the process was forked
	COWPROF_SHAPE_FREED_KERNEL, // same, written by the kernel in a system call
	COWPROF_SHAPE_UNSURE, // in the brk heap; not known whether malloc had it free
	COWPROF_SHAPE_UNSURE_KERNEL, // same, written by the kernel
	COWPROF_SHAPES,
	// Makes every 12-bit value (page log) valid for this enum, as a cast in C++ requires.
	COWPROF_SHAPE_ANY = 4095,
};

// Key of the cause table. Every copy is counted in exactly one row, or in rowless_copies. The value
// is a u64 count of copies.
struct cowprof_cause_key {
	unsigned int serial; // of the process
	unsigned int shape : 7, told : 1, image : 24; // told: shape from the site table
	unsigned long long ip; // of the writing instruction; 0: no image
};

// An instruction writes one field of one struct. Once user space has seen an instruction's shape
// often enough, it stores that shape (1 byte) under this key, and copies by the instruction need no
// memory reads. COWPROF_SHAPE_UNREAD: read memory each time.
struct cowprof_site_key {
	unsigned long long ip;
	unsigned long long image;
};

// Key of the place table: a sampled copy with its Python stack.
struct cowprof_copy_site_key {
	struct cowprof_cause_key cause;
	unsigned long long type; // address of the object's type; 0: unknown
	unsigned long long stack; // key in the stack table; 0: no Python frame
};
struct cowprof_copy_site {
	unsigned long long copies; // represented by the samples
	unsigned long long samples;
	unsigned long long squares; // sum of squared sample weights, for the variance
};

// Key and value of the growth table: sampled first touches of new zero-filled memory. Its stacks
// have a table of their own, so that imports, which have many, leave room for those of copies.
struct cowprof_growth_key {
	unsigned int serial, image;
	unsigned long long stack; // key in the table of growth stacks; 0: no Python frame
};
struct cowprof_growth {
	unsigned long long pages; // represented by the samples
	unsigned long long samples;
};
struct cowprof_frame {
	unsigned long long code; // PyCodeObject
	unsigned long long instruction; // as stored in the frame
};
struct cowprof_stack {
	unsigned int depth;
	unsigned int reserved;
	struct cowprof_frame frames[COWPROF_MAX_FRAMES]; // innermost first
};

// Copied pages of one thread, sent through the page ring buffer. An entry is page address | shape.
struct cowprof_page_log {
	unsigned int serial;
	unsigned short first, count; // new entries: [first, count)
	unsigned long long pages[COWPROF_PAGE_LOG];
};

// A 2 MiB region in which a process acquired private pages:
// serial << 36 | address >> COWPROF_REGION_SHIFT.
typedef unsigned long long cowprof_region_key;

enum cowprof_event_kind {
	COWPROF_FORK_SEEN = 1, // see cowprof_fork_seen
	COWPROF_FORK,
	COWPROF_EXEC,
	COWPROF_EXIT,
	COWPROF_SIGNAL_SENT,
	COWPROF_SIGNAL_DELIVERED,
	COWPROF_OOM_VICTIM,
	COWPROF_NEWS, // no process; a new place or program has names to read
};

// A rare event, sent through the event ring buffer.
struct cowprof_event {
	unsigned int kind;
	int signal;
	struct cowprof_process_id process; // forked child, or receiver of the signal
	unsigned long long time_ns; // CLOCK_BOOTTIME
	unsigned long long address; // si_addr of a fault signal
	int code; // si_code, or exit code for COWPROF_EXIT
	int sender; // pid of the signal's sender; 0: outside cowprof's pid namespace
	char comm[COWPROF_COMM_BYTES];
};

// COWPROF_EXEC
struct cowprof_exec {
	struct cowprof_event event;
	// Last component of the program's path; of a script, its interpreter's. "": kernel memory is not
	// readable.
	char program[COWPROF_NAME_BYTES];
};

// COWPROF_SIGNAL_SENT
struct cowprof_signal {
	struct cowprof_event event;
	unsigned long long cpu_limit; // of SIGKILL: the hard RLIMIT_CPU in s, if used up; else 0
	unsigned long long sender_exiting; // sent by the kernel for it (PR_SET_PDEATHSIG)
};

enum cowprof_file_kind {
	COWPROF_NO_FILE = 0, // anonymous, unmapped, or mmap_lock contended
	COWPROF_DISK_FILE,
	COWPROF_MEMORY_FILE, // tmpfs, memfd or System V shared memory
};

// The file mapped at an address.
struct cowprof_mapped_file {
	unsigned int kind;
	unsigned int device; // kernel dev_t: major << 20 | minor
	unsigned long long inode;
	unsigned long long bytes; // file size
	unsigned long long offset; // of the address within the file
	unsigned long long capacity_pages; // size limit of its tmpfs; 0: none
	char name[COWPROF_NAME_BYTES];
};

// COWPROF_SIGNAL_DELIVERED: where the signal hit the thread.
struct cowprof_delivery {
	struct cowprof_event event;
	unsigned long long ip;
	struct cowprof_frame frames[COWPROF_DELIVERY_FRAMES]; // innermost first; ends at code 0
	struct cowprof_mapped_file file; // at event.address for SIGBUS, else at ip
};

// COWPROF_OOM_VICTIM: the cgroup whose limit was reached.
struct cowprof_oom {
	struct cowprof_event event;
	unsigned long long looked; // 0: kernel memory is not readable, the cgroup is unknown
	unsigned long long cgroup; // inode of its directory; 0: the host is out of memory
	unsigned long long limit_pages, used_pages; // including page cache
	char name[COWPROF_NAME_BYTES]; // last path component
};

// A process as found by the task iterator or at its fork.
struct cowprof_task {
	struct cowprof_process_key process, parent;
	struct cowprof_process_id id, parent_id;
	char comm[COWPROF_COMM_BYTES];
};

// COWPROF_FORK_SEEN: during the scan at attach, a fork by any process that is not tracked (yet).
struct cowprof_fork_seen {
	struct cowprof_event event;
	struct cowprof_task child;
};

struct cowprof_losses {
	unsigned long long events_dropped;
	unsigned long long processes_dropped;
	unsigned long long regions_dropped;
	unsigned long long cause_rows_dropped; // copies without a cause row
	unsigned long long place_rows_dropped; // sampled copies without a place row
	unsigned long long pages_dropped; // page log entries
	unsigned long long threads_refused; // failed allocations of a thread's state
	unsigned long long
		growth_dropped; // new pages that a sample without a row, or a line, stands for
	unsigned long long heaps_dropped; // forks of which a piece of free memory found no row
};

#endif
