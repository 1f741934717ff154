// Finds where an object keeps what pickle follows. The references themselves are read in edges.cc.
#include "python/graph.h"

#include <algorithm>

namespace cowprof {
namespace {

constexpr uint64_t kMostEntries = uint64_t{1} << 32;
constexpr size_t kMostBases = 256, kMostMethods = 512, kMostSlots = 512;
constexpr uint64_t kMethodDefBytes = 32, kMemberDefBytes = 40;  // PyMethodDef, PyMemberDef

}  // namespace

// ---- Lookups ----

ObjectGraph::ObjectGraph(const Interpreter& interpreter, const MemoryReader& memory)
    : interpreter_(interpreter),
      memory_(memory),
      state_(StateLayoutOf(interpreter.layout)),
      types_(interpreter, memory) {
  base_object_ = Pointer(interpreter.type_type + state_.base);
  if (interpreter.main_interpreter != 0)
    modules_ = Pointer(interpreter.main_interpreter + layout().interpreter.modules);
}

uint64_t ObjectGraph::Pointer(uint64_t address) const {
  return IsUserPointer(address) ? ReadValue<uint64_t>(memory_, address).value_or(0) : 0;
}

uint64_t ObjectGraph::TypeOf(uint64_t object) const {
  return IsUserPointer(object) ? Pointer(object + layout().object.type) : 0;
}

std::string ObjectGraph::TypeName(uint64_t object) { return types_.NameOf(TypeOf(object)).value_or(""); }

std::string ObjectGraph::Text(uint64_t object) const {
  return ReadString(layout(), memory_, object, kMaxNameBytes).value_or("");
}

std::optional<int64_t> ObjectGraph::Int(uint64_t object) {
  const std::string type = TypeName(object);
  return type == "int" || type == "bool" ? ReadInt(layout(), memory_, object) : std::nullopt;
}

std::optional<TypeShape> ObjectGraph::ReadShape(uint64_t type) {
  std::optional<TypeInfo> info = types_.Read(type);
  if (!info) return std::nullopt;
  TypeShape shape{.info = *std::move(info), .address = type};
  shape.dict = Pointer(type + layout().type.dict);
  shape.tp_new = Pointer(type + state_.tp_new);
  shape.methods = Pointer(type + state_.methods);
  shape.dict_offset = static_cast<int64_t>(Pointer(type + state_.dict_offset));
  shape.weaklist_offset = static_cast<int64_t>(Pointer(type + state_.weaklist_offset));
  if (shape.heap()) shape.cached_keys = Pointer(type + state_.cached_keys);
  Edges mro = TupleItems(Pointer(type + state_.mro));
  Edge base;
  while (shape.mro.size() < kMostBases && mro.Next(memory_, &base)) shape.mro.push_back(base.object);
  if (shape.mro.empty() || shape.mro[0] != type) return std::nullopt;
  return shape;
}

uint64_t ObjectGraph::InDict(uint64_t dict, absl::string_view key, size_t most) const {
  return Search(dict, key, {.most = most});
}

uint64_t ObjectGraph::NewestInDict(uint64_t dict, absl::string_view key) const {
  return Search(dict, key, {.newest_first = true});
}

uint64_t ObjectGraph::Search(uint64_t dict, absl::string_view key, DictSearch search) const {
  const uint64_t found = FindInDict(layout(), memory_, dict, key, &search);
  compared_keys_ += search.compared;
  cut_lookups_ += !search.whole;
  unreadable_lookups_ += !search.readable;
  return found;
}

uint64_t ObjectGraph::DictOfModule(uint64_t object) const {
  return object == 0 || !IsModule(object) ? 0 : Pointer(object + state_.module_dict);
}

bool ObjectGraph::IsModule(uint64_t object) const {
  TypeReader types(interpreter_, memory_);
  const uint64_t type = TypeOf(object);
  if (types.NameOf(type).value_or("") == "module") return true;
  Edges mro = TupleItems(Pointer(type + state_.mro));
  Edge base;
  for (size_t i = 0; i < kMostBases && mro.Next(memory_, &base); ++i) {
    if (types.NameOf(base.object).value_or("") == "module") return true;
  }
  return false;
}

bool ObjectGraph::HasCMethod(uint64_t methods, absl::string_view name) const {
  for (size_t i = 0; i < kMostMethods && IsUserPointer(methods); ++i) {
    const uint64_t text = Pointer(methods + i * kMethodDefBytes);
    if (text == 0) return false;
    if (ReadCString(memory_, text, name.size() + 1) == name) return true;
  }
  return false;
}

ObjectGraph::Method ObjectGraph::FindMethod(const TypeShape& shape, absl::string_view name) const {
  for (const uint64_t type : shape.mro) {
    if (type == base_object_) continue;
    const uint64_t dict = Pointer(type + layout().type.dict);
    if (dict != 0) {
      if (const uint64_t found = InDict(dict, name); found != 0) return {type, found};
    } else if (HasCMethod(Pointer(type + state_.methods), name)) {
      return {type, 0};  // static types have no tp_dict of their own since 3.12
    }
  }
  return {};
}

uint64_t ObjectGraph::InAttributes(uint64_t object, const TypeShape& shape, absl::string_view name, size_t most) const {
  Edges attributes = Attributes(object, shape);
  attributes.count_ = std::min<uint64_t>(attributes.count_, most);  // entries, empty ones included
  Edge edge;
  while (attributes.Next(memory_, &edge)) {
    if (ReadString(layout(), memory_, edge.name, kMaxKeyBytes) == name) return edge.object;
  }
  return 0;
}

uint64_t ObjectGraph::InstanceAttribute(uint64_t object, absl::string_view name, size_t most) {
  const std::optional<TypeShape> shape = ReadShape(TypeOf(object));
  return shape ? InAttributes(object, *shape, name, most) : 0;
}

uint64_t ObjectGraph::Attribute(uint64_t object, absl::string_view name) {
  const uint64_t type = TypeOf(object);
  const std::optional<TypeShape> shape = ReadShape(type);
  if (!shape) return 0;
  if (shape->info.name == "module") return InDict(Pointer(object + state_.module_dict), name, kMostNames);
  if (shape->is_type()) {
    const std::optional<TypeShape> self = ReadShape(object);
    return self ? FindMethod(*self, name).object : 0;
  }
  if (const uint64_t own = InAttributes(object, *shape, name, kMostNames); own != 0) return own;
  for (const Slot& slot : SlotsOf(*shape)) {
    if (slot.name == name) return Pointer(object + slot.offset);
  }
  const uint64_t found = FindMethod(*shape, name).object;
  return Pointer(TypeOf(found) + state_.descr_get) == 0 ? found : 0;
}

// ---- State ----

bool ObjectGraph::HasZone(uint64_t time) const {
  return IsUserPointer(time) && ReadValue<uint8_t>(memory_, time + state_.has_zone).value_or(0) != 0;
}

Edges ObjectGraph::Items(uint64_t object, EdgeKind kind) const {
  Edges edges;
  edges.kind_ = Edges::Kind::kArray;
  edges.edge_ = kind;
  edges.count_ = Pointer(object + layout().object.var_size);
  edges.address_ = Pointer(object + state_.list_items);
  if (edges.count_ > kMostEntries || (edges.count_ > 0 && !IsUserPointer(edges.address_))) {
    edges.count_ = 0;
    edges.torn_ = true;
  }
  return edges;
}

Edges ObjectGraph::TupleItems(uint64_t object) const {
  Edges edges = Items(object, EdgeKind::kIndex);
  edges.count_ = Pointer(object + layout().object.var_size);
  edges.address_ = object + layout().container.tuple_items;
  edges.torn_ = edges.count_ > kMostEntries || !IsUserPointer(object);
  if (edges.torn_) edges.count_ = 0;
  return edges;
}

// PyArrayObject of numpy 1 and 2: data 16, nd 24, dimensions 32, descr 56, flags 64 (1: C-contiguous); kind of
// PyArray_Descr: 24. Its items are references in the order in which ndarray.__reduce__ lists them.
std::optional<Edges> ObjectGraph::ArrayItems(uint64_t array) const {
  const auto rank = ReadValue<int32_t>(memory_, array + 24), flags = ReadValue<int32_t>(memory_, array + 64);
  const auto kind = ReadValue<char>(memory_, Pointer(array + 56) + 24);
  if (!rank || *rank < 0 || *rank > 64 || !flags || !(*flags & 1) || !kind || *kind != 'O') return std::nullopt;
  Edges edges;
  edges.kind_ = Edges::Kind::kArray;
  edges.edge_ = *rank == 1 ? EdgeKind::kIndex : EdgeKind::kFlat;
  edges.address_ = Pointer(array + 16);
  edges.count_ = 1;
  const uint64_t dimensions = Pointer(array + 32);
  for (int32_t i = 0; i < *rank; ++i) {
    const uint64_t dimension = Pointer(dimensions + 8 * i);
    if (dimension > 0 && edges.count_ > kMostEntries / dimension) return std::nullopt;
    edges.count_ *= dimension;
  }
  if (edges.count_ > 0 && !IsUserPointer(edges.address_)) return std::nullopt;
  return edges;
}

// PyDictValues, Include/internal/pycore_dict.h: since 3.13 {capacity, size, embedded, valid} before the values and the
// order behind them; in 3.11 and 3.12 all of it before them, backwards.
Edges ObjectGraph::SplitItems(const KeysTable& keys, uint64_t values, EdgeKind kind) const {
  const bool backwards = layout().minor < 13;
  const uint64_t size = ReadValue<uint8_t>(memory_, backwards ? values - 2 : values + 1).value_or(0);
  const uint64_t capacity = backwards ? keys.count : ReadValue<uint8_t>(memory_, values).value_or(0);
  std::vector<Edge> items;
  bool torn = size > capacity && !backwards;
  for (uint64_t i = 0; i < size && !torn; ++i) {
    const auto slot = ReadValue<uint8_t>(
        memory_, backwards ? values - 3 - i : values + layout().container.first_value + 8 * capacity + i);
    if (!slot || *slot >= keys.count || (!backwards && *slot >= capacity)) {
      torn = true;
      break;
    }
    const uint64_t key = Pointer(keys.entries + *slot * keys.entry_bytes + keys.key_offset);
    const uint64_t value = Pointer(values + layout().container.first_value + 8 * *slot);
    if (key == 0 || value == 0) continue;  // deleted
    if (kind == EdgeKind::kValue) items.push_back({.kind = EdgeKind::kKey, .object = key, .name = key});
    items.push_back({.kind = kind, .object = value, .name = key});
  }
  Edges edges = Edges::Fields(std::move(items));
  edges.torn_ = torn;
  return edges;
}

Edges ObjectGraph::DictItems(uint64_t dict, EdgeKind values) const {
  Edges edges;
  edges.kind_ = Edges::Kind::kEntries;
  edges.edge_ = values;
  const auto table = IsUserPointer(dict)
                         ? ReadKeysTable(layout(), memory_, Pointer(dict + layout().container.dict_keys))
                         : std::nullopt;
  edges.torn_ = !table;
  if (!table) return edges;
  const uint64_t split = Pointer(dict + layout().container.dict_values);
  if (split != 0 && layout().minor >= 11) return SplitItems(*table, split, values);
  edges.address_ = table->entries;
  edges.count_ = table->count;
  edges.entry_bytes_ = static_cast<uint32_t>(table->entry_bytes);
  edges.key_offset_ = static_cast<uint32_t>(table->key_offset);
  if (split != 0) edges.values_ = split + layout().container.first_value;
  return edges;
}

Edges ObjectGraph::SetItems(uint64_t set) const {
  Edges edges;
  edges.kind_ = Edges::Kind::kSet;
  edges.entry_bytes_ = 16;
  const uint64_t mask = Pointer(set + state_.set_mask), used = Pointer(set + state_.set_used);
  edges.address_ = Pointer(set + state_.set_table);
  edges.torn_ = mask >= kMostEntries || (mask & (mask + 1)) != 0 || used > mask || !IsUserPointer(edges.address_);
  if (!edges.torn_) edges.count_ = mask + 1;
  return edges;
}

Edges ObjectGraph::DequeItems(uint64_t deque) const {
  Edges edges;
  edges.kind_ = Edges::Kind::kDeque;
  edges.count_ = Pointer(deque + layout().object.var_size);
  edges.address_ = Pointer(deque + state_.deque_left);
  edges.block_index_ = Pointer(deque + state_.deque_index);
  edges.torn_ = edges.count_ > kMostEntries || !IsUserPointer(edges.address_);
  if (edges.torn_) edges.count_ = 0;
  return edges;
}

// _PyObject_GetDictPtr() of each version; 0: none, or not made yet.
uint64_t ObjectGraph::DictOf(uint64_t object, const TypeShape& shape) const {
  if (shape.managed_dict()) {
    const uint64_t word = Pointer(object - 24);
    return layout().minor == 12 && (word & 1) != 0 ? 0 : word;
  }
  if (shape.dict_offset == 0) return 0;
  int64_t offset = shape.dict_offset;
  if (offset < 0) {  // counted from the end of a variable-sized object
    auto count = static_cast<int64_t>(Pointer(object + layout().object.var_size));
    if (shape.info.flags >> 24 & 1) {  // an int: 3.12 keeps its sign in the lowest bits
      count = layout().minor >= 12 ? count >> 3 : count < 0 ? -count : count;
    } else if (count < 0) {
      count = -count;
    }
    if (count > (1 << 20)) return 0;
    const uint64_t bytes = (shape.info.basic_size + count * shape.info.item_size + 7) / 8 * 8;
    offset += static_cast<int64_t>(bytes);
  }
  return offset > 0 ? Pointer(object + offset) : 0;
}

Edges ObjectGraph::Attributes(uint64_t object, const TypeShape& shape) const {
  uint64_t values = 0;
  if (shape.managed_dict()) {
    const uint64_t word = Pointer(object - 24);
    if (layout().minor == 11) {
      values = Pointer(object - 32);
    } else if (layout().minor == 12) {
      values = (word & 1) != 0 ? word + 1 : 0;  // PyDictOrValues
    } else if (word == 0 && shape.inline_values()) {
      values = object + shape.info.basic_size;
    }
  }
  if (values == 0) {
    const uint64_t dict = DictOf(object, shape);
    return dict == 0 ? Edges::None() : DictItems(dict, EdgeKind::kAttribute);
  }
  const auto table = ReadKeysTable(layout(), memory_, shape.cached_keys);
  if (table) return SplitItems(*table, values, EdgeKind::kAttribute);
  Edges torn;
  torn.torn_ = true;
  return torn;
}

std::vector<Slot> ObjectGraph::SlotsOf(const TypeShape& shape) const {
  std::vector<Slot> slots;
  for (const uint64_t type : shape.mro) {
    const uint64_t flags = Pointer(type + layout().type.flags);
    const uint64_t dict = Pointer(type + layout().type.dict);
    if ((flags >> 9 & 1) == 0 || InDict(dict, "__slots__") == 0) continue;
    uint64_t member = Pointer(type + layout().type.members);
    for (size_t i = 0; i < kMostSlots && IsUserPointer(member); ++i, member += kMemberDefBytes) {
      const uint64_t name = Pointer(member);
      if (name == 0) break;
      const std::string text = ReadCString(memory_, name, kMaxNameBytes).value_or("");
      const uint64_t offset = Pointer(member + 16);
      if (!text.empty() && offset < shape.info.basic_size) slots.push_back({text, offset});
    }
  }
  return slots;
}

}  // namespace cowprof
