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

struct thread_struct {
	unsigned long fsbase;	// x86-64: where user space keeps its thread-local storage
} CORE;

struct task_struct {
	int pid;
	int tgid;
	int exit_code;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	struct signal_struct *signal;
	__u64 start_boottime;	// real_start_time before 5.5
	char comm[16];
	struct thread_struct thread;
	struct css_set *cgroups;
} CORE;

struct pt_regs {
	unsigned long ip, sp, orig_ax;	// x86-64
} CORE;

struct super_block {
	__u32 s_dev;
	unsigned long s_magic;
	void *s_fs_info;
} CORE;

struct shmem_sb_info {
	unsigned long max_blocks;	// 0: without a bound
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
	unsigned long vm_start;
	struct file *vm_file;
	unsigned long vm_flags;
	unsigned long vm_pgoff;	// in pages
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
