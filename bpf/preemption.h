// Programs in two copies. While a thread waits for its CPU that was preempted inside of a program, the kernel leaves this program out for
// every other thread on that CPU (each counts its runs there, so that it cannot recurse). Trampolines (fentry) can be preempted since
// 5.12, tracepoints since they run under tracepoint_srcu alone (7.2; not 6.18). The second copy runs then; else it finds nothing left to do. To
// keep preemption off inside, with bpf_preempt_disable(), does not help: it is made up for where it ends, which is inside as well. Included by
// cowprof.bpf.c only.
#ifndef COWPROF_BPF_PREEMPTION_H_
#define COWPROF_BPF_PREEMPTION_H_

// Like BPF_PROG() of libbpf, for NAME and NAME_again. The body must be one that a second run right after it does not change.
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

#endif
