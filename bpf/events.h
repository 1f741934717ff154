// The ring buffer of rare events. Every failed reservation is counted as a loss.
#ifndef COWPROF_BPF_EVENTS_H_
#define COWPROF_BPF_EVENTS_H_

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COWPROF_RING_BYTES);
} events SEC(".maps");

static void begin_event(struct cowprof_event *event, enum cowprof_event_kind kind,
			struct cowprof_process_id process)
{
	event->kind = kind;
	event->process = process;
	event->time_ns = now_ns();
}

// `type` must start with a struct cowprof_event.
#define new_record(type, kind, process)                                             \
	({                                                                          \
		type *record = bpf_ringbuf_reserve(&events, sizeof(type), 0);       \
		if (record) {                                                       \
			__builtin_memset(record, 0, sizeof(*record));               \
			begin_event((struct cowprof_event *)record, kind, process); \
		} else {                                                            \
			__sync_fetch_and_add(&losses.events_dropped, 1);            \
		}                                                                   \
		record;                                                             \
	})

static struct cowprof_event *new_event(enum cowprof_event_kind kind,
				       struct cowprof_process_id process)
{
	return new_record(struct cowprof_event, kind, process);
}

// Events wait for the next tick; `wake` is for those that user space must see while the process
// still exists.
static void submit(void *event, int wake)
{
	bpf_ringbuf_submit(event, wake ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

// Only wakes user space, where that may wait a little: some programs are killed all the time. A ring
// of its own, since user space can't tell which event of a ring has woken it.
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, COWPROF_BELL_BYTES);
} bell SEC(".maps");

static void ring_bell(void)
{
	__u64 nothing = 0;

	// If it is full, it has been rung.
	bpf_ringbuf_output(&bell, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP);
}

// The target, and what was there at the attach. They are few: their deaths never wait.
static int was_there(struct cowprof_process_row *row)
{
	return !row->forked_ns;
}

int news; // announced; cleared by user space

// Names must be read while the process exists: wakes user space for the first place or program it
// does not know, and when the table of growth stacks is half full.
static void announce_news(void)
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
