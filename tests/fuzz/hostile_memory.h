// The memory of a recorded Python process (tests/fixtures/python) with damage that a fuzzer chooses, other at each
// read: a process runs on while it is read, and may be out to deceive. The rest of it is real, so that a fuzzer gets
// past the first check. Called by the python_* targets.
#ifndef COWPROF_TESTS_FUZZ_HOSTILE_MEMORY_H_
#define COWPROF_TESTS_FUZZ_HOSTILE_MEMORY_H_

#include <vector>

#include "fuzz.h"
#include "python_recording.h"

namespace cowprof {

struct RecordedPython {
  PythonRecording recording;
  Interpreter interpreter;  // as it is read from undamaged memory
};
// All of tests/fixtures/python, by version; loaded once.
const std::vector<RecordedPython>& RecordedPythons();

class HostileMemory : public MemoryReader {
 public:
  // Both must outlive it.
  HostileMemory(const PythonRecording& recording, FuzzedDataProvider* input) : recording_(recording), input_(input) {}
  // Each read takes a byte of the input or more, until there are none; from then on memory is as it was recorded.
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  // An address that the recording knows, or any.
  uint64_t Address() const;

 private:
  const PythonRecording& recording_;
  FuzzedDataProvider* input_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_FUZZ_HOSTILE_MEMORY_H_
