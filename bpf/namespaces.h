// How a process is told to user space: by the pid and the clock of the namespaces that cowprof itself lives in, as its /proc has
// them. The tables know processes by those of the host, which cost nothing on the way of a fault. Included by following.h only.
#ifndef COWPROF_BPF_VIEW_H_
#define COWPROF_BPF_VIEW_H_

const volatile int own_pids;	// cowprof has a pid namespace of its own: needs bpf_probe_read_kernel()

// Of cowprof itself, learned when it scans the tree for the first time.
struct {
	__u64 pid_namespace;	// address
	__u32 level;	// how deep it lies
	__s64 boot_offset_ns;	// what its time namespace adds to CLOCK_BOOTTIME
} view;

// `pid` as the namespace at `level` has it: the last member of struct pid is an array of as many numbers as it has levels.
static struct upid *number_of(struct pid *pid, __u32 level)
{
	return (void *)pid + bpf_core_field_offset(struct pid, numbers) + level * bpf_core_type_size(struct upid);
}

// To be called by a program that runs in a system call of cowprof.
static void learn_view(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct upid *number;

	// The same addition as timens_add_boottime_ns() makes for /proc/PID/stat. Time namespaces: since 5.6.
	if (bpf_core_field_exists(task->nsproxy->time_ns))
		view.boot_offset_ns = task->nsproxy->time_ns->offsets.boottime.tv_sec * 1000000000ll +
				      task->nsproxy->time_ns->offsets.boottime.tv_nsec;
	if (!own_pids)
		return;
	view.level = task->thread_pid->level;
	number = number_of(task->thread_pid, view.level);
	view.pid_namespace = (__u64)BPF_CORE_READ(number, ns);
}

static __u32 pid_of(struct task_struct *task)
{
	struct pid *pid = task->group_leader->thread_pid;
	struct upid *number;

	if (!own_pids)
		return task->tgid;
	if (!pid || pid->level < view.level)
		return 0;
	number = number_of(pid, view.level);
	return (__u64)BPF_CORE_READ(number, ns) == view.pid_namespace ? BPF_CORE_READ(number, nr) : 0;
}

static struct cowprof_process_id id_of(struct task_struct *task)
{
	struct task_struct *leader = task->group_leader;
	struct cowprof_process_id id = {.pid = pid_of(task), .start_ns = leader->start_boottime + view.boot_offset_ns};

	return id;
}

static __u64 now_ns(void)
{
	return bpf_ktime_get_boot_ns() + view.boot_offset_ns;
}

#endif
