// Standard streams that were closed when cowprof was started, as by `cowprof ... <&- >&- 2>&-`.
#ifndef COWPROF_POSIX_STANDARD_STREAMS_H_
#define COWPROF_POSIX_STANDARD_STREAMS_H_

namespace cowprof {

// Takes the numbers of those that are closed, so that no socket gets them, which stdout and stderr would then write to.
// Reading and writing them fails with EBADF as before, and to a program that is executed they are closed. Call before
// anything is opened.
void OccupyClosedStreams();

}  // namespace cowprof

#endif  // COWPROF_POSIX_STANDARD_STREAMS_H_
