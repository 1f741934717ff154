// page_diff.cc on hand-made pages with the object heads of every version, on random bytes, and on pages of real forked
// interpreters that did one known thing (tests/fixtures/pages).
#include "python/page_diff.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace cowprof {
namespace {

constexpr uint64_t kPage = 0x7f0000400000;
constexpr ptrdiff_t kWords = 512, kNear = kNeighbourWords;
constexpr uint64_t kFloat = 0x7f0000001000, kList = 0x7f0000001200, kStr = 0x7f0000001400, kType = 0x7f0000001600,
                   kTuple = 0x7f0000001800, kNoType = 0x7f0000001a00;
constexpr uint64_t kNoHash = ~uint64_t{0};
constexpr HeadLayout k373 = {.gc_head_bytes = 24}, k374 = {.gc_head_bytes = 32}, k38 = {.gc_head_bytes = 16},
                     k314 = {.gc_head_bytes = 16, .count_has_flags = true};

// A page and its neighbours in both processes; index 0 is the page's first word.
class Pages {
 public:
  explicit Pages(HeadLayout layout = k38) : layout_(layout) {
    types_[kFloat] = {};
    types_[kList] = {.has_gc = true};
    types_[kStr] = {.caches_hash = true};
    types_[kTuple] = {.has_gc = true, .caches_hash = true};
    types_[kType] = {.has_gc = true, .is_metatype = true};
  }
  Pages& Both(ptrdiff_t index, uint64_t word) { return Differ(index, word, word); }
  Pages& Differ(ptrdiff_t index, uint64_t parent, uint64_t worker) {
    parent_[index + kNear] = parent;
    worker_[index + kNear] = worker;
    return *this;
  }
  Pages& Object(ptrdiff_t index, uint64_t type, uint64_t count = 1) { return Both(index, count).Both(index + 1, type); }
  Pages& Type(uint64_t address, TypeTraits traits) {
    types_[address] = traits;
    return *this;
  }
  Pages& NoPython() {
    python_ = false;
    return *this;
  }
  Pages& WithoutNeighbours(bool parent, bool worker) {
    without_parent_ = parent;
    without_worker_ = worker;
    return *this;
  }

  PageDiff Compare() const {
    PageContext context{.address = kPage, .layout = layout_};
    if (!without_parent_) context.parent = Near(parent_);
    if (!without_worker_) context.worker = Near(worker_);
    if (python_) {
      context.types = [this](uint64_t address) -> std::optional<TypeTraits> {
        const auto type = types_.find(address);
        if (type == types_.end()) return std::nullopt;
        return type->second;
      };
    }
    return ComparePages(context, Words(parent_), Words(worker_));
  }

 private:
  using Buffer = std::array<uint64_t, kWords + 2 * kNear>;
  static absl::Span<const uint64_t> Words(const Buffer& buffer) {
    return absl::MakeConstSpan(buffer).subspan(kNear, kWords);
  }
  static PageNeighbours Near(const Buffer& buffer) {
    PageNeighbours near{.before = std::array<uint64_t, kNeighbourWords>{},
                        .after = std::array<uint64_t, kNeighbourWords>{}};
    std::copy_n(buffer.begin(), kNear, near.before->begin());
    std::copy_n(buffer.end() - kNear, kNear, near.after->begin());
    return near;
  }

