// Evidence of why a process dies, taken at that moment: the signal and its sender, where a fatal
// one hit the program and which file was mapped there, and the cgroup on whose behalf the OOM
// killer acts. User space judges it.
#ifndef COWPROF_BPF_SIGNALS_H_
#define COWPROF_BPF_SIGNALS_H_

enum {
	SIGBUS = 7,
	SIGKILL = 9,
	SIGXFSZ = 25,
	TRACE_SIGNAL_IGNORED = 1, // include/trace/events/signal.h
	SI_KERNEL = 0x80, // si_code of the kernel; of a process: below 1
	PF_EXITING = 4,
	PAGE_BITS = 12,
	MOST_CGROUP_LEVELS = 16,
	CHARGE_BATCH = 64, // pages per charge (MEMCG_CHARGE_BATCH, mm/memcontrol.c)
	SAME_OOM_NS = 2000000000,
	// Signals with a handler that are reported at once, of a process; later ones only if they
	// are the first of their number: runtimes such as the JVM take thousands a second.
	MOST_HANDLED = 16,
};

// Signals that end a process or explain its end:
// HUP INT QUIT ILL TRAP ABRT BUS FPE KILL SEGV TERM XCPU XFSZ SYS.
static int is_deadly(int signal)
{
	return 1ull << signal &
	       (1ull << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 |
		1 << 11 | 1 << 15 | 1 << 24 | 1 << 25 | 1ull << 31);
}

// ILL TRAP ABRT BUS FPE SEGV: signals that a program causes itself.
static int is_crash(int signal)
{
	return 1u << signal & (1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 11);
}

// For its own signals the kernel passes 0 or 1 as `info`. Newer verifiers (7.2) therefore treat it
// as a scalar, which only the helper can dereference. Where the helper is not allowed, `info` is
// dereferenced directly.
static int signal_code(struct kernel_siginfo *info)
{
	return kernel_reads ? BPF_CORE_READ(info, si_code) : info->si_code;
}

// Wakes user space, while the process still exists. That may wait for a command that was started, such
// as a decoder: it has no lines to be read.
static void report_delivery(struct cowprof_process_row *row, struct thread_state *state)
{
	int waits = !was_there(row) && row->execs && !state->image;

	if (bpf_ringbuf_output(&events, &state->delivery, sizeof(state->delivery),
			       waits ? BPF_RB_NO_WAKEUP : BPF_RB_FORCE_WAKEUP))
		__sync_fetch_and_add(&losses.events_dropped, 1);
	if (waits)
		ring_bell();
	state->delivery.event.kind = 0;
}

// A fault's signal carries its address; one sent by a process, as by abort() or a handler that
// raises it again, does not. So a fault that was left out is reported when its thread raises the
// signal again, to itself or to its process, where another thread may die of it.
static void report_raised_again(int signal, struct task_struct *task,
				struct cowprof_process_row *row)
{
	struct task_struct *raiser = bpf_get_current_task_btf();
	struct thread_state *state = raiser->tgid == task->tgid ? existing_state(raiser) : 0;

	if (state && state->delivery.event.kind && state->delivery.event.code > 0 &&
	    state->delivery.event.signal == signal)
		report_delivery(row, state);
}

// The hard limit of CPU time in s, if the process has used it up; else 0. The kernel compares the
// same figures (check_process_timers(), kernel/time/posix-cpu-timers.c).
static __u64 used_up_cpu_limit(struct task_struct *task)
{
	struct signal_struct *group = task->signal;
	__u64 limit, used;

	if (!bpf_core_field_exists(group->cputimer))
		return 0;
	limit = group->rlim[0].rlim_max; // RLIMIT_CPU
	used = group->cputimer.cputime_atomic.utime.counter +
	       group->cputimer.cputime_atomic.stime.counter;
	return used / 1000000000 >= limit ? limit : 0;
}

