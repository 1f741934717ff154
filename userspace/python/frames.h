// Resolves a code object and an instruction to file, function and line, and reads the stack of a thread from outside.
// CodeReader gets the pairs that BPF took from the interpreter's frames. WalkFrames verifies the layout that BPF uses
// and shares no code with it. Neither trusts what it reads.
#ifndef COWPROF_PYTHON_FRAMES_H_
#define COWPROF_PYTHON_FRAMES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

struct CodeLocation {
  std::string file;      // co_filename, at most 1,000 bytes
  std::string function;  // co_qualname from 3.11 on ("Outer.method", "main.<locals>.inner"), co_name before
  int line = 0;          // 0: unknown, or code without a line
  bool operator==(const CodeLocation&) const = default;
};

// Whether the code is CPython's own, of a frame that Python hides: the trampoline of 3.12 (Python/ceval.c) and, below
// the __init__ of a class that is called often, _Py_InitCleanup since 3.13 (Python/specialize.c), which has no file.
bool IsTrampoline(const CodeLocation& code);

// Resolves code objects of one process image. The interpreter and the memory must outlive it.
class CodeReader {
 public:
  CodeReader(const Interpreter& interpreter, const MemoryReader& memory) : interpreter_(interpreter), memory_(memory) {}

  // `code`: the value of the frame's code field, tag bits or not. `instruction`: the raw value of its instruction field
  // (FrameOffsets; an int32 is sign-extended). nullopt: not a code object, or no longer. Every call reads the head of
  // the object and uses the cache only if it is unchanged.
  std::optional<CodeLocation> Resolve(uint64_t code, uint64_t instruction);

  size_t cached_bytes() const { return cached_bytes_; }

 private:
  struct Head {
    uint64_t filename = 0, name = 0, qualname = 0, line_table = 0;
    uint64_t units = 0;  // of code, 2 bytes each; 3.11 and later
    int32_t first_line = 0;
    bool operator==(const Head&) const = default;
  };
  struct Cached {
    Head head;
    std::string file, function, line_table;
    size_t Bytes() const { return sizeof(*this) + file.size() + function.size() + line_table.size(); }
  };

  std::optional<Head> ReadHead(uint64_t code) const;
  std::optional<Cached> ReadCode(const Head& head) const;
  std::optional<int64_t> ByteOffset(uint64_t code, uint64_t instruction, uint64_t units) const;

  const Interpreter& interpreter_;
  const MemoryReader& memory_;
  absl::flat_hash_map<uint64_t, std::unique_ptr<Cached>> cache_;
  size_t cached_bytes_ = 0;  // the cache is emptied at 32 MiB
};

// The line of the instruction at `byte_offset` of the code, as PyCode_Addr2Line computes it (Objects/codeobject.c of
// each version); a negative offset means the code's first line. 0: none. Pure, and accepts any bytes.
int LineOf(LineTableKind kind, absl::string_view line_table, int first_line, int64_t byte_offset);

struct RawFrame {
  uint64_t frame = 0;
  uint64_t code = 0;         // tag bits removed
  uint64_t instruction = 0;  // as CodeReader::Resolve() expects it
  uint8_t owner = 0;         // 0 before 3.11
};

// The frames of a thread, innermost first, at most 128, without entries that are not Python code (the interpreter's own
// trampoline and entry frames, 3.12 and later). Stops at the first frame that can't be read and at a cycle.
std::vector<RawFrame> WalkFrames(const Interpreter& interpreter, const MemoryReader& memory, uint64_t thread_state);

// The thread states of the main interpreter, newest first, at most 4,096. `complete`: whether the end of their list was
// reached; native threads that call into Python come and go while it is read.
struct ThreadState {
  uint64_t address = 0;
  uint64_t thread_id = 0;  // pthread_self(), which is fsbase on glibc
};
std::vector<ThreadState> ListThreads(const Interpreter& interpreter, const MemoryReader& memory,
                                     bool* complete = nullptr);

}  // namespace cowprof

#endif  // COWPROF_PYTHON_FRAMES_H_