  HeadLayout layout_;
  Buffer parent_ = {}, worker_ = {};
  absl::flat_hash_map<uint64_t, TypeTraits> types_;
  bool python_ = true, without_parent_ = false, without_worker_ = false;
};

TEST_CASE("equal pages are identical, whatever their neighbours") {
  CHECK(Pages().Compare() == PageDiff::kIdentical);
  CHECK(Pages().NoPython().Compare() == PageDiff::kIdentical);
  CHECK(Pages().Object(0, kList).Differ(-1, 1, 2).Differ(kWords, 3, 4).Compare() == PageDiff::kIdentical);
  CHECK(ComparePages({}, {}, {}) == PageDiff::kIdentical);
}

TEST_CASE("a differing word before a type is a count") {
  CHECK(Pages().Object(10, kFloat).Differ(10, 1, 2).Compare() == PageDiff::kRefcountOnly);
  CHECK(Pages(k374).Object(10, kFloat).Differ(10, 70000, 70001).Compare() == PageDiff::kRefcountOnly);
  CHECK(Pages().Object(10, kFloat).Differ(10, 1, 0xffffffff).Compare() == PageDiff::kRefcountOnly);
}

PageDiff CompareCounts(uint64_t parent, uint64_t worker, HeadLayout layout = k38) {
  return Pages(layout).Object(10, kFloat).Differ(10, parent, worker).Compare();
}

TEST_CASE("a value that can't be the count of a live object is data") {
  CHECK(CompareCounts(0, 1) == PageDiff::kData);
  CHECK(CompareCounts(1, 0) == PageDiff::kData);
  CHECK(CompareCounts(1, kNoHash) == PageDiff::kData);
  CHECK(CompareCounts(1, 0x7f0000002000) == PageDiff::kData);  // a link of pymalloc's list of free blocks
  CHECK(CompareCounts(1, uint64_t{1} << 32) == PageDiff::kData);
  CHECK(CompareCounts(1, uint64_t{1} << 32 | 2) == PageDiff::kData);
  // Static objects of a non-PIE interpreter in the slot before a class.
  CHECK(CompareCounts(0xa5b6c0, 0xa5b6e0) == PageDiff::kData);
  CHECK(CompareCounts(0xa5b6c0, 0xa5b6c1) == PageDiff::kRefcountOnly);
}

TEST_CASE("the type must be a type, the same in both") {
  CHECK(Pages().Object(10, kNoType).Differ(10, 1, 2).Compare() == PageDiff::kData);
  CHECK(Pages().Object(10, kFloat).Differ(10, 1, 2).NoPython().Compare() == PageDiff::kData);
  CHECK(Pages().Differ(10, 1, 2).Differ(11, kFloat, kList).Compare() == PageDiff::kData);
  CHECK(Pages().Differ(10, 1, 2).Both(11, kFloat + 4).Type(kFloat + 4, {}).Compare() == PageDiff::kData);
}

TEST_CASE("3.14: the upper half of the count's word is constant") {
  const uint64_t flags = uint64_t{7} << 48;
  CHECK(CompareCounts(flags | 1, flags | 2, k314) == PageDiff::kRefcountOnly);
  CHECK(CompareCounts(flags | 0xbfffffff, flags | 0xc0000000, k314) == PageDiff::kRefcountOnly);
  CHECK(CompareCounts(flags | 1, flags | 2, k38) == PageDiff::kData);
  CHECK(CompareCounts(flags | 1, 2, k314) == PageDiff::kData);
  CHECK(CompareCounts(flags, flags | 1, k314) == PageDiff::kData);
  CHECK(CompareCounts(uint64_t{1} << 32 | 1, uint64_t{1} << 32 | 2, k314) == PageDiff::kData);
  CHECK(CompareCounts(0x7f0000002001, 0x7f0000002003, k314) == PageDiff::kData);
}

TEST_CASE("GC heads of 16 bytes, 3.8 and later") {
  CHECK(Pages().Object(10, kList).Differ(9, 4, 8).Compare() == PageDiff::kGcHeaderOnly);
  CHECK(Pages().Object(10, kList).Differ(8, 0x7f0000002000, 0).Compare() == PageDiff::kGcHeaderOnly);
  CHECK(Pages().Object(10, kList).Differ(7, 1, 2).Compare() == PageDiff::kData);  // a managed dict, 3.11 and later
  CHECK(Pages().Object(10, kFloat).Differ(9, 4, 8).Compare() == PageDiff::kData);
  CHECK(Pages().Object(10, kList, 0).Differ(9, 4, 8).Compare() == PageDiff::kData);  // it is dead
  CHECK(Pages().Object(10, kList).Differ(10, 1, 0).Differ(9, 4, 8).Compare() == PageDiff::kData);
}

TEST_CASE("GC heads of 24 bytes, up to 3.7.3") {
  for (const ptrdiff_t index : {7, 8, 9}) {
    CHECK(Pages(k373).Object(10, kList).Differ(index, 4, 8).Compare() == PageDiff::kGcHeaderOnly);
  }
  CHECK(Pages(k373).Object(10, kList).Differ(6, 4, 8).Compare() == PageDiff::kData);
  CHECK(Pages(k373).Object(514, kList).Differ(511, 4, 8).Compare() == PageDiff::kGcHeaderOnly);
}

TEST_CASE("GC heads of 32 bytes, 3.7.4 and later") {
  for (const ptrdiff_t index : {6, 7, 8}) {
    CHECK(Pages(k374).Object(10, kList).Differ(index, 4, 8).Compare() == PageDiff::kGcHeaderOnly);
  }
  CHECK(Pages(k374).Object(10, kList).Differ(9, 4, 8).Compare() == PageDiff::kData);  // nothing writes the padding
  CHECK(Pages(k374).Object(10, kList).Differ(5, 4, 8).Compare() == PageDiff::kData);
}

TEST_CASE("heap types have a GC head, static types do not") {
  const uint64_t address = kPage + 8 * 10;
  CHECK(Pages().Object(10, kType).Differ(9, 4, 8).Compare() == PageDiff::kData);
  CHECK(Pages().Object(10, kType).Type(address, {}).Differ(9, 4, 8).Compare() == PageDiff::kData);
  CHECK(Pages().Object(10, kType).Type(address, {.on_heap = true}).Differ(9, 4, 8).Compare() ==
        PageDiff::kGcHeaderOnly);
}

TEST_CASE("cached hashes") {
  CHECK(Pages().Object(10, kStr).Differ(13, kNoHash, 12345).Compare() == PageDiff::kHashOnly);
  CHECK(Pages().Object(10, kStr).Differ(13, 12345, kNoHash).Compare() == PageDiff::kHashOnly);  // the parent's
  CHECK(Pages().Object(10, kStr).Differ(13, 12345, 12346).Compare() == PageDiff::kData);
  CHECK(Pages().Object(10, kStr).Differ(12, kNoHash, 12345).Compare() == PageDiff::kData);
  CHECK(Pages().Object(10, kFloat).Differ(13, kNoHash, 12345).Compare() == PageDiff::kData);
  CHECK(Pages().Object(10, kStr, 0).Differ(13, kNoHash, 12345).Compare() == PageDiff::kData);
  CHECK(Pages(k314).Object(10, kTuple).Differ(13, kNoHash, 12345).Compare() == PageDiff::kHashOnly);
}

TEST_CASE("several kinds: the most frequent, ties by enum order, but data wins") {
  Pages pages;
  pages.Object(10, kList).Differ(9, 4, 8).Differ(8, 16, 32).Differ(10, 1, 2);
  CHECK(pages.Compare() == PageDiff::kGcHeaderOnly);
  pages.Object(20, kStr).Differ(20, 1, 2);
  CHECK(pages.Compare() == PageDiff::kRefcountOnly);
  for (const ptrdiff_t index : {30, 40, 50}) pages.Object(index, kStr).Differ(index + 3, kNoHash, index);
  CHECK(pages.Compare() == PageDiff::kHashOnly);
  pages.Differ(511, 0, 1);
  CHECK(pages.Compare() == PageDiff::kData);
}

TEST_CASE("objects that cross an end of the page") {
  const auto check = [](Pages pages, PageDiff expected) {
    CHECK(pages.Compare() == expected);
    // Without the other half nothing can be verified.
    CHECK(pages.WithoutNeighbours(true, true).Compare() == PageDiff::kData);
    CHECK(pages.WithoutNeighbours(true, false).Compare() == PageDiff::kData);
    CHECK(pages.WithoutNeighbours(false, true).Compare() == PageDiff::kData);
  };
  check(Pages().Object(511, kFloat).Differ(511, 1, 2), PageDiff::kRefcountOnly);
  check(Pages().Object(511, kList).Differ(510, 4, 8), PageDiff::kGcHeaderOnly);
  check(Pages().Object(512, kList).Differ(511, 4, 8), PageDiff::kGcHeaderOnly);
  check(Pages().Object(513, kList).Differ(511, 4, 8), PageDiff::kGcHeaderOnly);
  check(Pages(k374).Object(515, kList).Differ(511, 4, 8), PageDiff::kGcHeaderOnly);
  check(Pages().Object(-3, kStr).Differ(0, kNoHash, 5), PageDiff::kHashOnly);
  check(Pages().Object(-1, kStr).Differ(2, kNoHash, 5), PageDiff::kHashOnly);
  // The neighbours may differ in the count, but not in the type.
  check(Pages().Object(-3, kStr).Differ(-3, 1, 2).Differ(0, kNoHash, 5), PageDiff::kHashOnly);
  check(Pages().Object(513, kList).Differ(513, 1, 2).Differ(511, 4, 8), PageDiff::kGcHeaderOnly);
  CHECK(Pages().Object(511, kFloat).Differ(511, 1, 2).Differ(512, kFloat, kStr).Compare() == PageDiff::kData);
  CHECK(Pages().Object(-3, kStr).Differ(-2, kStr, kFloat).Differ(0, kNoHash, 5).Compare() == PageDiff::kData);
}

TEST_CASE("neighbours are needed if a word near an end differs") {
  const auto needed = [](size_t index) {
    std::vector<uint64_t> parent(kWords), worker(kWords);
    worker[index] = 1;
    return NeedsNeighbours(parent, worker);
  };
  for (const size_t index : {0, 4, 507, 511}) CHECK(needed(index));
  for (const size_t index : {5, 100, 506}) CHECK(!needed(index));
  CHECK(!NeedsNeighbours({}, {}));
}

TEST_CASE("any bytes are accepted, and none are harmless without a type") {
  std::mt19937_64 random(7);
  const std::array<uint64_t, 12> likely = {0, 1, 2, kNoHash, kFloat, kList, kStr, kType, kNoType, kPage + 80, 70000, 3};
  for (int round = 0; round < 300; ++round) {
    Pages noise, hostile(round % 2 ? k374 : k314);
    for (ptrdiff_t i = -kNear; i < kWords + kNear; ++i) {
      noise.Differ(i, random(), random());
      hostile.Differ(i, likely[random() % likely.size()], likely[random() % likely.size()]);
    }
    CHECK(noise.Compare() == PageDiff::kData);
    CHECK(hostile.Compare() == PageDiff::kData);
  }
  // Pages of different sizes are a caller's mistake, not a crash.
  CHECK(ComparePages({}, std::vector<uint64_t>(3), std::vector<uint64_t>(4)) == PageDiff::kData);
}

TEST_CASE("unsupported builds have no layout") {
  const auto layout = [](uint32_t minor, bool free_threaded = false, bool trace_refs = false) {
    Interpreter interpreter{.free_threaded = free_threaded, .trace_refs = trace_refs};
    interpreter.layout = LayoutOf(minor, 0, free_threaded);
    if (trace_refs) interpreter.layout = WithTraceRefs(interpreter.layout);
    interpreter.type_type = kType;
    return HeadLayoutOf(interpreter);
  };
  for (const uint32_t minor : {6, 7}) CHECK(layout(minor).value().gc_head_bytes == 24);
  for (const uint32_t minor : {8, 9, 10, 11, 12, 13, 14}) {
    CHECK(layout(minor).value().gc_head_bytes == 16);
    CHECK(layout(minor).value().count_has_flags == (minor == 14));
  }
  for (const uint32_t minor : {13, 14}) CHECK(!layout(minor, true));
  CHECK(!layout(7, false, true));
  CHECK(!layout(5));
  CHECK(!HeadLayoutOf(Interpreter{}));
  Interpreter unread{.layout = WithGcHead(LayoutOf(6, 9, false), 0), .type_type = kType};
  CHECK(!HeadLayoutOf(unread));
  unread.layout = WithGcHead(unread.layout, 32);
  CHECK(HeadLayoutOf(unread)->gc_head_bytes == 32);
}

TEST_CASE("traits follow from the type's flags") {
  CHECK(TraitsOf(1 << 14, 12).has_gc);
  CHECK(TraitsOf(uint64_t{1} << 31 | 1 << 9, 12).is_metatype);
  CHECK(TraitsOf(1 << 9, 12).on_heap);
  for (const uint64_t flag : {1 << 28, 1 << 27}) CHECK(TraitsOf(flag, 6).caches_hash);
  CHECK(!TraitsOf(1 << 26, 13).caches_hash);
  CHECK(TraitsOf(1 << 26, 14).caches_hash);
  CHECK(!TraitsOf(1 << 12 | 1 << 24 | 1 << 25 | 1 << 29 | 1 << 30, 14).caches_hash);
}

// ---- Recorded pages ----

// One process's side of a page.
struct Side {
  std::vector<uint64_t> page = std::vector<uint64_t>(kWords);
  PageNeighbours near{.before = std::array<uint64_t, kNeighbourWords>{},
                      .after = std::array<uint64_t, kNeighbourWords>{}};

