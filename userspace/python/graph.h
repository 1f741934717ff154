// What objects of a target refer to, as far as pickle follows it: items, attributes, slots. Lazy and bounded by the
// caller; trusts no length, pointer or cycle. Reads through a MemoryReader; see cached_memory.h for a walk's.
#ifndef COWPROF_PYTHON_GRAPH_H_
#define COWPROF_PYTHON_GRAPH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "python/interpreter.h"
#include "python/memory_reader.h"
#include "python/objects.h"
#include "python/state_layout.h"

namespace cowprof {

enum class EdgeKind : uint8_t {
  kAttribute,
  kIndex,
  kFlat,  // of an array with more than one dimension
  kKey,   // a dict's key
  kValue,
  kElement,  // of a set
  kField
};

// One reference from an object to another.
struct Edge {
  EdgeKind kind = EdgeKind::kField;
  uint64_t object = 0;  // the address referred to; 0: unreadable
  uint64_t name = 0;    // kAttribute, kKey, kValue: address of the key
  uint64_t index = 0;   // kIndex, kFlat
  std::string field;    // kField: what stands behind the dot: "func"; of slots, too
};

// The references of one kind that an object has, one after the other.
class Edges {
 public:
  static Edges None() { return Edges(); }
  static Edges Fields(std::vector<Edge> edges);

  // How many entries there may be, as the target claims.
  uint64_t size() const { return kind_ == Kind::kFields ? fields_.size() : count_; }
  bool pairs() const { return kind_ == Kind::kEntries && edge_ == EdgeKind::kValue; }  // keys and values in turn
  bool torn() const { return torn_; }        // entries were unreadable, or too many were empty
  uint64_t empty() const { return empty_; }  // entries without an object that Next() passed
  // The next one; false at the end.
  bool Next(const MemoryReader& memory, Edge* edge);
  // Of a list, a tuple or an array: the next one will be that with `index`. False: it is something else.
  bool SkipTo(uint64_t index);

 private:
  friend class ObjectGraph;
  enum class Kind : uint8_t { kFields, kArray, kEntries, kSet, kDeque };
  bool Refill(const MemoryReader& memory);
  bool NextOfDeque(const MemoryReader& memory, Edge* edge);

  Kind kind_ = Kind::kFields;
  EdgeKind edge_ = EdgeKind::kField;
  std::vector<Edge> fields_;
  uint64_t at_ = 0, count_ = 0, empty_ = 0;  // entries
  uint64_t address_ = 0, values_ = 0;        // of the first entry; of a split table's values, 0: in the entries
  uint32_t entry_bytes_ = 8, key_offset_ = 0;
  uint64_t block_index_ = 0;  // of the next item in a deque's block, which is at `address_`
  bool torn_ = false, key_pending_ = false;
  Edge value_;
  std::vector<char> batch_, batch_values_;
  uint64_t batch_first_ = 0, batch_count_ = 0;
};

// A type, as far as pickle's test looks at it. Sizes in bytes.
struct TypeShape {
  TypeInfo info;
  uint64_t address = 0, dict = 0, tp_new = 0, methods = 0;
  int64_t dict_offset = 0, weaklist_offset = 0;
  uint64_t cached_keys = 0;
  std::vector<uint64_t> mro;  // at most 256
  bool heap() const { return info.flags >> 9 & 1; }
  bool is_list() const { return info.flags >> 25 & 1; }
  bool is_tuple() const { return info.flags >> 26 & 1; }
  bool is_dict() const { return info.flags >> 29 & 1; }
  bool is_exception() const { return info.flags >> 30 & 1; }
  bool is_type() const { return info.flags >> 31 & 1; }
  bool managed_dict() const { return info.flags >> 4 & 1; }
  bool inline_values() const { return info.flags >> 2 & 1; }
};

struct Slot {
  std::string name;
  uint64_t offset = 0;
};

class ObjectGraph {
 public:
  // Both must outlive it.
  ObjectGraph(const Interpreter& interpreter, const MemoryReader& memory);

  const Interpreter& interpreter() const { return interpreter_; }
  const MemoryReader& memory() const { return memory_; }
  const StateLayout& state() const { return state_; }
  const PythonLayout& layout() const { return interpreter_.layout; }
  TypeReader& types() { return types_; }

