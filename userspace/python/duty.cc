// Recognises frames by function and file name, then reads arguments by their names.
#include "python/duty.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "model/library_name.h"
#include "posix/clock.h"
#include "python/cached_memory.h"
#include "python/graph.h"
#include "python/objects.h"

namespace cowprof {
namespace {

constexpr size_t kMostThreads = 16;
constexpr absl::Duration kMostTime = absl::Milliseconds(50);  // until no keeper is asked any more
constexpr uint64_t kMostLocals = 256, kMostWorkers = 65536;

struct KnownFunction {
  absl::string_view function, file;  // CodeLocation's, and the end of its path (EndsInFile)
  Duty duty;                         // kUnknown: says nothing of it
  std::optional<Framework> framework;
};
constexpr KnownFunction kFunctions[] = {
    {"_worker_loop", "torch/utils/data/_utils/worker.py", Duty::kLoader, Framework::kDataLoader},          // since 1.0
    {"_process_worker_loop", "torch/utils/data/_utils/worker.py", Duty::kLoader, Framework::kDataLoader},  // after 2.14
    {"worker", "/multiprocessing/pool.py", Duty::kPool, Framework::kPool},
    {"_process_worker", "/concurrent/futures/process.py", Duty::kPool, Framework::kExecutor},
    {"_process_worker", "/loky/process_executor.py", Duty::kPool, Framework::kJoblib},
    {"Arbiter.run", "/gunicorn/arbiter.py", Duty::kUnknown, Framework::kGunicorn},
    {"run", "/gunicorn/arbiter.py", Duty::kUnknown, Framework::kGunicorn},  // co_name, up to 3.10
    {"worker", "/celery/bin/worker.py", Duty::kUnknown, Framework::kCelery},
    {"_wrap", "/torch/multiprocessing/spawn.py", Duty::kTrainer, {}},
    {"main", "/multiprocessing/forkserver.py", Duty::kForkserver, {}},
    {"main", "/multiprocessing/resource_tracker.py", Duty::kTracker, {}},
    {"main", "/multiprocessing/semaphore_tracker.py", Duty::kTracker, {}},  // up to 3.7
    {"main", "/loky/backend/resource_tracker.py", Duty::kTracker, {}},
    {"BaseManager._run_server", "/multiprocessing/managers.py", Duty::kManager, {}},
    {"_run_server", "/multiprocessing/managers.py", Duty::kManager, {}},  // co_name, up to 3.10
};

struct KnownStart {
  absl::string_view function, file;
  StartMethod start;
};
constexpr KnownStart kStarts[] = {
    {"spawn_main", "/multiprocessing/spawn.py", StartMethod::kSpawn},
    {"_serve_one", "/multiprocessing/forkserver.py", StartMethod::kForkserver},
    {"<module>", "/loky/backend/popen_loky_posix.py", StartMethod::kLoky},
};

// A function of a process that keeps workers. Their number is that of `local`, or of its attribute at the end of
// `path`.
struct KnownKeeper {
  absl::string_view function, file, local, path[3];
};
// The weak reference that an executor's thread has of it: what it refers to comes after the object's head.
constexpr absl::string_view kReferent = "*";
constexpr KnownKeeper kKeepers[] = {
    {"Pool._handle_workers", "/multiprocessing/pool.py", "processes", {}},
    {"_handle_workers", "/multiprocessing/pool.py", "processes", {}},         // co_name, 3.8 to 3.10
    {"_handle_workers", "/multiprocessing/pool.py", "pool", {"_processes"}},  // up to 3.7
    {"_ExecutorManagerThread.run",
     "/concurrent/futures/process.py",
     "self",  // since 3.9
     {"executor_reference", kReferent, "_max_workers"}},
    {"run", "/concurrent/futures/process.py", "self", {"executor_reference", kReferent, "_max_workers"}},
    {"_queue_management_worker", "/concurrent/futures/process.py", "executor_reference", {kReferent, "_max_workers"}},
    {"_ExecutorManagerThread.run",
     "/loky/process_executor.py",
     "self",
     {"executor_reference", kReferent, "_max_workers"}},
    {"run", "/loky/process_executor.py", "self", {"executor_reference", kReferent, "_max_workers"}},
    {"Arbiter.run", "/gunicorn/arbiter.py", "self", {"_num_workers"}},
    {"run", "/gunicorn/arbiter.py", "self", {"_num_workers"}},
    {"asynloop", "/celery/worker/loops.py", "obj", {"pool", "limit"}},  // `obj` is the consumer
    {"synloop", "/celery/worker/loops.py", "obj", {"pool", "limit"}},
};

// multiprocessing's, loky's and billiard's processes run their target within it: what is outside of it is the work of
// the process that forked this one, or the way in which it was started.
bool IsBootstrap(const CodeLocation& code) {
  return (code.function == "BaseProcess._bootstrap" || code.function == "_bootstrap") &&
         absl::EndsWith(code.file, "/process.py");
}

template <typename Known>
const Known* Match(const CodeLocation& code, const Known* begin, const Known* end) {
  const Known* found = std::find_if(begin, end, [&](const Known& known) {
    return code.function == known.function && EndsInFile(code.file, known.file);
  });
  return found == end ? nullptr : found;
}

uint64_t Pointer(const MemoryReader& memory, uint64_t address) {
  return IsUserPointer(address) ? ReadValue<uint64_t>(memory, address).value_or(0) : 0;
}

// The value of an int or bool that is below 2^30.
std::optional<uint32_t> SmallInt(const Interpreter& interpreter, const MemoryReader& memory, uint64_t object,
                                 absl::string_view type) {
  const PythonLayout& layout = interpreter.layout;
  if (!IsUserPointer(object) ||
      TypeReader(interpreter, memory).NameOf(Pointer(memory, object + layout.object.type)) != type)
    return std::nullopt;
  const std::optional<int64_t> value = ReadInt(layout, memory, object);
  return value && *value >= 0 && *value < int64_t{1} << 30 ? std::optional<uint32_t>(*value) : std::nullopt;
}

// The position of a parameter or local variable among those of a code object.
std::optional<uint64_t> FindPosition(const PythonLayout& layout, const MemoryReader& memory, uint64_t code,
                                     absl::string_view name) {
  const uint64_t names = Pointer(memory, code + layout.code.locals);
  const uint64_t count = std::min(Pointer(memory, names + layout.object.var_size), kMostLocals);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t text = Pointer(memory, names + layout.container.tuple_items + 8 * i);
    if (ReadString(layout, memory, text, name.size() + 1) == name) return i;
  }
  return std::nullopt;
}

uint64_t LocalAt(const PythonLayout& layout, const MemoryReader& memory, const RawFrame& frame,
                 std::optional<uint64_t> position) {
  if (!position) return 0;
  const uint64_t local = Pointer(memory, frame.frame + layout.frame.locals + 8 * *position);
  return local & ~uint64_t{layout.frame.code_tag_mask};  // _PyStackRef, 3.14
}

Count IntAt(const Interpreter& interpreter, const MemoryReader& memory, const RawFrame& frame,
            std::optional<uint64_t> position) {
  const auto value = SmallInt(interpreter, memory, LocalAt(interpreter.layout, memory, frame, position), "int");
  return value ? Count(*value) : std::nullopt;
}

// A ThreadPool is a Pool, too, whose workers are threads: it has a queue of the C module.
bool KeepsThreads(const RawFrame& frame, ObjectGraph* graph) {
  const auto type_of = [&](absl::string_view local) {
    return graph->TypeName(FindLocal(graph->layout(), graph->memory(), frame, local));
  };
  if (absl::EndsWith(type_of("pool"), ".pool.ThreadPool")) return true;  // up to 3.7
  const std::string queue = type_of("inqueue");
  return !queue.empty() && !absl::EndsWith(queue, ".queues.SimpleQueue");
}

Count WorkersOf(const Interpreter& interpreter, const MemoryReader& memory, const KnownKeeper& keeper,
                const RawFrame& frame) {
  ObjectGraph graph(interpreter, memory);
  if (absl::EndsWith(keeper.file, "pool.py") && KeepsThreads(frame, &graph)) return std::nullopt;
  uint64_t object = FindLocal(interpreter.layout, memory, frame, keeper.local);
  for (const absl::string_view step : keeper.path) {
    if (object == 0 || step.empty()) break;
    object = step == kReferent ? Pointer(memory, object + interpreter.layout.object.var_size)
                               : graph.InstanceAttribute(object, step);
  }
  const auto workers = SmallInt(interpreter, memory, object, "int");
  return workers && *workers > 0 && *workers <= kMostWorkers ? Count(*workers) : std::nullopt;
}

// What one thread says, innermost frame first. `until`, by BootTime(): keepers are asked.
Work WorkOfThread(const Interpreter& interpreter, const MemoryReader& memory, uint64_t thread, absl::Duration until,
                  CodeReader* codes) {
  Work work;
  DutyFrame duty;
  bool within = true;  // of the process's own work
  bool asked = false;  // the innermost keeper: what only looks like one may be in each of a hundred frames
  for (const RawFrame& frame : WalkFrames(interpreter, memory, thread)) {
    const std::optional<CodeLocation> code = codes->Resolve(frame.code, frame.instruction);
    if (!code) continue;
    if (const KnownStart* start = Match(*code, std::begin(kStarts), std::end(kStarts))) {
      if (duty.found.start == StartMethod::kUnknown) duty.found.start = start->start;
      within = false;
    }
    if (const KnownFunction* known = Match(*code, std::begin(kFunctions), std::end(kFunctions))) {
      if (!work.framework) work.framework = known->framework;
      if (within && duty.found.duty == Duty::kUnknown && known->duty != Duty::kUnknown) {
        duty.found.duty = known->duty;
        duty.frame = frame;
      }
    }
    const bool ask = within && !asked;
    for (const KnownKeeper& keeper : kKeepers) {
      if (!ask || duty.found.configured || code->function != keeper.function || !EndsInFile(code->file, keeper.file))
        continue;
      asked = true;
      if (BootTime() < until) duty.found.configured = WorkersOf(interpreter, memory, keeper, frame);
    }
    // A ThreadPool's worker, in a thread of the process: one that was forked has its bootstrap in between.
    if (within && duty.found.duty == Duty::kPool && absl::EndsWith(code->function, "_bootstrap") &&
        absl::EndsWith(code->file, "/threading.py")) {
      duty = DutyFrame();
      work.framework.reset();
    }
    within &= !IsBootstrap(*code);
  }
  if (duty.found.duty == Duty::kTrainer)
    duty.found.number =
        IntAt(interpreter, memory, duty.frame, FindPosition(interpreter.layout, memory, duty.frame.code, "i"));
  if (!(duty.found == DutyFound{})) work.duty = duty;
  return work;
}

}  // namespace

