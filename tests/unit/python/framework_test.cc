// framework.cc on the frames of each framework, on look-alikes, and on unreadable memory.
#include "python/framework.h"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kInterpreter = 0x50000, kThread = 0x30000, kCframe = 0x31000, kFrames = 0x100000, kCodes = 0x200000;

// A thread in these functions, innermost first: {name, file}.
class Stack : public PythonMemory {
 public:
  explicit Stack(const std::vector<std::pair<std::string, std::string>>& functions) {
    Add(kInterpreter, std::string(1024, '\0'));
    Add(kThread, std::string(256, '\0'));
    interpreter_.main_interpreter = kInterpreter;
    Word(kInterpreter + layout().interpreter.threads_head, kThread);
    Word(kThread + layout().thread.interpreter, kInterpreter);
    Word(kThread + layout().thread.frame, kCframe);
    Word(kCframe + layout().thread.frame_hop, functions.empty() ? 0 : kFrames);
    for (size_t i = 0; i < functions.size(); ++i) {
      const uint64_t frame = kFrames + 0x1000 * i, code = kCodes + 0x10000 * i;
      Add(frame, std::string(512, '\0'));
      Word(frame + layout().frame.code, code);
      Word(frame + layout().frame.previous, i + 1 < functions.size() ? frame + 0x1000 : 0);
      Add(code, std::string(512, '\0'));
      Word(code + 8, kCodeType);
      AddStr(code + 0x1000, functions[i].first);
      AddStr(code + 0x2000, functions[i].second);
      Word(code + layout().code.name, code + 0x1000);
      Word(code + layout().code.filename, code + 0x2000);
    }
  }
  std::optional<Framework> Ask() const { return FrameworkOf(interpreter_, *this); }
};

}  // namespace

TEST_CASE("framework: the innermost one on the stack") {
  const std::string lib = "/usr/lib/python3.11", packages = "/venv/lib/python3.11/site-packages";
  const std::pair<std::string, std::string> gunicorn = {"run", packages + "/gunicorn/arbiter.py"},
                                            pool = {"worker", lib + "/multiprocessing/pool.py"};
  CHECK(Stack({{"get", lib + "/queue.py"}, pool}).Ask() == Framework::kPool);
  CHECK(Stack({{"_process_worker", lib + "/concurrent/futures/process.py"}}).Ask() == Framework::kExecutor);
  CHECK(Stack({{"_process_worker", packages + "/joblib/externals/loky/process_executor.py"}}).Ask() ==
        Framework::kJoblib);
  CHECK(Stack({{"_worker_loop", packages + "/torch/utils/data/_utils/worker.py"}}).Ask() == Framework::kDataLoader);
  CHECK(Stack({{"worker", packages + "/celery/bin/worker.py"}}).Ask() == Framework::kCelery);
  CHECK(Stack({{"accept", packages + "/gunicorn/workers/sync.py"}, gunicorn}).Ask() == Framework::kGunicorn);
  CHECK(Stack({pool, gunicorn}).Ask() == Framework::kPool);
}

TEST_CASE("framework: look-alikes are none") {
  CHECK_FALSE(Stack({}).Ask().has_value());
  CHECK_FALSE(Stack({{"worker", "/home/me/pool.py"}}).Ask().has_value());
  CHECK_FALSE(Stack({{"run", "/home/me/my_gunicorn/arbiter.py"}}).Ask().has_value());
  // Those who use a pool are not in it.
  CHECK_FALSE(Stack({{"map", "/usr/lib/python3.11/multiprocessing/pool.py"}}).Ask().has_value());
  CHECK_FALSE(Stack({{"worker", ""}}).Ask().has_value());
}

TEST_CASE("framework: unreadable memory is none") {
  Stack stack({{"worker", "/usr/lib/python3.11/multiprocessing/pool.py"}});
  stack.Word(kCodes + stack.layout().code.filename, 0x7000'0000'0000);
  CHECK_FALSE(stack.Ask().has_value());
  Stack unknown({{"worker", "/usr/lib/python3.11/multiprocessing/pool.py"}});
  CHECK(unknown.Ask() == Framework::kPool);
  unknown.interpreter_.layout.usable = false;
  CHECK_FALSE(unknown.Ask().has_value());
}

}  // namespace cowprof
