#include "recorder/opened_process.h"

#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/algorithm/container.h"

namespace cowprof {

OpenedProcess::OpenedProcess(const ProcFs& proc, pid_t pid, ThreadWaits found)
    : pid(pid), waits(std::move(found)), memory(pid, proc, &files), interpreter(FindInterpreter(proc, pid, memory)) {
  // Frames and locks of free-threaded builds are not known.
  if (!interpreter.ok() || !interpreter->ready || interpreter->free_threaded) return;
  locks.emplace(*interpreter, memory);
  states = locks->ThreadsByTid(&has_all_states);
}

const ThreadState* OpenedProcess::StateOf(pid_t tid_inside) const {
  const auto found = states.find(tid_inside);
  return found == states.end() ? nullptr : &found->second;
}

const ThreadWait* OpenedProcess::ThreadInside(pid_t tid_inside) const {
  const auto found = absl::c_find_if(waits.threads, [&](const ThreadWait& t) { return t.tid_inside == tid_inside; });
  return found == waits.threads.end() ? nullptr : &*found;
}

// Threads are sorted by tid. Once tids have wrapped around, others come before it.
const ThreadWait* OpenedProcess::MainThread() const {
  const auto found = absl::c_find_if(waits.threads, [this](const ThreadWait& thread) { return thread.tid == pid; });
  return found == waits.threads.end() ? nullptr : &*found;
}

std::unique_ptr<OpenedProcess> OpenProcess(const ProcFs& proc, pid_t pid) {
  absl::StatusOr<ThreadWaits> waits = ReadThreadWaits(proc, pid);
  return waits.ok() ? std::make_unique<OpenedProcess>(proc, pid, *std::move(waits)) : nullptr;
}

bool SamePidNamespace(const ProcFs& proc, pid_t a, pid_t b) {
  std::error_code failed;
  const auto of = [&](pid_t pid) { return std::filesystem::read_symlink(proc.PathOf(pid, "ns/pid"), failed); };
  const auto first = of(a);
  return !failed && first == of(b) && !failed;
}

std::unique_ptr<OpenedProcess> OpenParent(const ProcFs& proc, const OpenedProcess& child, pid_t parent) {
  if (parent <= 1 || proc.ReadExecutable(parent) != proc.ReadExecutable(child.pid)) return nullptr;
  std::unique_ptr<OpenedProcess> opened = OpenProcess(proc, parent);
  if (opened == nullptr || opened->locks.has_value() != child.locks.has_value()) return nullptr;
  if (child.locks && opened->interpreter->main_interpreter != child.interpreter->main_interpreter) return nullptr;
  return opened;
}

bool SharesMemory(const OpenedProcess& child, const OpenedProcess& parent) {
  const uint64_t stack = child.waits.threads[0].stack_pointer;
  char own[256], others[256];
  return stack != 0 && child.memory.Read(stack, absl::MakeSpan(own)) &&
         parent.memory.Read(stack, absl::MakeSpan(others)) && memcmp(own, others, sizeof(own)) == 0;
}

}  // namespace cowprof
