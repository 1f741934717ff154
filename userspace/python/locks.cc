// Searches the waiter's native stack for the object. Every pointer there may be stale or no pointer at all: an object
// counts only if its type is that of a lock and its lock is the very word that the thread waits on.
#include "python/locks.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "model/library_name.h"
#include "python/duty.h"
#include "python/graph.h"

namespace cowprof {
namespace {

constexpr uint64_t kStackBytes = 8192;      // of the waiter's stack that are searched; the object is within 1,000
constexpr uint64_t kParkedBytes = 1 << 16;  // how far above its stack pointer a thread's semaphore may lie
constexpr size_t kBufferedBytes = 256;      // of a buffered file that are searched; it has fewer than 200
constexpr uint64_t kTidInPthread = 0x2d0;
constexpr uint32_t kParkingMinor = 14;       // since then Lock and RLock are PyMutexes, which wait in a parking lot
constexpr uint32_t kFirstParkingMinor = 13;  // 3.13.0's Lock has a semaphore, 3.13.5's is a PyMutex: sizes tell
constexpr uint64_t kMostStackSlots = 256;
constexpr size_t kMostStatements = 64;
constexpr int kMostFramesSaying = 8;  // innermost frames that belong to the library's locks

// Functions of threading.py that wait for the end of a thread, by their name before 3.11 and since.
constexpr absl::string_view kJoins[] = {"_wait_for_tstate_lock", "Thread._wait_for_tstate_lock", "join", "Thread.join",
                                        "_shutdown"};

// Of a lock object, behind its head: the semaphore's address up to 3.13, then the PyMutex itself.
constexpr uint32_t kLockedOffset = 16, kOwnerOffset = 8;  // behind the lock: lockobject.locked, rlockobject.rlock_owner

uint64_t Word(const char* bytes, size_t offset) {
  uint64_t word;
  memcpy(&word, bytes + offset, sizeof(word));
  return word;
}

AwaitedKind KindOfType(absl::string_view name) {
  if (name == "_thread.lock" || name == "lock") return AwaitedKind::kLock;
  if (name == "_thread.RLock" || name == "RLock") return AwaitedKind::kRLock;
  if (name == "_io.BufferedReader" || name == "_io.BufferedWriter" || name == "_io.BufferedRandom")
    return AwaitedKind::kFileBuffer;
  return AwaitedKind::kUnknown;
}

bool IsLockOfModule(absl::string_view function) { return function == "_ModuleLock.acquire" || function == "acquire"; }

// Where the stack slots of frames are counted, struct PyCodeObject; measured like layout.cc.
struct CodeSizes {
  uint32_t stack_size, locals, cells, frees;  // cells, frees: tuples; kNoOffset from 3.11 on
};
CodeSizes SizesOf(uint32_t minor) {
  if (minor <= 7) return {28, 24, 80, 72};
  if (minor <= 10) return {32, 28, 88, 80};
  if (minor == 11) return {68, 76, kNoOffset, kNoOffset};
  return {64, 72, kNoOffset, kNoOffset};
}

}  // namespace

pid_t TidOf(const MemoryReader& memory, uint64_t thread_id) {
  return IsUserPointer(thread_id) ? ReadValue<int32_t>(memory, thread_id + kTidInPthread).value_or(0) : 0;
}

std::optional<pid_t> OwnerOfMutex(const MemoryReader& memory, uint64_t mutex) {
  // lock, count, owner, users, kind; lock is 1 when it is taken, 2 when somebody may wait (lowlevellock.h).
  const auto fields = ReadValue<std::array<int32_t, 5>>(memory, mutex);
  constexpr int32_t kKnownKinds = 0x1ff;
  if (!fields || ((*fields)[0] != 1 && (*fields)[0] != 2) || (*fields)[2] <= 0 || (*fields)[3] <= 0 ||
      ((*fields)[4] & ~kKnownKinds) != 0)
    return std::nullopt;
  return (*fields)[2];
}

std::optional<pid_t> OwnerOfRwlock(const MemoryReader& memory, uint64_t rwlock) {
  // readers, writers, wrphase_futex, writers_futex, two of padding, cur_writer, shared. `readers` has its two lowest
  // bits set while a writer has the lock (pthread_rwlock_common.c).
  const auto fields = ReadValue<std::array<int32_t, 8>>(memory, rwlock);
  constexpr int32_t kWritten = 3;
  if (!fields || ((*fields)[0] & kWritten) != kWritten || (*fields)[4] != 0 || (*fields)[5] != 0 || (*fields)[6] <= 0 ||
      (*fields)[7] != 0)
    return std::nullopt;
  return (*fields)[6];
}

LockReader::LockReader(const Interpreter& interpreter, const MemoryReader& memory)
    : interpreter_(interpreter), memory_(memory), types_(interpreter, memory), codes_(interpreter, memory) {}

std::optional<LockObject> LockReader::ReadLock(uint64_t address, uint64_t mutex) {
  const PythonLayout& layout = interpreter_.layout;
  if (!IsUserPointer(address)) return std::nullopt;
  const uint32_t head = layout.object.type + 8;
  char bytes[kBufferedBytes];
  ReadOrZero(memory_, address, absl::MakeSpan(bytes));
  // Cheap tests first: most candidates are not even objects.
  const bool is_own = mutex == address + head || mutex == Word(bytes, head);
  size_t buffered = 0;  // where a buffered file has its lock
  for (size_t at = head; mutex != 0 && at + 16 <= sizeof(bytes); at += 8) {
    const bool here = Word(bytes, at) == mutex;  // PyThread_type_lock: a pointer in every version
    if (here && buffered == 0) buffered = at;
  }
  if (mutex != 0 && !is_own && buffered == 0) return std::nullopt;
  const std::optional<TypeInfo> type = types_.TypeOfObject(address);
  LockObject lock = {.kind = type ? KindOfType(type->name) : AwaitedKind::kUnknown, .address = address};
  if (lock.kind == AwaitedKind::kUnknown) return std::nullopt;
  const bool is_file = lock.kind == AwaitedKind::kFileBuffer;
  const bool small = lock.kind == AwaitedKind::kLock && type->basic_size == head + 8;
  const bool parking = layout.minor >= kParkingMinor || (layout.minor >= kFirstParkingMinor && small);
  const uint64_t own_mutex = parking ? address + head : Word(bytes, head);
  lock.mutex = is_file ? mutex : own_mutex;
  if (is_file && buffered == 0) return std::nullopt;
  if (!is_file && mutex != 0 && own_mutex != mutex) return std::nullopt;
  if (is_file) lock.owner = Word(bytes, buffered + 8);
  if (lock.kind == AwaitedKind::kRLock) lock.owner = Word(bytes, head + kOwnerOffset);
  if (parking && !is_file) {
    if (const auto bits = ReadValue<uint8_t>(memory_, lock.mutex)) lock.locked = (*bits & 1) != 0;
  } else if (lock.kind == AwaitedKind::kLock) {
    lock.locked = bytes[head + kLockedOffset] != 0;
  } else {
    lock.locked = lock.owner != 0;
  }
  return lock;
}

std::optional<LockObject> LockReader::FindAwaited(uint64_t futex, uint64_t stack_pointer) {
  if (!interpreter_.ready || interpreter_.free_threaded) return std::nullopt;
  uint64_t mutex = futex;
  if (interpreter_.layout.minor >= kFirstParkingMinor) {
    // struct wait_entry of Python/parking_lot.c, on the waiter's stack: the address that it parked on, then its
    // semaphore. A buffered file's lock is a semaphore of its own.
    if (futex >= stack_pointer && futex - stack_pointer <= kParkedBytes) {
      mutex = ReadValue<uint64_t>(memory_, futex - 8).value_or(0);
      // The PyMutex of a lock object lies behind its head: no need to search.
      return ReadLock(mutex - interpreter_.layout.object.type - 8, mutex);
    }
  }
  std::vector<char> stack(kStackBytes);
  const uint64_t first = stack_pointer & ~uint64_t{7};
  ReadOrZero(memory_, first, absl::MakeSpan(stack.data(), stack.size()));
  absl::flat_hash_set<uint64_t> seen;
  for (size_t at = 0; at + 8 <= stack.size(); at += 8) {
    const uint64_t word = Word(stack.data(), at);
    if (!IsUserPointer(word) || !seen.insert(word).second) continue;
    if (auto lock = ReadLock(word, mutex)) return lock;
  }
  return std::nullopt;
}

absl::flat_hash_map<pid_t, ThreadState> LockReader::ThreadsByTid(bool* complete) const {
  absl::flat_hash_map<pid_t, ThreadState> threads;
  for (const ThreadState& thread : ListThreads(interpreter_, memory_, complete)) {
    const pid_t tid = TidOf(memory_, thread.thread_id);
    if (tid > 0) threads.emplace(tid, thread);
  }
  return threads;
}

std::string LockReader::NameOf(const ThreadState& thread) const {
  // The keys of threading._active are ints with digits of 30 bits behind head and size (Include/cpython/longintrepr.h).
  constexpr uint32_t kDigits = 24;
  constexpr int kDigitBits = 30, kMostThreads = 4096;
  const uint64_t high = thread.thread_id >> kDigitBits;
  if (high == 0 || high >> kDigitBits != 0) return "";
  const uint64_t digits = (thread.thread_id & ((uint64_t{1} << kDigitBits) - 1)) | high << 32;
  ObjectGraph graph(interpreter_, memory_);
  Edges items = graph.DictItems(graph.InDict(graph.ModuleDict("threading"), "_active"), EdgeKind::kValue);
  Edge item;
  for (int i = 0; i < 2 * kMostThreads && items.Next(memory_, &item); ++i) {
    if (item.kind == EdgeKind::kValue && ReadValue<uint64_t>(memory_, item.name + kDigits) == digits)
      return graph.Text(graph.InstanceAttribute(item.object, "_name"));
  }
  return "";
}

std::vector<Frame> LockReader::StackOf(const ThreadState& thread) {
  std::vector<Frame> stack;
  for (const RawFrame& frame : WalkFrames(interpreter_, memory_, thread.address)) {
    const auto code = codes_.Resolve(frame.code, frame.instruction);
    if (code && !IsTrampoline(*code)) stack.push_back({code->file, code->function, code->line});
  }
  return stack;
}

Awaited LockReader::WhatFramesSay(const ThreadState& thread) {
  Awaited awaited;
  int looked = 0;
  for (const RawFrame& frame : WalkFrames(interpreter_, memory_, thread.address)) {
    if (++looked > kMostFramesSaying) break;
    const auto code = codes_.Resolve(frame.code, frame.instruction);
    if (!code) break;
    const bool bootstrap = absl::StrContains(code->file, "importlib._bootstrap");
    if (looked == 1 && bootstrap && !IsLockOfModule(code->function)) break;
    // The latter waits for a module that is in sys.modules already, but not initialized yet.
    if (bootstrap && (code->function == "_find_and_load" || code->function == "_lock_unlock_module")) {
      const uint64_t name = FindLocal(interpreter_.layout, memory_, frame, "name");
      awaited.kind = AwaitedKind::kImportLock;
      awaited.detail = ReadString(interpreter_.layout, memory_, name, kMaxNameBytes).value_or("");
      return awaited;
    }
    if (bootstrap) continue;
    const bool waits = code->function == "Condition.wait" || code->function == "wait";
    if (looked == 1 && waits && absl::EndsWith(code->file, "threading.py")) {
      awaited.kind = AwaitedKind::kNotification;
      awaited.object = FindLocal(interpreter_.layout, memory_, frame, "self");
    }
    const bool joins = std::find(std::begin(kJoins), std::end(kJoins), code->function) != std::end(kJoins);
    if (joins && absl::EndsWith(code->file, "threading.py")) awaited.kind = AwaitedKind::kJoin;
    break;
  }
  return awaited;
}

std::vector<std::string> LockReader::ImportsOf(const ThreadState& thread) {
  std::vector<std::string> modules;
  bool waits = true;  // so far every frame is the import system's: it waits for a lock, or looks for a file
  for (const RawFrame& frame : WalkFrames(interpreter_, memory_, thread.address)) {
    const auto code = codes_.Resolve(frame.code, frame.instruction);
    const bool bootstrap = code && absl::StrContains(code->file, "importlib._bootstrap");
    if (bootstrap && code->function == "_find_and_load" && !waits) {
      const uint64_t name = FindLocal(interpreter_.layout, memory_, frame, "name");
      if (auto module = ReadString(interpreter_.layout, memory_, name, kMaxNameBytes)) modules.push_back(*module);
    }
    waits &= bootstrap;
  }
  return modules;
}

bool LockReader::IsWithinImport(const ThreadState& thread, absl::string_view module) {
  const Awaited says = WhatFramesSay(thread);
  if (says.kind == AwaitedKind::kImportLock && says.detail == module) return false;
  for (const RawFrame& frame : WalkFrames(interpreter_, memory_, thread.address)) {
    const auto code = codes_.Resolve(frame.code, frame.instruction);
    if (!code || code->function != "_find_and_load" || !absl::StrContains(code->file, "importlib._bootstrap")) continue;
    const uint64_t name = FindLocal(interpreter_.layout, memory_, frame, "name");
    if (ReadString(interpreter_.layout, memory_, name, kMaxNameBytes) == module) return true;
  }
  return false;
}

std::vector<uint64_t> LockReader::StackSlots(const RawFrame& frame) const {
  const PythonLayout& layout = interpreter_.layout;
  const CodeSizes sizes = SizesOf(layout.minor);
  const auto length = [&](uint64_t code, uint32_t offset) {
    const uint64_t tuple = ReadValue<uint64_t>(memory_, code + offset).value_or(0);
    return IsUserPointer(tuple) ? ReadValue<uint64_t>(memory_, tuple + layout.object.var_size).value_or(0) : 0;
  };
  constexpr uint32_t kStackPointer = 64;  // _PyInterpreterFrame.stackpointer, 3.14
  uint64_t first = ReadValue<uint32_t>(memory_, frame.code + sizes.locals).value_or(0);
  if (sizes.cells != kNoOffset) first += length(frame.code, sizes.cells) + length(frame.code, sizes.frees);
  const uint64_t depth = ReadValue<uint32_t>(memory_, frame.code + sizes.stack_size).value_or(0);
  if (first > kMostStackSlots || depth > kMostStackSlots) return {};
  uint64_t used = depth;
  const uint64_t bottom = frame.frame + layout.frame.locals + 8 * first;
  if (layout.minor >= kParkingMinor) {
    const uint64_t top = ReadValue<uint64_t>(memory_, frame.frame + kStackPointer).value_or(0);
    used = top < bottom ? 0 : std::min(depth, (top - bottom) / 8);
  }
  std::vector<uint64_t> slots(used);
  for (uint64_t i = 0; i < used; ++i) {
    slots[i] = ReadValue<uint64_t>(memory_, bottom + 8 * i).value_or(0) & ~uint64_t{layout.frame.code_tag_mask};
  }
  return slots;
}

std::vector<LockReader::WithStatement> LockReader::WithStatementsOf(const ThreadState& thread) {
  std::vector<WithStatement> found;
  if (!interpreter_.ready || interpreter_.free_threaded) return found;
  const PythonLayout& layout = interpreter_.layout;
  const uint32_t head = layout.object.type + 8;
  ObjectGraph graph(interpreter_, memory_);
  absl::flat_hash_set<uint64_t> conditions;  // that were looked at
  const auto word = [&](uint64_t address) { return ReadValue<uint64_t>(memory_, address).value_or(0); };
  for (const RawFrame& frame : WalkFrames(interpreter_, memory_, thread.address)) {
    const std::vector<uint64_t> slots = StackSlots(frame);
    for (size_t i = 0; i < slots.size() && found.size() < kMostStatements; ++i) {
      const auto type = IsUserPointer(slots[i]) ? types_.TypeOfObject(slots[i]) : std::nullopt;
      if (!type) continue;
      uint64_t object = 0, condition = 0;
      if (type->name == "builtin_function_or_method") {  // m_ml, m_self; a PyMethodDef begins with its name
        const uint64_t definition = word(slots[i] + head);
        const uint64_t name = IsUserAddress(definition) ? word(definition) : 0;
        if (ReadCString(memory_, name, 16) == "__exit__") object = word(slots[i] + head + 8);
      } else if (type->name == "method_descriptor" && i + 1 < slots.size()) {  // 3.14: d_type, d_name; then the object
        const auto name = ReadString(layout, memory_, word(slots[i] + head + 8), kMaxNameBytes);
        if (name == "__exit__") object = slots[i + 1];
      } else if (type->name == "method") {  // im_func, im_self
        condition = word(slots[i] + head + 8);
      } else if (type->name == "function" && i + 1 < slots.size()) {  // 3.14: __exit__ of a class, then the object
        condition = slots[i + 1];
      }
      if (condition != 0) {
        const auto owner = types_.TypeOfObject(condition);
        if (!owner || owner->name != "threading.Condition") continue;
        if (conditions.size() == kMostStatements || !conditions.insert(condition).second) continue;
        object = graph.InstanceAttribute(condition, "_lock");
      }
      const std::optional<LockObject> lock = object != 0 ? ReadLock(object, 0) : std::nullopt;
      if (!lock) continue;
      const auto same = [&](const WithStatement& known) { return known.lock.address == object; };
      if (std::any_of(found.begin(), found.end(), same)) continue;
      WithStatement with = {.lock = *lock, .where = {}};
      if (const auto code = codes_.Resolve(frame.code, frame.instruction))
        with.where = {code->file, code->function, code->line};
      found.push_back(std::move(with));
    }
  }
  return found;
}

bool LockReader::IsNewInChild(const WithStatement& with) const {
  // Those of handlers and its own, which it has taken by `with` since 3.13.
  if (LibraryOf(with.where.file) == "logging") return true;
  constexpr std::pair<absl::string_view, absl::string_view> kRenewed[] = {
      {"threading", "_active_limbo_lock"}, {"concurrent.futures.thread", "_global_shutdown_lock"}};
  const ObjectGraph graph(interpreter_, memory_);
  return std::any_of(std::begin(kRenewed), std::end(kRenewed), [&](const auto& renewed) {
    return graph.InDict(graph.ModuleDict(renewed.first), renewed.second) == with.lock.address;
  });
}

bool LockReader::HasGivenBack(const ThreadState& thread, uint64_t address) {
  const Awaited says = WhatFramesSay(thread);
  if (says.kind != AwaitedKind::kNotification || says.object == 0) return false;
  return ObjectGraph(interpreter_, memory_).InstanceAttribute(says.object, "_lock") == address;
}

int LockReader::CountWithStatements(const ThreadState& thread, uint64_t address) {
  const PythonLayout& layout = interpreter_.layout;
  const uint32_t head = layout.object.type + 8;
  absl::flat_hash_set<uint64_t> methods;
  int unbound = 0;
  for (const RawFrame& frame : WalkFrames(interpreter_, memory_, thread.address)) {
    uint64_t before = 0;
    for (const uint64_t slot : StackSlots(frame)) {
      const uint64_t below = std::exchange(before, slot);
      if (!IsUserPointer(slot)) continue;
      if (slot == address && layout.minor >= kParkingMinor) {
        // 3.14: __exit__ of the class, then the lock. Elsewhere the lock may be an argument. d_type, d_name.
        const auto type = types_.TypeOfObject(below);
        const uint64_t name = ReadValue<uint64_t>(memory_, below + head + 8).value_or(0);
        if (type && type->name == "method_descriptor" && ReadString(layout, memory_, name, kMaxNameBytes) == "__exit__")
          ++unbound;
      }
      // PyCFunctionObject: m_ml, m_self behind the head; a PyMethodDef begins with its name.
      if (ReadValue<uint64_t>(memory_, slot + head + 8).value_or(0) != address) continue;
      const auto type = types_.TypeOfObject(slot);
      if (!type || type->name != "builtin_function_or_method") continue;
      const uint64_t definition = ReadValue<uint64_t>(memory_, slot + head).value_or(0);
      const uint64_t name = IsUserAddress(definition) ? ReadValue<uint64_t>(memory_, definition).value_or(0) : 0;
      if (ReadCString(memory_, name, 16) == "__exit__") methods.insert(slot);
    }
  }
  return static_cast<int>(methods.size()) + unbound;
}

}  // namespace cowprof
