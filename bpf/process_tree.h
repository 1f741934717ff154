// The process tree: fork, exec and exit, and the task iterator that finds existing processes at
// attach.
#ifndef COWPROF_BPF_PROCESS_TREE_H_
#define COWPROF_BPF_PROCESS_TREE_H_

struct cowprof_process_row zero_row; // template; a row is too large for the BPF stack
int scanning; // the tree is being scanned: report every fork on the host
int wake_at_fork; // asked for by user space, once: who held a lock then is known only for a moment
__u32 last_serial;
__u32 ended_since_pull; // processes; reset by user space

// `parent`: the forking thread's state; NULL if there was no memory for it.
static void add_child(struct cowprof_process_row *forker, struct thread_state *parent,
		      struct task_struct *child, int vforked)
{
	struct cowprof_process_key key = key_of(child);
	struct cowprof_process_row *row = 0;
	struct thread_state *state;
	__u32 serial;

	forget_copies(forker->serial);
	__sync_fetch_and_add(tracked_slot(child), 1);
	// A child of the overflow row stays there: nobody knows its parent.
	if (forker->serial) {
		// The scan may have found the child before this program runs.
		if (bpf_map_update_elem(&processes, &key, &zero_row, BPF_NOEXIST) == -EEXIST)
			__sync_fetch_and_add(tracked_slot(child), -1);
		row = bpf_map_lookup_elem(&processes, &key);
	}
	if (!row) {
		__sync_fetch_and_add(&losses.processes_dropped, 1);
		state = bpf_task_storage_get(&threads, child, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
		if (state) // its process stays the all-zero key: the overflow row
			state->serial = 0;
		return;
	}
	row->image = image_of(forker);
	serial = row->serial ? row->serial : __sync_fetch_and_add(&last_serial, 1) + 1;
	if (!vforked) {
		row->heap = parent ? walk_heap(parent, forker->serial, serial) :
				     COWPROF_HEAP_FORGOTTEN;
		if (forker->heap != COWPROF_HEAP_UNKNOWN) {
			forker->heap = COWPROF_HEAP_FORGOTTEN;
			__sync_fetch_and_add(&heaps_unsure, 1);
		}
	}
	row->vforked = vforked;
	row->id = id_of(child);
	row->parent = forker->id;
	row->forked_ns = now_ns();
	__builtin_memcpy(row->comm, child->comm, sizeof(row->comm));
	row->serial = serial; // set last: a row without a serial is incomplete
}

static void describe_process(struct task_struct *leader, struct task_struct *parent,
			     struct cowprof_task *out)
{
	out->process = key_of(leader);
	out->parent = key_of(parent);
	out->id = id_of(leader);
	out->parent_id = id_of(parent);
	__builtin_memcpy(out->comm, leader->comm, sizeof(out->comm));
}

static int is_added(struct task_struct *child)
{
	struct cowprof_process_row *row = row_of(child);

	return row ? row->forked_ns != 0 : !!existing_state(child);
}

// Runs before the child is first scheduled.
PROG_TWICE("?tp_btf/sched_process_fork", process_fork, struct task_struct *parent,
	   struct task_struct *child)
{
	struct cowprof_fork_seen *seen;
	struct cowprof_process_row *forker;
	struct cowprof_event *event;
	struct thread_state *state;
	int vforked;

