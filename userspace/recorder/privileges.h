// What the recorder gives up once its probes run and its files stand open, and what the commands that only read a file
// give up at their start. Owns the choice of what is kept, with the reason for each; posix/rights.h does it.
#ifndef COWPROF_PRIVILEGES_H_
#define COWPROF_PRIVILEGES_H_

#include <sys/types.h>

#include <string>
#include <vector>

namespace cowprof {

// Whom the recorder may signal besides itself; 0: there is none.
struct Signalled {
  pid_t program = 0;      // that it started, and that may be root's
  pid_t page_server = 0;  // of its own user
};

// For good: the process becomes who called sudo, or nobody where root itself did; keeps the capabilities that reading
// other processes needs; can't gain any; and makes no system calls but those of a reader: it can't execute, fork,
// trace, connect, signal others, or open a file to write it.
// Returns what this host does not offer, one sentence each: recording goes on without that.
std::vector<std::string> GiveUpPrivileges(const Signalled& signalled);

// Of a command that only reads a recording: a cowprof with file capabilities must not read what its user may not.
void GiveUpCapabilities();

}  // namespace cowprof

#endif  // COWPROF_PRIVILEGES_H_
