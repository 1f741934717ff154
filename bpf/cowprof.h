// The only contract between the probes and user space: structs, enums, limits. Plain C, includes nothing, so that both sides
// read the same bytes. Everything is 8-byte aligned without implicit padding.
#ifndef COWPROF_BPF_COWPROF_H_
#define COWPROF_BPF_COWPROF_H_

enum {
	COWPROF_MAX_PROCESSES = 16384,	 // living ones, and ended ones until the next tick takes them
	COWPROF_FOLLOWED_SLOTS = 4096,	// power of two
	COWPROF_MANY_ENDED = 1024,	// between two ticks: then the next one comes at once
	COWPROF_RING_BYTES = 1 << 20,
	COWPROF_PAGE_RING_BYTES = 4 << 20,
	COWPROF_REGION_SHIFT = 21,	 // a region is 2 MiB
	COWPROF_RECENT_COPIES = 16,	 // power of two
	COWPROF_COMM_BYTES = 16,
	COWPROF_MAX_IMAGES = 1024,	// programs that processes run, as far as they are Python
	COWPROF_MAX_TYPES = 16384,
	COWPROF_MAX_SITES = 16384,
	COWPROF_MAX_CAUSE_ROWS = 32768,
	COWPROF_MAX_PLACE_ROWS = 16384,
	COWPROF_MAX_STACKS = 4096,
	COWPROF_MAX_FRAMES = 48,	// innermost ones of a stack
	COWPROF_THREAD_SLOTS = 16,	// rows of causes that a thread keeps to itself between two ticks
	COWPROF_PAGE_LOG = 64,	// copied pages that a thread keeps to itself before it tells them
	COWPROF_DELIVERY_FRAMES = 4,
	COWPROF_NAME_BYTES = 96,	// of a file or a cgroup; a container's has a hash of 64 digits in it
};

// A process for as long as the machine is up, as the tables know it. The all-zero key is the overflow row.
struct cowprof_process_key {
	unsigned int pid;	// thread group id in the initial pid namespace
	unsigned int reserved;
	unsigned long long start_ns;	// start_boottime of the group leader
};

// The same as user space is told: in the pid and time namespaces of cowprof itself, as its /proc has them.
struct cowprof_process_id {
	unsigned int pid;	// 0: it does not exist there
	unsigned int reserved;
	unsigned long long start_ns;
};

// Monotonic counters of one process. See FaultCounts in userspace/model/sample.h for what each one means.
struct cowprof_counts {
	unsigned long long faults;
	unsigned long long kernel_faults;
	unsigned long long write_protect_faults;
	unsigned long long rowless_copies;	// copies for which the table of causes had no room; the others stand there
	unsigned long long zero_upgrades;
	unsigned long long zero_fill_pages;
	unsigned long long file_copies;
	unsigned long long shm_pages;
	unsigned long long swap_ins;
};

struct cowprof_process_row {
	struct cowprof_counts counts;
	struct cowprof_process_id id;
	struct cowprof_process_id parent;	// who forked it; zero for the target
	unsigned long long forked_ns;	// CLOCK_BOOTTIME of cowprof's time namespace, as all times here; 0: found at attach
	unsigned long long exited_ns;	// 0: living
	unsigned int serial;	// order in which rows were made; names the process in region keys
	int exit_code;	// as wait(2) reports it
	char comm[COWPROF_COMM_BYTES];	// at the fork, the last exec or the exit
	// The latest copies, by page: two threads that fault on one page at once both allocate, one copy is thrown away.
	unsigned long long recent[COWPROF_RECENT_COPIES];
	unsigned int forks;	// processes forked so far: a fork makes a page copyable again
	unsigned int image;	// what it runs, see cowprof_image; 0: no Python, or not known yet
};

