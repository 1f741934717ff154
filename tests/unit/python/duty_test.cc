// duty.cc on the frames of workers, forkservers, trackers and frameworks, on look-alikes, and on unreadable memory.
#include "python/duty.h"

#include <algorithm>
#include <catch2/catch.hpp>

#include "python_memory.h"

namespace cowprof {
namespace {

constexpr uint64_t kInterpreter = 0x50000, kThread = 0x30000, kCframe = 0x31000, kFrames = 0x100000;
constexpr uint64_t kCodes = 0x200000, kNames = 0x300000, kText = 0x400000, kBoolType = 0x60000, kIntType = 0x64000,
                   kTrue = 0x61000, kFalse = 0x61100, kInts = 0x62000;
constexpr const char* kTorch = "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py";
constexpr const char* kLib = "/usr/lib/python3.11/multiprocessing/";
constexpr const char* kCopy = "/venv/lib/python3.11/site-packages/multiprocess/";  // of multiprocessing

struct Call {
  std::string function, file;
};
std::string Lib(const std::string& file) { return kLib + file; }

// The main thread of a process, with a stack of calls, outermost first.
class Stack : public PythonMemory {
 public:
  explicit Stack(std::vector<Call> calls) {
    Add(kInterpreter, std::string(1024, '\0'));
    interpreter_.main_interpreter = kInterpreter;
    AddType(kBoolType, kTypeType, "bool", kStaticFlags);
    AddType(kIntType, kTypeType, "int", kStaticFlags);
    AddThread(calls);
  }
  // One that was started later. Its frames are numbered after those of the others.
  void AddThread(const std::vector<Call>& calls) {
    const uint64_t thread = kThread + 0x200 * threads_, cframe = kCframe + 0x200 * threads_;
    Add(thread, std::string(256, '\0'));
    Word(thread + layout().thread.next, threads_ == 0 ? 0 : thread - 0x200);  // the newest is first
    Word(kInterpreter + layout().interpreter.threads_head, thread);
    Word(thread + layout().thread.interpreter, kInterpreter);
    Word(thread + layout().thread.frame, cframe);
    Word(cframe + layout().thread.frame_hop, calls.empty() ? 0 : FrameAt(depth_));
    const size_t end = depth_ + calls.size();
    for (size_t i = depth_; i < end; ++i) {
      const Call& call = calls[end - 1 - i];
      AddCode(CodeAt(i), call.function, call.file);
      Add(FrameAt(i), std::string(1024, '\0'));
      Word(FrameAt(i) + layout().frame.code, CodeAt(i));
      Word(FrameAt(i) + layout().frame.previous, i + 1 < end ? FrameAt(i + 1) : 0);
    }
    depth_ = end;
    ++threads_;
  }
  // By its distance from the innermost.
  static uint64_t FrameAt(size_t i) { return kFrames + 0x1000 * i; }
  static uint64_t CodeAt(size_t i) { return kCodes + 0x10000 * i; }
  RawFrame Raw(size_t i) const { return {.frame = FrameAt(i), .code = CodeAt(i)}; }

  void AddInt(uint64_t address, uint64_t type, uint64_t value) {
    Add(address, std::string(64, '\0'));
    Word(address, 1000);
    Word(address + layout().object.type, type);
    Word(address + layout().object.var_size, value == 0 ? 0 : 1);
    Word(address + layout().object.var_size + 8, value);
  }
  // The locals of a frame; 0: unset.
  void SetLocals(size_t frame, const std::vector<std::pair<std::string, uint64_t>>& locals) {
    Add(kNames, std::string(256, '\0'));
    Word(CodeAt(frame) + layout().code.locals, kNames);
    Word(kNames + layout().object.var_size, locals.size());
    for (size_t i = 0; i < locals.size(); ++i) {
      AddStr(kText + 256 * i, locals[i].first);
      Word(kNames + layout().container.tuple_items + 8 * i, kText + 256 * i);
      Word(FrameAt(frame) + layout().frame.locals + 8 * i, locals[i].second);
    }
  }
  std::optional<DutyFound> Duty() const {
    const std::optional<DutyFrame> found = FindWork(interpreter_, *this).duty;
    return found ? std::optional(found->found) : std::nullopt;
  }
  std::optional<Framework> RunsUnder() const { return FindWork(interpreter_, *this).framework; }

