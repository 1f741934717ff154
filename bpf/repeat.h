// A loop whose body the verifier walks through two or three times, however often it runs.
#ifndef COWPROF_BPF_REPEAT_H_
#define COWPROF_BPF_REPEAT_H_

// Calls body(step, context) with steps from 0 on, `times` times or until it does not return 0. bpf_loop()
// exists since 5.17 (e6f2dd0f8067); before, the verifier walks through each step.
static __always_inline void repeat(__u32 times, long (*body)(__u32 step, void *context),
				   void *context)
{
	if (bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_loop)) {
		bpf_loop(times, body, context, 0);
		return;
	}
	for (__u32 step = 0; step < times; step++) {
		if (body(step, context))
			return;
	}
}

#endif
