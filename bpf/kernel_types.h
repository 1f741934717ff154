// The kernel types that the probes access, reduced to the members they use. CO-RE relocates each
// access against the running kernel's BTF by name, so order, size and missing members do not matter
// here. Replaces a generated vmlinux.h; docs/design/kernel-types.md says why.
#ifndef COWPROF_BPF_KERNEL_TYPES_H_
#define COWPROF_BPF_KERNEL_TYPES_H_

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u64 __be64;
typedef __u32 __wsum;
typedef __u16 __sum16;

#define CORE __attribute__((preserve_access_index))

typedef struct {
	int counter;
} atomic_t;

typedef struct {
	__s64 counter;
} atomic64_t;

struct task_cputime_atomic {
	atomic64_t utime, stime; // in ns
} CORE;

struct thread_group_cputimer {
	struct task_cputime_atomic cputime_atomic;
} CORE;

struct rlimit {
	unsigned long rlim_max;
} CORE;

struct signal_struct {
	atomic_t live; // threads that have not entered do_exit() yet
	int nr_threads;
	int group_exit_code;
	struct thread_group_cputimer cputimer; // with CONFIG_POSIX_TIMERS; runs if a limit is set
	struct rlimit rlim[1]; // indexed by RLIMIT_*
} CORE;

struct css_set;
struct file;
struct mm_struct;

// Architecture-specific: user registers and the thread-local storage base. REGS_CALL() differs
// between an exception and a system call, and between two system calls.
#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
} CORE;
struct pt_regs {
	unsigned long ip, sp, orig_ax;
} CORE;
#define REGS_IP(regs) ((regs)->ip)
#define REGS_CALL(regs) ((regs)->orig_ax)
#define TLS_BASE(task) ((task)->thread.fsbase)
#define USER_ADDRESS_BITS 47 // with 4-level page tables
#elif defined(__TARGET_ARCH_arm64)
struct thread_struct {
	struct {
		// Saved at the last context switch: stale if the thread has changed it since.
		unsigned long tp_value;
	} uw;
} CORE;
struct pt_regs {
	unsigned long sp, pc;
	int syscallno;
} CORE;
#define REGS_IP(regs) ((regs)->pc)
#define REGS_CALL(regs) ((__u64)(regs)->syscallno)
#define TLS_BASE(task) ((task)->thread.uw.tp_value)
#define USER_ADDRESS_BITS 48
#else
#error "kernel_types.h does not define the registers of this architecture"
#endif

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
} CORE;

struct pid {
	unsigned int level;
	struct upid numbers[1]; // one per pid namespace level, the initial one first
} CORE;

struct timespec64 {
	__s64 tv_sec;
	long tv_nsec;
} CORE;

struct timens_offsets {
	struct timespec64 boottime;
} CORE;

struct time_namespace {
	struct timens_offsets offsets;
} CORE;

struct nsproxy {
	struct time_namespace *time_ns;
} CORE;

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct signal_struct *signal;
	struct pid *thread_pid; // NULL once the task is reaped
	struct nsproxy *nsproxy;
	__u64 start_boottime; // real_start_time before 5.5
	char comm[16];
	struct thread_struct thread;
	struct css_set *cgroups;
	struct mm_struct *mm;
	struct files_struct *files;
	__u32 self_exec_id;
	unsigned int flags;
} CORE;

struct mm_struct {
	void *pgd;
	struct task_struct *owner; // with CONFIG_MEMCG
	unsigned long start_brk, brk;
	int map_count;
	struct file *exe_file;
} CORE;

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
	void *s_fs_info;
} CORE;

struct shmem_sb_info {
	unsigned long max_blocks; // 0: unlimited
} CORE;

struct hstate {
	unsigned int order;
} CORE;

struct hugetlbfs_sb_info {
	struct hstate *hstate;
} CORE;

struct inode {
	struct super_block *i_sb;
	unsigned long i_ino;
	__s64 i_size;
} CORE;

struct qstr {
	const unsigned char *name;
} CORE;

struct dentry {
	struct qstr d_name;
} CORE;

struct path {
	struct dentry *dentry;
} CORE;

struct file {
	struct path f_path;
	struct inode *f_inode;
	void *private_data;
} CORE;

struct fdtable {
	struct file **fd;
} CORE;

struct files_struct {
	struct fdtable *fdt;
} CORE;

struct page {
	struct mm_struct *pt_mm; // of a page table; in struct ptdesc since 6.6 (1865484af6b2)
} CORE;

struct ptdesc {
	struct mm_struct *pt_mm;
} CORE;

struct pipe_buffer {
	struct page *page;
} CORE;

struct pipe_inode_info {
	struct pipe_buffer *bufs;
} CORE;

struct vm_area_struct {
	struct mm_struct *vm_mm;
	unsigned long vm_start;
	struct file *vm_file;
	unsigned long vm_flags;
	unsigned long vm_pgoff; // in pages
} CORE;

struct page;
struct folio;

enum fault_flag { // an enum since 5.15; macros with the same values before
	FAULT_FLAG_USER = 1 << 6,
};

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long address; // page-aligned
	unsigned long real_address; // byte address; since 5.18
	enum fault_flag flags;
	struct page *page;
} CORE;

typedef struct {
	__s64 counter;
} atomic_long_t;

struct kernfs_node {
	const char *name;
	__u64 id; // inode number of the cgroup's directory
} CORE;

struct cgroup {
	struct kernfs_node *kn;
} CORE;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} CORE;

struct css_set {
	struct cgroup_subsys_state *subsys[1]; // indexed by enum cgroup_subsys_id
} CORE;

struct page_counter {
	atomic_long_t usage; // in pages
	unsigned long max;
	struct page_counter *parent;
} CORE;

struct mem_cgroup {
	struct cgroup_subsys_state css; // first member on every kernel
	struct page_counter memory;
	_Bool oom_lock; // since 6.11 only with CONFIG_MEMCG_V1
} CORE;

// The value depends on the kernel's configuration; CO-RE relocates it.
enum cgroup_subsys_id {
	memory_cgrp_id = 4,
};

union __sifields {
	struct {
		int _pid;
		__u32 _uid;
	} _kill;
} CORE;

struct kernel_siginfo {
	int si_signo;
	int si_code;
	union __sifields _sifields;
} CORE;

struct sigaction {
	void *sa_handler; // NULL: the default action
} CORE;

struct k_sigaction {
	struct sigaction sa;
} CORE;

struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

enum bpf_iter_task_type { // since 6.1 (f0d74c4da1f0)
	BPF_TASK_ITER_ALL,
	BPF_TASK_ITER_TID,
	BPF_TASK_ITER_TGID,
};

// Since 6.9 gfp bits are an enum whose values depend on the configuration. Before, they were macros
// with these values.
enum ___gfp_bits {
	___GFP_WRITE_BIT = 12,
	___GFP_NORETRY_BIT = 16,
	___GFP_NOMEMALLOC_BIT = 19,
	___GFP_THISNODE_BIT = 21,
};

#endif
