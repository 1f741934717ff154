// Who is in a `with` statement of a lock, from the stacks of values of made-up frames. tests/system/test_hang.py tries
// real processes.
#include "python/locks.h"

#include <catch2/catch.hpp>

#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kThread = 0x30000, kFrame = 0x31000, kCode = 0x32000, kLock = 0x33000, kOther = 0x34000;
constexpr uint64_t kExit = 0x35000, kAcquire = 0x36000;
constexpr uint64_t kLockType = 0x13000, kDescriptorType = 0x14000;

// A thread of 3.14 in one frame, which has no locals.
class Thread314 : public PythonMemory {
 public:
  Thread314() {
    interpreter_.layout = LayoutOf(14, 5, false);
    AddType(kLockType, kTypeType, "_thread.lock", kStaticFlags);
    AddType(kDescriptorType, kTypeType, "method_descriptor", kStaticFlags);
    for (const uint64_t lock : {kLock, kOther}) AddObject(lock, kLockType);
    AddDescriptor(kExit, "__exit__");
    AddDescriptor(kAcquire, "acquire");
    AddObject(kCode, kCodeType);
    Word(kCode + 64, 16);  // stack_size
    Word(kThread + layout().thread.frame, kFrame);
  }
  int Count(const std::vector<uint64_t>& stack) {
    const uint64_t bottom = kFrame + layout().frame.locals;
    Add(kFrame, std::string(256, '\0'));
    Word(kFrame, kCode);
    Word(kFrame + 64, bottom + 8 * stack.size());                                  // stackpointer
    for (size_t i = 0; i < stack.size(); ++i) Word(bottom + 8 * i, stack[i] | 1);  // _PyStackRef: borrowed
    return LockReader(interpreter_, *this).CountWithStatements({.address = kThread}, kLock);
  }

 private:
  void AddObject(uint64_t address, uint64_t type) {
    Add(address, std::string(256, '\0'));
    Word(address, 1);
    Word(address + layout().object.type, type);
  }
  void AddDescriptor(uint64_t address, const std::string& name) {
    AddObject(address, kDescriptorType);
    Word(address + 24, address + 512);  // d_name
    AddStr(address + 512, name);
  }
};

struct ImportFrame {
  std::string function, file, module;  // module: its local variable `name`; "": it has none
};

// A thread of 3.11 in these frames, innermost first.
class ImportStack : public PythonMemory {
 public:
  static constexpr uint64_t kCframe = 0x31000, kFrames = 0x500000, kCodes = 0x600000, kNames = 0x700000;
  static constexpr uint64_t kModules = 0x800000;

  explicit ImportStack(const std::vector<ImportFrame>& frames) {
    Add(kThread, std::string(256, '\0'));
    Word(kThread + layout().thread.frame, kCframe);
    Word(kCframe + layout().thread.frame_hop, kFrames);
    Word(kNames + layout().object.var_size, 1);
    Word(kNames + layout().container.tuple_items, kNames + 0x100);
    AddStr(kNames + 0x100, "name");
    for (size_t i = 0; i < frames.size(); ++i) {
      const uint64_t frame = kFrames + 0x1000 * i, code = kCodes + 0x10000 * i, module = kModules + 0x1000 * i;
      AddCode(code, frames[i]);
      Add(frame, std::string(1024, '\0'));
      Word(frame + layout().frame.code, code);
      Word(frame + layout().frame.previous, i + 1 < frames.size() ? frame + 0x1000 : 0);
      if (frames[i].module.empty()) continue;
      AddStr(module, frames[i].module);
      Word(code + layout().code.locals, kNames);
      Word(frame + layout().frame.locals, module);
    }
  }
  bool IsWithin(const char* module) {
    return LockReader(interpreter_, *this).IsWithinImport({.address = kThread}, module);
  }

 private:
  void AddCode(uint64_t address, const ImportFrame& frame) {
    Add(address, std::string(512, '\0'));
    Word(address + layout().object.type, kCodeType);
    AddStr(address + 0x1000, frame.function);
    AddStr(address + 0x2000, frame.file);
    Add(address + 0x3000, std::string(64, '\0'));  // no lines
    Word(address + layout().code.name, address + 0x1000);
    Word(address + layout().code.qualname, address + 0x1000);
    Word(address + layout().code.filename, address + 0x2000);
    Word(address + layout().code.line_table, address + 0x3000);
  }
};

}  // namespace