  // "-" is an unreadable word: then there is no such neighbour.
  void Put(int index, absl::string_view text) {
    uint64_t word = 0;
    const bool readable = absl::SimpleHexAtoi(text, &word);
    if (index >= 0 && index < kWords) {
      page[index] = word;
      return;
    }
    PageNeighbours::Words& words = index < 0 ? near.before : near.after;
    if (!readable) words.reset();
    if (words) (*words)[index < 0 ? index + kNear : index - kWords] = word;
  }
  // Runs "INDEX:WORD,WORD,..." after the two words of the line.
  void Put(const std::vector<absl::string_view>& fields) {
    for (size_t i = 2; i < fields.size(); ++i) {
      const std::pair<absl::string_view, absl::string_view> run = absl::StrSplit(fields[i], absl::MaxSplits(':', 1));
      int index = 0;
      REQUIRE(absl::SimpleAtoi(run.first, &index));
      for (const absl::string_view text : absl::StrSplit(run.second, ',')) Put(index++, text);
    }
  }
};

struct RecordedPair {
  bool target = false;  // has objects that the operation is about
  uint64_t address = 0;
  Side parent, worker;
};
struct RecordedOperation {
  std::string name;
  // Pages in the recorder's sample, and how many of them were identical; some of the others are recorded.
  uint64_t targets = 0, identical_targets = 0, others = 0, identical_others = 0;
  std::vector<RecordedPair> pages;
};
struct RecordedPages {
  uint32_t minor = 0;
  absl::flat_hash_map<uint64_t, uint64_t> type_flags;
  std::vector<RecordedOperation> operations;
};

std::string ReadGzip(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  INFO(path);
  REQUIRE(file != nullptr);
  std::string text(4 << 20, '\0');
  text.resize(std::max(0, gzread(file, text.data(), text.size())));
  gzclose(file);
  return text;
}

RecordedPages ReadRecording(const std::string& version) {
  RecordedPages recorded;
  const std::string text = ReadGzip(absl::StrCat(COWPROF_FIXTURES "/pages/", version, ".txt.gz"));
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t address = 0;
    if (fields[0] == "version") {
      const std::vector<absl::string_view> parts = absl::StrSplit(fields[1], '.');
      REQUIRE(absl::SimpleAtoi(parts[1], &recorded.minor));
    } else if (fields[0] == "operation") {
      RecordedOperation operation{.name = std::string(fields[1])};
      uint64_t* const numbers[] = {&operation.targets, &operation.identical_targets, &operation.others,
                                   &operation.identical_others};
      for (size_t i = 0; i < 4; ++i) REQUIRE(absl::SimpleAtoi(fields[2 + i], numbers[i]));
      recorded.operations.push_back(operation);
    } else {
      REQUIRE(absl::SimpleHexAtoi(fields[1], &address));
      if (fields[0] == "type") {
        REQUIRE(absl::SimpleHexAtoi(fields[2], &recorded.type_flags[address]));
      } else if (fields[0] == "worker") {
        recorded.operations.back().pages.back().worker.Put(fields);
      } else {
        RecordedPair pair{.target = fields[0] == "target", .address = address};
        pair.parent.Put(fields);
        pair.worker = pair.parent;
        recorded.operations.back().pages.push_back(pair);
      }
    }
  }
  return recorded;
}

