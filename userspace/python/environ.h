// The environment of a process as it is now: the C library's array `environ`, which os.environ[...] = changes and
// /proc/PID/environ, the environment at the last exec, does not show. Trusts nothing that it reads.
#ifndef COWPROF_PYTHON_ENVIRON_H_
#define COWPROF_PYTHON_ENVIRON_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "python/memory_reader.h"
#include "source/environment.h"
#include "source/native_symbols.h"
#include "source/procfs.h"

namespace cowprof {

// The address of the variable `environ` in the process: of the copy in its executable where that has one
// (R_X86_64_COPY), otherwise of the C library's. 0: not found, as in a stripped static program.
uint64_t FindEnviron(const ProcFs& proc, pid_t pid, ElfCache* elf_cache);

// Reads the variables of the allow-list. Cheap while nothing was set since the last call: then it reads the array only.
class EnvironReader {
 public:
  explicit EnvironReader(uint64_t address) : address_(address) {}

  // nullopt: nothing has changed since the last call, or it can't be read.
  std::optional<JobVariables> ReadChanged(const MemoryReader& process);

 private:
  uint64_t address_;
  std::vector<uint64_t> pointers_;  // as of the last call
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_ENVIRON_H_
