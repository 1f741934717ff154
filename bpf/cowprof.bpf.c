// The probes: count page faults and copy-on-write copies per process in the kernel, and follow a tree of processes.
// User space (userspace/source/bpf_faults.cc) pulls the rows once a tick. BTF tracepoints only: they attach where kprobes do
// not exist and fentry is refused. Nothing here decides what a number means.
#include "kernel_types.h"

#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "cowprof.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct page;

// ---- Maps and globals ----

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_PROCESSES);
	__type(key, struct cowprof_process_key);
	__type(value, struct cowprof_process_row);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);	// set before loading, by the size of the target
	__type(key, cowprof_region_key);
	__type(value, __u8);	// always 1: it is a set
} regions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COWPROF_RING_BYTES);
} events SEC(".maps");

// A fault that is being handled, from its tracepoint until its allocation or the thread's next fault.
struct thread_state {
	struct cowprof_process_key process;
	__u64 address;
	__u64 ip, sp, orig_ax;	// user registers; of the system call, if the kernel faulted
	cowprof_region_key last_region;
	__u32 serial;
	__u32 faults, write_protect_faults, copies, zero_fill_pages;	// not yet in the row
	__u8 pending;
	__u8 present, write;	// from the error code
	__u8 kernel_mode;
};

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread_state);
} threads SEC(".maps");

struct cowprof_losses losses;
struct cowprof_process_row zero_row;	// a template: a row does not fit on the BPF stack
int scanning;	// the tree is being scanned: report every fork of the host
__u32 last_serial;

enum {
	FAULT_PRESENT = 1,	// x86 error code: the page was there, access was denied
	FAULT_WRITE = 2,
	GFP_MOVABLE_USER = 0x2 | 0x8,	// HIGHMEM | MOVABLE: what a page of user memory is allocated with
	GFP_ZERO = 0x100,
	VM_SHARED = 8,
	TMPFS_MAGIC = 0x01021994,
};

// ---- Who is followed ----

static struct cowprof_process_key key_of(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	struct cowprof_process_key key = {.pid = task->tgid, .start_ns = leader->start_boottime};

	return key;
}

static struct cowprof_process_row *row_of(struct task_struct *task)
{
	struct cowprof_process_key key = key_of(task);

	return bpf_map_lookup_elem(&processes, &key);
}

// The state of a thread of a followed process, or NULL for everybody else. `task` is the current task or its new child.
static struct thread_state *state_of(struct task_struct *task)
{
	struct thread_state *state = bpf_task_storage_get(&threads, task, 0, 0);
	struct cowprof_process_row *row;

	if (state)
		return state;
	row = row_of(task);
	if (!row)
		return 0;
	state = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!state)
		return 0;
	state->process = key_of(task);
	state->serial = row->serial;
	return state;
}

// ---- Faults: one of three things opens, an allocation closes ----

// Moves what the thread has gathered to the row of its process. To look the row up at every fault and to lock the bus for every
// count would be half of what the probes cost; the end of a thread leaves nothing behind.
static void settle(struct cowprof_process_row *row, struct thread_state *state)
{
	__sync_fetch_and_add(&row->counts.faults, state->faults);
	if (state->write_protect_faults)
		__sync_fetch_and_add(&row->counts.write_protect_faults, state->write_protect_faults);
	if (state->copies)
		__sync_fetch_and_add(&row->counts.copies, state->copies);
	if (state->zero_fill_pages)
		__sync_fetch_and_add(&row->counts.zero_fill_pages, state->zero_fill_pages);
	state->faults = state->write_protect_faults = state->copies = state->zero_fill_pages = 0;
}

static int open_fault(__u64 address, struct pt_regs *user_regs, __u64 error_code, int kernel_mode)
{
	struct thread_state *state = state_of(bpf_get_current_task_btf());
	struct cowprof_process_row *row;

	if (!state)
		return 0;
	if (state->faults >= COWPROF_UNSETTLED_FAULTS || kernel_mode) {
		row = bpf_map_lookup_elem(&processes, &state->process);
		if (!row)
			return 0;
		settle(row, state);
		if (kernel_mode)
			__sync_fetch_and_add(&row->counts.kernel_faults, 1);
	}
	state->present = !!(error_code & FAULT_PRESENT);
	state->write = !!(error_code & FAULT_WRITE);
	state->faults++;
	state->write_protect_faults += state->present && state->write;
	state->address = address;
	state->ip = user_regs->ip;
	state->sp = user_regs->sp;
	state->orig_ax = user_regs->orig_ax;
	state->kernel_mode = kernel_mode;
	state->pending = 1;
	return 0;
}

