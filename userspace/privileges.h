// What the recorder gives up once its probes run and its files stand open, and what the commands that only read a file
// give up at their start. Owns the choice of what is kept, with the reason for each; posix/rights.h does it.
#ifndef COWPROF_PRIVILEGES_H_
#define COWPROF_PRIVILEGES_H_

#include <string>
#include <vector>

namespace cowprof {

// For good: the process becomes who called sudo, or nobody where root itself did; keeps the capabilities that reading
// other processes needs; can't gain any; and makes no system calls but those of a reader: it can't execute, fork,
// trace, connect, or open a file to write it. `signals_program`: it started a program that it passes signals on to.
// Returns what this host does not offer, one sentence each: recording goes on without that.
std::vector<std::string> GiveUpPrivileges(bool signals_program);

// Of a command that only reads a recording: a cowprof with file capabilities must not read what its user may not.
void GiveUpCapabilities();

}  // namespace cowprof

#endif  // COWPROF_PRIVILEGES_H_
