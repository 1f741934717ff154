// Which sketch goes with which finding. Their texts are in tests/golden/sketches, where a person can read them and
// tests/system/test_fix_sketch.py runs each; COWPROF_UPDATE_GOLDEN=1 writes them anew.
#include "model/judge/fix_sketch.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "json_schema.h"

namespace cowprof {
namespace {

BlameRow Type(const std::string& type, uint64_t refcounts, uint64_t headers = 0) {
  BlameRow row = {.type = type, .copies = refcounts + headers};
  row.causes[static_cast<int>(Cause::kRefcount)] = refcounts;
  row.causes[static_cast<int>(Cause::kGcHeader)] = headers;
  return row;
}

constexpr const char* kDiagnoses[] = {"cow-refcount",    "torch-refcount",    "cow-gc-header",    "cow-data",
                                      "allocator-reuse", "pickled-arguments", "private-by-spawn", "gc-disabled",
                                      "shm-full",        "fd-exhaustion"};
constexpr const char* kContainerNames[] = {
    "",         ".strings", ".numbers",      ".bytes",      ".dicts",   ".tuples", ".lists", ".nested",
    ".objects", ".arrays",  ".object-array", ".data-frame", ".tensors", ".hdf5",   ".lmdb"};
constexpr const char* kFrameworkNames[] = {"",          ".pool",   ".executor", ".joblib",
                                           ".gunicorn", ".celery", ".fork",     ".native"};
static_assert(std::size(kContainerNames) == kContainers && std::size(kFrameworkNames) == kCountOf<Framework>);

// Each text of each diagnosis once, under the name of the first container and framework that it is for; ".mapped": of
// workers that inherit nothing.
std::map<std::string, std::string> Texts() {
  std::map<std::string, std::string> texts = {
      {"cow-refcount.by-key.py",
       FixSketch("cow-refcount", Container::kAny, Framework::kDataLoader, /*inherits=*/true, /*by_key=*/true)}};
  for (const char* diagnosis : kDiagnoses) {
    std::set<std::string> seen = {""};
    for (const bool inherits : {true, false}) {
      for (size_t framework = 0; framework < kCountOf<Framework>; ++framework) {
        for (int container = 0; container < kContainers; ++container) {
          const std::string sketch =
              FixSketch(diagnosis, static_cast<Container>(container), static_cast<Framework>(framework), inherits);
          if (!seen.insert(sketch).second) continue;
          texts[absl::StrCat(diagnosis, kContainerNames[container], kFrameworkNames[framework],
                             inherits ? "" : ".mapped", ".py")] = sketch;
        }
      }
    }
  }
  return texts;
}

}  // namespace

TEST_CASE("fix sketch: the container is told by the types that were copied by their counts") {
  CHECK(ContainerOf(std::vector<BlameRow>{}) == Container::kAny);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("", 100)}) == Container::kAny);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("str", 90), Type("dict", 5), Type("code", 5)}) == Container::kStrings);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("str", 70), Type("dict", 20)}) == Container::kDicts);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("str", 70), Type("dict", 20), Type("__main__.Item", 30)}) ==
        Container::kObjects);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("int", 60), Type("tuple", 20)}) == Container::kTuples);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("int", 60), Type("list", 20)}) == Container::kLists);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("int", 50), Type("float", 20)}) == Container::kNumbers);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("numpy.ndarray", 50)}) == Container::kArrays);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("torch.Tensor", 50)}) == Container::kTensors);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("str", 90), Type("multiprocessing.synchronize.Lock", 20)}) ==
        Container::kStrings);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("str", 60), Type("int", 30)}) == Container::kAny);
  // What was copied for another reason is none of it.
  CHECK(ContainerOf(std::vector<BlameRow>{Type("str", 90), Type("dict", 0, 900)}) == Container::kStrings);
}

TEST_CASE("fix sketch: containers in containers, and bytes") {
  CHECK(ContainerOf(std::vector<BlameRow>{Type("dict", 50), Type("list", 50)}) == Container::kNested);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("dict", 95), Type("list", 5)}) == Container::kDicts);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("bytes", 95), Type("int", 5)}) == Container::kBytes);
  CHECK(ContainerOf(std::vector<BlameRow>{Type("bytes", 60), Type("str", 40)}) == Container::kAny);
}

TEST_CASE("fix sketch: the library that reads tells the container") {
  const auto line = [](const std::string& via, uint64_t refcounts) {
    BlameRow row = Type("", refcounts);
    row.via = via;
    return row;
  };
  BlameTables frame = {.by_type = {Type("str", 95)}, .by_line = {line("pandas", 90), line("", 10)}};
  CHECK(ContainerOf(frame) == Container::kDataFrame);
  frame.by_type.push_back(Type("pandas.core.series.Series", 30));  // a list of many small ones
  CHECK(ContainerOf(frame) == Container::kObjects);
  CHECK(ContainerOf(BlameTables{.by_type = {Type("str", 95)}, .by_line = {line("", 90), line("pandas", 10)}}) ==
        Container::kStrings);
  CHECK(ContainerOf(BlameTables{}) == Container::kAny);

  BlameTables handles = {.by_type = {Type("h5py._hl.dataset.Dataset", 5)}, .by_line = {line("h5py", 90)}};
  CHECK(ContainerOf(handles) == Container::kHdf5);
  handles.by_type = {Type("h5py._hl.dataset.Dataset", 0, 5)};  // made by the worker, which opened the file itself
  CHECK(ContainerOf(handles) != Container::kHdf5);
  handles.by_type.clear();
  CHECK(ContainerOf(handles) != Container::kHdf5);
}

