// Rare events on their way to user space: a ring buffer whose every failed reserve is counted. Included by cowprof.bpf.c only.
#ifndef COWPROF_BPF_EVENTS_H_
#define COWPROF_BPF_EVENTS_H_

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COWPROF_RING_BYTES);
} events SEC(".maps");

static void begin_event(struct cowprof_event *event, enum cowprof_event_kind kind, struct cowprof_process_id process)
{
	event->kind = kind;
	event->process = process;
	event->time_ns = now_ns();
}

// `type` begins with a struct cowprof_event.
#define new_record(type, kind, process)                                              \
	({                                                                           \
		type *record = bpf_ringbuf_reserve(&events, sizeof(type), 0);        \
		if (record) {                                                        \
			__builtin_memset(record, 0, sizeof(*record));                \
			begin_event((struct cowprof_event *)record, kind, process);  \
		} else {                                                             \
			__sync_fetch_and_add(&losses.events_dropped, 1);             \
		}                                                                    \
		record;                                                              \
	})

static struct cowprof_event *new_event(enum cowprof_event_kind kind, struct cowprof_process_id process)
{
	return new_record(struct cowprof_event, kind, process);
}

// Events wait for the next tick, but for those that can't: user space must look while the process still exists.
static void submit(void *event, int wake)
{
	bpf_ringbuf_submit(event, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

int news;	// told, and not yet taken by user space, which clears this

// Names must be read while the process still is there: user space is woken for the first thing that it does not know.
static void tell_news(void)
{
	struct cowprof_process_id nobody = {};
	struct cowprof_event *event;

	if (news || __sync_lock_test_and_set(&news, 1))
		return;
	event = new_event(COWPROF_NEWS, nobody);
	if (event)
		submit(event, 1);
}

#endif