SEC("?tp_btf/page_fault_user")
int BPF_PROG(fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	return open_fault(address, regs, error_code, 0);
}

SEC("?tp_btf/page_fault_kernel")
int BPF_PROG(fault_kernel, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	if ((long)address < 0)	// kernel space
		return 0;
	return open_fault(address, (void *)bpf_task_pt_regs(bpf_get_current_task_btf()), error_code, 1);
}

// Notes that the process has a page of its own in this region now. A thread mostly stays in one for a while.
static void touch_region(struct thread_state *state)
{
	cowprof_region_key key = (__u64)state->serial << 36 | state->address >> COWPROF_REGION_SHIFT;
	__u8 touched = 1;

	if (state->last_region == key || !state->serial)	// the overflow row is not swept
		return;
	state->last_region = key;
	if (!bpf_map_lookup_elem(&regions, &key) && bpf_map_update_elem(&regions, &key, &touched, BPF_ANY))
		__sync_fetch_and_add(&losses.regions_dropped, 1);
}

// Two threads that write one shared page at the same time both allocate and copy; the kernel keeps one (wp_page_copy compares
// the PTE again under its lock). Told by: another thread of the process copied this very page lately, and the process has not
// forked since, which alone makes an anonymous page copyable again.
static int lost_race(struct cowprof_process_row *row, __u64 address, __u32 tid)
{
	__u64 page = address >> 12;
	__u64 key = page << 28 | (__u64)(row->forks & 63) << 22;
	__u64 *slot = &row->recent[page & (COWPROF_RECENT_COPIES - 1)];
	__u64 old = __sync_lock_test_and_set(slot, key | (tid & 0x3fffff));

	return (old ^ key) >> 22 == 0 && (old & 0x3fffff) != (tid & 0x3fffff);
}

enum mapping { MAPPING_OTHER, MAPPING_ANONYMOUS, MAPPING_PRIVATE_FILE, MAPPING_SHM };

static long classify_mapping(struct task_struct *task, struct vm_area_struct *vma, void *out)
{
	struct file *file = vma->vm_file;
	enum mapping *mapping = out;

	if (!file)
		*mapping = MAPPING_ANONYMOUS;
	else if (!(vma->vm_flags & VM_SHARED))
		*mapping = MAPPING_PRIVATE_FILE;
	else if (file->f_inode->i_sb->s_magic == TMPFS_MAGIC)	// a shared anonymous mapping is one, too
		*mapping = MAPPING_SHM;
	return 0;
}

// The page was not there, and no single zeroed one was taken for it: a private copy of a file page, shared memory, a page from
// swap, or a huge page of new memory.
static void count_missing(struct task_struct *task, struct cowprof_process_row *row, struct thread_state *state,
			  unsigned int order)
{
	enum mapping mapping = MAPPING_OTHER;

	// Since 5.17 (7c7e3d31e785); before, such pages are not told apart and not counted.
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_find_vma))
		bpf_find_vma(task, state->address, classify_mapping, &mapping, 0);
	if (mapping == MAPPING_SHM)
		__sync_fetch_and_add(&row->counts.shm_pages, 1ull << order);
	else if (mapping == MAPPING_ANONYMOUS && order)
		__sync_fetch_and_add(&row->counts.zero_fill_pages, 1ull << order);
	else if (mapping == MAPPING_ANONYMOUS)
		__sync_fetch_and_add(&row->counts.swap_ins, 1);
	else if (mapping == MAPPING_PRIVATE_FILE && state->write)	// do_cow_fault() takes its page before the page cache does
		__sync_fetch_and_add(&row->counts.file_copies, 1);
}

static void count_copy(struct cowprof_process_row *row, struct thread_state *state, __u32 tid)
{
	if (lost_race(row, state->address, tid))
		return;
	state->copies++;
	if (state->kernel_mode)
		__sync_fetch_and_add(&row->counts.kernel_copies, 1);
}

