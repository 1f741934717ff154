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
} CORE;

struct pt_regs {
	unsigned long ip, sp, orig_ax;	// x86-64
} CORE;

struct super_block {
	unsigned long s_magic;
} CORE;

struct inode {
	struct super_block *i_sb;
} CORE;

struct file {
	struct inode *f_inode;
} CORE;

struct vm_area_struct {
	struct file *vm_file;
	unsigned long vm_flags;
} CORE;

union __sifields {
	struct {
		int _pid;
	} _kill;
	struct {
		void *_addr;
	} _sigfault;
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