 private:
  void AddCode(uint64_t address, const std::string& name, const std::string& file) {
    Add(address, std::string(512, '\0'));
    Word(address + 8, kCodeType);
    AddStr(address + 0x1000, name.substr(name.rfind('.') + 1));
    AddStr(address + 0x2000, file);
    AddStr(address + 0x3000, name);
    Add(address + 0x4000, std::string(64, '\0'));  // no lines
    Word(address + layout().code.name, address + 0x1000);
    Word(address + layout().code.qualname, address + 0x3000);
    Word(address + layout().code.filename, address + 0x2000);
    Word(address + layout().code.line_table, address + 0x4000);
  }

  size_t depth_ = 0, threads_ = 0;
};

// A DataLoader's worker in a function that its loop called.
class Worker : public Stack {
 public:
  explicit Worker(uint64_t persistent, const std::string& function = "_worker_loop", const std::string& file = kTorch)
      : Stack({{"<module>", "train.py"},
               {"BaseProcess._bootstrap", Lib("process.py")},
               {function, file},
               {"get", "queue.py"}}) {
    SetLocals(1, {{"dataset", 0},
                  {"worker_id", kInts},
                  {"persistent_workers", persistent},
                  {"num_workers", kInts + 0x100},
                  {"idx", kInts + 0x200}});
    AddInt(kTrue, kBoolType, 1);
    AddInt(kFalse, kBoolType, 0);
    for (uint64_t i = 0; i < 3; ++i) AddInt(kInts + 0x100 * i, kIntType, 1 + 3 * i);
  }
  std::optional<bool> Ask() const {
    const std::optional<DutyFrame> found = FindWork(interpreter_, *this).duty;
    return found ? PersistentWorkers(interpreter_, *this, found->frame) : std::nullopt;
  }
  std::optional<LoaderWorker> Loader(LoaderLocals known = {}) const {
    return ReadLoader(interpreter_, *this, Raw(1), &known);
  }
  RawFrame Loop() const { return Raw(1); }
};

DutyFound Found(Duty duty, StartMethod start = StartMethod::kUnknown) {
  return {.start = start, .duty = duty, .number = {}};
}

// The thread that keeps the workers of a pool, beside the main thread.
class Keeper : public Stack {
 public:
  Keeper(const std::string& function, const std::string& queue, uint64_t processes, const std::string& folder = kLib)
      : Stack({{"<module>", "train.py"}, {"Pool.map", folder + "pool.py"}}) {
    AddThread({{"Thread._bootstrap", "/usr/lib/python3.11/threading.py"},
               {function, folder + "pool.py"},
               {"wait", folder + "connection.py"}});
    AddType(kQueueType, kTypeType, queue, kStaticFlags);
    Add(kQueue, std::string(64, '\0'));
    Word(kQueue, 1000);
    Word(kQueue + layout().object.type, kQueueType);
    AddInt(kInts, kIntType, processes);
    SetLocals(3, {{"cache", 0}, {"processes", kInts}, {"pool", 0}, {"inqueue", kQueue}});
  }