	if (parent->tgid == child->tgid) // new thread
		return 0;
	vforked = kernel_reads ? BPF_CORE_READ(child, mm) == BPF_CORE_READ(parent, mm) :
				 child->mm == parent->mm; // vfork() shares memory, and copies none
	state = state_of(parent);
	forker = state ? bpf_map_lookup_elem(&processes, &state->process) : row_of(parent);
	if (forker) {
		if (is_added(child))
			return 0;
		add_child(forker, state, child, vforked);
		if (vforked || !wake_at_fork || !__sync_lock_test_and_set(&wake_at_fork, 0))
			return 0;
		event = new_event(COWPROF_FORK, id_of(child));
		if (event)
			submit(event, 1);
		return 0;
	}
	seen = scanning ? new_record(struct cowprof_fork_seen, COWPROF_FORK_SEEN, id_of(child)) : 0;
	if (!seen)
		return 0;
	describe_process(child, parent, &seen->child);
	submit(seen, 0);
	return 0;
}

PROG_TWICE("?tp_btf/sched_process_exec", process_exec, struct task_struct *task)
{
	struct thread_state *state = state_of(task);
	struct cowprof_process_row *row = row_of(task);
	struct cowprof_exec *exec;

	if (!row || row->execs == task->self_exec_id)
		return 0;
	row->execs = task->self_exec_id; // already incremented by this exec
	// Another program: its image is unknown.
	bpf_map_delete_elem(&learned_images, &row->serial);
	bpf_map_delete_elem(&mallocs, &row->serial);
	row->image = 0;
	row->heap = COWPROF_HEAP_UNKNOWN; // it has inherited nothing
	row->handled = row->crash_signals = 0;
	if (state) {
		state->image = 0;
		state->delivery.event.kind = 0;
		for (int i = 0; i < COWPROF_THREAD_SLOTS; i++) // nor what its instructions tell
			state->slots[i].verdicts_known = verdicts_known - 1;
	}
	exec = new_record(struct cowprof_exec, COWPROF_EXEC, id_of(task));
	if (!exec)
		return 0;
	__builtin_memcpy(exec->event.comm, task->comm, sizeof(exec->event.comm));
	// The program may call exec again, or fork and end, before user space looks at it.
	exec->program[0] = 0;
	if (kernel_reads)
		bpf_probe_read_kernel_str(exec->program, sizeof(exec->program),
					  BPF_CORE_READ(task, mm, exe_file, f_path.dentry,
							d_name.name));
	submit(exec, 0);
	announce_news();
	return 0;
}

// Stores the exit in the row as well, so that a full ring buffer cannot lose it. do_exit()
// decrements signal->live before the tracepoint; two threads that exit at once may both read 0 and
// write the same values twice.
PROG_TWICE("?tp_btf/sched_process_exit", process_exit, struct task_struct *task)
{
	struct cowprof_process_row *row = row_of(task), *counted_in;
	struct thread_state *state = existing_state(task);
	struct cowprof_event *event;
	int many, killed;

	counted_in = state ? bpf_map_lookup_elem(&processes, &state->process) : 0;
	if (state && counted_in) { // the process's own row, or the overflow row
		settle(counted_in, state);
		flush_pages(state);
	}
	if (!row || THROUGH(task, signal, live.counter) || row->exited_ns)
		return 0;
	row->exit_code = THROUGH(task, signal, group_exit_code);
	if (!row->exit_code)
		row->exit_code = task->exit_code;
	__builtin_memcpy(row->comm, task->comm, sizeof(row->comm));
	row->exited_ns = now_ns();
	many = __sync_fetch_and_add(&ended_since_pull, 1) == COWPROF_MANY_ENDED;
	// A Python worker leaves hundreds of rows.
	if (READ_ONCE(cause_rows_left) < 0 || READ_ONCE(place_rows_left) < 0) {
		cause_rows_left = place_rows_left = COWPROF_MAX_CAUSE_ROWS;
		many = 1;
	}
	// The next tick reads the row. Wake user space for a process killed by a signal: the recorder
	// may be the next victim.
	killed = row->exit_code & 0x7f;
	if (killed && !was_there(row))
		ring_bell();
	if (!many && !(killed && was_there(row)))
		return 0;
	event = new_event(COWPROF_EXIT, row->id);
	if (!event)
		return 0;
	event->code = row->exit_code;
	submit(event, 1);
	return 0;
}

// ---- The scan at attach ----

int walks_processes; // the kernel can walk the threads of a single one; for user space

SEC("?iter/task")
int list_tasks(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct cowprof_task found = {};

	learn_namespaces();
	find_direct_map();
	walks_processes = bpf_core_enum_value_exists(enum bpf_iter_task_type, BPF_TASK_ITER_TGID);
	// Skip threads and zombies.
	if (!task || task->pid != task->tgid || !THROUGH(task, signal, live.counter))
		return 0;
	describe_process(task, task->real_parent, &found);
	bpf_seq_write(ctx->meta->seq, &found, sizeof(found));
	return 0;
}

#endif
