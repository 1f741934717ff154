// The texts of fix_sketch.cc: parts that are joined, what was there before and one or more bodies of what comes after.
// A reader replaces load(), data and work(); numpy and the like are imported where a sketch uses them first. Every
// sketch with numpy says "not dtype=object", because an array of references is copied as a list is.
#ifndef COWPROF_MODEL_JUDGE_FIX_SKETCH_TEXTS_H_
#define COWPROF_MODEL_JUDGE_FIX_SKETCH_TEXTS_H_

#include <array>
#include <utility>

#include "absl/strings/string_view.h"
#include "model/judge/fix_sketch.h"

namespace cowprof::sketches {

// Workers that inherit nothing.
inline constexpr char kMapped[] = R"py(

class Mapped(Packed):  # pickled as its path; all processes share the pages of the files
    def __init__(self, path):
        self.path = path
        self.buffer = numpy.load(path + ".buffer.npy", mmap_mode="r")
        self.ends = numpy.load(path + ".ends.npy", mmap_mode="r")
    def __reduce__(self):
        return Mapped, (self.path,)
)py";
inline constexpr char kMappedWork[] = R"py(

import functools

@functools.lru_cache(maxsize=None)
def mapped():  # once in each worker
    return Mapped("items")

def work_on(i):  # only an index is sent
    return work(mapped()[i])
)py";
inline constexpr char kMapOnce[] = R"py(

if __name__ == "__main__":  # once, not again in every worker
    packed = Packed(load())
    numpy.save("items.buffer.npy", packed.buffer)
    numpy.save("items.ends.npy", packed.ends)
    items = Mapped("items")
)py";

// "$0": what makes the pool.
inline constexpr char kPoolBefore[] = R"py(
# before: every item is pickled and sent to a worker through a pipe
with $0 as pool:
    results = list(pool.map(work, load()))
)py";
inline constexpr char kPoolAfter[] = R"py(

ITEMS = Packed(load())  # a global, made before the workers are forked; spawned ones load it again: map a file there

def work_on(i):  # only an index is sent
    return work(ITEMS[i])

with $0 as pool:
    results = list(pool.map(work_on, range(len(ITEMS))))
)py";
inline constexpr char kJoblibBefore[] = R"py(
# before: the items are pickled and sent to the workers
items = load()
results = joblib.Parallel(4)(joblib.delayed(work)(items, i) for i in range(len(items)))
)py";
inline constexpr char kJoblibAfter[] = R"py(

joblib.dump(Packed(load()), "items.joblib")
items = joblib.load("items.joblib", mmap_mode="r")  # sent as the name of the file, which every worker maps
results = joblib.Parallel(4)(joblib.delayed(work)(items, i) for i in range(len(items)))
)py";

// For h5py; lmdb's differs by what kLmdbInstead replaces.
inline constexpr char kHandle[] = R"py(
# before: opened before the fork, so all workers share one handle, its position and its caches
class Data(Dataset):
    def __init__(self, path):
        self.file = file = h5py.File(path, "r")
        self.length = len(file["x"])
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        return self.file["x"][i]

# after: each worker opens it at its first read; read no item before the workers start
import h5py

class Data(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path, "r") as file:
            self.length = len(file["x"])
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        if self.file is None:
            self.file = h5py.File(self.path, "r")
        return self.file["x"][i]
)py";
inline constexpr std::array<std::pair<absl::string_view, absl::string_view>, 5> kLmdbInstead = {{
    {"h5py.File", "lmdb.open"},
    {"\"r\"", "readonly=True, lock=False"},
    {"h5py", "lmdb"},
    {"len(file[\"x\"])", "file.stat()[\"entries\"]"},
    {"self.file[\"x\"][i]", "self.file.begin().get(b\"%d\" % i)"},
}};

