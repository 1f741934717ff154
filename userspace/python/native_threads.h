// Where glibc keeps a thread's struct pthread, whose address is its pthread_self(), and the function that the thread
// began with: found by the thread's stack, or by the list that links all threads. glibc on x86-64, 2.26 to 2.43; of
// another C library nothing is found. Trusts nothing that it reads.
#ifndef COWPROF_PYTHON_NATIVE_THREADS_H_
#define COWPROF_PYTHON_NATIVE_THREADS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "python/memory_reader.h"
#include "source/procfs.h"

namespace cowprof {

class NativeThreads {
 public:
  // `memory` must outlive it. `mappings`: of the process, by address.
  NativeThreads(const MemoryReader& memory, std::vector<Mapping> mappings)
      : memory_(memory), mappings_(std::move(mappings)) {}

  // The struct pthread of the thread `tid`, as its pid namespace counts, whose stack pointer is `stack_pointer`; 0: not
  // found. Not of the main thread, which has its own outside of its stack.
  uint64_t FindByStack(uint64_t stack_pointer, pid_t tid) const;
  // Those of all threads but the main one, by tid in their namespace, given one of them. At most 4,096.
  absl::flat_hash_map<pid_t, uint64_t> ListFrom(uint64_t ident) const;
  // Base name of the file that has the function which the thread began with: "libgomp.so.1". Of a std::thread, the file
  // that made it. "": not found.
  std::string ModuleOf(uint64_t ident) const;
  // The mapping that has `address`; null: none.
  const Mapping* Find(uint64_t address) const;

 private:
  bool IsThread(uint64_t ident) const;

  const MemoryReader& memory_;
  std::vector<Mapping> mappings_;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_NATIVE_THREADS_H_