 private:
  static constexpr uint64_t kQueueType = 0x68000, kQueue = 0x6a000;
};

// gunicorn's arbiter in each of its frames, innermost first: one that keeps 4 workers, or one of a million attributes.
class Arbiters : public Stack {
 public:
  explicit Arbiters(const std::vector<bool>& huge)
      : Stack(std::vector<Call>(huge.size(), {"Arbiter.run", "/x/gunicorn/arbiter.py"})) {
    AddType(kArbiter, kTypeType, "gunicorn.arbiter.Arbiter", kStaticFlags);
    AddBases(kArbiter, {kArbiter});
    Word(kArbiter + StateLayoutOf(layout()).dict_offset, 16);
    AddInt(kInts, kIntType, 4);
    AddDict(kSmallDict, {{"_num_workers", kInts}});
    AddDict(kHugeDict, {});
    Word(kHugeDict + layout().container.dict_keys, kTable);
    Add(kTable, std::string(4096, '\0'));
    Word(kTable + 8, 20 | 3 << 8 | 1 << 16);  // as in AddDict()
    Word(kTable + 24, 1 << 20);
    for (const auto& [self, dict] : {std::pair{kSmall, kSmallDict}, {kHuge, kHugeDict}}) {
      Add(self, std::string(64, '\0'));
      Word(self, 1);
      Word(self + layout().object.type, kArbiter);
      Word(self + 16, dict);
    }
    for (size_t i = 0; i < huge.size(); ++i) SetLocals(i, {{"self", huge[i] ? kHuge : kSmall}});
  }
  bool Read(uint64_t address, absl::Span<char> bytes) const override {
    if (address >= kTable) read_of_table_ += bytes.size();
    if (address < kTable + 4096) return Stack::Read(address, bytes);
    std::fill(bytes.begin(), bytes.end(), '\0');
    return true;
  }
  mutable uint64_t read_of_table_ = 0;