  uint64_t Pointer(uint64_t address) const;  // the word at `address`; 0: unreadable
  uint64_t TypeOf(uint64_t object) const;    // address of its type; 0: unreadable
  std::string TypeName(uint64_t object);     // "" if unreadable
  std::string Text(uint64_t object) const;   // of a str, at most kMaxNameBytes; "" if it is not one
  // Of an int of at most 60 bits, or a bool; nullopt: of another type, such as numpy.int64, or unreadable.
  std::optional<int64_t> Int(uint64_t object);
  std::optional<TypeShape> ReadShape(uint64_t type);

  // ---- Lookups ----
  static constexpr size_t kMostNames = 1 << 20;  // of a module, or of a dict that the user names
  uint64_t InDict(uint64_t dict, absl::string_view key, size_t most = DictSearch().most) const;
  uint64_t NewestInDict(uint64_t dict, absl::string_view key) const;  // one that was added just now
  // Lookups that found nothing where something may be, and keys that were compared, since the beginning.
  uint64_t cut_lookups() const { return cut_lookups_; }
  uint64_t unreadable_lookups() const { return unreadable_lookups_; }  // of those that were cut
  uint64_t compared_keys() const { return compared_keys_; }
  // sys.modules[module]; 0: none. Programs put objects there that are not modules.
  uint64_t ModuleObject(absl::string_view module) const { return InDict(modules_, module, kMostNames); }
  Edges Modules() const { return DictItems(modules_, EdgeKind::kAttribute); }
  bool IsModule(uint64_t object) const;          // or of a subclass
  uint64_t DictOfModule(uint64_t object) const;  // 0: not a module
  uint64_t ModuleDict(absl::string_view module) const { return DictOfModule(ModuleObject(module)); }
  struct Method {
    uint64_t owner = 0;   // the type that has it; 0: none but object's
    uint64_t object = 0;  // as in its __dict__; 0: a C method that only tp_methods has
  };
  // The first in the MRO, `object` left out.
  Method FindMethod(const TypeShape& shape, absl::string_view name) const;
  // getattr() without running code: instance __dict__, slots, class attributes. 0: not found, or a descriptor of the
  // class decides (a property, a method).
  uint64_t Attribute(uint64_t object, absl::string_view name);
  // Of its __dict__ alone, among the first `most` entries: what the library's classes set in each of their objects.
  uint64_t InstanceAttribute(uint64_t object, absl::string_view name, size_t most = DictSearch().most);

  // ---- State ----
  bool HasZone(uint64_t time) const;                  // of a datetime.datetime or datetime.time
  Edges Items(uint64_t object, EdgeKind kind) const;  // of a list
  Edges TupleItems(uint64_t object) const;
  // Of a numpy array with dtype=object that is contiguous; nullopt: it is not one.
  std::optional<Edges> ArrayItems(uint64_t array) const;
  Edges DictItems(uint64_t dict, EdgeKind values) const;  // kValue: keys, too; kAttribute: values only
  Edges SetItems(uint64_t set) const;
  Edges DequeItems(uint64_t deque) const;
  Edges Attributes(uint64_t object, const TypeShape& shape) const;  // of its __dict__
  std::vector<Slot> SlotsOf(const TypeShape& shape) const;          // __slots__ of all of its classes

 private:
  uint64_t Search(uint64_t dict, absl::string_view key, DictSearch search) const;
  uint64_t DictOf(uint64_t object, const TypeShape& shape) const;
  uint64_t InAttributes(uint64_t object, const TypeShape& shape, absl::string_view name, size_t most) const;
  // Values that are kept apart from their keys, in the order in which they were set. 3.11 and later.
  Edges SplitItems(const KeysTable& keys, uint64_t values, EdgeKind kind) const;
  bool HasCMethod(uint64_t methods, absl::string_view name) const;

  const Interpreter& interpreter_;
  const MemoryReader& memory_;
  const StateLayout state_;
  TypeReader types_;
  uint64_t base_object_ = 0, modules_ = 0;
  mutable uint64_t cut_lookups_ = 0, unreadable_lookups_ = 0, compared_keys_ = 0;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_GRAPH_H_
