// Tells threads apart by the file that they began in and by the functions on their stacks. What each library does at a
// fork was measured where docs/hangs.md says so.
#include "model/judge/fork_hazards.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "model/format.h"
#include "model/judge/hang_format.h"
#include "model/library_name.h"

namespace cowprof {
namespace {

constexpr size_t kMostNamed = 3;
constexpr absl::Duration kLate = absl::Seconds(1);  // a lock seen so long after the fork says little about the fork

// Threads that multiprocessing and torch start beside their workers, and expect at their forks.
constexpr struct {
  absl::string_view file_end, function;  // as before 3.11, without the class
} kHelpers[] = {
    {"/multiprocessing/queues.py", "_feed"},           {"/multiprocessing/pool.py", "_handle_workers"},
    {"/multiprocessing/pool.py", "_handle_tasks"},     {"/multiprocessing/pool.py", "_handle_results"},
    {"/multiprocessing/resource_sharer.py", "_serve"}, {"/concurrent/futures/process.py", "_queue_management_worker"},
    {"/concurrent/futures/process.py", "run"},         {"/torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop"},
};

bool IsOfHelper(const Frame& frame) {
  const absl::string_view function = absl::string_view(frame.function).substr(frame.function.rfind('.') + 1);
  return absl::c_any_of(kHelpers, [&](const auto& helper) {
    return EndsInFile(frame.file, helper.file_end) && function == helper.function;
  });
}

bool IsHelper(const HazardThread& thread) {
  return thread.python && (thread.name == "QueueFeederThread" || absl::c_any_of(thread.stack, IsOfHelper));
}

bool IsGomp(absl::string_view module) { return absl::StartsWith(module, "libgomp"); }
bool IsOpenCv(absl::string_view module) {
  return absl::StartsWith(module, "libopencv_") || absl::StartsWith(module, "cv2.");
}

const char* PoolOf(absl::string_view module) {
  if (IsGomp(module) || absl::StartsWith(module, "libiomp") || absl::StartsWith(module, "libomp")) return "openmp";
  if (absl::StrContains(module, "openblas")) return "openblas";
  if (absl::StartsWith(module, "libmkl_")) return "mkl";
  if (absl::StartsWith(module, "libtbb")) return "tbb";
  if (IsOpenCv(module)) return "opencv";
  return nullptr;
}

bool HasLibrary(const ForkHazardSeen& seen, absl::string_view beginning) {
  return std::any_of(seen.libraries.begin(), seen.libraries.end(),
                     [&](const std::string& name) { return absl::StartsWith(name, beginning); });
}

std::string StackText(const HazardThread& thread) {
  const Frame* frame = UserFrame(thread.stack);
  return frame == nullptr || frame->file.empty() ? "" : FrameText(*frame, false);
}

std::string NameOf(const HazardThread& thread) {
  return thread.name.empty() ? absl::StrCat("thread ", thread.tid) : Printable(thread.name, 60);
}

std::string InBrackets(const std::string& text) { return text.empty() ? "" : absl::StrCat(" (", text, ")"); }

std::vector<const HazardThread*> Those(const ForkHazardSeen& seen, bool (*which)(const HazardThread&)) {
  std::vector<const HazardThread*> found;
  for (const HazardThread& thread : seen.threads) {
    if (which(thread)) found.push_back(&thread);
  }
  return found;
}

// ---- One kind each ----

void AddOpenMp(const ForkHazardSeen& seen, std::vector<Hazard>* found) {
  const auto team = Those(seen, [](const HazardThread& thread) { return !thread.python && IsGomp(thread.module); });
  if (team.empty()) return;
  Hazard hazard = {.kind = HazardKind::kOpenMp, .confidence = 0.8};
  hazard.what = absl::StrCat("an OpenMP team of ", Plural(team.size(), "thread"), " beside the one that leads it (",
                             Printable(team.front()->module), ")");
  hazard.effect = "a parallel region in a child may wait for ever for threads that stayed in the parent";
  if (HasLibrary(seen, "libtorch_cpu")) {
    hazard.advice = {
        "Call torch.set_num_threads(1) first in each child, which torch's DataLoader does by itself: then its operators "
        "run on one thread there.",
        "Or call it in the parent before the fork: its own operators then run on one thread, too, until it is set back."};
  } else {
    hazard.advice = {
        "Fork before the first parallel region, or run with OMP_NUM_THREADS=1: then the parent computes on one thread, "
        "too."};
  }
  found->push_back(std::move(hazard));
}

const char* NounOf(HeldLockKind kind) { return kind == HeldLockKind::kRLock ? "threading.RLock" : "threading.Lock"; }

void AddLocks(const ForkHazardSeen& seen, std::vector<Hazard>* found) {
  const double confidence = seen.child >= 0 && seen.delay < kLate ? 0.7 : 0.4;
  Hazard locks = {.kind = HazardKind::kLock, .confidence = confidence};
  Hazard imports = {.kind = HazardKind::kImport, .confidence = confidence};
  std::vector<std::string> held, imported;
  for (const HeldLock& lock : seen.locks) {
    const auto thread = std::find_if(seen.threads.begin(), seen.threads.end(),
                                     [&](const HazardThread& one) { return one.tid == lock.tid; });
    // Those of the thread that forked exist in the child, too.
    if (thread == seen.threads.end() || !thread->python) continue;
    const std::string by = absl::StrCat("its thread ", NameOf(*thread),
                                        InBrackets(lock.where.file.empty() ? "" : FrameText(lock.where, false)));
    if (lock.kind == HeldLockKind::kImport) {
      imported.push_back(absl::StrCat("an import of ", Printable(lock.module, 100), " in progress in ", by));
    } else if (!IsHelper(*thread)) {
      held.push_back(absl::StrCat("a ", NounOf(lock.kind), " held by ", by));
    }
  }
  const auto add = [&](std::vector<std::string> texts, Hazard hazard) {
    if (texts.empty()) return;
    const size_t more = texts.size() - std::min(texts.size(), kMostNamed);
    texts.resize(std::min(texts.size(), kMostNamed));
    hazard.what = absl::StrCat(absl::StrJoin(texts, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : "");
    found->push_back(std::move(hazard));
  };
  locks.effect = "if a lock is held at a fork, a child that takes it waits for ever";
  locks.advice = {
      "Start the workers before the threads that take this lock, or make a new one in the child "
      "(os.register_at_fork(after_in_child=...), Python 3.7 and later)."};
  imports.effect = "if an import is in progress at a fork, a child that imports the same module waits for ever";
  imports.advice = {"Import the module in the main thread before the fork."};
  add(std::move(held), std::move(locks));
  add(std::move(imported), std::move(imports));
}

void AddCuda(const ForkHazardSeen& seen, std::vector<Hazard>* found) {
  if (!seen.cuda) return;
  found->push_back({.kind = HazardKind::kCuda,
                    .confidence = 0.8,
                    .what = "CUDA open",
                    .effect = "CUDA can't be used in a forked child",
                    .advice = {"Fork before the first use of CUDA, or leave CUDA to the parent."}});
}

void AddOpenCv(const ForkHazardSeen& seen, std::vector<Hazard>* found) {
  const auto pool = Those(seen, [](const HazardThread& thread) { return !thread.python && IsOpenCv(thread.module); });
  if (pool.empty()) return;
  found->push_back({.kind = HazardKind::kOpenCv,
                    .confidence = 0.5,
                    .what = absl::StrCat(Plural(pool.size(), "thread"), " of OpenCV's pool"),
                    .effect = "OpenCV in a child may wait for threads that stayed in the parent",
                    .advice = {"Call cv2.setNumThreads(0) before OpenCV's first parallel function: then it computes "
                               "on the thread that calls it."}});
}

// Libraries that warn of a fork themselves, or by their documentation, by a part of the name of the file that their
// threads run in. gRPC's: doc/fork_support.md.
void AddNative(const ForkHazardSeen& seen, std::vector<Hazard>* found) {
  static constexpr char kGrpc[] =
      "by its documentation gRPC can be forked only with GRPC_ENABLE_FORK_SUPPORT=true and GRPC_POLL_STRATEGY=poll; "
      "without them ";
  static constexpr char kLance[] = "Lance does not support fork, by its own documentation; ";
  constexpr struct {
    absl::string_view file, library;
    const char* documented = nullptr;  // null: it warns itself
  } kLibraries[] = {{"polars", "polars"},         {"jaxlib", "JAX"},         {"libjax", "JAX"},
                    {"xla_extension", "JAX"},     {"cygrpc", "gRPC", kGrpc}, {"lance.abi3", "Lance", kLance},
                    {"_lancedb", "Lance", kLance}};
  for (const auto& [file, library, documented] : kLibraries) {
    const auto threads = absl::c_count_if(seen.threads, [&, part = file](const HazardThread& thread) {
      return !thread.python && absl::StrContains(thread.module, part);
    });
    if (threads == 0) continue;
    found->push_back(
        {.kind = HazardKind::kNative,
         .confidence = 0.5,
         .what = absl::StrCat(Plural(threads, "thread"), " of ", library),
         .effect = absl::StrCat(documented != nullptr ? documented : absl::StrCat("as ", library, " itself warns, "),
                                "a forked child that uses it may wait for ever"),
         .advice = {absl::StrCat("Fork before the first use of ", library, ", or leave it to the parent.")}});
  }
}

bool IsOfEventLoop(const Frame& frame) {
  return absl::EndsWith(frame.file, "/asyncio/base_events.py") && absl::EndsWith(frame.function, "run_forever");
}

bool RunsEventLoop(const HazardThread* thread) { return absl::c_any_of(thread->stack, IsOfEventLoop); }

void AddThreads(const ForkHazardSeen& seen, std::vector<Hazard>* found) {
  const auto own = Those(seen, [](const HazardThread& thread) { return thread.python && !IsHelper(thread); });
  if (own.empty()) return;
  std::vector<std::string> names;
  for (const HazardThread* thread : own) {
    if (names.size() < kMostNamed) names.push_back(absl::StrCat(NameOf(*thread), InBrackets(StackText(*thread))));
  }
  const size_t more = own.size() - names.size();
  found->push_back(
      {.kind = HazardKind::kThreads,
       .confidence = 0.3,
       .what = absl::StrCat(own.size(), own.size() == 1 ? " other Python thread: " : " other Python threads: ",
                            absl::StrJoin(names, ", "), more > 0 ? absl::StrCat(" and ", more, " more") : ""),
       .effect =
           "a child that waits for the work of such a thread, or for a lock that it holds at a fork, may wait for "
           "ever",
       .advice = {"Start the workers before such threads."}});
  // As fsspec's, whose file systems hand all work to it.
  if (absl::c_any_of(own, RunsEventLoop)) {
    found->back().advice.push_back(
        "In the child, make anew the clients and file systems whose event loop such a thread runs.");
  }
}

}  // namespace

bool RunsOnlyHelperCode(const std::vector<Frame>& stack) {
  constexpr absl::string_view kFiles[] = {"/threading.py", "/multiprocessing/queues.py",
                                          "/multiprocessing/resource_sharer.py", "/multiprocessing/connection.py",
                                          "/socket.py"};
  const auto is_known = [&](const Frame& frame) {
    return !LibraryOf(frame.file).empty() &&
           absl::c_any_of(kFiles, [&](absl::string_view end) { return EndsInFile(frame.file, end); });
  };
  return absl::c_all_of(stack, is_known) && absl::c_any_of(stack, IsOfHelper);
}

bool SetsFutures(const std::vector<Frame>& stack) {
  return absl::c_any_of(stack, [](const Frame& frame) {
    const absl::string_view function = absl::string_view(frame.function).substr(frame.function.rfind('.') + 1);
    if (EndsInFile(frame.file, "/concurrent/futures/process.py"))
      return function == "run" || function == "_queue_management_worker";
    return IsOfEventLoop(frame) || (EndsInFile(frame.file, "/concurrent/futures/thread.py") && function == "_worker");
  });
}

bool IsForkserver(const std::vector<Frame>& stack) {
  const auto runs = [&](absl::string_view function) {
    return absl::c_any_of(stack, [&](const Frame& frame) {
      return frame.function == function && EndsInFile(frame.file, "/multiprocessing/forkserver.py");
    });
  };
  return runs("main") && !runs("_serve_one");
}

std::vector<Hazard> HazardsOf(const ForkHazardSeen& seen) {
  std::vector<Hazard> found;
  AddOpenMp(seen, &found);
  AddLocks(seen, &found);
  AddCuda(seen, &found);
  AddOpenCv(seen, &found);
  AddNative(seen, &found);
  AddThreads(seen, &found);
  return found;
}

std::vector<std::string> PoolsOf(const ForkHazardSeen& seen) {
  std::vector<std::string> pools;
  for (const HazardThread& thread : seen.threads) {
    const char* pool = thread.python ? nullptr : PoolOf(thread.module);
    if (pool != nullptr && std::find(pools.begin(), pools.end(), pool) == pools.end()) pools.emplace_back(pool);
  }
  std::sort(pools.begin(), pools.end());
  return pools;
}

std::vector<std::string> ThreadLines(const ForkHazardSeen& seen) {
  std::vector<std::string> lines;
  std::map<std::string, uint64_t> native;  // threads by module
  size_t own = 0, own_left_out = 0;
  for (const HazardThread& thread : seen.threads) {
    if (!thread.python) {
      ++native[thread.module];
    } else if (++own > 8) {
      ++own_left_out;
    } else {
      const std::string at = StackText(thread);
      lines.push_back(absl::StrCat("Python thread ", NameOf(thread), " (", thread.tid, ")",
                                   at.empty() ? "" : absl::StrCat(" at ", at),
                                   IsHelper(thread) ? "; multiprocessing or torch started it for itself" : ""));
    }
  }
  if (own_left_out > 0) lines.push_back(absl::StrCat(Plural(own_left_out, "more Python thread")));
  for (const auto& [module, count] : native) {
    const absl::string_view handled =
        absl::StrContains(module, "openblas") ? ", which starts them again in a child" : "";
    lines.push_back(absl::StrCat(Plural(count, "native thread"),
                                 module.empty() ? "" : absl::StrCat(" of ", Printable(module)), handled));
  }
  if (seen.threads_left_out > 0)
    lines.push_back(absl::StrCat(Plural(seen.threads_left_out, "thread"), " not looked at"));
  return lines;
}

std::string OtherStartMethods(const std::string& sentence) {
  return absl::StrCat("Or start workers by spawn or forkserver, which take no threads along",
                      sentence.empty() ? "" : absl::StrCat(": ", sentence), ".");
}

std::string InsteadOfPreloading() {
  return "Start threads, and open CUDA, in the worker, not in a module that the forkserver imports "
         "(set_forkserver_preload(), or the main module); or start workers by spawn, which takes no threads along.";
}

}  // namespace cowprof