// The allocation belongs to the pending fault only while the thread's user registers still are those of the fault: a later
// system call has others. A fault of the kernel has those of its system call all along, and that call may go on to fill the
// page cache after a reuse: read-ahead says NORETRY, a copy never does (a huge page of new memory may).
static int belongs_to_fault(struct task_struct *task, struct thread_state *state, unsigned int gfp)
{
	struct pt_regs *regs = (void *)bpf_task_pt_regs(task);
	unsigned int noretry = 1u << 16;

	if (bpf_core_enum_value_exists(enum ___gfp_bits, ___GFP_NORETRY_BIT))
		noretry = 1u << bpf_core_enum_value(enum ___gfp_bits, ___GFP_NORETRY_BIT);
	if (state->kernel_mode && state->present && gfp & noretry)
		return 0;
	return regs->ip == state->ip && regs->sp == state->sp && regs->orig_ax == state->orig_ax;
}

SEC("?tp_btf/mm_page_alloc")
int BPF_PROG(page_alloc, struct page *page, unsigned int order, unsigned int gfp, int migratetype)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = bpf_task_storage_get(&threads, task, 0, 0);
	struct cowprof_process_row *row;
	unsigned int zeroed;

	if (!state || !state->pending || (gfp & GFP_MOVABLE_USER) != GFP_MOVABLE_USER)
		return 0;
	if (!belongs_to_fault(task, state, gfp))
		return 0;
	state->pending = 0;
	touch_region(state);
	zeroed = gfp & GFP_ZERO;
	// The two that come by the million need no row, unless another thread or a system call is about.
	if (order == 0 && !state->present && zeroed) {
		state->zero_fill_pages++;
		return 0;
	}
	if (order == 0 && state->present && !zeroed && !state->kernel_mode && task->signal->nr_threads == 1) {
		state->copies++;
		return 0;
	}
	row = bpf_map_lookup_elem(&processes, &state->process);
	if (!row)
		return 0;
	if (!state->present)
		count_missing(task, row, state, order);
	else if (zeroed || order)
		__sync_fetch_and_add(&row->counts.zero_upgrades, 1);
	else
		count_copy(row, state, task->pid);
	return 0;
}

// ---- The tree: forks, execs, exits, signals ----

static struct cowprof_event *new_event(enum cowprof_event_kind kind, struct cowprof_process_key process)
{
	struct cowprof_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&losses.events_dropped, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->process = process;
	event->time_ns = bpf_ktime_get_boot_ns();
	return event;
}

