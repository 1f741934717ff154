// The memory of a recorded Python process (tests/fixtures/python) with damage that a fuzzer chooses, different at each
// read: a process keeps running while it is read, and may be malicious. The rest is real, so that a fuzzer gets past
// the first check.
#ifndef COWPROF_TESTS_FUZZ_HOSTILE_MEMORY_H_
#define COWPROF_TESTS_FUZZ_HOSTILE_MEMORY_H_

#include <vector>

#include "fuzz.h"
#include "python_recording.h"

namespace cowprof {

struct RecordedPython {
  PythonRecording recording;
  Interpreter interpreter;  // as read from undamaged memory
};
// All of tests/fixtures/python, by version; loaded once.
const std::vector<RecordedPython>& RecordedPythons();

class HostileMemory : public MemoryReader {
 public:
  // Both must outlive it.
  HostileMemory(const PythonRecording& recording, FuzzedDataProvider* input) : recording_(recording), input_(input) {}
  // Each read consumes at least a byte of the input. Once it is used up, memory is as recorded.
  bool Read(uint64_t address, absl::Span<char> bytes) const override;
  // An address from the recording, or any other.
  uint64_t Address() const;

 private:
  const PythonRecording& recording_;
  FuzzedDataProvider* input_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_FUZZ_HOSTILE_MEMORY_H_
