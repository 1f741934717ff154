// The only contract between the probes and user space: structs, enums, limits. Plain C, includes nothing, so that both sides
// read the same bytes. Everything is 8-byte aligned without implicit padding.
#ifndef COWPROF_BPF_COWPROF_H_
#define COWPROF_BPF_COWPROF_H_

enum {
	COWPROF_MAX_PROCESSES = 16384,	 // living ones, and ended ones until the next tick takes them
	COWPROF_RING_BYTES = 1 << 20,
	COWPROF_REGION_SHIFT = 21,	 // a region is 2 MiB
	COWPROF_UNSETTLED_FAULTS = 8,	// faults that a thread may keep to itself
	COWPROF_RECENT_COPIES = 16,	 // power of two
	COWPROF_COMM_BYTES = 16,
};

// A process for as long as the machine is up. The all-zero key is the overflow row.
struct cowprof_process_key {
	unsigned int pid;	// thread group id in the initial pid namespace
	unsigned int reserved;
	unsigned long long start_ns;	// start_boottime of the group leader
};

// Monotonic counters of one process. See FaultCounts in userspace/model/sample.h for what each one means.
struct cowprof_counts {
	unsigned long long faults;
	unsigned long long kernel_faults;
	unsigned long long write_protect_faults;
	unsigned long long copies;
	unsigned long long kernel_copies;
	unsigned long long zero_upgrades;
	unsigned long long zero_fill_pages;
	unsigned long long file_copies;
	unsigned long long shm_pages;
	unsigned long long swap_ins;
};

struct cowprof_process_row {
	struct cowprof_counts counts;
	struct cowprof_process_key parent;	// who forked it; zero for the target
	unsigned long long forked_ns;	// CLOCK_BOOTTIME; 0: found at attach
	unsigned long long exited_ns;	// 0: living
	unsigned int serial;	// order in which rows were made; names the process in region keys
	int exit_code;	// as wait(2) reports it
	char comm[COWPROF_COMM_BYTES];	// at the fork, the last exec or the exit
	// The latest copies, by page: two threads that fault on one page at once both allocate, one copy is thrown away.
	unsigned long long recent[COWPROF_RECENT_COPIES];
	unsigned int forks;	// processes forked so far: a fork makes a page copyable again
	unsigned int reserved;
};

// A 2 MiB region in which a process got pages of its own: serial << 36 | address >> COWPROF_REGION_SHIFT.
typedef unsigned long long cowprof_region_key;

enum cowprof_event_kind {
	COWPROF_FORK_SEEN = 1,	// while the tree is being scanned: any fork on the host, followed or not
	COWPROF_FORK,
	COWPROF_EXEC,
	COWPROF_EXIT,
	COWPROF_SIGNAL_SENT,
	COWPROF_SIGNAL_DELIVERED,
	COWPROF_OOM_VICTIM,
};

// A rare event, by way of the ring buffer.
struct cowprof_event {
	unsigned int kind;
	int signal;
	struct cowprof_process_key process;	// the child of a fork; the receiver of a signal
	struct cowprof_process_key parent;	// forks only
	unsigned long long time_ns;	// CLOCK_BOOTTIME
	unsigned long long address;	// si_addr of a delivered fault signal
	int code;	// si_code; exit code of COWPROF_EXIT
	int sender;	// pid that sent the signal
	char comm[COWPROF_COMM_BYTES];
};

// One process as the task iterator finds it.
struct cowprof_task {
	struct cowprof_process_key process;
	struct cowprof_process_key parent;
	char comm[COWPROF_COMM_BYTES];
};

struct cowprof_losses {
	unsigned long long events_dropped;
	unsigned long long processes_dropped;
	unsigned long long regions_dropped;
};

#endif
