// What the recorder gives up once its probes run and its files are open, and what commands that only read a file give
// up at their start. Owns the choice of what is kept, with a reason for each; posix/rights.h has the mechanism.
#ifndef COWPROF_RECORDER_PRIVILEGES_H_
#define COWPROF_RECORDER_PRIVILEGES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace cowprof {

// The processes that the recorder may signal besides itself; 0: none.
struct Signalled {
  pid_t program = 0;      // started by the recorder; may run as root
  pid_t page_server = 0;  // runs as the recorder's user
};

// Permanently becomes the user who called sudo, or nobody if root did; keeps the capabilities that reading other
// processes needs and can never gain others; and allows only a reader's system calls: the process can't execute, fork,
// trace, connect, signal others, or open a file for writing. Returns what this host does not support, one sentence
// each: recording continues without it.
std::vector<std::string> GiveUpPrivileges(const Signalled& signalled);
// The same for a process that finds out who is who: it needs neither probes nor page frames.
std::vector<std::string> GiveUpPrivilegesOfScanner();

// For commands that only read a recording: with file capabilities, cowprof must not read what its user may not.
void GiveUpCapabilities();

}  // namespace cowprof

#endif  // COWPROF_RECORDER_PRIVILEGES_H_
