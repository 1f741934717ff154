// Walks CPython's frames in the current thread's memory. All offsets come from struct
// cowprof_image, so a new CPython version needs new data, not new code.
#ifndef COWPROF_BPF_PYTHON_FRAMES_H_
#define COWPROF_BPF_PYTHON_FRAMES_H_

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, COWPROF_MAX_IMAGES);
	__type(key, __u32);
	__type(value, struct cowprof_image);
} images SEC(".maps");

enum { FRAME_WORDS = 16 };

// The thread's current frame, found through its PyThreadState; 0: it runs no Python code.
static __u64 innermost_frame(struct thread_state *state, struct cowprof_image *image)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 thread, frame;

	if (!image->thread_state_at)
		return 0;
	thread = word_at(state, TLS_BASE(task) + image->thread_state_at);
	if (!thread)
		return 0;
	frame = word_at(state, thread + image->thread_frame);
	if (frame && image->frame_indirection >= 0)
		frame = word_at(state, frame + image->frame_indirection);
	return frame;
}

// Since 3.11 bytecode specializes itself in place while it runs. ob_size is its length in units of
// 2 bytes.
static int in_running_code(struct thread_state *state, struct cowprof_image *image)
{
	__u64 frame, code, begin;

	if (!image->code_bytes_at)
		return 0;
	frame = innermost_frame(state, image);
	if (!frame)
		return 0;
	code = word_at(state, frame + image->frame_code) & ~7ull;
	begin = code + image->code_bytes_at;
	return code && state->address >= begin &&
	       state->address < begin + 2 * (__u32)word_at(state, code + 16);
}

struct frame_walk {
	struct thread_state *state;
	struct cowprof_image *image;
	__u64 at; // address of the frame at hand; 0: none is left
	__u64 hash; // of those before
};

static __noinline long walk_frame(__u32 depth, void *context)
{
	struct frame_walk *walk = context;
	struct cowprof_image *image = walk->image;
	struct cowprof_frame *frame;
	__u64 words[FRAME_WORDS], hash = walk->hash;

	if (!walk->at || read_user(walk->state, words, sizeof(words), walk->at))
		return 1;
	barrier_var(depth); // or clang checks the bound before, and the verifier forgets it
	if (depth >= COWPROF_MAX_FRAMES)
		return 1;
	frame = &walk->state->stack.frames[depth];
	frame->code = words[image->frame_code / 8 & (FRAME_WORDS - 1)] & ~7ull;
	frame->instruction = words[image->frame_instruction / 8 & (FRAME_WORDS - 1)];
	if (image->instruction_bytes == 4)
		frame->instruction = (__u32)frame->instruction;
	hash = (hash ^ frame->code) * 0x9e3779b97f4a7c15ull;
	hash = (hash ^ hash >> 29 ^ frame->instruction) * 0xbf58476d1ce4e5b9ull;
	walk->hash = hash ^ hash >> 32;
	walk->at = words[image->frame_previous / 8 & (FRAME_WORDS - 1)];
	walk->state->stack.depth = depth + 1;
	return 0;
}

// Walks the current thread's stack to the outermost frame, or until it is full, which also bounds a
// cycle. Returns a hash of it; 0: no image, or no Python code. Not static, so that the verifier walks
// it once, and not once for each state that it is called in; hence no pointers for arguments, which
// kernels differ in.
__noinline __u64 walk_frames(void)
{
	struct frame_walk walk = { .state = existing_state(bpf_get_current_task_btf()), .hash = 1 };
	__u32 id;

	if (!walk.state)
		return 0;
	id = walk.state->image;
	walk.image = bpf_map_lookup_elem(&images, &id);
	if (!walk.image)
		return 0;
	walk.at = innermost_frame(walk.state, walk.image);
	walk.state->stack.depth = 0;
	repeat(COWPROF_MAX_FRAMES, walk_frame, &walk);
	return walk.state->stack.depth ? walk.hash : 0;
}

#endif
