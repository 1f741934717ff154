// Translates pids and times into cowprof's own pid and time namespaces, which is how its /proc
// shows them. Only what user space reads is translated: maps are keyed by host pid and host time,
// so that a fault costs no translation.
#ifndef COWPROF_BPF_NAMESPACES_H_
#define COWPROF_BPF_NAMESPACES_H_

// Whether bpf_probe_read_kernel() is allowed; lockdown=confidentiality forbids it. Without it only
// file names, tmpfs sizes and OOM limits are missing: the verifier skips branches that this
// constant makes unreachable.
const volatile int kernel_reads = 1;

// task->pointer->member. Newer verifiers search the kernel's whole BTF, up to four times, for each
// pointer loaded from a task, on every path; what the helper reads costs them nothing.
#define THROUGH(task, pointer, member) \
	(kernel_reads ? BPF_CORE_READ(task, pointer, member) : (task)->pointer->member)

// Translating pids needs bpf_probe_read_kernel().
const volatile int own_pids; // cowprof is not in the initial pid namespace

// cowprof's own namespaces, learned by the first scan of the process tree.
struct {
	__u64 pid_namespace; // address
	__u32 level; // its nesting depth
	__s64 boot_offset_ns; // CLOCK_BOOTTIME offset of the time namespace
} own_namespaces;

// The number of `pid` at namespace `level`. struct pid ends in an array of one struct upid per
// level.
static struct upid *number_of(struct pid *pid, __u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) +
	       level * bpf_core_type_size(struct upid);
}

// Must run in a system call of cowprof: takes the namespaces of the current task.
static void learn_namespaces(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct upid *number;

	// Time namespaces exist since 5.6. timens_add_boottime_ns() adds the same offset for
	// /proc/PID/stat.
	if (bpf_core_field_exists(task->nsproxy->time_ns))
		own_namespaces.boot_offset_ns =
			task->nsproxy->time_ns->offsets.boottime.tv_sec * 1000000000ll +
			task->nsproxy->time_ns->offsets.boottime.tv_nsec;
	if (!own_pids)
		return;
	own_namespaces.level = task->thread_pid->level;
	number = number_of(task->thread_pid, own_namespaces.level);
	own_namespaces.pid_namespace = (__u64)BPF_CORE_READ(number, ns);
}

// The functions below take any task of a process.
static __always_inline __u32 pid_of(struct task_struct *task)
{
	struct upid *number;
	struct pid *pid;

	if (!own_pids)
		return task->tgid;
	pid = BPF_CORE_READ(task, group_leader, thread_pid);
	if (!pid || BPF_CORE_READ(pid, level) < own_namespaces.level)
		return 0;
	number = number_of(pid, own_namespaces.level);
	if ((__u64)BPF_CORE_READ(number, ns) != own_namespaces.pid_namespace)
		return 0;
	return BPF_CORE_READ(number, nr);
}

static __always_inline struct cowprof_process_id id_of(struct task_struct *task)
{
	struct cowprof_process_id id = {
		.pid = pid_of(task),
		.start_ns =
			THROUGH(task, group_leader, start_boottime) + own_namespaces.boot_offset_ns,
	};

	return id;
}

static __u64 now_ns(void)
{
	return bpf_ktime_get_boot_ns() + own_namespaces.boot_offset_ns;
}

#endif