// What has to happen before the fork, and where each framework has a place for that. "$0": the lines; "$1": indented;
struct BeforeFork {
  const char* diagnosis;
  const char* before;
  const char* after;
  const char* import;
  const char* lines;
};
inline constexpr BeforeFork kBeforeFork[] = {
    {"cow-gc-header", "each worker's collector writes the header of every inherited object",
     "the collector skips all objects that exist at the fork", "gc", "gc.collect()\ngc.freeze()"},
    {"allocator-reuse", "workers allocate in inherited memory that the parent had freed, and so copy it",
     "freed memory goes back to the kernel first (glibc)", "ctypes", "ctypes.CDLL(None).malloc_trim(0)"},
};
struct ForkSite {
  Framework framework;
  const char* before;
  const char* after;
};
inline constexpr ForkSite kForkSites[] = {
    {Framework::kDataLoader, "loader = DataLoader(data, num_workers=4)",
     "$0\nloader = DataLoader(data, num_workers=4)"},
    {Framework::kPool, "pool = multiprocessing.Pool(4)", "$0\npool = multiprocessing.Pool(4)"},
    {Framework::kExecutor, "executor = ProcessPoolExecutor(4)", "$0\nexecutor = ProcessPoolExecutor(4)"},
    // Arbiter: preload, when_ready, and then the first fork.
    {Framework::kGunicorn, "preload_app = True  # gunicorn.conf.py",
     "preload_app = True  # gunicorn.conf.py\n\n"
     "def when_ready(server):  # in the master: after the application is loaded, before the first fork\n$1"},
    // WorkController sends worker_init before it makes the pool; worker_process_init is sent in each child.
    {Framework::kCelery, "app = Celery(\"app\")",
     "from celery.signals import worker_init\n\napp = Celery(\"app\")\n\n"
     "@worker_init.connect  # in the parent, before the pool is forked; not worker_process_init\n"
     "def before_fork(**arguments):\n$1"},
    {Framework::kFork, "pid = os.fork()", "$0\npid = os.fork()"},
};

// All other texts, whole.
struct Sketch {
  const char* diagnosis;
  Framework framework;
  const char* text;
};
inline constexpr Sketch kSketches[] = {
    {"cow-data", Framework::kFork, R"py(
# before: writes to inherited memory, and so copies it, in every worker
def prepare(item):
    item /= 255
    return item

# after: the result is new memory; what was inherited stays as it is
def prepare(item):
    return item / 255
)py"},
    {"gc-disabled", Framework::kDataLoader, R"py(
# before: the parent has called gc.disable(), and its workers inherit that
loader = DataLoader(data, num_workers=4)

# after: the workers collect what they create
import gc

def collect_again(worker):
    gc.enable()

loader = DataLoader(data, num_workers=4, worker_init_fn=collect_again)
)py"},
    {"gc-disabled", Framework::kPool, R"py(
# before: the parent has called gc.disable(), and its workers inherit that
pool = multiprocessing.Pool(4)

# after: the workers collect what they create
import gc
pool = multiprocessing.Pool(4, initializer=gc.enable)
)py"},
    {"gc-disabled", Framework::kExecutor, R"py(
# before: the parent has called gc.disable(), and its workers inherit that
executor = ProcessPoolExecutor(4)

# after: the workers collect what they create
import gc
executor = ProcessPoolExecutor(4, initializer=gc.enable)
)py"},
    {"shm-full", Framework::kDataLoader, R"py(
# before: 8 * 4 = 32 batches in /dev/shm at once
loader = DataLoader(data, batch_size=256, num_workers=8, prefetch_factor=4)

# after: 4 * 2 = 8
loader = DataLoader(data, batch_size=256, num_workers=4, prefetch_factor=2)
)py"},
    {"fd-exhaustion", Framework::kDataLoader, R"py(
# before: each tensor from a worker holds a file descriptor for as long as it is kept
kept = [batch for batch in loader]

# after: a copy holds none
import copy
kept = [copy.deepcopy(batch) for batch in loader]
)py"},
};

}  // namespace cowprof::sketches

#endif  // COWPROF_MODEL_JUDGE_FIX_SKETCH_TEXTS_H_
