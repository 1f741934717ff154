// The few kernel structs that the probes look into, by name only: CO-RE relocates every access against the running kernel's
// BTF, so neither order nor size matters here. Takes the place of a generated vmlinux.h; includes nothing of the project.
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

struct signal_struct {
	atomic_t live;	// threads that have not passed do_exit()
	int nr_threads;
	int group_exit_code;
} CORE;

struct css_set;
struct mm_struct;

// What differs between architectures: the registers of user space, and where its thread-local storage is. `call` tells a system call
// from an exception, and one call from another.
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
#define USER_ADDRESS_BITS 47	// with four levels of page tables
#elif defined(__TARGET_ARCH_arm64)
struct thread_struct {
	struct {
		unsigned long tp_value;	// as saved at the last switch: the thread's own, unless it has just changed it
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
#error "no registers of this architecture are known here"
#endif

struct pid_namespace;

struct upid {
	int nr;
	struct pid_namespace *ns;
} CORE;

struct pid {
	unsigned int level;
	struct upid numbers[1];	// one for each namespace that knows the process, the initial one first
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
	struct pid *thread_pid;	// gone when the process is
	struct nsproxy *nsproxy;
	__u64 start_boottime;	// real_start_time before 5.5
	char comm[16];
	struct thread_struct thread;
	struct css_set *cgroups;
	struct mm_struct *mm;
	__u32 self_exec_id;
} CORE;

struct mm_struct {
	struct task_struct *owner;	// with CONFIG_MEMCG
} CORE;

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
	void *s_fs_info;
} CORE;

struct shmem_sb_info {
	unsigned long max_blocks;	// 0: without a bound
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
} CORE;

struct vm_area_struct {
	struct mm_struct *vm_mm;
	unsigned long vm_start;
	struct file *vm_file;
	unsigned long vm_flags;
	unsigned long vm_pgoff;	// in pages
} CORE;

struct page;
struct folio;

enum fault_flag {	// since 5.15; the same numbers before
	FAULT_FLAG_USER = 1 << 6,
};

struct vm_fault {
	struct vm_area_struct *vma;
	unsigned long address;	// of the page
	unsigned long real_address;	// of the byte; since 5.18
	enum fault_flag flags;
	struct page *page;
} CORE;

typedef struct {
	__s64 counter;
} atomic_long_t;

struct kernfs_node {
	const char *name;
	__u64 id;	// inode number of the directory
} CORE;

struct cgroup {
	struct kernfs_node *kn;
} CORE;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
} CORE;

struct css_set {
	struct cgroup_subsys_state *subsys[1];	// as many as enum cgroup_subsys_id has
} CORE;

struct page_counter {
	atomic_long_t usage;	// in pages
	unsigned long max;
	struct page_counter *parent;
} CORE;

struct mem_cgroup {
	struct cgroup_subsys_state css;	// always first
	struct page_counter memory;
	_Bool oom_lock;	// CONFIG_MEMCG_V1 since 6.11, always there before
} CORE;

// Its numbers depend on what the kernel was built with.
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

struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

// gfp bits became an enum whose values a kernel may shift (since 6.9); before, ___GFP_NORETRY was 0x10000.
enum ___gfp_bits {
	___GFP_NORETRY_BIT = 16,
};

#endif
