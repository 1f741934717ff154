// A Python process as a file: what was read of its memory, where its symbols are, and what it reported about itself.
// Written by tests/record/record_python.cc from a live process, read by the unit tests; both compare with
// FindMistakes(). Text, one fact per line: tests/fixtures/python/README.md.
#ifndef COWPROF_TESTS_UNIT_PYTHON_RECORDING_H_
#define COWPROF_TESTS_UNIT_PYTHON_RECORDING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "python/frames.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"

namespace cowprof {

// Bytes by address. What was not recorded is unreadable.
class RecordedMemory : public MemoryReader {
 public:
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  void Add(uint64_t address, absl::string_view bytes);  // merges adjacent and overlapping pieces; newer bytes win
  const std::map<uint64_t, std::string>& pieces() const { return pieces_; }

 private:
  std::map<uint64_t, std::string> pieces_;
};

// Reads from a live process and records everything that was readable.
class RecordingMemory : public MemoryReader {
 public:
  explicit RecordingMemory(const MemoryReader& memory) : memory_(memory) {}
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  const RecordedMemory& recorded() const { return recorded_; }

 private:
  const MemoryReader& memory_;
  mutable RecordedMemory recorded_;
};

// What workload/sample.py reports about itself.
struct PythonTruth {
  struct Named {
    uint64_t address = 0;
    std::string name;
  };
  struct Thread {
    uint64_t id = 0;  // pthread_self()
    std::vector<CodeLocation> frames;
  };
  std::vector<Thread> threads;
  std::vector<Named> types, objects;
  std::vector<uint64_t> not_types;
};

struct PythonRecording {
  std::string version;  // as reported by the interpreter: "3.11.2"
  PythonModule module;
  PythonTruth truth;
  RecordedMemory memory;
};

// Parses one line of the workload's output; false if it is not a fact.
bool ParseTruthLine(absl::string_view line, PythonTruth* truth);

std::string FormatRecording(const PythonRecording& recording);
absl::StatusOr<PythonRecording> ParseRecording(absl::string_view text);

// What the readers of userspace/python get wrong, one sentence each. Empty: nothing.
std::vector<std::string> FindMistakes(const PythonTruth& truth, const Interpreter& interpreter,
                                      const MemoryReader& memory);

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_PYTHON_RECORDING_H_
