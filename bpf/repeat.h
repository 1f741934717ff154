// A loop whose body the verifier walks through two or three times, not once for each round.
#ifndef COWPROF_BPF_REPEAT_H_
#define COWPROF_BPF_REPEAT_H_

// Calls body(step, context) for step 0, 1, 2, ... until it returns non-zero, at most `times` times.
// bpf_loop() exists since 5.17 (e6f2dd0f8067); before, the verifier walks through every round.
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