// What the processes of one program image have in common for reading CPython's memory: written by user space, from the
// interpreter's own tables (userspace/python/). Offsets in bytes; addresses are those of the process.
struct cowprof_image {
	unsigned long long type_type;	// PyType_Type
	unsigned long long collecting;	// int: the collector is running; 0: not known
	unsigned long long thread_state_at;	// *(fs base + this): the thread's PyThreadState
	unsigned int pool_bytes;	// of pymalloc; 0: another allocator
	unsigned int gc_header_bytes;	// before a tracked object: 16, or 32 until 3.7
	unsigned int thread_frame;	// in PyThreadState: the current frame ...
	int frame_indirection;	// ... or, from 3.11 to 3.12, a structure with the frame at this offset; -1: none
	unsigned int frame_code, frame_previous, frame_instruction;	// all below 120
	unsigned int instruction_bytes;	// 4: an index; 8: a pointer
	unsigned int code_bytes_at;	// in PyCodeObject: where the instructions begin that specialise themselves; 0: none (until 3.10)
	unsigned int reserved;
};

// What the written byte belongs to, as far as memory tells. The cause is made of it in user space (userspace/python/cause.h).
enum cowprof_shape {
	COWPROF_SHAPE_UNREAD = 0,	// no Python that we know, or memory that could not be read
	COWPROF_SHAPE_KERNEL,	// written by the kernel, in a system call
	COWPROF_SHAPE_REFCOUNT,	// the reference count of a live object
	COWPROF_SHAPE_LAST_REFERENCE,	// the same, and it was 1: the instruction tells whether the object dies
	COWPROF_SHAPE_DEAD_OBJECT,	// the same, and it was 0: an object of a free list is revived
	COWPROF_SHAPE_COLLECTION,	// the header before an object, while the collector runs
	COWPROF_SHAPE_LINK,	// the same while it does not: a neighbour in the collector's list comes or goes
	COWPROF_SHAPE_HASH,	// 24 bytes into an object, and -1 stood there: hash not computed yet
	COWPROF_SHAPE_CODE,	// the instructions of the code object that runs
	COWPROF_SHAPE_POOL_HEADER,
	COWPROF_SHAPE_FREE_BLOCK,	// of a pool: no object, begins with a link
	COWPROF_SHAPE_PAYLOAD,	// a block of a pool that is neither free nor an object
	COWPROF_SHAPE_OBJECT,	// elsewhere in a live object
	COWPROF_SHAPE_OUTSIDE,	// no pool, no object's head
	COWPROF_SHAPES,
	COWPROF_SHAPE_ANY = 4095,	// whatever the bits in a row say (12 in a page log) is a value of this type: C++ wants that
};

// A row of the table of causes: every copy stands in exactly one (or in rowless_copies). Value: copies, 8 bytes.
struct cowprof_cause_key {
	unsigned int serial;	// of the process
	unsigned int shape : 7, told : 1, image : 24;	// told: by the instruction alone, see cowprof_site_key
	unsigned long long ip;	// the instruction that wrote; 0: no image
};

// An instruction writes one field of one struct: where user space has seen often enough what it is, memory need not be read at each
// of its copies. Value: a shape, 1 byte; COWPROF_SHAPE_UNREAD: look each time.
struct cowprof_site_key {
	unsigned long long ip;
	unsigned long long image;
};

// A row of the table of places: one copy of a few, looked at, with its Python stack.
struct cowprof_place_key {
	struct cowprof_cause_key cause;
	unsigned long long type;	// address of the object's type; 0: none
	unsigned long long stack;	// key of the table of stacks; 0: no Python frame
};
struct cowprof_place {
	unsigned long long copies;	// that the samples stand for
	unsigned long long samples;
	unsigned long long squares;	// sum of the squares of what each stands for: how much they are worth
};
struct cowprof_frame {
	unsigned long long code;	// PyCodeObject
	unsigned long long instruction;	// as the frame has it
};
struct cowprof_stack {
	unsigned int depth;
	unsigned int reserved;
	struct cowprof_frame frames[COWPROF_MAX_FRAMES];	// innermost first
};