TEST_CASE("fix sketch: none for a program without Python") {
  for (const char* diagnosis : kDiagnoses) {
    for (int container = 0; container < kContainers; ++container)
      CHECK(FixSketch(diagnosis, static_cast<Container>(container), Framework::kNative).empty());
  }
}

TEST_CASE("fix sketch: every text is the one that the system test runs") {
  const std::filesystem::path folder = RepositoryRoot() / "tests" / "golden" / "sketches";
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.insert(entry.path().filename());
  std::set<std::string> names;
  for (const auto& [name, sketch] : Texts()) {
    if (getenv("COWPROF_UPDATE_GOLDEN") != nullptr)
      std::ofstream(folder / name, std::ios::binary) << sketch << "\n";
    else
      CHECK(ReadWhole(folder / name) == sketch + "\n");
    names.insert(name);
  }
  if (getenv("COWPROF_UPDATE_GOLDEN") == nullptr) CHECK(files == names);
}

TEST_CASE("fix sketch: a part before, a part after, and short lines") {
  for (const auto& [name, sketch] : Texts()) {
    INFO(name);
    CHECK(absl::StartsWith(sketch, "# before"));
    CHECK(absl::StrContains(sketch, "\n\n# after"));
    CHECK_FALSE(absl::EndsWith(sketch, "\n"));
    if (absl::StrContains(sketch, "numpy.array")) CHECK(absl::StrContains(sketch, "not dtype=object"));
    for (const absl::string_view line : absl::StrSplit(sketch, '\n')) CHECK(line.size() <= 120);
  }
}

TEST_CASE("fix sketch: what works for all items comes before what is faster for some") {
  for (int container = 0; container <= static_cast<int>(Container::kDataFrame); ++container) {
    const std::string sketch = FixSketch("cow-refcount", static_cast<Container>(container));
    INFO(sketch);
    CHECK(absl::StrContains(sketch, "class Packed:"));
    CHECK(sketch.find("class Packed:") < sketch.find("# faster"));
  }
  for (const Container container : {Container::kAny, Container::kNested, Container::kObjects})
    CHECK_FALSE(absl::StrContains(FixSketch("cow-refcount", container), "# faster"));
}

TEST_CASE("fix sketch: a torch tensor, however it was found") {
  CHECK(FixSketch("torch-refcount", Container::kAny) == FixSketch("cow-refcount", Container::kTensors));
}

TEST_CASE("fix sketch: a handle has its own for what reading and writing copy") {
  CHECK(absl::StrContains(FixSketch("cow-data", Container::kHdf5), "h5py.File"));
  CHECK(OpensHandle(Container::kHdf5));  // whichever library writes
  CHECK_FALSE(OpensHandle(Container::kArrays));
  CHECK(absl::StrContains(FixSketch("cow-refcount", Container::kLmdb), "lmdb.open"));
  CHECK_FALSE(absl::StrContains(FixSketch("cow-refcount", Container::kLmdb), "h5py"));
  CHECK(absl::StrContains(FixSketch("cow-data", Container::kArrays), "prepare"));
}

TEST_CASE("fix sketch: words of the framework") {
  for (const char* diagnosis : {"cow-gc-header", "allocator-reuse"}) {
    CHECK(absl::StrContains(FixSketch(diagnosis, Container::kAny), "DataLoader"));
    CHECK(absl::StrContains(FixSketch(diagnosis, Container::kAny, Framework::kGunicorn), "def when_ready"));
    CHECK(absl::StrContains(FixSketch(diagnosis, Container::kAny, Framework::kCelery), "worker_init.connect"));
    CHECK(FixSketch(diagnosis, Container::kAny, Framework::kJoblib).empty());  // it does not fork
  }
  CHECK(absl::StrContains(FixSketch("pickled-arguments", Container::kAny, Framework::kJoblib), "mmap_mode"));
  // Only torch's loader fills /dev/shm, and sends descriptors.
  CHECK(FixSketch("shm-full", Container::kAny, Framework::kGunicorn).empty());
  CHECK(FixSketch("fd-exhaustion", Container::kAny, Framework::kPool).empty());
  for (size_t framework = 1; framework < kCountOf<Framework>; ++framework)
    for (const char* diagnosis : kDiagnoses)
      CHECK_FALSE(
          absl::StrContains(FixSketch(diagnosis, Container::kDicts, static_cast<Framework>(framework)), "DataLoader"));
}

TEST_CASE("fix sketch: workers that inherit nothing map a file instead of loading all items again") {
  for (const Framework framework : {Framework::kPool, Framework::kExecutor, Framework::kFork}) {
    const std::string forked = FixSketch("pickled-arguments", Container::kAny, framework),
                      spawned = FixSketch("pickled-arguments", Container::kAny, framework, /*inherits=*/false);
    CHECK(absl::StrContains(forked, "\nITEMS = Packed(load())"));
    CHECK(!absl::StrContains(spawned, "ITEMS"));
    CHECK(spawned.find("if __name__ == \"__main__\":") < spawned.find("Packed(load())"));
    CHECK(absl::StrContains(spawned, "mmap_mode=\"r\""));
  }
  for (const Framework framework : {Framework::kDataLoader, Framework::kGunicorn, Framework::kCelery}) {
    for (const bool inherits : {true, false})
      CHECK(FixSketch("pickled-arguments", Container::kAny, framework, inherits).empty());
  }
}

TEST_CASE("fix sketch: other findings") {
  CHECK(absl::StrContains(FixSketch("cow-gc-header", Container::kDicts), "gc.freeze()"));
  CHECK(FixSketch("shm-near-full", Container::kAny) == FixSketch("shm-full", Container::kStrings));
  CHECK(FixSketch("clean", Container::kStrings).empty());
  CHECK(FixSketch("oom-host", Container::kStrings).empty());
}

}  // namespace cowprof
