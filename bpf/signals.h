// Why a process dies, as evidence taken at that moment: signals with their sender, where a fatal one met the program and which
// file was behind the address, and whose limit the OOM killer serves. Judged in userspace/model/post_mortem.cc. Included by
// cowprof.bpf.c only.
#ifndef COWPROF_BPF_DEATHS_H_
#define COWPROF_BPF_DEATHS_H_

enum {
	SIGBUS = 7,
	SI_KERNEL = 0x80,	// si_code; below 1: sent by a process
	PAGE_BITS = 12,
	MOST_CGROUP_LEVELS = 16,
	CHARGE_BATCH = 64,	// pages that a charge asks for at once, mm/memcontrol.c
	SAME_OOM_NS = 2000000000,
};

// A kernel that is locked down to confidentiality refuses bpf_probe_read_kernel(): then there is no name of a file and no limit of an
// OOM kill, and everything else. The verifier does not look at what this constant cuts off.
const volatile int kernel_reads = 1;

// Signals that end a process or tell why: HUP INT QUIT ILL TRAP ABRT BUS FPE KILL SEGV TERM XCPU XFSZ SYS.
static int is_deadly(int signal)
{
	return 1ull << signal & (1ull << 1 | 1 << 2 | 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 11 |
				 1 << 15 | 1 << 24 | 1 << 25 | 1ull << 31);
}

// The kernel's own signals have 0 or 1 in place of an address, so newer verifiers (7.2's does) take `info` for a number that can't be
// followed: with the helper it can, and where that is refused, as a pointer.
static int signal_code(struct kernel_siginfo *info)
{
	return kernel_reads ? BPF_CORE_READ(info, si_code) : info->si_code;
}

SEC("?tp_btf/signal_generate")
int BPF_PROG(signal_sent, int signal, struct kernel_siginfo *info, struct task_struct *task, int group, int result)
{
	struct cowprof_event *event;

	if (signal < 1 || signal > 31 || !is_deadly(signal) || !row_of(task))
		return 0;
	event = new_event(COWPROF_SIGNAL_SENT, id_of(task));
	if (!event)
		return 0;
	event->signal = signal;
	event->sender = pid_of(bpf_get_current_task_btf());
	bpf_get_current_comm(event->comm, sizeof(event->comm));
	if ((unsigned long)info > 1)	// 0 and 1 are SEND_SIG_NOINFO and SEND_SIG_PRIV: the kernel itself, as the OOM killer
		event->code = signal_code(info);
	else if ((unsigned long)info == 1)
		event->code = SI_KERNEL;
	submit(event, signal == 9);
	return 0;
}

// ---- Where a fatal signal met the program ----

static long describe_file(struct task_struct *task, struct vm_area_struct *vma, void *out)
{
	struct cowprof_mapped_file *described = out;
	struct file *file = vma->vm_file;
	struct inode *inode;

	if (!file)
		return 0;
	inode = file->f_inode;
	described->kind = inode->i_sb->s_magic == TMPFS_MAGIC ? COWPROF_MEMORY_FILE : COWPROF_DISK_FILE;
	described->device = inode->i_sb->s_dev;
	described->inode = inode->i_ino;
	described->bytes = inode->i_size;
	described->offset += (vma->vm_pgoff << PAGE_BITS) - vma->vm_start;
	if (!kernel_reads)
		return 0;
	if (described->kind == COWPROF_MEMORY_FILE)
		described->capacity_pages = BPF_CORE_READ((struct shmem_sb_info *)inode->i_sb->s_fs_info, max_blocks);
	bpf_probe_read_kernel_str(described->name, sizeof(described->name), file->f_path.dentry->d_name.name);
	return 0;
}

static void tell_frames(struct thread_state *state, struct cowprof_delivery *delivery)
{
	struct cowprof_image *image;
	__u32 image_id;

	if (state->images_learned != images_learned)
		learn_image(state);
	image_id = state->image;
	image = bpf_map_lookup_elem(&images, &image_id);
	if (!image)
		return;
	walk_frames(state, image);
	for (__u32 i = 0; i < COWPROF_DELIVERY_FRAMES && i < state->stack.depth; i++)
		delivery->frames[i] = state->stack.frames[i];
}

// The file of the faulting address for a bus error, of the code for others: with interrupts off, as here, one lookup is all that a
// CPU can do.
static void tell_file(struct task_struct *task, struct cowprof_delivery *delivery)
{
	struct cowprof_mapped_file file = {};

	file.offset = delivery->event.signal == SIGBUS ? delivery->event.address : delivery->ip;
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_find_vma))	// since 5.17
		bpf_find_vma(task, file.offset, describe_file, &file, 0);
	delivery->file = file;
}

// _sifields._sigfault._addr, in halves: of a union the verifier of 6.1 lets only the first members be read, _kill's.
static __u64 fault_address(struct kernel_siginfo *info)
{
	__u64 address = 0;

	if (kernel_reads) {
		bpf_core_read(&address, sizeof(address), &info->_sifields);
		return address;
	}
	return (__u32)info->_sifields._kill._pid | (__u64)info->_sifields._kill._uid << 32;
}