// Events wait for the next tick, but for those that can't: user space must look while the process still exists.
static void submit(struct cowprof_event *event, int wake)
{
	bpf_ringbuf_submit(event, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

static void add_child(struct thread_state *parent, struct task_struct *child, struct cowprof_process_key key)
{
	struct cowprof_process_row *row = bpf_map_lookup_elem(&processes, &parent->process);
	struct thread_state *state;

	if (row)
		__sync_fetch_and_add(&row->forks, 1);
	if (bpf_map_update_elem(&processes, &key, &zero_row, BPF_NOEXIST)) {
		__sync_fetch_and_add(&losses.processes_dropped, 1);
		state = bpf_task_storage_get(&threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (state)	// its process is the all-zero key: the overflow row
			state->serial = 0;
		return;
	}
	row = bpf_map_lookup_elem(&processes, &key);
	if (!row)
		return;
	row->serial = __sync_fetch_and_add(&last_serial, 1) + 1;
	row->parent = parent->process;
	row->forked_ns = bpf_ktime_get_boot_ns();
	__builtin_memcpy(row->comm, child->comm, sizeof(row->comm));
}

// Runs before the child does.
SEC("?tp_btf/sched_process_fork")
int BPF_PROG(process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread_state *state = state_of(parent);
	struct cowprof_process_key key = key_of(child);
	struct cowprof_event *event;

	if (parent->tgid == child->tgid || (!state && !scanning))	// a thread, or a stranger
		return 0;
	if (state)
		add_child(state, child, key);
	event = new_event(state ? COWPROF_FORK : COWPROF_FORK_SEEN, key);
	if (!event)
		return 0;
	event->parent = key_of(parent);
	__builtin_memcpy(event->comm, child->comm, sizeof(event->comm));
	submit(event, 0);
	return 0;
}

SEC("?tp_btf/sched_process_exec")
int BPF_PROG(process_exec, struct task_struct *task)
{
	struct thread_state *state = state_of(task);
	struct cowprof_event *event;

	if (!state)
		return 0;
	event = new_event(COWPROF_EXEC, state->process);
	if (!event)
		return 0;
	__builtin_memcpy(event->comm, task->comm, sizeof(event->comm));
	submit(event, 0);
	return 0;
}

// The row itself keeps the end, so that a full ring buffer can't lose it. do_exit() has counted this thread out of
// signal->live before the tracepoint; two threads that leave at once may both read 0, and write the same twice.
SEC("?tp_btf/sched_process_exit")
int BPF_PROG(process_exit, struct task_struct *task)
{
	struct thread_state *state = bpf_task_storage_get(&threads, task, 0, 0);
	struct cowprof_process_row *row = row_of(task);
	struct cowprof_event *event;

	if (!row)
		return 0;
	if (state)
		settle(row, state);
	if (task->signal->live.counter)
		return 0;
	row->exit_code = task->signal->group_exit_code ? task->signal->group_exit_code : task->exit_code;
	__builtin_memcpy(row->comm, task->comm, sizeof(row->comm));
	row->exited_ns = bpf_ktime_get_boot_ns();
	event = new_event(COWPROF_EXIT, key_of(task));
	if (!event)
		return 0;
	event->code = row->exit_code;
	submit(event, 0);
	return 0;
}

// Signals that end a process or tell why: HUP INT QUIT ILL TRAP ABRT BUS FPE KILL SEGV TERM XCPU XFSZ SYS.
static int is_deadly(int signal)
{
	return 1ull << signal & (1ull << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 11 |
				 1 << 15 | 1 << 24 | 1 << 25 | 1ull << 31);
}

SEC("?tp_btf/signal_generate")
int BPF_PROG(signal_sent, int signal, struct kernel_siginfo *info, struct task_struct *task, int group, int result)
{
	struct cowprof_event *event;

	if (signal < 1 || signal > 31 || !is_deadly(signal) || !row_of(task))
		return 0;
	event = new_event(COWPROF_SIGNAL_SENT, key_of(task));
	if (!event)
		return 0;
	event->signal = signal;
	event->sender = bpf_get_current_pid_tgid() >> 32;
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	if ((unsigned long)info > 1)	// 0 and 1 are SEND_SIG_NOINFO and SEND_SIG_PRIV: the kernel itself, as the OOM killer
		event->code = info->si_code;
	else if ((unsigned long)info == 1)
		event->code = 0x80;	// SI_KERNEL
	submit(event, signal == 9);
	return 0;
}

// Only the faults of a program itself carry an address: ILL TRAP BUS FPE SEGV.
SEC("?tp_btf/signal_deliver")
int BPF_PROG(signal_delivered, int signal, struct kernel_siginfo *info)
{
	struct cowprof_event *event;

	if (signal < 1 || signal > 31 || !(1u << signal & (1 << 4 | 1 << 5 | 1 << 7 | 1 << 8 | 1 << 11)))
		return 0;
	if (!row_of(bpf_get_current_task_btf()))
		return 0;
	event = new_event(COWPROF_SIGNAL_DELIVERED, key_of(bpf_get_current_task_btf()));
	if (!event)
		return 0;
	event->signal = signal;
	event->code = info->si_code;
	event->address = (__u64)info->_sifields._sigfault._addr;
	submit(event, 1);
	return 0;
}

// mark_victim(int pid) became mark_victim(struct task_struct *, uid_t), and stable kernels took that over: user space loads the
// one that the kernel's BTF asks for.
SEC("?tp_btf/mark_victim")
int BPF_PROG(oom_victim_task, struct task_struct *task)
{
	struct cowprof_event *event = row_of(task) ? new_event(COWPROF_OOM_VICTIM, key_of(task)) : 0;

	if (event)
		submit(event, 1);
	return 0;
}

SEC("?tp_btf/mark_victim")
int BPF_PROG(oom_victim_pid, int pid)
{
	struct cowprof_process_key key = {.pid = pid};	// start unknown: user space finds the living process of that pid
	struct cowprof_event *event = new_event(COWPROF_OOM_VICTIM, key);

	if (event)
		submit(event, 1);
	return 0;
}

// ---- The scan at attach ----

SEC("?iter/task")
int list_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct cowprof_task found = {};

	if (!task || task->pid != task->tgid || !task->signal->live.counter)	// a thread, or a zombie
		return 0;
	found.process = key_of(task);
	found.parent = key_of(task->real_parent);
	__builtin_memcpy(found.comm, task->comm, sizeof(found.comm));
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}
