// The two rules, and what is said of each kind of wait. Where a rule does not reach, nothing is said.
#include "model/judge/hangs.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "model/format.h"
#include "model/judge/fork_hazards.h"
#include "model/judge/fork_holder.h"
#include "model/library_name.h"

namespace cowprof {
namespace {

const ThreadWait* FindThread(absl::Span<const ThreadWait> threads, pid_t tid) {
  const auto found = absl::c_find_if(threads, [tid](const ThreadWait& thread) { return thread.tid == tid; });
  return found == threads.end() ? nullptr : &*found;
}

// It has not moved between the looks, and waits for a thread of its own address space.
bool Endless(absl::Span<const ThreadWait> before, const ThreadWait& now) {
  const ThreadWait* then = FindThread(before, now.tid);
  return then != nullptr && *then == now && now.endless_futex != 0 && !now.stopped;
}

bool IsLockOfPython(AwaitedKind kind) {
  return kind == AwaitedKind::kLock || kind == AwaitedKind::kRLock || kind == AwaitedKind::kFileBuffer ||
         kind == AwaitedKind::kImportLock;
}

HangKind KindOf(AwaitedKind kind) {
  switch (kind) {
    case AwaitedKind::kLock:
      return HangKind::kLock;
    case AwaitedKind::kRLock:
      return HangKind::kRLock;
    case AwaitedKind::kImportLock:
      return HangKind::kImportLock;
    case AwaitedKind::kFileBuffer:
      return HangKind::kFileBuffer;
    case AwaitedKind::kCMutex:
      return HangKind::kCMutex;
    case AwaitedKind::kOpenMp:
      return HangKind::kOpenMp;
    case AwaitedKind::kNotification:
    case AwaitedKind::kJoin:
    case AwaitedKind::kLibrary:
    case AwaitedKind::kUnknown:
      break;
  }
  return HangKind::kUnknown;
}

std::string NounOf(const Awaited& awaited) {
  switch (awaited.kind) {
    case AwaitedKind::kLock:
      return "a threading.Lock";
    case AwaitedKind::kRLock:
      return "a threading.RLock";
    case AwaitedKind::kImportLock:
      return absl::StrCat("the import of ", awaited.detail.empty() ? "a module" : awaited.detail);
    case AwaitedKind::kFileBuffer:
      return "the lock of a buffered file";
    case AwaitedKind::kCMutex:
      return awaited.detail == kRwlock ? "a read-write lock of native code" : "a mutex of native code";
    case AwaitedKind::kOpenMp:
      return "its team of OpenMP threads";
    case AwaitedKind::kNotification:
      return "a notification (Condition, Event or queue)";
    case AwaitedKind::kLibrary:
      return absl::StrCat("something in ", awaited.detail);
    case AwaitedKind::kJoin:
    case AwaitedKind::kUnknown:
      break;
  }
  return "something that native code waits for";
}

bool InLogging(const std::vector<Frame>& stack) {
  return absl::c_any_of(stack, [](const Frame& frame) { return frame.file.ends_with("logging/__init__.py"); });
}

bool UsesTorch(const WaitingThread& thread) { return thread.awaited.detail.starts_with("at::"); }

std::string FixOf(HangKind kind, const WaitingThread& thread, bool from_forkserver) {
  if (from_forkserver && kind != HangKind::kImportLock && kind != HangKind::kDeadlock) {
    // Its threads are those of what it imports.
    return absl::StrCat(
        kind == HangKind::kOpenMp && UsesTorch(thread) ? "call torch.set_num_threads(1) first in the worker, or " : "",
        "start these threads in the worker, not in a module that the forkserver imports "
        "(set_forkserver_preload(), or the main module); or start workers by spawn");
  }
  switch (kind) {
    case HangKind::kOpenMp:
      return UsesTorch(thread)
                 ? "call torch.set_num_threads(1) first in the worker, or in the parent before its first operation; or "
                   "start workers by spawn or forkserver"
                 : "don't enter a parallel region before the fork, or set OMP_NUM_THREADS=1 for the parent; or start "
                   "workers by spawn or forkserver";
    case HangKind::kImportLock:
      return absl::StrCat("import ", thread.awaited.detail.empty() ? "it" : thread.awaited.detail,
                          from_forkserver ? " before any thread is started, in a module that the forkserver imports "
                                            "(set_forkserver_preload(), or the main module)"
                                          : " before the fork, in the thread that forks");
    case HangKind::kFileBuffer:
      return "start the workers before the threads that write to this file, or open the file anew in the worker; or "
             "start workers by spawn or forkserver";
    case HangKind::kLock:
    case HangKind::kRLock:
      if (InLogging(thread.stack))
        return "start the workers before the threads that log, or configure logging anew in the worker; or start "
               "workers by spawn or forkserver";
      return "start the workers before the threads that take this lock, or make a new one in the child "
             "(os.register_at_fork(after_in_child=...), Python 3.7 and later); or start workers by spawn or forkserver";
    case HangKind::kCMutex:
      return "start the workers before the threads of the library that owns it, or start workers by spawn or "
             "forkserver";
    case HangKind::kDeadlock:
      return "take the locks in the same order everywhere";
    case HangKind::kUnknown:
      break;
  }
  return absl::StrCat("start the workers before the parent first uses ", thread.awaited.detail,
                      ", or start workers by spawn or forkserver");
}

// A Lock and an import keep no owner: what a look near the fork shows of them is as of that look.
std::string OwnerWords(HangKind kind, const Holder& holder) {
  const std::string name = holder.name.empty() ? absl::StrCat("thread ", holder.tid) : holder.name;
  if (holder.still_holds) return absl::StrCat("that the parent's thread ", name, " holds");
  const std::string when =
      kind == HangKind::kLock && holder.looked_after ? WhenLooked(*holder.looked_after) : "at the fork";
  return absl::StrCat("that the parent's thread ", name, " held ", when);
}

Hang HangOf(const WaitingProcess& process, const WaitingThread& thread) {
  Hang hang;
  hang.pid = process.id.pid;
  hang.parent = process.parent;
  hang.tid = thread.wait.tid;
  hang.stack = thread.stack;
  hang.native = thread.native;
  hang.holder = thread.awaited.holder;
  hang.kind = KindOf(thread.awaited.kind);
  hang.victims = process.victims;
  return hang;
}

// Sentence and fix, once kind and by_fork are known.
void Explain(const WaitingProcess& process, const WaitingThread& thread, Hang* hang) {
  const bool forked = process.forked;
  const auto fix = [&] { return FixOf(hang->kind, thread, process.from_forkserver); };
  const Awaited& awaited = thread.awaited;
  const std::string noun = NounOf(awaited);
  if (hang->kind == HangKind::kDeadlock) {
    hang->what = awaited.owner == OwnerIs::kWaiterItself
                     ? absl::StrCat(noun, " that this thread has taken itself: not by the fork")
                     : absl::StrCat(noun,
                                    " that another thread of this process has: a deadlock among its own threads, "
                                    "not by the fork");
  } else if (hang->kind == HangKind::kOpenMp) {
    hang->what = absl::StrCat(noun, awaited.detail.empty() ? "" : absl::StrCat(" (", awaited.detail, ")"),
                              ", which stayed in the parent");
  } else if (awaited.kind == AwaitedKind::kLibrary) {
    hang->what =
        absl::StrCat(noun, " that only another thread of this process could do, and there is none: ",
                     Plural(awaited.left_behind, "thread"), " of that library stayed in the parent at the fork");
  } else if (hang->kind == HangKind::kImportLock && hang->by_fork) {
    const bool seen = hang->holder && hang->holder->looked_after;
    const std::string who = seen ? absl::StrCat("the parent's thread ", hang->holder->name) : "a thread of the parent";
    hang->what = absl::StrCat(noun, ", which ", who, " was importing ",
                              seen ? WhenLooked(*hang->holder->looked_after) : "at the fork");
  } else if (hang->holder) {
    hang->what = absl::StrCat(noun, " ", OwnerWords(hang->kind, *hang->holder));
  } else if (awaited.owner == OwnerIs::kGone) {
    hang->what = absl::StrCat(noun, " whose owner, a thread of the parent at the fork, does not exist in this process");
  } else if (awaited.owner == OwnerIs::kMissing) {
    hang->what = absl::StrCat(noun, forked ? " whose owner does not exist in this process: a thread that has ended, or "
                                             "one that stayed in the parent at the fork"
                                           : " whose owner, a thread of this process, has ended");
  } else if (awaited.held_in_parent) {
    hang->what = absl::StrCat(noun,
                              " that no thread of this process will ever release; one at the same address is locked "
                              "in the parent, too: perhaps the same one, held at the fork");
  } else if (hang->kind == HangKind::kImportLock) {
    hang->what = absl::StrCat(noun, " that no thread of this process will ever end; who began it is unknown");
  } else {
    hang->what = absl::StrCat(noun, " that no thread of this process will ever release; who had it is unknown");
  }
  if (hang->by_fork || hang->kind == HangKind::kDeadlock)
    hang->fix = fix();
  else if (forked && awaited.owner == OwnerIs::kMissing)
    hang->fix = absl::StrCat("if it stayed in the parent: ", fix());
  else if (awaited.held_in_parent && awaited.owner != OwnerIs::kMissing)
    hang->fix = absl::StrCat("if it is the parent's: ", fix());
  if (awaited.owner == OwnerIs::kWaiterItself) {
    hang->fix = awaited.kind == AwaitedKind::kCMutex ? "use a recursive mutex, or don't take it again"
                                                     : "use an RLock, or don't take it again";
  }
}

// A lock at the same address in the parent proves nothing: after a fork both heaps give the same addresses to what is
// allocated next.
bool InheritedFor(const WaitingProcess& process, const Awaited& awaited) {
  return process.forked && (awaited.owner == OwnerIs::kGone || awaited.holder.has_value());
}

// Locks of Python keep an ident, which is looked for among CPython's threads. A native thread is among them only while
// it calls into Python, and may release next time what it took: unless each thread runs Python or stays where it is,
// the owner may be here. A mutex keeps the number of a thread, which is looked for among all.
bool IsMissing(absl::Span<const ThreadWait> before, const WaitingProcess& process, const Awaited& awaited) {
  return awaited.owner == OwnerIs::kMissing &&
         (awaited.kind == AwaitedKind::kCMutex || absl::c_all_of(process.threads, [&](const WaitingThread& thread) {
            return !thread.stack.empty() || Endless(before, thread.wait);
          }));
}

// The team of a runtime that this thread uses alone: then the others stayed in the parent. A native thread may be an
// idle member of a team of its own process.
bool IsLoneOpenMp(const WaitingProcess& process, const WaitingThread& thread) {
  const bool may_lead = thread.wait.tid == process.id.pid || !thread.stack.empty();
  return process.forked && may_lead && thread.awaited.kind == AwaitedKind::kOpenMp &&
         absl::c_count_if(process.threads,
                          [](const WaitingThread& other) { return other.awaited.kind == AwaitedKind::kOpenMp; }) == 1;
}

// What rule 1 proves of a thread, all threads being in endless waits. nullopt: it waits as an idle thread of a pool
// does, or nothing is known of it.
std::optional<Hang> JudgeStuck(const WaitingProcess& process, const WaitingThread& thread) {
  const Awaited& awaited = thread.awaited;
  Hang hang = HangOf(process, thread);
  hang.proof = HangProof::kNever;
  if (awaited.owner == OwnerIs::kAnotherThread || awaited.owner == OwnerIs::kWaiterItself) {
    hang.kind = HangKind::kDeadlock;
  } else if (awaited.kind == AwaitedKind::kOpenMp) {
    if (!IsLoneOpenMp(process, thread)) return std::nullopt;
    hang.by_fork = true;
  } else if (awaited.kind == AwaitedKind::kImportLock) {
    hang.by_fork = process.forked && !awaited.may_be_here;
  } else if (IsLockOfPython(awaited.kind) || awaited.kind == AwaitedKind::kCMutex) {
    hang.by_fork = InheritedFor(process, awaited);
  } else if (awaited.kind == AwaitedKind::kLibrary && process.forked && process.threads.size() == 1) {
    hang.by_fork = true;
  } else {
    return std::nullopt;
  }
  Explain(process, thread, &hang);
  return hang;
}

// Without those of the parent, which multiprocessing forked below.
std::vector<Frame> FramesSinceFork(const std::vector<Frame>& stack) {
  const auto fork = absl::c_find_if(
      stack, [](const Frame& frame) { return EndsInFile(frame.file, "/multiprocessing/popen_fork.py"); });
  return {stack.begin(), fork};
}

// Nobody is left to notify the one that would go on. With an object of its own a process may be meant to wait until
// it is ended; one at the same address in the parent may be another, made after the fork by both: not by_fork.
std::optional<Hang> JudgeNotification(const WaitingProcess& process, const WaitingThread& thread) {
  const bool future = WaitsForFuture(process, thread);
  if (!future && !thread.awaited.in_parent) return std::nullopt;
  Hang hang = HangOf(process, thread);
  hang.what = future ? "the result of a Future that no thread of this process will ever set"
                     : absl::StrCat(NounOf(thread.awaited), " that no thread of this process will ever send");
  // A loop that waits for itself would also do so without a fork.
  hang.by_fork = future && !process.set_futures.empty() && !SetsFutures(FramesSinceFork(thread.stack));
  if (!hang.by_fork && thread.awaited.in_parent) {
    absl::StrAppend(&hang.what, "; the object may be the parent's, whose threads don't exist here");
    hang.fix =
        "if it is the parent's: start the thread that notifies in the worker, or use multiprocessing's Event, Condition "
        "or Queue";
  }
  if (!hang.by_fork) return hang;
  const std::string names = absl::StrJoin(process.set_futures, ", ");
  if (process.set_futures.size() == 1)
    absl::StrAppend(&hang.what, "; a thread that sets such results, ", names, ", stayed in the parent at the fork");
  else
    absl::StrAppend(&hang.what, "; the threads that set such results (", names, ") stayed in the parent at the fork");
  hang.fix =
      absl::StrCat("in the worker, make anew the client, file system, event loop or executor that the thread works for",
                   process.from_forkserver ? "" : ", or start workers by spawn or forkserver");
  return hang;
}

}  // namespace

bool WaitsForFuture(const WaitingProcess& process, const WaitingThread& thread) {
  const auto frame =
      absl::c_find_if(thread.stack, [](const Frame& one) { return !EndsInFile(one.file, "/threading.py"); });
  if (frame == thread.stack.end() || !EndsInFile(frame->file, "/concurrent/futures/_base.py")) return false;
  const absl::string_view function = absl::string_view(frame->function).substr(frame->function.rfind('.') + 1);
  constexpr absl::string_view kWaits[] = {"result", "exception", "wait", "as_completed"};
  return absl::c_linear_search(kWaits, function) && absl::c_all_of(process.threads, [&](const WaitingThread& other) {
           return other.wait.tid == thread.wait.tid || other.stack.empty() || RunsOnlyHelperCode(other.stack);
         });
}

StillWaits CompareLooks(absl::Span<const ThreadWait> before, absl::Span<const ThreadWait> now) {
  StillWaits still;
  still.all = !now.empty() && before.size() == now.size() &&
              absl::c_all_of(now, [&](const ThreadWait& thread) { return Endless(before, thread); });
  still.any = absl::c_any_of(now, [&](const ThreadWait& thread) { return Endless(before, thread); });
  return still;
}

std::vector<Hang> JudgeWaits(absl::Span<const ThreadWait> before, const WaitingProcess& process,
                             std::vector<Hang>* suspects) {
  std::vector<ThreadWait> now;
  for (const WaitingThread& thread : process.threads) now.push_back(thread.wait);
  const bool stuck = CompareLooks(before, now).all;
  std::vector<Hang> hangs;
  for (const WaitingThread& thread : process.threads) {
    if (!Endless(before, thread.wait)) continue;
    // Rule 2 needs no other thread: nobody in this process is the owner.
    const bool missing = process.forked && IsMissing(before, process, thread.awaited);
    const bool owner_gone = process.forked && (missing || thread.awaited.owner == OwnerIs::kGone);
    // No handler brings back a team.
    if (stuck && !missing && (!process.may_be_told || owner_gone || IsLoneOpenMp(process, thread))) {
      if (std::optional<Hang> hang = JudgeStuck(process, thread)) hangs.push_back(*std::move(hang));
    } else if (owner_gone) {
      Hang hang = HangOf(process, thread);
      hang.proof = HangProof::kOwnerGone;
      hang.by_fork = !missing;
      Explain(process, thread, &hang);
      hangs.push_back(std::move(hang));
    } else if (stuck && suspects != nullptr) {
      std::optional<Hang> hang = JudgeStuck(process, thread);
      if (hang && hang->kind != HangKind::kDeadlock) hang->what = NounOf(thread.awaited);
      if (hang) suspects->push_back(*std::move(hang));
    }
  }
  if (!hangs.empty() || !stuck || !process.forked || process.may_be_told) return hangs;
  for (const WaitingThread& thread : process.threads) {
    if (thread.awaited.kind != AwaitedKind::kNotification) continue;
    if (std::optional<Hang> hang = JudgeNotification(process, thread)) hangs.push_back(*std::move(hang));
  }
  return hangs;
}

}  // namespace cowprof