// ILL TRAP ABRT BUS FPE SEGV: what a program does to itself. Those of a fault carry its address; one that a process sent, as
// abort() and handlers that raise it again do, does not.
SEC("?tp_btf/signal_deliver")
int BPF_PROG(signal_delivered, int signal, struct kernel_siginfo *info)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct cowprof_delivery *delivery;
	struct thread_state *state;

	if (signal < 1 || signal > 31 || !(1u << signal & (1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 11)))
		return 0;
	state = row_of(task) ? state_of(task) : 0;
	delivery = state ? new_record(struct cowprof_delivery, COWPROF_SIGNAL_DELIVERED, id_of(task)) : 0;
	if (!delivery)
		return 0;
	delivery->event.signal = signal;
	delivery->event.code = signal_code(info);
	delivery->ip = REGS_IP((struct pt_regs *)bpf_task_pt_regs(task));
	if (delivery->event.code > 0)
		delivery->event.address = fault_address(info);
	tell_file(task, delivery);
	tell_frames(state, delivery);
	submit(delivery, 1);
	return 0;
}

// ---- Whose limit the OOM killer serves ----

static struct page_counter *memory_of(struct task_struct *task)
{
	__u64 slot = bpf_core_field_offset(struct css_set, subsys) +
		     bpf_core_enum_value(enum cgroup_subsys_id, memory_cgrp_id) * sizeof(void *);
	struct mem_cgroup *group = 0;

	bpf_probe_read_kernel(&group, sizeof(group), (void *)task->cgroups + slot);
	return group ? (void *)group + bpf_core_field_offset(struct mem_cgroup, memory) : 0;
}

struct {
	__u64 cgroup, ns;
} last_oom;	// the last limit that was known to be met

// mem_cgroup_oom() locks the cgroup whose limit was met and all below it: the outermost locked one is it. A limit that was lowered
// (memory.max) kills without, as kernels do that have no such lock: there it is the innermost that has met its limit.
static int is_limiting(struct mem_cgroup *group, __u64 limit, __u64 used, int found)
{
	if (!bpf_core_field_exists(group->oom_lock))
		return !found && used + CHARGE_BATCH >= limit;
	return BPF_CORE_READ(group, oom_lock) || (!found && used > limit);
}

// Who meets a limit while another one is being killed for it waits for that, finds the cgroup unlocked, and may kill all the same, even
// if there is room by now.
static int was_limiting(__u64 cgroup)
{
	return cgroup == last_oom.cgroup && now_ns() - last_oom.ns < SAME_OOM_NS;
}

static __noinline int tell_if_limiting(struct page_counter *memory, struct cowprof_oom *oom)
{
	struct mem_cgroup *group = (void *)memory - bpf_core_field_offset(struct mem_cgroup, memory);
	__u64 limit = BPF_CORE_READ(memory, max), used = BPF_CORE_READ(memory, usage.counter);
	__u64 cgroup = BPF_CORE_READ(group, css.cgroup, kn, id);

	if (is_limiting(group, limit, used, oom->cgroup != 0)) {
		last_oom.cgroup = cgroup;
		last_oom.ns = now_ns();
	} else if (oom->cgroup != 0 || !was_limiting(cgroup)) {
		return 0;
	}
	oom->cgroup = cgroup;
	oom->limit_pages = limit;
	oom->used_pages = used;
	bpf_probe_read_kernel_str(oom->name, sizeof(oom->name), BPF_CORE_READ(group, css.cgroup, kn, name));
	return 0;
}

// The body of the loop is a function: the verifier of 6.1 refuses a loop that is closed by anything but a jump ("back-edge"), and clang
// lays out the long one so.
static void tell_limit(struct task_struct *task, struct cowprof_oom *oom)
{
	struct page_counter *memory = memory_of(task);

	for (int i = 0; i < MOST_CGROUP_LEVELS && memory; i++) {
		tell_if_limiting(memory, oom);
		memory = BPF_CORE_READ(memory, parent);
	}
}

// `task` is in the cgroup that has met its limit, or below: the victim is, and so is who asked for memory. Of a stranger only its limit is
// noted.
static int tell_victim(const struct cowprof_process_id *victim, struct task_struct *task, int followed)
{
	struct cowprof_oom *oom = new_record(struct cowprof_oom, COWPROF_OOM_VICTIM, *victim);

	if (!oom)
		return 0;
	oom->looked = kernel_reads;
	if (kernel_reads && bpf_core_type_exists(struct mem_cgroup))
		tell_limit(task, oom);
	if (followed)
		submit(oom, 1);
	else
		bpf_ringbuf_discard(oom, BPF_RB_NO_WAKEUP);
	return 0;
}

// mark_victim(int pid) became mark_victim(struct task_struct *, uid_t), and stable kernels took that over: user space loads the
// one that the kernel's BTF asks for.
SEC("?tp_btf/mark_victim")
int BPF_PROG(oom_victim_task, struct task_struct *task)
{
	struct cowprof_process_id victim = id_of(task);

	return tell_victim(&victim, task, row_of(task) != 0);
}

SEC("?tp_btf/mark_victim")
int BPF_PROG(oom_victim_pid, int pid)
{
	// Start unknown: user space finds the living process of that pid. It is the host's.
	struct cowprof_process_id victim = {.pid = own_pids ? 0 : pid};

	return tell_victim(&victim, bpf_get_current_task_btf(), 1);
}

#endif
