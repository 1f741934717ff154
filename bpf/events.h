// Rare events on their way to user space: a ring buffer whose every failed reserve is counted. Included by cowprof.bpf.c only.
#ifndef COWPROF_BPF_EVENTS_H_
#define COWPROF_BPF_EVENTS_H_

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COWPROF_RING_BYTES);
} events SEC(".maps");

static struct cowprof_event *new_event(enum cowprof_event_kind kind, struct cowprof_process_key process)
{
	struct cowprof_event *event = bpf_ringbuf_reserve(&events, sizeof(*event), 0);

	if (!event) {
		__sync_fetch_and_add(&losses.events_dropped, 1);
		return 0;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->kind = kind;
	event->process = process;
	event->time_ns = bpf_ktime_get_boot_ns();
	return event;
}

// Events wait for the next tick, but for those that can't: user space must look while the process still exists.
static void submit(struct cowprof_event *event, int wake)
{
	bpf_ringbuf_submit(event, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

int news;	// told, and not yet taken by user space, which clears this

// Names must be read while the process still is there: user space is woken for the first thing that it does not know.
static void tell_news(void)
{
	struct cowprof_process_key nobody = {};
	struct cowprof_event *event;

	if (news || __sync_lock_test_and_set(&news, 1))
		return;
	event = new_event(COWPROF_NEWS, nobody);
	if (event)
		submit(event, 1);
}

#endif
