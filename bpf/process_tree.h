// The tree of processes: forks, execs, exits, and the scan at attach. Included by cowprof.bpf.c only.
#ifndef COWPROF_BPF_PROCESS_TREE_H_
#define COWPROF_BPF_PROCESS_TREE_H_

struct cowprof_process_row zero_row;	// a template: a row does not fit on the BPF stack
int scanning;	// the tree is being scanned: report every fork of the host
__u32 last_serial;
__u32 ended_since_pull;	// processes; user space sets it back

static void add_child(struct thread_state *parent, struct task_struct *child)
{
	struct cowprof_process_key key = key_of(child);
	struct cowprof_process_row *row, *forker = bpf_map_lookup_elem(&processes, &parent->process);
	struct thread_state *state;

	if (!forker)
		return;
	__sync_fetch_and_add(&forker->forks, 1);
	__sync_fetch_and_add(followed_slot(child), 1);
	// It has a row already if the scan has found the child before its fork came to here.
	if (bpf_map_update_elem(&processes, &key, &zero_row, BPF_NOEXIST) == -EEXIST)
		__sync_fetch_and_add(followed_slot(child), -1);
	row = bpf_map_lookup_elem(&processes, &key);
	if (!row) {
		__sync_fetch_and_add(&losses.processes_dropped, 1);
		state = bpf_task_storage_get(&threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (state)	// its process is the all-zero key: the overflow row
			state->serial = 0;
		return;
	}
	row->image = image_of(forker);
	row->id = id_of(child);
	row->parent = forker->id;
	row->forked_ns = now_ns();
	__builtin_memcpy(row->comm, child->comm, sizeof(row->comm));
	if (!row->serial)	// last: a row without is not whole
		row->serial = __sync_fetch_and_add(&last_serial, 1) + 1;
}

static void describe_task(struct task_struct *task, struct task_struct *parent, struct cowprof_task *out)
{
	out->process = key_of(task);
	out->parent = key_of(parent);
	out->id = id_of(task);
	out->parent_id = id_of(parent);
	__builtin_memcpy(out->comm, task->comm, sizeof(out->comm));
}

static int is_added(struct task_struct *child)
{
	struct cowprof_process_row *row = row_of(child);

	return row ? row->forked_ns != 0 : !!own_state(child);
}

// Runs before the child does.
PROG_TWICE("?tp_btf/sched_process_fork", process_fork, struct task_struct *parent, struct task_struct *child)
{
	struct thread_state *state = state_of(parent);
	struct cowprof_fork_seen *seen;
	struct cowprof_event *event;

	if (parent->tgid == child->tgid)	// a thread
		return 0;
	if (state) {
		if (is_added(child))
			return 0;
		add_child(state, child);
		event = new_event(COWPROF_FORK, id_of(child));
		if (event)
			submit(event, 0);
		return 0;
	}
	seen = scanning ? new_record(struct cowprof_fork_seen, COWPROF_FORK_SEEN, id_of(child)) : 0;
	if (!seen)
		return 0;
	describe_task(child, parent, &seen->child);
	submit(seen, 0);
	return 0;
}

PROG_TWICE("?tp_btf/sched_process_exec", process_exec, struct task_struct *task)
{
	struct thread_state *state = state_of(task);
	struct cowprof_process_row *row;
	struct cowprof_event *event;

	if (!state || state->execs == task->self_exec_id)
		return 0;
	state->execs = task->self_exec_id;	// counted up before
	row = bpf_map_lookup_elem(&processes, &state->process);
	if (row) {	// another program, whose image is to be learned
		bpf_map_delete_elem(&learned_images, &row->serial);
		row->image = state->image = 0;
	}
	event = new_event(COWPROF_EXEC, id_of(task));
	if (!event)
		return 0;
	__builtin_memcpy(event->comm, task->comm, sizeof(event->comm));
	submit(event, 0);
	tell_news();
	return 0;
}

// The row itself keeps the end, so that a full ring buffer can't lose it. do_exit() has counted this thread out of
// signal->live before the tracepoint; two threads that leave at once may both read 0, and write the same twice.
PROG_TWICE("?tp_btf/sched_process_exit", process_exit, struct task_struct *task)
{
	struct thread_state *state = own_state(task);
	struct cowprof_process_row *row = row_of(task);
	struct cowprof_event *event;
	int many;

	if (!row)
		return 0;
	if (state) {
		settle(row, state);
		tell_pages(state);
	}
	if (task->signal->live.counter || row->exited_ns)
		return 0;
	row->exit_code = task->signal->group_exit_code ? task->signal->group_exit_code : task->exit_code;
	__builtin_memcpy(row->comm, task->comm, sizeof(row->comm));
	row->exited_ns = now_ns();
	many = __sync_fetch_and_add(&ended_since_pull, 1) == COWPROF_MANY_ENDED;
	if (READ(cause_rows_left) < 0 || READ(place_rows_left) < 0) {	// workers of Python leave hundreds of rows each
		cause_rows_left = place_rows_left = COWPROF_MAX_CAUSE_ROWS;
		many = 1;
	}
	event = new_event(COWPROF_EXIT, row->id);
	if (!event)
		return 0;
	event->code = row->exit_code;
	// Killed by a signal: told at once, since who records may be next.
	submit(event, many || row->exit_code & 0x7f);
	return 0;
}

// ---- The scan at attach ----

SEC("?iter/task")
int list_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct cowprof_task found = {};

	learn_view();
	if (!task || task->pid != task->tgid || !task->signal->live.counter)	// a thread, or a zombie
		return 0;
	describe_task(task, task->real_parent, &found);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

#endif