 private:
  static constexpr uint64_t kArbiter = 0x6c000, kSmall = 0x70000, kHuge = 0x70100, kSmallDict = 0x71000,
                            kHugeDict = 0x73000, kTable = 0x100'0000'0000;
};

}  // namespace

TEST_CASE("who keeps workers: the innermost frame is asked, and an object of a million attributes is not searched") {
  const Arbiters usual({false});
  CHECK(usual.Duty() == DutyFound{.configured = 4u});
  CHECK(Arbiters({false, true}).Duty() == usual.Duty());
  const Arbiters hostile({true, false});
  CHECK_FALSE(hostile.Duty());
  CHECK((hostile.read_of_table_ > 0 && hostile.read_of_table_ < 1 << 20));
}

TEST_CASE("who keeps workers: as many as its pool is to have") {
  const std::optional<DutyFound> found = Keeper("Pool._handle_workers", "multiprocessing.queues.SimpleQueue", 6).Duty();
  REQUIRE(found);
  CHECK(*found == DutyFound{.configured = 6u});
  CHECK(Keeper("_handle_workers", "multiprocessing.queues.SimpleQueue", 6).Duty() == found);  // co_name, up to 3.10
  CHECK(Keeper("Pool._handle_workers", "multiprocess.queues.SimpleQueue", 6, kCopy).Duty() == found);
  // A ThreadPool, another function, no number.
  CHECK_FALSE(Keeper("Pool._handle_workers", "_queue.SimpleQueue", 6, kCopy).Duty());
  CHECK_FALSE(Keeper("Pool._handle_workers", "_queue.SimpleQueue", 6).Duty());
  CHECK_FALSE(Keeper("Pool._handle_tasks", "multiprocessing.queues.SimpleQueue", 6).Duty());
  CHECK_FALSE(Keeper("Pool._handle_workers", "multiprocessing.queues.SimpleQueue", 0).Duty());
  Stack threads({{"<module>", "train.py"}});
  threads.AddThread({{"Thread._bootstrap", "/usr/lib/python3.11/threading.py"}, {"worker", Lib("pool.py")}});
  CHECK_FALSE(threads.Duty());
  CHECK_FALSE(threads.RunsUnder());
}

TEST_CASE("torch worker: the argument of its loop") {
  CHECK(Worker(kTrue).Ask() == true);
  CHECK(Worker(kFalse).Ask() == false);
}

TEST_CASE("torch worker: not a worker") {
  CHECK_FALSE(Worker(kTrue, "_worker_loop", "/home/me/worker.py").Ask().has_value());
  CHECK_FALSE(Worker(kTrue, "_worker_loop_of_mine").Ask().has_value());
  CHECK(Worker(kTrue, "_process_worker_loop").Ask().has_value());
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
  nameless.Word(Stack::CodeAt(1) + nameless.layout().code.locals, 0x7000'0000'0000);
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

TEST_CASE("torch worker: its number, the number of workers, the batch") {
  Worker worker(kTrue);
  CHECK(worker.Loader() == LoaderWorker{.worker_id = 1, .num_workers = 4, .batch = 7u});
  // What is known is not looked for again, except in other code or another frame.
  const LoaderLocals known = {
      .code = worker.Loop().code, .frame = worker.Loop().frame, .batch = 3, .worker_id = 2, .num_workers = 5};
  CHECK(worker.Loader(known) == LoaderWorker{.worker_id = 2, .num_workers = 5, .batch = 4u});
  LoaderLocals of_other_code = known, of_other_frame = known;
  of_other_code.code += 8;
  of_other_frame.frame += 8;
  CHECK(worker.Loader(of_other_code) == worker.Loader());
  CHECK(worker.Loader(of_other_frame) == worker.Loader());
  worker.SetLocals(1, {{"worker_id", kInts}, {"num_workers", kInts + 0x100}, {"idx", 0}});  // between two batches
  CHECK(worker.Loader() == LoaderWorker{.worker_id = 1, .num_workers = 4, .batch = {}});
}

TEST_CASE("torch worker: impossible numbers are ignored") {
  Worker worker(kTrue);
  worker.AddInt(kInts, kIntType, 4);  // worker 4 of 4
  CHECK_FALSE(worker.Loader().has_value());
  worker.AddInt(kInts, kBoolType, 1);
  CHECK_FALSE(worker.Loader().has_value());
  worker.AddInt(kInts, kIntType, 1);
  worker.AddInt(kInts + 0x200, kIntType, uint64_t{1} << 30);
  CHECK_FALSE(worker.Loader()->batch.has_value());
  worker.AddInt(kInts + 0x200, kIntType, 9);
  worker.Word(kInts + 0x200 + worker.layout().object.var_size, UINT64_MAX);  // negative, or an int of many digits
  CHECK_FALSE(worker.Loader()->batch.has_value());
  worker.Word(Stack::FrameAt(1) + worker.layout().frame.code, Stack::CodeAt(0));  // the frame is another's by now
  CHECK_FALSE(worker.Loader().has_value());
}

TEST_CASE("torch worker: ints have a tag since 3.12") {
  Worker worker(kTrue);
  worker.interpreter_.layout.minor = 12;
  const uint64_t size = worker.layout().object.var_size;
  for (uint64_t i = 0; i < 3; ++i) worker.Word(kInts + 0x100 * i + size, 1 << 3);
  worker.Word(kInts + size, 1);  // zero
  CHECK(worker.Loader() == LoaderWorker{.worker_id = 0, .num_workers = 4, .batch = 7u});
  worker.Word(kInts + 0x200 + size, 1 << 3 | 2);  // -7
  CHECK_FALSE(worker.Loader()->batch.has_value());
}

TEST_CASE("what a process is for") {
  const Call bootstrap = {"BaseProcess._bootstrap", Lib("process.py")}, spawn = {"spawn_main", Lib("spawn.py")},
             run = {"BaseProcess.run", Lib("process.py")}, serve = {"main", Lib("forkserver.py")},
             serve_one = {"_serve_one", Lib("forkserver.py")}, main = {"<module>", "/home/me/train.py"};
  CHECK(Stack({main, serve}).Duty() == Found(Duty::kForkserver));
  CHECK(Stack({main, serve, serve_one}).Duty() == Found(Duty::kUnknown, StartMethod::kForkserver));
  CHECK(Stack({main, serve, serve_one, bootstrap, {"worker", Lib("pool.py")}}).Duty() ==
        Found(Duty::kPool, StartMethod::kForkserver));
  CHECK(Stack({main, spawn, bootstrap, run, {"_worker_loop", kTorch}, {"get", "queue.py"}}).Duty() ==
        Found(Duty::kLoader, StartMethod::kSpawn));
  CHECK(Stack({main, {"main", Lib("resource_tracker.py")}}).Duty() == Found(Duty::kTracker));
  CHECK(Stack({main, bootstrap, run, {"BaseManager._run_server", Lib("managers.py")}}).Duty() == Found(Duty::kManager));
  CHECK(Stack({{"<module>", "/x/loky/backend/popen_loky_posix.py"},
               bootstrap,
               {"_process_worker", "/x/loky/process_executor.py"}})
            .Duty() == Found(Duty::kPool, StartMethod::kLoky));
}

TEST_CASE("what a process of multiprocess is for, the copy of multiprocessing in pathos and datasets") {
  const auto in_copy = [](const char* function, const char* file) { return Call{function, std::string(kCopy) + file}; };
  const Call main = {"<module>", "/home/me/train.py"}, bootstrap = in_copy("BaseProcess._bootstrap", "process.py");
  const Stack pool({main, bootstrap, in_copy("worker", "pool.py"), in_copy("SimpleQueue.get", "queues.py")});
  CHECK(pool.Duty() == Found(Duty::kPool));
  CHECK(pool.RunsUnder() == Framework::kPool);
  CHECK(Stack({main, bootstrap, in_copy("BaseManager._run_server", "managers.py")}).Duty() == Found(Duty::kManager));
  CHECK(Stack({main, in_copy("main", "resource_tracker.py")}).Duty() == Found(Duty::kTracker));
  CHECK(Stack({main, in_copy("main", "forkserver.py")}).Duty() == Found(Duty::kForkserver));
  CHECK(Stack({main, in_copy("spawn_main", "spawn.py"), bootstrap, in_copy("worker", "pool.py")}).Duty() ==
        Found(Duty::kPool, StartMethod::kSpawn));
  // A process that a Manager's server forks inherits its frames, but does not serve.
  CHECK_FALSE(Stack({main, bootstrap, in_copy("BaseManager._run_server", "managers.py"), bootstrap, {"f", "f.py"}})
                  .Duty()
                  .has_value());
  // A program's own.
  CHECK_FALSE(Stack({main, {"worker", "/home/me/multiprocess/pool.py"}}).Duty().has_value());
}

TEST_CASE("what a process is not for") {
  const Call bootstrap = {"BaseProcess._bootstrap", Lib("process.py")};
  CHECK_FALSE(Stack({{"main", "/home/me/forkserver.py"}}).Duty().has_value());
  CHECK_FALSE(Stack({{"worker", "/home/me/pool.py"}}).Duty().has_value());
  CHECK_FALSE(Stack({{"main", "/home/me/train.py"}, {"helper", "/home/me/train.py"}}).Duty().has_value());
  // What is outside of the bootstrap is the work of the process that forked it.
  CHECK_FALSE(Stack({{"_wrap", "/x/torch/multiprocessing/spawn.py"}, bootstrap, {"f", "f.py"}}).Duty().has_value());
  CHECK(Stack({{"_worker_loop", kTorch}, bootstrap, {"worker", Lib("pool.py")}}).Duty() == Found(Duty::kPool));
}

TEST_CASE("the process that torch.multiprocessing.spawn started, and its number") {
  Stack stack({{"BaseProcess._bootstrap", Lib("process.py")}, {"_wrap", "/x/torch/multiprocessing/spawn.py"}});
  CHECK(stack.Duty() == Found(Duty::kTrainer));
  stack.AddInt(kInts, kIntType, 3);
  stack.SetLocals(0, {{"fn", 0}, {"i", kInts}});
  CHECK(stack.Duty() == DutyFound{.start = StartMethod::kUnknown, .duty = Duty::kTrainer, .number = 3u});
}

TEST_CASE("a thread that was started later is asked for what the main thread does not say") {
  const Call bootstrap = {"BaseProcess._bootstrap", Lib("process.py")}, pool = {"worker", Lib("pool.py")},
             serve = {"main", Lib("forkserver.py")};
  Stack quiet({bootstrap, {"f", "f.py"}});
  quiet.AddThread({pool});
  CHECK(quiet.Duty() == Found(Duty::kPool));
  CHECK(quiet.RunsUnder() == Framework::kPool);
  Stack busy({serve});
  busy.AddThread({pool});
  CHECK(busy.Duty() == Found(Duty::kForkserver));
  CHECK(busy.RunsUnder() == Framework::kPool);
  Stack celery({{"worker", "/x/celery/bin/worker.py"}});
  celery.AddThread({pool});
  CHECK(celery.Duty() == Found(Duty::kPool));
  CHECK(celery.RunsUnder() == Framework::kCelery);
}

TEST_CASE("framework: the innermost one on the stack") {
  const std::string packages = "/venv/lib/python3.11/site-packages";
  const Call gunicorn = {"Arbiter.run", packages + "/gunicorn/arbiter.py"}, pool = {"worker", Lib("pool.py")};
  CHECK(Stack({pool, {"get", Lib("queues.py")}}).RunsUnder() == Framework::kPool);
  CHECK(Stack({{"_process_worker", "/usr/lib/python3.11/concurrent/futures/process.py"}}).RunsUnder() ==
        Framework::kExecutor);
  CHECK(Stack({{"_process_worker", packages + "/joblib/externals/loky/process_executor.py"}}).RunsUnder() ==
        Framework::kJoblib);
  CHECK(Stack({{"_worker_loop", packages + "/torch/utils/data/_utils/worker.py"}}).RunsUnder() ==
        Framework::kDataLoader);
  CHECK(Stack({{"worker", packages + "/celery/bin/worker.py"}}).RunsUnder() == Framework::kCelery);
  CHECK(Stack({gunicorn, {"SyncWorker.accept", packages + "/gunicorn/workers/sync.py"}}).RunsUnder() ==
        Framework::kGunicorn);
  CHECK(Stack({{"run", packages + "/gunicorn/arbiter.py"}}).RunsUnder() == Framework::kGunicorn);  // 3.10
  CHECK(Stack({gunicorn, pool}).RunsUnder() == Framework::kPool);
}

TEST_CASE("framework: also outside of the bootstrap, where the duty is another process's") {
  const Call bootstrap = {"BaseProcess._bootstrap", Lib("process.py")};
  for (const Call& outside : {Call{"Arbiter.run", "/x/gunicorn/arbiter.py"}, Call{"_worker_loop", kTorch}}) {
    const Stack stack({outside, bootstrap, {"f", "f.py"}});
    CHECK(stack.RunsUnder().has_value());
    CHECK_FALSE(stack.Duty().has_value());
  }
  const Stack worker({{"Arbiter.run", "/x/gunicorn/arbiter.py"}, bootstrap, {"worker", Lib("pool.py")}});
  CHECK(worker.RunsUnder() == Framework::kPool);
  CHECK(worker.Duty() == Found(Duty::kPool));
  // A framework without a duty is not the frame of one.
  const Stack spawned({{"spawn_main", Lib("spawn.py")}, {"worker", "/x/celery/bin/worker.py"}});
  const std::optional<DutyFrame> start = FindWork(spawned.interpreter_, spawned).duty;
  REQUIRE(start.has_value());
  CHECK(start->found == Found(Duty::kUnknown, StartMethod::kSpawn));
  CHECK(start->frame.frame == 0);
}

TEST_CASE("framework: look-alikes are not taken for one") {
  CHECK_FALSE(Stack({}).RunsUnder().has_value());
  CHECK_FALSE(Stack({{"worker", "/home/me/pool.py"}}).RunsUnder().has_value());
  CHECK_FALSE(Stack({{"Arbiter.run", "/home/me/my_gunicorn/arbiter.py"}}).RunsUnder().has_value());
  CHECK_FALSE(Stack({{"run", "/home/me/my_gunicorn/arbiter.py"}}).RunsUnder().has_value());
  // A function that uses a pool does not run under it.
  CHECK_FALSE(Stack({{"Pool.map", Lib("pool.py")}}).RunsUnder().has_value());
  CHECK_FALSE(Stack({{"worker", ""}}).RunsUnder().has_value());
  CHECK_FALSE(Stack({{"main", Lib("forkserver.py")}}).RunsUnder().has_value());
}

TEST_CASE("framework: unreadable memory is unknown") {
  Stack stack({{"worker", Lib("pool.py")}});
  CHECK(stack.RunsUnder() == Framework::kPool);
  stack.Word(Stack::CodeAt(0) + stack.layout().code.filename, 0x7000'0000'0000);
  CHECK_FALSE(stack.RunsUnder().has_value());
  Stack unknown({{"worker", Lib("pool.py")}});
  unknown.interpreter_.layout.usable = false;
  CHECK_FALSE(unknown.RunsUnder().has_value());
}

}  // namespace cowprof
