// One reading of what pickle's save() would visit from an object, in its order, without running anything in the target:
// what fails, what can't be told, and the bytes. Bounded in objects and time. A process that runs may show it torn
// state; pickle_look.h makes several walks agree.
#ifndef COWPROF_PYTHON_PICKLE_WALK_H_
#define COWPROF_PYTHON_PICKLE_WALK_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "model/facts/pickle_mix.h"
#include "model/facts/start_methods.h"
#include "posix/clock.h"
#include "python/cached_memory.h"
#include "python/graph.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"
#include "python/pickle_rules.h"
#include "python/roots.h"
#include "python/seen_addresses.h"

namespace cowprof {

struct PickleLimits {
  uint64_t objects = 2'000'000;             // of one walk
  absl::Duration time = absl::Seconds(20);  // of one walk
  // Asked every 1024 objects of a walk: false ends it, as the limits do. May sleep.
  std::function<bool()> go_on = nullptr;
};

class PickleWalk {
 public:
  // A step on the way to an object: from its parent, along this edge.
  struct Step {
    uint32_t ordinal = 0;  // which edge of the parent
    Edge edge;
  };

  struct Found {
    uint32_t node = 0;
    PickleReason reason = PickleReason::kNone;
    std::string type, name, defined_at, runs, path;
    uint64_t count = 1;
    bool below_unknown = false;
    bool in_worker = false;  // it is unknown what unpickling does; pickle sends all of it
  };

  // A list, tuple, dict or numpy array of objects that lies in no other one of those that were noted.
  struct Container {
    uint64_t object = 0, count = 0;
    std::string path, type;
  };

  PickleWalk(const Interpreter& interpreter, const MemoryReader& memory, const PickleLimits& limits,
             bool ending = false)
      : cached_(memory),
        graph_(interpreter, cached_),
        rules_(&graph_, ending, [this] { return OutOfTime(); }),
        limits_(limits) {}

  void Run(const PickleRoot& root);
  // Whether the chain to a finding's object is still there, and it is still of that type and reason. False, and
  // `capped`: there was no time to see.
  bool StillThere(const PickleRoot& root, const std::vector<Step>& chain, const Found& found);
  std::vector<Step> ChainTo(uint32_t node) const;
  // Whether pickle meets one of the failures that were found so far, whatever code of the program sends.
  bool HasSureFailure() const;
  // What its items are, each pickled by itself, and how many objects an item has on average. Of a walk that did not
  // run. nullopt: they were unreadable or too large, or what unpickling one would do can't be told from its kinds.
  std::optional<std::pair<PickleItems, double>> SampleItems(const Container& container);

  std::vector<Found> failures, unknowns;  // in the order of pickle
  uint64_t failures_left_out = 0, unknowns_left_out = 0;
  uint64_t objects = 0, unreadable = 0, bytes = 0, unsure_bytes = 0;
  uint64_t rest_bytes = 0;  // of items beyond the limit, if they are like those before it
  PickleMix mix;
  bool unsized = false;  // of something `bytes` has a lower bound only
  bool capped = false;
  // The largest numpy array with dtype=object, and its length.
  std::string object_array;
  uint64_t object_array_items = 0;
  std::vector<Container> containers;  // the largest, the most items first

 private:
  // Kept for each object that may hold others: four million bytes for a data set of a hundred thousand rows, so the
  // parts of an Edge that exclude each other share one place.
  struct Node {
    uint32_t parent = 0, ordinal = 0;
    uint32_t calls = 0;  // of pickle's functions within each other, when it gets there
    uint32_t field = 0;  // index in fields_
    uint64_t object = 0;
    uint64_t name_or_index = 0;
    EdgeKind kind = EdgeKind::kField;
  };
  uint32_t AddNode(uint32_t parent, uint32_t ordinal, uint32_t calls, const Edge& edge);
  Step StepTo(const Node& node) const;
  void Forget();
  static constexpr uint64_t kFirstItems = 256;
  static constexpr size_t kOneByteMemo = 256;
  struct Level {
    uint32_t node = 0, ordinal = 0;
    Edges edges;
    uint64_t left = kFirstItems;
    uint64_t bytes_before = 0, bytes_used = 0, items = 0;  // `bytes` when it went on the stack; of its items so far
  };
  void Push(Level level) {
    level.bytes_before = bytes;
    stack_.push_back(std::move(level));
  }
  void AddRest(const Level& level, uint64_t used);
  void Visit(uint32_t parent, uint32_t ordinal, const Edge& edge);
  void Drain();
  void DrainAll();
  bool RunAlone(uint64_t object);
  void NoteContainer(uint32_t node, const TypeRule& rule, uint64_t entries);
  Edges ChildrenOf(uint64_t object, const TypeRule& rule);
  void AppendFields(uint64_t object, const TypeRule& rule, std::vector<Edge>* fields, Edges* rest);
  void AppendArguments(uint64_t tuple, uint64_t first, std::vector<Edge>* fields);
  void JudgeName(uint32_t node, uint64_t object, const ByName& named);
  void Fail(uint32_t node, PickleReason reason, std::string name, std::string defined_at);
  void Note(uint32_t node, Found found, std::vector<Found>* list, uint64_t* left_out);
  void CountText(uint64_t object);
  void CountNumber(uint64_t object);
  void CountPlain(uint64_t object, const TypeRule& rule);
  void CountBuffer(uint64_t object, const TypeRule& rule);
  void CountArray(uint64_t object);
  void JudgeTensor(uint32_t node, uint64_t object, const TypeRule& rule);
  // Whether pickle meets it for the first time; otherwise counts the reference to its memo, which has one byte or four.
  bool Remember(uint64_t object) {
    if (seen_.Insert(object)) {
      if (seen_.size() <= kOneByteMemo) in_one_byte_.insert(object);
      return true;
    }
    bytes += in_one_byte_.contains(object) ? 2 : 5;
    ++mix.again;
    return false;
  }
  void CountName(const Edge& edge);
  void CountContainer(uint64_t object, const TypeRule& rule);
  bool OutOfBudget();
  bool OutOfTime();  // after many comparisons of names, which may be for one type or name
  void LookAtClock();
  std::string PathOf(uint32_t node, bool general);
  bool IsBefore(uint32_t a, uint32_t b) const;
  bool IsBelowUnknown(uint32_t node) const;

  CachedMemory cached_;
  ObjectGraph graph_;
  PickleRules rules_;
  const PickleLimits limits_;
  const absl::Duration began_ = BootTime();
  uint64_t next_pause_ = 128, next_look_ = 16384;  // in objects; in names that were compared
  uint64_t steps_again_ = 0;                       // of StillThere()
  std::string expression_;
  absl::flat_hash_map<uint64_t, std::string> names_;
  std::deque<Node> nodes_;  // a vector would move them to ever larger memory
  std::vector<std::string> fields_ = {""};
  absl::flat_hash_map<std::string, uint32_t> field_numbers_;
  std::vector<Level> stack_;
  std::deque<Level> later_;
  SeenAddresses seen_;                         // pickle's memo
  absl::flat_hash_set<uint64_t> in_one_byte_;  // those whose number in it takes one
  absl::flat_hash_set<uint64_t> classes_;
  absl::flat_hash_set<uint32_t> open_unknowns_;
  absl::flat_hash_set<uint64_t> hiding_;  // names of attributes that pickle takes for methods
  uint64_t by_name_ = 0;                  // classes and functions that are sent as such
  bool too_deep_ = false;
  absl::flat_hash_map<std::string, size_t> shapes_;  // of failures and unknowns: index of the first of its kind
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PICKLE_WALK_H_
