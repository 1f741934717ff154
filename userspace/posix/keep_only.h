// What a process that was forked, and goes on without exec, keeps of its parent's descriptors.
#ifndef COWPROF_POSIX_KEEP_ONLY_H_
#define COWPROF_POSIX_KEEP_ONLY_H_

namespace cowprof {

// Closes all descriptors but `fd`, and returns its new number; an exec closes it, too. 0 to 2 become /dev/null.
// Otherwise a process that waits for the end of what cowprof was started with, such as its output, would also wait for
// this one. Call right after the fork.
int KeepOnly(int fd);

}  // namespace cowprof

#endif  // COWPROF_POSIX_KEEP_ONLY_H_
