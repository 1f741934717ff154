// Recognises frames by function and file name.
#include "python/framework.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "python/frames.h"
#include "python/objects.h"

namespace cowprof {
namespace {

struct KnownFunction {
  absl::string_view name, file;  // co_name, and the end of co_filename
  Framework framework;
};
constexpr KnownFunction kKnown[] = {
    {"_worker_loop", "torch/utils/data/_utils/worker.py", Framework::kDataLoader},
    {"worker", "/multiprocessing/pool.py", Framework::kPool},
    {"_process_worker", "/concurrent/futures/process.py", Framework::kExecutor},
    {"_process_worker", "/loky/process_executor.py", Framework::kJoblib},
    {"run", "/gunicorn/arbiter.py", Framework::kGunicorn},
    {"worker", "/celery/bin/worker.py", Framework::kCelery},
};
constexpr size_t kMostThreads = 8, kMostNameBytes = 32, kMostFileBytes = 1000;

uint64_t Pointer(const MemoryReader& memory, uint64_t address) {
  return IsUserPointer(address) ? ReadValue<uint64_t>(memory, address).value_or(0) : 0;
}

std::optional<Framework> FrameworkOfCode(const PythonLayout& layout, const MemoryReader& memory, uint64_t code) {
  const auto text = [&](uint32_t offset, size_t most) {
    return ReadString(layout, memory, Pointer(memory, code + offset), most).value_or("");
  };
  const std::string name = text(layout.code.name, kMostNameBytes);
  const auto is_named = [&name](const KnownFunction& known) { return name == known.name; };
  if (std::none_of(std::begin(kKnown), std::end(kKnown), is_named)) return std::nullopt;
  const std::string file = text(layout.code.filename, kMostFileBytes);
  for (const KnownFunction& known : kKnown) {
    if (is_named(known) && absl::EndsWith(file, known.file)) return known.framework;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Framework> FrameworkOf(const Interpreter& interpreter, const MemoryReader& memory) {
  if (!interpreter.layout.usable || interpreter.free_threaded) return std::nullopt;
  const std::vector<ThreadState> threads = ListThreads(interpreter, memory);
  // The main thread is last.
  for (size_t i = 0; i < std::min(threads.size(), kMostThreads); ++i) {
    for (const RawFrame& frame : WalkFrames(interpreter, memory, threads[threads.size() - 1 - i].address)) {
      if (const auto framework = FrameworkOfCode(interpreter.layout, memory, frame.code)) return framework;
    }
  }
  return std::nullopt;
}

}  // namespace cowprof
