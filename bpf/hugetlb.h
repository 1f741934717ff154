// Copies of hugetlb pages. They come from a pool of their own, without a tracepoint, and one fault
// copies a whole huge page. A huge page that is added to anonymous memory while the thread has a
// pending write fault on a present page is a copy, counted in small pages; after a fault on an
// absent page it is new memory. Works with any rung whose faults carry an error code, where fentry
// works.
#ifndef COWPROF_BPF_HUGETLB_H_
#define COWPROF_BPF_HUGETLB_H_

enum { HUGE_PAGE = 512 }; // small pages in one, if its size cannot be read

static unsigned int pages_of_one(struct vm_area_struct *vma)
{
	struct hugetlbfs_sb_info *pool = vma->vm_file->f_inode->i_sb->s_fs_info;

	return kernel_reads ? 1u << (BPF_CORE_READ(pool, hstate, order) & 31) : HUGE_PAGE;
}

static int add_huge_page(struct vm_area_struct *vma)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct thread_state *state = existing_state(task);
	struct cowprof_cause_key key = {};
	struct cowprof_process_row *row;

	if (!state || !state->pending || !state->present || !state->write ||
	    !same_registers(state, (void *)bpf_task_pt_regs(task)))
		return 0;
	state->pending = 0;
	touch_region(state);
	row = bpf_map_lookup_elem(&processes, &state->process);
	if (!row)
		return 0;
	key.serial = row->serial;
	key.shape = state->kernel_mode ? COWPROF_SHAPE_KERNEL : COWPROF_SHAPE_UNREAD;
	add_cause(row, &key, pages_of_one(vma));
	return 0;
}

PROG_TWICE("?fentry/hugetlb_add_new_anon_rmap", hugetlb_added, struct folio *folio,
	   struct vm_area_struct *vma)
{
	return add_huge_page(vma);
}

// The function's name before 6.8.
PROG_TWICE("?fentry/hugepage_add_new_anon_rmap", hugepage_added, struct page *page,
	   struct vm_area_struct *vma)
{
	return add_huge_page(vma);
}

#endif
