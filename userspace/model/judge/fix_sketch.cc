// Chooses texts and joins them.
#include "model/judge/fix_sketch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "absl/strings/substitute.h"
#include "model/judge/fix_sketch_texts.h"
#include "model/judge/item_sketch_texts.h"

namespace cowprof {
namespace {

using namespace sketches;  // NOLINT(google-build-using-namespace): texts only

constexpr double kLeastShare = 0.1;  // of the copies by reference counts, for a type to count as part of the items

// A class of the program or of a library; the names of built-in types have no module.
bool IsClass(absl::string_view type) {
  return absl::StrContains(type, '.') && !absl::StartsWith(type, "multiprocessing.") &&
         !absl::StartsWith(type, "torch.") && !absl::StartsWith(type, "numpy.");
}

// A raw text without the line break that follows its opening.
absl::string_view Text(absl::string_view raw) { return absl::StripPrefix(raw, "\n"); }

std::string OfItems(Container container) {
  const auto& found =
      *std::find_if(std::begin(kItems), std::end(kItems), [&](const auto& row) { return row.container == container; });
  std::string text = absl::StrCat("# before: ", found.before, "; reading writes reference counts\nitems = load()\n");
  for (const char* part : found.after)
    if (part != nullptr) absl::StrAppend(&text, Text(part));
  return text;
}

std::string OfDict() {
  return absl::StrCat("# before: a dict of Python objects; looking a key up writes reference counts\nitems = load()\n",
                      Text(kPacked), Text(kPackedDict));
}

std::string OfHandle(Container container) {
  const std::string text(Text(kHandle));
  return container == Container::kHdf5 ? text : absl::StrReplaceAll(text, kLmdbInstead);
}

std::string OfTensors() {
  return absl::StrCat(
      "# before: one tensor per item; reading writes reference counts, in Python and in C++\nitems = load()\n",
      Text(kPackedTensors), Text(kStackedTensors));
}

// For `inherits` see FixSketch().
std::string OfArguments(Framework framework, bool inherits) {
  if (framework == Framework::kJoblib) return absl::StrCat(Text(kJoblibBefore), Text(kPacked), Text(kJoblibAfter));
  const bool executor = framework == Framework::kExecutor;
  if (!executor && framework != Framework::kPool && framework != Framework::kFork) return "";
  const char* pool = executor ? "ProcessPoolExecutor(4)" : "multiprocessing.Pool(4)";
  const std::string before = absl::Substitute(Text(kPoolBefore), pool);
  if (inherits) return absl::StrCat(before, Text(kPacked), absl::Substitute(Text(kPoolAfter), pool));
  return absl::StrCat(before, Text(kPacked), Text(kMapped), Text(kMappedWork), Text(kMapOnce), "    with ", pool,
                      " as pool:\n        results = list(pool.map(work_on, range(len(items))))\n");
}

std::string OfFork(const BeforeFork& fix, Framework framework) {
  for (const ForkSite& site : kForkSites) {
    if (site.framework != framework) continue;
    const std::string indented = absl::StrCat("    ", absl::StrReplaceAll(fix.lines, {{"\n", "\n    "}}));
    return absl::StrCat("# before: ", fix.before, "\n", site.before, "\n\n# after: ", fix.after, "\nimport ",
                        fix.import, "\n", absl::Substitute(site.after, fix.lines, indented));
  }
  return "";
}

// Of these the items stand in one column, table or tensor, whatever names them.
bool IsWhole(Container container) {
  return container == Container::kObjectArray || container == Container::kDataFrame || container == Container::kTensors;
}

std::string SketchOf(absl::string_view diagnosis, Container container, Framework framework, bool inherits,
                     bool by_key) {
  if (OpensHandle(container) && (diagnosis == "cow-refcount" || diagnosis == "cow-data")) return OfHandle(container);
  if (diagnosis == "torch-refcount") return OfTensors();
  if (diagnosis == "cow-refcount" && by_key && !IsWhole(container)) return OfDict();
  if (diagnosis == "cow-refcount") return container == Container::kTensors ? OfTensors() : OfItems(container);
  if (diagnosis == "pickled-arguments") return OfArguments(framework, inherits);
  if (diagnosis == "private-by-spawn")
    return absl::StrCat("# before: the items are pickled to every worker\nitems = load()\n", Text(kPacked),
                        Text(kMapped), Text(kMapOnce));
  for (const BeforeFork& fix : kBeforeFork)
    if (diagnosis == fix.diagnosis) return OfFork(fix, framework);
  for (const Sketch& sketch : kSketches)
    if (diagnosis == sketch.diagnosis && (framework == sketch.framework || sketch.framework == Framework::kFork))
      return std::string(Text(sketch.text));
  return "";
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
  const bool dicts = has(is("dict")), tuples = has(is("tuple")), lists = has(is("list"));
  if (dicts + tuples + lists > 1) return Container::kNested;
  if (dicts) return Container::kDicts;
  if (tuples) return Container::kTuples;
  if (lists) return Container::kLists;
  if (has(is("numpy.ndarray"))) return Container::kArrays;
  if (has(is("torch.Tensor"))) return Container::kTensors;
  // More than one of these: whatever holds them was not seen itself.
  const bool strings = has(is("str")), bytes = has(is("bytes")),
             numbers = has([](const std::string&type) { return type == "int" || type == "float"; });
  if (strings + bytes + numbers != 1) return Container::kAny;
  return strings ? Container::kStrings : bytes ? Container::kBytes : Container::kNumbers;
}

Container ContainerOf(const BlameTables& workers, const PickleLook* look) {
  const auto refcounts = [](const BlameRow& row) { return row.causes[static_cast<int>(Cause::kRefcount)]; };
  uint64_t all = 0, by_pandas = 0, of_pandas = 0;
  bool hdf5 = false;
  for (const BlameRow& row : workers.by_line) {
    all += refcounts(row);
    if (row.via == "pandas") by_pandas += refcounts(row);
  }
  for (const BlameRow& row : workers.by_type) {
    if (absl::StartsWith(row.type, "pandas.")) of_pandas += refcounts(row);
    // An object of h5py that was inherited: those that a worker makes are counted by the allocator's write.
    hdf5 |= absl::StartsWith(row.type, "h5py.") && refcounts(row) > 0;
  }
  if (hdf5 && !workers.by_line.empty() && workers.by_line[0].via == "h5py") return Container::kHdf5;
  // One frame, and not a list of many small ones.
  if (2 * by_pandas > all && of_pandas < kLeastShare * all) return Container::kDataFrame;
  const Container container = ContainerOf(workers.by_type);
  const bool one_kind = container == Container::kStrings || container == Container::kBytes ||
                        container == Container::kNumbers || container == Container::kAny;
  // Most objects that a worker gets are items of that array.
  if (one_kind && look != nullptr && look->object_array_items > 0 && 2 * look->object_array_items >= look->objects)
    return Container::kObjectArray;
  return container;
}

std::string FixSketch(absl::string_view diagnosis, Container container, Framework framework, bool inherits,
                      bool by_key) {
  if (framework == Framework::kNative) return "";
  if (diagnosis == "shm-near-full") diagnosis = "shm-full";
  return std::string(absl::StripSuffix(SketchOf(diagnosis, container, framework, inherits, by_key), "\n"));
}

}  // namespace cowprof
