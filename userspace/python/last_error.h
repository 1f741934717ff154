// The error that ended the main thread of a Python process, as the interpreter keeps it in sys once it has printed the
// traceback: last_exc (3.12 on), last_value, last_traceback. Read from outside, while the process ends or after (REPL).
#ifndef COWPROF_PYTHON_LAST_ERROR_H_
#define COWPROF_PYTHON_LAST_ERROR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "python/frames.h"
#include "python/graph.h"
#include "python/interpreter.h"
#include "python/process_memory.h"

namespace cowprof {

struct LastError {
  std::string type, message;  // "TypeError", "cannot pickle 'dict_keys' object"; the message at most 200 bytes
  std::string package;        // that pickled: "multiprocessing", "multiprocess"
  std::string method;         // of the start that failed: "spawn", "forkserver"; "": not known
  std::string raised_in;      // what pickle had called: "__getstate__ (vocab.py:12)"; "": nothing, or not known
  std::string path;           // by pickle's own notes (3.14 on): "Process._args[0].vocab"; "": not known
  bool in_start = false;      // raised while multiprocessing pickled an object to start a process
  bool in_send = false;       // raised while an argument for a running worker was pickled: Pool, executor, joblib
  // Raised by multiprocessing, since a process that it started itself started another one as it imported the main
  // module.
  bool importing_main = false;
};
// nullopt: there was none, or it can't be read (any more).
std::optional<LastError> ReadLastError(const Interpreter& interpreter, const MemoryReader& memory);

// "Process._args[0].vocab" of pickle's notes on its way to what it could not pickle, innermost first. "": they have
// a step that is not known.
std::string PathOfNotes(const std::vector<std::string>& notes);

// The frames of its traceback, innermost first; their instructions are not those of the error.
std::vector<RawFrame> LastTraceback(ObjectGraph& graph);

// The same of `object`, a traceback or an exception that something else keeps; empty: it is neither.
std::vector<RawFrame> TracebackFrames(ObjectGraph& graph, uint64_t object);

// Tells by one read of a word whether names came to sys since the last call: those above, when a traceback is printed.
class SysWatch {
 public:
  // Nothing is told where sys can't be found.
  SysWatch(const Interpreter& interpreter, const PresentMemory& memory);
  bool HasNewNames(const PresentMemory& memory);
  bool ok() const { return used_at_ != 0; }

 private:
  uint64_t used_at_ = 0;  // address of the number of names in sys.__dict__
  uint64_t used_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_LAST_ERROR_H_
