// PROG_TWICE(): defines a program in two copies, so that preemption loses no runs.
//
// The kernel keeps a per-CPU count of a program's active runs to prevent recursion. While a thread
// is preempted inside a program, the kernel therefore skips that program for every other thread on
// the CPU. Trampolines (fentry) are preemptible since 5.12, tracepoints since they run under
// tracepoint_srcu alone (7.2; not 6.18). The second copy runs where the first was skipped, and
// otherwise finds nothing left to do. bpf_preempt_disable() does not help: a pending preemption
// happens as soon as it is re-enabled, which is still inside the program.
#ifndef COWPROF_BPF_PREEMPTION_H_
#define COWPROF_BPF_PREEMPTION_H_

// Like libbpf's BPF_PROG(), but defines NAME and NAME_again. The body must be idempotent: running
// it twice in a row has the effect of running it once.
// clang-format off
#define PROG_TWICE(section, name, args...)							\
static __always_inline int name##_body(unsigned long long *ctx, ##args);			\
SEC(section) int name(unsigned long long *ctx)							\
{												\
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wint-conversion\"")	\
	return name##_body(___bpf_ctx_cast(args));						\
	_Pragma("GCC diagnostic pop")								\
}												\
SEC(section) int name##_again(unsigned long long *ctx)						\
{												\
	_Pragma("GCC diagnostic push") _Pragma("GCC diagnostic ignored \"-Wint-conversion\"")	\
	return name##_body(___bpf_ctx_cast(args));						\
	_Pragma("GCC diagnostic pop")								\
}												\
static __always_inline int name##_body(unsigned long long *ctx, ##args)
// clang-format on

#endif
