// torch_worker.cc on the frame of a PyTorch worker's loop, on look-alikes, and on unreadable memory.
#include "python/torch_worker.h"

#include <catch2/catch.hpp>

#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kInterpreter = 0x50000, kThread = 0x30000, kCframe = 0x31000, kOuter = 0x100000, kLoop = 0x100400;
constexpr uint64_t kCode = 0x200000, kNames = 0x300000, kText = 0x400000, kBoolType = 0x60000, kTrue = 0x61000,
                   kFalse = 0x61100;
constexpr const char* kFile = "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py";

// A thread in a function that the loop called.
class Worker : public PythonMemory {
 public:
  explicit Worker(uint64_t persistent, const std::string& function = "_worker_loop", const std::string& file = kFile) {
    Add(kInterpreter, std::string(1024, '\0'));
    Add(kThread, std::string(256, '\0'));
    interpreter_.main_interpreter = kInterpreter;
    Word(kInterpreter + layout().interpreter.threads_head, kThread);
    Word(kThread + layout().thread.interpreter, kInterpreter);
    Word(kThread + layout().thread.frame, kCframe);
    Word(kCframe + layout().thread.frame_hop, kOuter);
    AddCode(kCode, "get", "queue.py");
    AddCode(kCode + 0x10000, function, file);
    AddFrame(kOuter, kLoop, kCode);
    AddFrame(kLoop, 0, kCode + 0x10000);
    AddNames({"dataset", "worker_id", "persistent_workers", "watchdog"});
    Word(kLoop + layout().frame.locals + 16, persistent);
    AddType(kBoolType, kTypeType, "bool", kStaticFlags);
    AddBool(kTrue, 1);
    AddBool(kFalse, 0);
  }
  void AddBool(uint64_t address, uint64_t value) {
    Add(address, std::string(64, '\0'));
    Word(address, 1000);
    Word(address + layout().object.type, kBoolType);
    Word(address + layout().object.var_size, value);
    Word(address + layout().object.var_size + 8, value);
  }
  std::optional<bool> Ask() const { return PersistentWorkers(interpreter_, *this); }

 private:
  void AddFrame(uint64_t address, uint64_t previous, uint64_t code) {
    Add(address, std::string(512, '\0'));
    Word(address + layout().frame.code, code);
    Word(address + layout().frame.previous, previous);
  }
  void AddCode(uint64_t address, const std::string& name, const std::string& file) {
    Add(address, std::string(512, '\0'));
    Word(address + 8, kCodeType);
    AddStr(address + 0x1000, name);
    AddStr(address + 0x2000, file);
    Word(address + layout().code.name, address + 0x1000);
    Word(address + layout().code.filename, address + 0x2000);
    Word(address + layout().code.locals, kNames);
  }
  void AddNames(const std::vector<std::string>& names) {
    Add(kNames, std::string(256, '\0'));
    Word(kNames + layout().object.var_size, names.size());
    for (size_t i = 0; i < names.size(); ++i) {
      AddStr(kText + 256 * i, names[i]);
      Word(kNames + layout().container.tuple_items + 8 * i, kText + 256 * i);
    }
  }
};

}  // namespace

TEST_CASE("torch worker: the argument of its loop") {
  CHECK(Worker(kTrue).Ask() == true);
  CHECK(Worker(kFalse).Ask() == false);
}

TEST_CASE("torch worker: not a worker") {
  CHECK_FALSE(Worker(kTrue, "_worker_loop", "/home/me/worker.py").Ask().has_value());
  CHECK_FALSE(Worker(kTrue, "_worker_loop_of_mine").Ask().has_value());
  CHECK_FALSE(Worker(kTrue, "main").Ask().has_value());
}

TEST_CASE("torch worker: a value that is not a bool or unreadable is unknown") {
  for (const uint64_t object : {uint64_t{0}, uint64_t{0x7000'0000'0000}, kTrue + 1, kText, kBoolType, UINT64_MAX})
    CHECK_FALSE(Worker(object).Ask().has_value());
  Worker odd(kTrue);
  odd.Word(kTrue + odd.layout().object.var_size + 8, 2);
  CHECK_FALSE(odd.Ask().has_value());
  Worker nameless(kTrue);
  nameless.Word(kNames + nameless.layout().object.var_size, 2);  // a torch without the argument
  CHECK_FALSE(nameless.Ask().has_value());
  nameless.Word(kNames + nameless.layout().object.var_size, UINT64_MAX);  // impossible: read up to the limit
  CHECK(nameless.Ask() == true);
  nameless.Word(kCode + 0x10000 + nameless.layout().code.locals, 0x7000'0000'0000);
  CHECK_FALSE(nameless.Ask().has_value());
  Worker unknown(kTrue);
  unknown.interpreter_.layout.usable = false;
  CHECK_FALSE(unknown.Ask().has_value());
}

TEST_CASE("torch worker: references are tagged since 3.14") {
  Worker worker(kTrue | 1);
  worker.interpreter_.layout.frame.code_tag_mask = 7;
  CHECK(worker.Ask() == true);
}

}  // namespace cowprof