SEC("?tp_btf/signal_generate")
int BPF_PROG(signal_sent, int signal, struct kernel_siginfo *info, struct task_struct *task,
	     int group, int result)
{
	struct task_struct *sender = bpf_get_current_task_btf();
	struct cowprof_process_row *row;
	struct cowprof_signal *sent;
	int code = 0, exiting = 0;

	if (signal < 1 || signal > 31 || !is_deadly(signal) || result == TRACE_SIGNAL_IGNORED)
		return 0;
	row = row_of(task);
	if (!row)
		return 0;
	// 1 is SEND_SIG_PRIV, a signal by the kernel itself, such as the OOM killer's; 0 is
	// SEND_SIG_NOINFO, by the kernel in the name of `sender`. Not compared with 0: verifiers
	// since 6.3 take `info` for a pointer that is never NULL, and drop that branch.
	if ((unsigned long)info > 1)
		code = signal_code(info);
	else if ((unsigned long)info == 1 || signal == SIGXFSZ)
		code = SI_KERNEL;
	else
		exiting = (sender->flags & PF_EXITING) != 0;
	if (code > 0 && is_crash(signal) && row->handled >= MOST_HANDLED)
		return 0; // its delivery tells the same
	if (code <= 0)
		report_raised_again(signal, task, row);
	sent = new_record(struct cowprof_signal, COWPROF_SIGNAL_SENT, id_of(task));
	if (!sent)
		return 0;
	sent->event.signal = signal;
	sent->event.sender = pid_of(sender);
	bpf_get_current_comm(sent->event.comm, sizeof(sent->event.comm));
	sent->event.code = code;
	sent->sender_exiting = exiting;
	if (signal == SIGKILL && code == SI_KERNEL)
		sent->cpu_limit = used_up_cpu_limit(task);
	submit(sent, signal == SIGKILL && was_there(row));
	if (signal == SIGKILL && !was_there(row))
		ring_bell();
	return 0;
}

// ---- Where a fatal signal hit the program ----

static long describe_file(struct task_struct *task, struct vm_area_struct *vma, void *out)
{
	struct cowprof_mapped_file *described = out;
	struct file *file = vma->vm_file;
	struct inode *inode;

	if (!file)
		return 0;
	inode = file->f_inode;
	described->kind = inode->i_sb->s_magic == TMPFS_MAGIC ? COWPROF_MEMORY_FILE :
								COWPROF_DISK_FILE;
	described->device = inode->i_sb->s_dev;
	described->inode = inode->i_ino;
	described->bytes = inode->i_size;
	described->offset += (vma->vm_pgoff << PAGE_BITS) - vma->vm_start;
	if (!kernel_reads)
		return 0;
	if (described->kind == COWPROF_MEMORY_FILE)
		described->capacity_pages =
			BPF_CORE_READ((struct shmem_sb_info *)inode->i_sb->s_fs_info, max_blocks);
	bpf_probe_read_kernel_str(described->name, sizeof(described->name),
				  file->f_path.dentry->d_name.name);
	return 0;
}

static void record_frames(struct thread_state *state, struct cowprof_delivery *delivery)
{
	if (state->images_learned != images_learned)
		learn_image(state);
	if (!walk_frames())
		return;
	__builtin_memcpy(delivery->frames, state->stack.frames, sizeof(delivery->frames));
	if (state->stack.depth < COWPROF_DELIVERY_FRAMES)
		delivery->frames[state->stack.depth & (COWPROF_DELIVERY_FRAMES - 1)].code = 0;
}

// The file at the faulting address for SIGBUS, at the instruction for others. Not both: interrupts
// are off here, and then a CPU can do only one bpf_find_vma() at a time.
static void record_file(struct task_struct *task, struct cowprof_delivery *delivery)
{
	struct cowprof_mapped_file file = {};

	file.offset = delivery->event.signal == SIGBUS ? delivery->event.address : delivery->ip;
	// bpf_find_vma() exists since 5.17 (7c7e3d31e785).
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_find_vma))
		bpf_find_vma(task, file.offset, describe_file, &file, 0);
	delivery->file = file;
}

// _sifields._sigfault._addr. Without the helper it is read in halves, as _kill._pid and _kill._uid:
// the verifier of 6.1 allows access only through the first member of a union.
static __u64 fault_address(struct kernel_siginfo *info)
{
	__u64 address = 0;

	if (kernel_reads) {
		bpf_core_read(&address, sizeof(address), &info->_sifields);
		return address;
	}
	return (__u32)info->_sifields._kill._pid | (__u64)info->_sifields._kill._uid << 32;
}

SEC("?tp_btf/signal_deliver")
int BPF_PROG(signal_delivered, int signal, struct kernel_siginfo *info, struct k_sigaction *action)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cowprof_process_row *row;
	struct cowprof_delivery *delivery;
	struct thread_state *state;
	int fatal, is_first;

	if (signal < 1 || signal > 31 || !is_crash(signal))
		return 0;
	row = row_of(task);
	state = row ? state_of(task) : 0;
	if (!state)
		return 0;
	fatal = !(kernel_reads ? BPF_CORE_READ(action, sa.sa_handler) : action->sa.sa_handler);
	delivery = &state->delivery;
	__builtin_memset(delivery, 0, sizeof(*delivery));
	begin_event(&delivery->event, COWPROF_SIGNAL_DELIVERED, id_of(task));
	delivery->event.signal = signal;
	delivery->event.code = signal_code(info);
	delivery->ip = REGS_IP((struct pt_regs *)bpf_task_pt_regs(task));
	if (delivery->event.code > 0)
		delivery->event.address = fault_address(info);
	record_file(task, delivery);
	record_frames(state, delivery);
	is_first = !(row->crash_signals & 1u << signal); // its handler may end the program
	row->crash_signals |= 1u << signal;
	if (fatal || __sync_fetch_and_add(&row->handled, 1) < MOST_HANDLED || is_first)
		report_delivery(row, state);
	return 0;
}

