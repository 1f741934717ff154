// Reads an interpreter whose memory is damaged: the interpreter, its threads, their frames and code objects, whether
// its collector is on, the arguments of a DataLoader's worker. For every CPython version.
#include <iterator>

#include "hostile_memory.h"
#include "python/duty.h"
#include "python/frames.h"
#include "python/page_diff.h"

namespace cowprof {
namespace {

// Moves a field that is read together with others.
void MoveField(PythonLayout* layout, FuzzedDataProvider* input) {
  uint32_t* const fields[] = {&layout->object.type,   &layout->object.var_size,   &layout->type.name,
                              &layout->type.flags,    &layout->frame.code,        &layout->frame.previous,
                              &layout->frame.owner,   &layout->frame.instruction, &layout->code.filename,
                              &layout->code.name,     &layout->code.line_table,   &layout->code.first_line,
                              &layout->string.length, &layout->string.state,      &layout->string.ascii_data};
  *fields[input->ConsumeIntegralInRange<size_t>(0, std::size(fields) - 1)] =
      input->ConsumeIntegralInRange<uint32_t>(0, 16 << 20);
}

void ReadThreads(const Interpreter& interpreter, const HostileMemory& memory, FuzzedDataProvider* input) {
  CodeReader codes(interpreter, memory);
  const std::vector<ThreadState> threads = ListThreads(interpreter, memory);
  Require(threads.size() <= 4096, "a bounded number of threads");
  for (const ThreadState& thread : threads) {
    const std::vector<RawFrame> frames = WalkFrames(interpreter, memory, thread.address);
    Require(frames.size() <= 128, "a bounded number of frames");
    for (const RawFrame& frame : frames) {
      const auto location = codes.Resolve(frame.code, frame.instruction);
      if (!location) continue;
      Require(location->line >= 0 && location->file.size() <= 1000 && location->function.size() <= kMaxNameBytes,
              "a place of a bounded size");
      FindLocal(interpreter.layout, memory, frame, "persistent_workers");
      if (input->remaining_bytes() == 0) return;
    }
  }
}

}  // namespace
}  // namespace cowprof

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace cowprof;
  FuzzedDataProvider input(data, size);
  const RecordedPython& python = RecordedPythons()[PickOne(&input, RecordedPythons().size())];
  const bool whole = input.ConsumeBool();  // find the interpreter in damaged memory, or start from the undamaged one
  const HostileMemory memory(python.recording, &input);
  PythonModule module = python.recording.module;
  if (input.ConsumeBool()) module.py_version = 0;
  if (input.ConsumeBool()) module.interp_head = module.thread_state_current = module.auto_tls_key = 0;
  absl::StatusOr<Interpreter> read = whole ? ReadInterpreter(module, memory) : python.interpreter;
  if (!read.ok() || !read->layout.usable) return 0;
  if (input.ConsumeBool()) MoveField(&read->layout, &input);
  static_cast<void>(CollectorOn(*read, memory));
  static_cast<void>(HeadLayoutOf(*read));
  ReadThreads(*read, memory, &input);
  if (const std::optional<DutyFrame> duty = FindWork(*read, memory).duty) {
    static_cast<void>(PersistentWorkers(*read, memory, duty->frame));
    LoaderLocals locals;
    static_cast<void>(ReadLoader(*read, memory, duty->frame, &locals));
  }
  return 0;
}