uint64_t FindLocal(const PythonLayout& layout, const MemoryReader& memory, const RawFrame& frame,
                   absl::string_view name) {
  return LocalAt(layout, memory, frame, FindPosition(layout, memory, frame.code, name));
}

Work FindWork(const Interpreter& interpreter, const MemoryReader& process) {
  Work work;
  if (!interpreter.layout.usable || interpreter.free_threaded) return work;
  const CachedMemory memory(process);  // frames, and the names of their code, share pages
  CodeReader codes(interpreter, memory);
  const std::vector<ThreadState> threads = ListThreads(interpreter, memory);
  const absl::Duration until = BootTime() + kMostTime;
  // The main thread is last; a queue's feeder thread may come before it, and so does the thread that keeps a pool.
  Count configured;
  for (size_t i = 0; i < std::min(threads.size(), kMostThreads) && !(work.duty && work.framework); ++i) {
    Work found = WorkOfThread(interpreter, memory, threads[threads.size() - 1 - i].address, until, &codes);
    if (found.duty) configured = std::max(configured, std::exchange(found.duty->found.configured, std::nullopt));
    if (!work.duty && found.duty && !(found.duty->found == DutyFound{})) work.duty = found.duty;
    if (!work.framework) work.framework = found.framework;
  }
  if (configured && !work.duty) work.duty.emplace();
  if (configured) work.duty->found.configured = configured;
  return work;
}