PageDiff Compare(const RecordedPages& recorded, const RecordedPair& pair) {
  PageContext context{.address = pair.address, .parent = pair.parent.near, .worker = pair.worker.near};
  context.layout = {.gc_head_bytes = recorded.minor < 8 ? 32u : 16u, .count_has_flags = recorded.minor >= 14};
  context.types = [&recorded](uint64_t address) -> std::optional<TypeTraits> {
    const auto flags = recorded.type_flags.find(address);
    if (flags == recorded.type_flags.end()) return std::nullopt;
    return TraitsOf(flags->second, recorded.minor);
  };
  return ComparePages(context, pair.parent.page, pair.worker.page);
}

TEST_CASE("recorded pages of forked interpreters are classified by what was done to them") {
  const std::string version = GENERATE("3.7.16", "3.8.18", "3.11.7", "3.12.1", "3.13.0", "3.14.10");
  const std::map<std::string, PageDiff> expected = {{"keep", PageDiff::kRefcountOnly},
                                                    {"hash", PageDiff::kHashOnly},
                                                    {"write", PageDiff::kData},
                                                    {"untrack", PageDiff::kGcHeaderOnly}};
  const RecordedPages recorded = ReadRecording(version);
  REQUIRE(recorded.operations.size() == 6);
  for (const RecordedOperation& operation : recorded.operations) {
    INFO(version << " " << operation.name);
    const auto truth = expected.find(operation.name);
    int targets = 0;
    for (const RecordedPair& pair : operation.pages) {
      const PageDiff diff = Compare(recorded, pair);
      CHECK(diff != PageDiff::kIdentical);
      if (pair.target && truth != expected.end()) CHECK(diff == truth->second);
      targets += pair.target;
    }
    if (truth == expected.end()) {  // iterate, collect. The rest is the child's working set: frames, allocator, caches
      CHECK(operation.identical_targets >= 0.99 * operation.targets);
      CHECK(operation.identical_targets + operation.identical_others >=
            (operation.name == "iterate" ? 0.93 : 0.90) * (operation.targets + operation.others));
    } else if (operation.name != "untrack" || recorded.minor != 14) {  // 3.14 has left such tuples untracked already
      CHECK(targets >= 1);
    }
  }
}

}  // namespace
}  // namespace cowprof
