// Finds the CPython of a process from outside, and where its parts are. Works for static and shared, stripped, PIE and
// renamed interpreters, through /proc/PID/root, and for a libpython inside another program. Call once per process
// image, and again while `ready` is false.
#ifndef COWPROF_PYTHON_INTERPRETER_H_
#define COWPROF_PYTHON_INTERPRETER_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "python/layout.h"
#include "python/memory_reader.h"
#include "source/procfs.h"

namespace cowprof {

// Addresses are those of the target, 0 where unknown.
struct Interpreter {
  uint32_t version_hex = 0;  // PY_VERSION_HEX: 0x030b02f0; the last byte is 0 when only the version string was found
  std::string version;       // "3.11.2"
  bool patch_known = false;  // otherwise `version` is "3.10": an old interpreter that is starting
  bool free_threaded = false, debug = false, trace_refs = false;
  PythonLayout layout;

  uint64_t runtime = 0;           // _PyRuntime; 0 on 3.6
  uint64_t main_interpreter = 0;  // PyInterpreterState, the one made first
  uint64_t type_type = 0, code_type = 0, none = 0;

  // A thread's PyThreadState is *(u64*)(fsbase + tsd_offset). Derived from the pthread key and glibc's struct pthread;
  // checked against a live thread. 0: unknown (another C library, or no thread to check against).
  uint64_t tsd_offset = 0;
  // int: 1 while the main interpreter's collector runs. 0: unknown (3.6 stripped).
  uint64_t collecting_address = 0;
  uint64_t enabled_address = 0;  // int: 0 after gc.disable() in the main interpreter. 0: unknown, as above
  // Of a pymalloc pool, if objects are in pools (UsesPools()): 4,096 up to 3.9, 16,384 since 3.10; 0: free-threaded.
  uint64_t pool_bytes = 0;

  // False: the interpreter is still starting (or finalizing); a 0 above may become known later.
  bool ready = false;
};

// Mapped files that were read and have no CPython, by device, inode and address.
using FilesWithoutPython = absl::flat_hash_set<std::tuple<uint64_t, uint64_t, uint64_t>>;

// NotFound: no Python in this process, or no process. FailedPrecondition: an unsupported Python, or one whose file
// can't be opened, and why. Unavailable: not known, since the executable can't be opened. PermissionDenied: the process
// may not be read. `without`: what earlier calls for this image found, so that files are opened once; null: nothing.
absl::StatusOr<Interpreter> FindInterpreter(const ProcFs& proc, pid_t pid, const MemoryReader& memory,
                                            FilesWithoutPython* without = nullptr);

// gc.isenabled() of a process that runs `interpreter`; nullopt if that can't be read.
std::optional<bool> CollectorOn(const Interpreter& interpreter, const MemoryReader& memory);

// Where gc.get_stats()[2]["collections"] is, which counts how often the collector went through all objects. 0: unknown.
uint64_t FullCollectionsAddress(const Interpreter& interpreter);

// Where the list of the permanent generation begins, which has what gc.freeze() took out of the collector's reach: its
// first word is this address while there is nothing. 0: unknown.
uint64_t PermanentGenerationAddress(const Interpreter& interpreter);

// ---- Its two halves, for tests ----

// What the ELF file says: addresses in the target, 0 where the symbol or section does not exist.
struct PythonModule {
  std::string path;            // as in /proc/PID/maps
  uint32_t minor_of_path = 0;  // 11 for ".../libpython3.11.so.1.0"; 0 if the name says nothing
  uint64_t type_type = 0, code_type = 0, none = 0;
  uint64_t runtime = 0;     // symbol _PyRuntime, else section .PyRuntime
  uint64_t py_version = 0;  // symbol Py_Version, 3.11 and later
  bool debug = false;       // exports _Py_NegativeRefcount: built with Py_REF_DEBUG, as Py_DEBUG implies
  // 3.6 only; static ones are in .symtab only.
  uint64_t thread_state_current = 0, interp_head = 0, auto_tls_key = 0, collecting = 0, enabled = 0;
  // Zeroed memory of the module (.bss), where Py_GetVersion() keeps its text and 3.6 its list of interpreters.
  uint64_t bss_begin = 0, bss_end = 0;
};

// The modules of a process that define PyType_Type, most likely first. Empty: no Python. Errors as above, only if none
// was found.
absl::StatusOr<std::vector<PythonModule>> FindPythonModules(const ProcFs& proc, pid_t pid,
                                                            const std::vector<Mapping>& mappings,
                                                            FilesWithoutPython* without = nullptr);

// Pure over its reader. FailedPrecondition as above.
absl::StatusOr<Interpreter> ReadInterpreter(const PythonModule& module, const MemoryReader& memory);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_INTERPRETER_H_