// Copied pages of one thread, by way of the ring buffer of pages: page address | shape.
struct cowprof_page_log {
	unsigned int serial;
	unsigned short first, count;	// pages[first] to pages[count - 1] are new
	unsigned long long pages[COWPROF_PAGE_LOG];
};

// A 2 MiB region in which a process got pages of its own: serial << 36 | address >> COWPROF_REGION_SHIFT.
typedef unsigned long long cowprof_region_key;

enum cowprof_event_kind {
	COWPROF_FORK_SEEN = 1,	// see cowprof_fork_seen
	COWPROF_FORK,
	COWPROF_EXEC,
	COWPROF_EXIT,
	COWPROF_SIGNAL_SENT,
	COWPROF_SIGNAL_DELIVERED,
	COWPROF_OOM_VICTIM,
	COWPROF_NEWS,	// no process: names are to be read, of a new place or a new program
};

// A rare event, by way of the ring buffer.
struct cowprof_event {
	unsigned int kind;
	int signal;
	struct cowprof_process_id process;	// the child of a fork; the receiver of a signal
	unsigned long long time_ns;	// CLOCK_BOOTTIME
	unsigned long long address;	// si_addr of a delivered fault signal
	int code;	// si_code; exit code of COWPROF_EXIT
	int sender;	// pid that sent the signal; 0: outside of cowprof's pid namespace
	char comm[COWPROF_COMM_BYTES];
};

enum cowprof_file_kind {
	COWPROF_NO_FILE = 0,	// anonymous memory, no mapping at all, or the mappings were being changed
	COWPROF_DISK_FILE,
	COWPROF_MEMORY_FILE,	// of a tmpfs, a memfd, shared memory of System V
};

// The file that an address is mapped to.
struct cowprof_mapped_file {
	unsigned int kind;
	unsigned int device;	// as the kernel has it: major << 20 | minor
	unsigned long long inode;
	unsigned long long bytes;	// its length
	unsigned long long offset;	// of the address in it
	unsigned long long capacity_pages;	// of its tmpfs; 0: without a bound
	char name[COWPROF_NAME_BYTES];
};

// COWPROF_SIGNAL_DELIVERED: where the thread was.
struct cowprof_delivery {
	struct cowprof_event event;
	unsigned long long ip;
	struct cowprof_frame frames[COWPROF_DELIVERY_FRAMES];	// innermost first; code 0: no more
	struct cowprof_mapped_file file;	// SIGBUS: of event.address; others: of ip
};

// COWPROF_OOM_VICTIM: the cgroup whose limit was met.
struct cowprof_oom {
	struct cowprof_event event;
	unsigned long long looked;	// 0: kernel memory may not be read here, whose limit it was is not known
	unsigned long long cgroup;	// inode of its directory; 0: none, the host is out of memory
	unsigned long long limit_pages, used_pages;	// page cache included
	char name[COWPROF_NAME_BYTES];	// last component of its path
};

// One process as the task iterator finds it, or as it was forked.
struct cowprof_task {
	struct cowprof_process_key process, parent;
	struct cowprof_process_id id, parent_id;
	char comm[COWPROF_COMM_BYTES];
};

// COWPROF_FORK_SEEN: while the tree is being scanned, any fork on the host by a process that is not followed (yet).
struct cowprof_fork_seen {
	struct cowprof_event event;
	struct cowprof_task child;
};

struct cowprof_losses {
	unsigned long long events_dropped;
	unsigned long long processes_dropped;
	unsigned long long regions_dropped;
	unsigned long long cause_rows_dropped;	// copies without a row
	unsigned long long place_rows_dropped;	// sampled copies without a row
	unsigned long long pages_dropped;	// of the page log
	unsigned long long threads_refused;	// times that the kernel gave no memory for a thread's state
};

#endif