std::optional<bool> PersistentWorkers(const Interpreter& interpreter, const MemoryReader& memory,
                                      const RawFrame& loop) {
  const std::optional<uint32_t> value =
      SmallInt(interpreter, memory, FindLocal(interpreter.layout, memory, loop, "persistent_workers"), "bool");
  return value && *value <= 1 ? std::optional<bool>(*value == 1) : std::nullopt;
}

std::optional<LoaderWorker> ReadLoader(const Interpreter& interpreter, const MemoryReader& memory, const RawFrame& loop,
                                       LoaderLocals* known) {
  const PythonLayout& layout = interpreter.layout;
  // The frame's memory may have another frame by now.
  const auto code = ReadValue<uint64_t>(memory, loop.frame + layout.frame.code);
  if (!code || (*code & ~uint64_t{layout.frame.code_tag_mask}) != loop.code) return std::nullopt;
  const auto find = [&](absl::string_view name) { return FindPosition(layout, memory, loop.code, name); };
  const auto read = [&](absl::string_view name) { return IntAt(interpreter, memory, loop, find(name)); };
  if (known->code != loop.code || known->frame != loop.frame || !known->worker_id)
    *known = {loop.code, loop.frame, find("idx"), read("worker_id"), read("num_workers")};
  const auto& [of_code, of_frame, batch, worker_id, num_workers] = *known;
  if (!worker_id || !num_workers || *worker_id >= *num_workers || *num_workers > kMostWorkers) {
    known->worker_id.reset();
    return std::nullopt;
  }
  return LoaderWorker{
      .worker_id = *worker_id, .num_workers = *num_workers, .batch = IntAt(interpreter, memory, loop, batch)};
}

}  // namespace cowprof