TEST_CASE("python locks: a thread is within an import while an extension is loaded, not while it waits for its lock") {
  constexpr const char* kFile = "<frozen importlib._bootstrap>";
  const ImportFrame find = {"_find_and_load", kFile, "ext"}, main = {"<module>", "/app/main.py", ""};
  ImportStack loads({{"ExtensionFileLoader.create_module", "<frozen importlib._bootstrap_external>", ""},
                     {"_load_unlocked", kFile, ""},
                     find,
                     main});
  CHECK(loads.IsWithin("ext"));
  CHECK_FALSE(loads.IsWithin("other"));
  const ImportFrame acquire = {"_ModuleLock.acquire", kFile, ""};
  CHECK_FALSE(ImportStack({acquire, find, main}).IsWithin("ext"));
  ImportStack nested({acquire, {"_find_and_load", kFile, "inner"}, {"_load_unlocked", kFile, ""}, find, main});
  CHECK(nested.IsWithin("ext"));
  CHECK_FALSE(nested.IsWithin("inner"));
  CHECK_FALSE(ImportStack({{"_find_and_load", "/app/loader.py", "ext"}, main}).IsWithin("ext"));
}

TEST_CASE("python locks: a with statement of 3.14 has the class's __exit__ below the lock") {
  Thread314 thread;
  CHECK(thread.Count({kExit, kLock}) == 1);
  CHECK(thread.Count({kLock, kExit, kLock, kAcquire, kLock}) == 1);
  CHECK(thread.Count({kExit, kLock, kExit, kLock}) == 2);
}

TEST_CASE("python locks: a lock that is only an argument is in no with statement") {
  Thread314 thread;
  CHECK(thread.Count({kAcquire, kLock}) == 0);          // lock.acquire(timeout=60)
  CHECK(thread.Count({kCode, 0, kLock, kOther}) == 0);  // f(lock, g())
  CHECK(thread.Count({kLock, kExit, kOther}) == 0);     // of another lock
  CHECK(thread.Count({}) == 0);
}

TEST_CASE("python locks: a child has new locks in place of logging's and of two others of the library") {
  constexpr uint64_t kInterpreter = 0x40000, kModules = 0x42000, kModule = 0x44000, kGlobals = 0x46000;
  constexpr uint64_t kModuleType = 0x15000;
  Thread314 memory;
  memory.AddType(kModuleType, Thread314::kTypeType, "module", Thread314::kStaticFlags);
  memory.interpreter_.main_interpreter = kInterpreter;
  memory.Word(kInterpreter + memory.layout().interpreter.modules, kModules);
  memory.AddDict(kModules, {{"threading", kModule}});
  memory.Word(kModule + memory.layout().object.type, kModuleType);
  memory.Word(kModule + StateLayoutOf(memory.layout()).module_dict, kGlobals);
  memory.AddDict(kGlobals, {{"_active_limbo_lock", kLock}});
  const LockReader locks(memory.interpreter(), memory);
  const auto is_new = [&](uint64_t lock, const char* file) {
    return locks.IsNewInChild({.lock = {.address = lock}, .where = {file, "f", 3}});
  };
  CHECK(is_new(kOther, "/usr/lib/python3.13/logging/__init__.py"));  // Handler.handle() since 3.13
  CHECK_FALSE(is_new(kOther, "/app/emit.py"));                       // of a handler's own emit()
  CHECK(is_new(kLock, "/usr/lib/python3.13/threading.py"));
  CHECK_FALSE(is_new(kOther, "/usr/lib/python3.13/threading.py"));  // of an Event
}

TEST_CASE("python locks: a rwlock of glibc names the thread that writes") {
  // readers, writers, wrphase_futex, writers_futex, padding, cur_writer, shared
  const auto owner = [](std::vector<int32_t> fields) {
    PythonMemory memory;
    memory.Add(kLock, std::string(reinterpret_cast<const char*>(fields.data()), 4 * fields.size()));
    return OwnerOfRwlock(memory, kLock);
  };
  CHECK(owner({3, 0, 3, 1, 0, 0, 4711, 0}) == 4711);
  CHECK(owner({3 + 8, 1, 1, 3, 0, 0, 4711, 0}) == 4711);  // a reader waits, too
  CHECK_FALSE(owner({3, 0, 3, 1, 0, 0, 0, 0}));           // the writer is just coming or going
  CHECK_FALSE(owner({2 + 8, 1, 0, 3, 0, 0, 0, 0}));       // readers have it, a writer waits
  CHECK_FALSE(owner({3, 0, 3, 1, 0, 0, 4711, 1}));        // shared with other processes
  CHECK_FALSE(owner({3, 0, 3, 1, 7, 0, 4711, 0}));
  CHECK_FALSE(OwnerOfRwlock(PythonMemory(), kLock));
}

}  // namespace cowprof
