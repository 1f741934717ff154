// Each sketch has a part "# before" and a part "# after". Names that a reader knows are not imported: numpy, torch, gc,
// pickle, SimpleNamespace, Dataset, DataLoader.
#include "model/judge/fix_sketch.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"

namespace cowprof {
namespace {

struct Sketch {
  const char* diagnosis;
  Container container;
  const char* text;
};

constexpr Sketch kSketches[] = {
    {"cow-refcount", Container::kStrings, R"py(
# before: one str per item; reading one writes its reference count
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: one buffer, and where each item ends in it
class Data(Dataset):
    def __init__(self, items):
        items = [item.encode() for item in items]
        self.ends = numpy.cumsum([len(item) for item in items])
        self.buffer = numpy.frombuffer(b"".join(items), numpy.uint8)
    def __len__(self):
        return len(self.ends)
    def __getitem__(self, i):
        start = self.ends[i - 1] if i > 0 else 0
        return self.buffer[start:self.ends[i]].tobytes().decode()
)py"},
    {"cow-refcount", Container::kNumbers, R"py(
# before: one object per number; reading one writes its reference count
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: one array
class Data(Dataset):
    def __init__(self, items):
        self.items = numpy.array(items)
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        return self.items[i].item()
)py"},
    {"cow-refcount", Container::kDicts, R"py(
# before: one dict per item; reading one writes the reference counts of all its values
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: one array per key (long texts: better one bytes buffer and an array of ends)
class Data(Dataset):
    def __init__(self, items):
        self.columns = {key: numpy.array([item[key] for item in items]) for key in items[0]}
        self.length = len(items)
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        return {key: column[i].item() for key, column in self.columns.items()}
)py"},
    {"cow-refcount", Container::kTuples, R"py(
# before: one tuple per item; reading one writes the reference counts of all its values
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: one array per tuple position (long texts: better one bytes buffer and an array of ends)
class Data(Dataset):
    def __init__(self, items):
        self.columns = [numpy.array(column) for column in zip(*items)]
        self.length = len(items)
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        return tuple(column[i].item() for column in self.columns)
)py"},
    {"cow-refcount", Container::kLists, R"py(
# before: one list per item; reading one writes the reference counts of all its numbers
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: all numbers in one array, and where each item ends in it
class Data(Dataset):
    def __init__(self, items):
        self.ends = numpy.cumsum([len(item) for item in items])
        self.numbers = numpy.array([number for item in items for number in item])
    def __len__(self):
        return len(self.ends)
    def __getitem__(self, i):
        start = self.ends[i - 1] if i > 0 else 0
        return self.numbers[start:self.ends[i]].tolist()
)py"},
    {"cow-refcount", Container::kObjects, R"py(
# before: one object per item; reading one writes the reference counts of all its attributes
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: one array per attribute; the object is created when it is read
class Data(Dataset):
    def __init__(self, items):
        self.columns = {name: numpy.array([getattr(item, name) for item in items]) for name in vars(items[0])}
        self.length = len(items)
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        return SimpleNamespace(**{name: column[i].item() for name, column in self.columns.items()})
)py"},
    {"cow-refcount", Container::kArrays, R"py(
# before: one array per item; reading one writes its reference count
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: one array for all (different lengths: numpy.concatenate, and an array of ends)
class Data(Dataset):
    def __init__(self, items):
        self.items = numpy.stack(items)
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        return self.items[i]
)py"},
    {"cow-refcount", Container::kTensors, R"py(
# before: one tensor per item; reading one writes its reference count
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: one tensor for all (different lengths: torch.cat, and a tensor of ends)
class Data(Dataset):
    def __init__(self, items):
        self.items = torch.stack(items)
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        return self.items[i]
)py"},
    {"cow-refcount", Container::kAny, R"py(
# before: Python objects; reading one writes its reference count
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        return self.items[i]

# after: all items pickled into one buffer; a worker unpickles what it reads
class Data(Dataset):
    def __init__(self, items):
        items = [pickle.dumps(item) for item in items]
        self.ends = numpy.cumsum([len(item) for item in items])
        self.buffer = numpy.frombuffer(b"".join(items), numpy.uint8)
    def __len__(self):
        return len(self.ends)
    def __getitem__(self, i):
        start = self.ends[i - 1] if i > 0 else 0
        return pickle.loads(self.buffer[start:self.ends[i]])
)py"},
    {"cow-gc-header", Container::kAny, R"py(
# before: each worker's collector writes the header of every inherited object
loader = DataLoader(data, num_workers=4)

# after: the collector skips all objects that exist at the fork
gc.collect()
gc.freeze()
loader = DataLoader(data, num_workers=4)
)py"},
    {"cow-data", Container::kAny, R"py(
# before: every worker changes what it inherited, and so gets its own copy
class Data(Dataset):
    def __init__(self, items):
        self.items = items
    def __getitem__(self, i):
        self.items[i] /= 255
        return self.items[i]

# after: changed once, before the fork
class Data(Dataset):
    def __init__(self, items):
        self.items = items / 255
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        return self.items[i]
)py"},
    {"gc-disabled", Container::kAny, R"py(
# before: the parent has called gc.disable(), and its workers inherit that
loader = DataLoader(data, num_workers=4)

# after: the workers collect what they create
def collect_again(worker):
    gc.enable()
loader = DataLoader(data, num_workers=4, worker_init_fn=collect_again)
)py"},
    {"shm-full", Container::kAny, R"py(
# before: 8 * 4 = 32 batches in /dev/shm at once
loader = DataLoader(data, batch_size=256, num_workers=8, prefetch_factor=4)

# after: 4 * 2 = 8
loader = DataLoader(data, batch_size=256, num_workers=4, prefetch_factor=2)
)py"},
    {"fd-exhaustion", Container::kAny, R"py(
# before: a tensor from a worker holds a file descriptor for as long as it lives
loader = DataLoader(data, num_workers=4)

# after: it is opened by name, and needs no descriptor
torch.multiprocessing.set_sharing_strategy("file_system")
loader = DataLoader(data, num_workers=4)
)py"},
};

constexpr double kLeastShare = 0.1;  // of the copies by reference counts, for a type to count as part of the items

// A class of the program or of a library; the names of built-in types have no module.
bool IsClass(absl::string_view type) {
  return absl::StrContains(type, '.') && !absl::StartsWith(type, "multiprocessing.") &&
         !absl::StartsWith(type, "torch.") && !absl::StartsWith(type, "numpy.");
}

}  // namespace

Container ContainerOf(const std::vector<BlameRow>& by_type) {
  const auto copies_of = [](const BlameRow& row) { return row.causes[static_cast<int>(Cause::kRefcount)]; };
  uint64_t all = 0;
  for (const BlameRow& row : by_type) all += copies_of(row);
  const auto has = [&](const auto& is_it) {
    uint64_t copies = 0;
    for (const BlameRow& row : by_type) copies += is_it(row.type) ? copies_of(row) : 0;
    return all > 0 && copies >= kLeastShare * all;
  };
  const auto is = [](const char* name) { return [name](const std::string& type) { return type == name; }; };
  // Containers come before what they hold.
  if (has(IsClass)) return Container::kObjects;
  if (has(is("dict"))) return Container::kDicts;
  if (has(is("tuple"))) return Container::kTuples;
  if (has(is("list"))) return Container::kLists;
  if (has(is("numpy.ndarray"))) return Container::kArrays;
  if (has(is("torch.Tensor"))) return Container::kTensors;
  // Both strings and numbers: whatever holds them was not seen itself.
  const bool strings = has(is("str")),
             numbers = has([](const std::string&type) { return type == "int" || type == "float"; });
  if (strings != numbers) return strings ? Container::kStrings : Container::kNumbers;
  return Container::kAny;
}

std::string FixSketch(absl::string_view diagnosis, Container container) {
  if (diagnosis == "shm-near-full") diagnosis = "shm-full";
  if (diagnosis != "cow-refcount") container = Container::kAny;
  const auto found = std::find_if(std::begin(kSketches), std::end(kSketches), [&](const Sketch& sketch) {
    return sketch.diagnosis == diagnosis && sketch.container == container;
  });
  if (found == std::end(kSketches)) return "";
  return std::string(absl::StripSuffix(absl::StripPrefix(found->text, "\n"), "\n"));
}

}  // namespace cowprof