// ---- Which cgroup's limit the OOM killer acts for ----

static struct page_counter *memory_of(struct task_struct *task)
{
	__u64 slot = bpf_core_field_offset(struct css_set, subsys) +
		     bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * sizeof(void *);
	struct mem_cgroup *group = 0;

	bpf_probe_read_kernel(&group, sizeof(group), (void *)BPF_CORE_READ(task, cgroups) + slot);
	return group ? (void *)group + bpf_core_field_offset(struct mem_cgroup, memory) : 0;
}

struct {
	__u64 cgroup, ns;
} last_oom; // the last limit known to be reached

// mem_cgroup_oom() locks the cgroup that reached its limit and all below it, so the outermost
// locked cgroup is the one. Lowering memory.max kills without that lock, and some kernels do not
// have it: there it is the innermost cgroup at its limit.
static int is_limiting(struct mem_cgroup *group, __u64 limit, __u64 used, int found)
{
	if (!bpf_core_field_exists(group->oom_lock))
		return !found && used + CHARGE_BATCH >= limit;
	return BPF_CORE_READ(group, oom_lock) || (!found && used > limit);
}

// A task that reaches a limit during an OOM kill for that limit waits for the kill, finds the
// cgroup unlocked and may still kill, even if there is room by then (seen on 7.2).
static int was_limiting(__u64 cgroup)
{
	return cgroup == last_oom.cgroup && now_ns() - last_oom.ns < SAME_OOM_NS;
}

struct limit_walk {
	struct page_counter *memory; // of the cgroup at hand
	struct cowprof_oom *oom;
};

static __noinline long record_if_limiting(__u32 step, void *context)
{
	struct limit_walk *walk = context;
	struct page_counter *memory = walk->memory;
	struct cowprof_oom *oom = walk->oom;
	struct mem_cgroup *group =
		(void *)memory - bpf_core_field_offset(struct mem_cgroup, memory);
	__u64 limit, used, cgroup;

	if (!memory)
		return 1;
	walk->memory = BPF_CORE_READ(memory, parent);
	limit = BPF_CORE_READ(memory, max);
	used = BPF_CORE_READ(memory, usage.counter);
	cgroup = BPF_CORE_READ(group, css.cgroup, kn, id);
	if (is_limiting(group, limit, used, oom->cgroup != 0)) {
		last_oom.cgroup = cgroup;
		last_oom.ns = now_ns();
	} else if (oom->cgroup != 0 || !was_limiting(cgroup)) {
		return 0;
	}
	oom->cgroup = cgroup;
	oom->limit_pages = limit;
	oom->used_pages = used;
	bpf_probe_read_kernel_str(oom->name, sizeof(oom->name),
				  BPF_CORE_READ(group, css.cgroup, kn, name));
	return 0;
}

static void record_limit(struct task_struct *task, struct cowprof_oom *oom)
{
	struct limit_walk walk = { .memory = memory_of(task), .oom = oom };

	repeat(MOST_CGROUP_LEVELS, record_if_limiting, &walk);
}

// `task` is in the cgroup that reached its limit, or below it: either the victim or the task that
// asked for memory. For an untracked victim only the limit is remembered.
static int report_victim(const struct cowprof_process_id *victim, struct task_struct *task,
			 int tracked)
{
	struct cowprof_oom *oom = new_record(struct cowprof_oom, COWPROF_OOM_VICTIM, *victim);

	if (!oom)
		return 0;
	oom->looked = kernel_reads;
	if (kernel_reads && bpf_core_type_exists(struct mem_cgroup))
		record_limit(task, oom);
	if (tracked)
		submit(oom, 1);
	else
		bpf_ringbuf_discard(oom, BPF_RB_NO_WAKEUP);
	return 0;
}

// mark_victim(int pid) became mark_victim(struct task_struct *, uid_t), also in stable backports,
// so the version says nothing: user space loads the program that matches the kernel's BTF.
SEC("?tp_btf/mark_victim")
int BPF_PROG(oom_victim_task, struct task_struct *task)
{
	struct cowprof_process_id victim = id_of(task);

	return report_victim(&victim, task, row_of(task) != 0);
}

SEC("?tp_btf/mark_victim")
int BPF_PROG(oom_victim_pid, int pid)
{
	// The pid is the host's and the start time unknown: user space looks for the living
	// process.
	struct cowprof_process_id victim = { .pid = own_pids ? 0 : pid };

	return report_victim(&victim, bpf_get_current_task_btf(), 1);
}

#endif
