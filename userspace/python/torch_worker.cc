// Finds the frame of _worker_loop by function and file name, then the argument by its name.
#include "python/torch_worker.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "python/objects.h"

namespace cowprof {
namespace {

// torch/utils/data/_utils/worker.py since 1.0; the argument exists since 1.7, its position varies.
constexpr absl::string_view kLoop = "_worker_loop", kFile = "torch/utils/data/_utils/worker.py",
                            kArgument = "persistent_workers";
constexpr size_t kMostFileBytes = 1000, kMostThreads = 8;
constexpr uint64_t kMostLocals = 256;

uint64_t Pointer(const MemoryReader& memory, uint64_t address) {
  return IsUserPointer(address) ? ReadValue<uint64_t>(memory, address).value_or(0) : 0;
}

bool IsLoop(const PythonLayout& layout, const MemoryReader& memory, uint64_t code) {
  const auto text = [&](uint32_t offset, size_t most) {
    return ReadString(layout, memory, Pointer(memory, code + offset), most).value_or("");
  };
  return text(layout.code.name, kLoop.size() + 1) == kLoop &&
         absl::EndsWith(text(layout.code.filename, kMostFileBytes), kFile);
}

// An int's first digit follows its size, which became a tag in 3.12: Include/cpython/longintrepr.h.
std::optional<bool> BoolAt(const Interpreter& interpreter, const MemoryReader& memory, uint64_t object) {
  if (!IsUserPointer(object) ||
      TypeReader(interpreter, memory).NameOf(Pointer(memory, object + interpreter.layout.object.type)) != "bool")
    return std::nullopt;
  const auto digit = ReadValue<uint32_t>(memory, object + interpreter.layout.object.var_size + sizeof(uint64_t));
  if (!digit || *digit > 1) return std::nullopt;
  return *digit == 1;
}

}  // namespace

uint64_t FindLocal(const PythonLayout& layout, const MemoryReader& memory, const RawFrame& frame,
                   absl::string_view name) {
  const uint64_t names = Pointer(memory, frame.code + layout.code.locals);
  const uint64_t count = std::min(Pointer(memory, names + layout.object.var_size), kMostLocals);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t text = Pointer(memory, names + layout.container.tuple_items + 8 * i);
    if (ReadString(layout, memory, text, name.size() + 1) != name) continue;
    const uint64_t local = Pointer(memory, frame.frame + layout.frame.locals + 8 * i);
    return local & ~uint64_t{layout.frame.code_tag_mask};  // _PyStackRef, 3.14
  }
  return 0;
}

std::optional<bool> PersistentWorkers(const Interpreter& interpreter, const MemoryReader& memory) {
  if (!interpreter.layout.usable || interpreter.free_threaded) return std::nullopt;
  const std::vector<ThreadState> threads = ListThreads(interpreter, memory);
  // The loop runs in the main thread, which is last; the queue's feeder thread may come before it.
  for (size_t i = 0; i < std::min(threads.size(), kMostThreads); ++i) {
    for (const RawFrame& frame : WalkFrames(interpreter, memory, threads[threads.size() - 1 - i].address)) {
      if (!IsLoop(interpreter.layout, memory, frame.code)) continue;
      return BoolAt(interpreter, memory, FindLocal(interpreter.layout, memory, frame, kArgument));
    }
  }
  return std::nullopt;
}

}  // namespace cowprof
