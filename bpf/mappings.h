// Classifies the mapping of an address. A bpf_find_vma() callback.
#ifndef COWPROF_BPF_MAPPINGS_H_
#define COWPROF_BPF_MAPPINGS_H_

enum {
	VM_WRITE = 2,
	VM_SHARED = 8,
	TMPFS_MAGIC = 0x01021994,
};

enum mapping {
	MAPPING_OTHER, // including private file mappings that are not writable
	MAPPING_ANONYMOUS,
	MAPPING_PRIVATE_FILE,
	MAPPING_SHM, // including shared anonymous mappings, which are tmpfs files
};

static long classify_mapping(struct task_struct *task, struct vm_area_struct *vma, void *out)
{
	struct file *file = vma->vm_file;
	enum mapping *mapping = out;

	if (!file)
		*mapping = MAPPING_ANONYMOUS;
	else if (!(vma->vm_flags & VM_SHARED))
		*mapping = vma->vm_flags & VM_WRITE ? MAPPING_PRIVATE_FILE : MAPPING_OTHER;
	else if (file->f_inode->i_sb->s_magic == TMPFS_MAGIC)
		*mapping = MAPPING_SHM;
	return 0;
}

#endif
