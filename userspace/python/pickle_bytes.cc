// Counts the bytes that protocol 4 writes for an object, and its kind for the mix (declared in pickle_walk.h).
#include <algorithm>
#include <optional>
#include <string>

#include "absl/hash/hash.h"
#include "python/pickle_walk.h"

namespace cowprof {
namespace {

constexpr uint64_t kObjectBytes = 8, kSlotsBytes = 3, kFloatBytes = 9;
constexpr uint64_t kMostBytes = uint64_t{1} << 40;  // of one object
constexpr uint64_t kShortText = 256;                // characters whose size in UTF-8 does not matter

// Include/object.h: Py_TPFLAGS_LONG_SUBCLASS and so on.
bool IsInt(uint64_t flags) { return flags >> 24 & 1; }
bool IsBytes(uint64_t flags) { return flags >> 27 & 1; }
bool IsStr(uint64_t flags) { return flags >> 28 & 1; }

}  // namespace

// Names of attributes are written before their values.
void PickleWalk::CountName(const Edge& edge) {
  if (edge.kind == EdgeKind::kAttribute && edge.name != 0) {
    if (!Remember(edge.name)) return;
    CountText(edge.name);
    const std::string name = graph_.Text(edge.name);
    if (name == "__reduce_ex__" || name == "__getstate__") hiding_.insert(edge.name);
  } else if (edge.kind == EdgeKind::kField && !edge.field.empty()) {
    // Not an address, so that it meets no object.
    if (Remember(absl::HashOf(edge.field) | 1)) bytes += edge.field.size() + 3;
  }
}

void PickleWalk::CountContainer(uint64_t object, const TypeRule& rule) {
  // MARK and one instruction for each thousand items, none at all for one.
  const auto batches = [](uint64_t n) { return n == 1 ? 1 : 2 * ((n + 999) / 1000); };
  const uint64_t size = std::min<uint64_t>(graph_.Pointer(object + graph_.layout().object.var_size), 1u << 31);
  switch (rule.replay) {
    case Replay::kList:
    case Replay::kDict:
      ++(rule.replay == Replay::kList ? mix.lists : mix.dicts);
      bytes += 2 + batches(size);
      break;
    case Replay::kTuple:
      ++mix.tuples;
      bytes += size == 0 ? 1 : size <= 3 ? 2 : 3;
      break;
    case Replay::kSet:
      ++mix.sets;
      bytes += 2 + batches(std::min<uint64_t>(graph_.Pointer(object + graph_.state().set_used), 1u << 31));
      break;
    default:
      if (rule.replay != Replay::kArray && rule.replay != Replay::kTensor && rule.replay != Replay::kBuffer) {
        classes_.insert(rule.shape.address);
        ++(rule.shape.is_list()            ? mix.lists
           : rule.shape.is_dict()          ? mix.dicts
           : rule.replay == Replay::kEnum  ? mix.reduced
           : rule.replay == Replay::kZoned ? mix.reduced
           : rule.replay == Replay::kItems ? mix.sets
                                           : mix.instances);
      }
      // EMPTY_TUPLE, NEWOBJ, MEMOIZE; EMPTY_DICT, MEMOIZE, MARK, SETITEMS, BUILD.
      bytes += kObjectBytes + (rule.slots.empty() ? 0 : kSlotsBytes);
      if (rule.shape.is_list() || rule.shape.is_dict()) bytes += batches(size);
      // What __getnewargs__ of str, bytes and int returns.
      if (rule.replay != Replay::kState) break;
      if (IsStr(rule.shape.info.flags) || IsBytes(rule.shape.info.flags)) CountText(object);
      if (IsInt(rule.shape.info.flags)) CountNumber(object);
  }
}

void PickleWalk::CountPlain(uint64_t object, const TypeRule& rule) {
  bytes += rule.bytes == 0 ? 4 : rule.bytes;
  ++(rule.bytes == 1 ? mix.again : rule.bytes == kFloatBytes ? mix.floats : mix.reduced);
  if (rule.replay != Replay::kScalar) return;
  const uint64_t flags = rule.shape.info.flags;
  uint64_t content = 0;
  if (IsStr(flags)) content = 4 * graph_.Pointer(object + graph_.layout().string.length);  // numpy.str_
  if (IsBytes(flags)) content = graph_.Pointer(object + graph_.layout().object.var_size);  // numpy.bytes_
  if (content > kMostBytes) {
    ++unreadable;
    return;
  }
  bytes += content;
  mix.text_bytes += content;
}

// bytesio and stringio, Modules/_io, 3.8 to 3.14: their size at 32, in bytes or in characters.
void PickleWalk::CountBuffer(uint64_t object, const TypeRule& rule) {
  const uint64_t size = graph_.Pointer(object + 32);
  if (size > kMostBytes) {
    ++unreadable;
    return;
  }
  unsized |= rule.owner == "_io.StringIO" && size > kShortText;
  bytes += size + rule.bytes;
  ++mix.arrays;
  mix.array_bytes += size;
}

void PickleWalk::CountText(uint64_t object) {
  const PythonLayout& layout = graph_.layout();
  const bool is_str = IsStr(graph_.Pointer(graph_.TypeOf(object) + layout.type.flags));
  uint64_t length = graph_.Pointer(object + (is_str ? layout.string.length : layout.object.var_size));
  if (length > uint64_t{1} << 40) {
    ++unreadable;
    return;
  }
  if (is_str) {
    const uint32_t state =
        ReadValue<uint32_t>(cached_, object + layout.string.state).value_or(0) >> layout.string.kind_shift;
    const bool ascii = (state >> 4 & 1) != 0;
    if (!ascii) {
      // From 1 to 4 bytes a character; look at the beginning.
      const std::string text = ReadString(layout, cached_, object, 4 * kMaxNameBytes).value_or("");
      uint64_t characters = 0;
      for (const char c : text) characters += (c & 0xc0) != 0x80;
      const uint64_t shown = characters == 0 ? 2 * length : length * text.size() / characters;
      if (length > characters) unsure_bytes += shown;
      length = shown;
      ++mix.wide_texts;
    }
  }
  bytes += length + (length < 256 ? 3 : 6);
  ++mix.texts;
  mix.text_bytes += length;
}

void PickleWalk::CountNumber(uint64_t object) {
  const uint64_t tag = graph_.Pointer(object + graph_.layout().object.var_size);
  const bool tagged = graph_.layout().minor >= 12;
  const bool negative = tagged ? (tag & 3) == 2 : static_cast<int64_t>(tag) < 0;
  const uint64_t digits = tagged ? tag >> 3 : negative ? -tag : tag;
  const uint32_t digit = ReadValue<uint32_t>(cached_, object + graph_.layout().object.var_size + 8).value_or(0);
  if (digits > 1 << 20) {
    ++unreadable;
    return;
  }
  ++mix.numbers;
  if (digits <= 1) {
    bytes += digits == 0 || (digit < 256 && !negative) ? 2 : digit < 65536 && !negative ? 3 : 5;
  } else {
    bytes += digits == 2 && graph_.Pointer(object + graph_.layout().object.var_size + 8) >> 33 == 0
                 ? 5
                 : 3 + digits * 30 / 8;
  }
}

// PyArrayObject of numpy 1 and 2: data 16, nd 24, dimensions 32, descr 56. PyArray_Descr: kind 24; elsize is an int at
// 32 in numpy 1, a word at 40 in numpy 2, which keeps flags at 32.
// array.array: its length at 16, its descriptor at 40, the size of an item at 4 of that.
void PickleWalk::CountArray(uint64_t object) {
  if (graph_.TypeName(object) == "array.array") {
    const uint64_t items = graph_.Pointer(object + 16);
    const auto size = ReadValue<int32_t>(cached_, graph_.Pointer(object + 40) + 4);
    if (items > uint64_t{1} << 40 || !size || *size < 1 || *size > 16) {
      ++unreadable;
      return;
    }
    bytes += items * *size + 60;
    ++mix.arrays;
    mix.array_bytes += items * *size;
    return;
  }
  const auto rank = ReadValue<int32_t>(cached_, object + 24);
  const uint64_t dimensions = graph_.Pointer(object + 32), descr = graph_.Pointer(object + 56);
  const auto kind = ReadValue<char>(cached_, descr + 24);
  const auto node = static_cast<uint32_t>(nodes_.size() - 1);
  if (const std::optional<Edges> items = graph_.ArrayItems(object)) {
    bytes += 160 + items->size() / 500;  // MARK and APPENDS for each thousand
    if (items->size() <= object_array_items) return;
    object_array_items = items->size();
    object_array = PathOf(node, /*general=*/false);
    return;
  }
  if (!rank || *rank < 0 || *rank > 64 || !kind || *kind == 'V' || *kind == 'O') {
    Note(node,
         {.type = "numpy.ndarray", .runs = "ndarray.__reduce__ of records, or of a view of objects (native code)"},
         &unknowns, &unknowns_left_out);
    open_unknowns_.insert(node);
    return;
  }
  uint64_t size = ReadValue<int32_t>(cached_, descr + 32).value_or(0);
  const uint64_t wide = graph_.Pointer(descr + 40);
  if (size == 0 || size > 1 << 20 || (wide > 0 && wide <= 1 << 20 && wide % size != 0 && size != wide)) size = wide;
  for (int32_t i = 0; i < *rank; ++i) {
    const uint64_t dimension = graph_.Pointer(dimensions + 8 * i);
    if (dimension > uint64_t{1} << 40 || (dimension > 0 && size > (uint64_t{1} << 45) / dimension)) {
      ++unreadable;
      return;
    }
    size *= dimension;
  }
  bytes += size + 150;
  unsized |= *kind == 'T';  // numpy 2's StringDType, pickled as a list of str: these are views of 16 bytes
  ++mix.arrays;
  mix.array_bytes += size;
}

// Sparse, nested, quantized and oneDNN's tensors are of other classes of C++ than dense ones, and depend on torch's
// version. torch refuses one that asks for a gradient and is not a leaf. One without autograd_meta_ asks for none, and
// a Parameter is a leaf. Measured with torch 1.13, 2.6 and 2.14: THPVariable has a flag at 16 and the TensorImpl at 24,
// in 2.14 the TensorImpl at 16. Its counts, like those of its StorageImpl, are two words in 1.13, and one later. Behind
// them come its storage and autograd_meta_; a StorageImpl's data pointer, whose device follows 24 later (0: CPU).
void PickleWalk::JudgeTensor(uint32_t node, uint64_t object, const TypeRule& rule) {
  uint64_t tensor = graph_.Pointer(object + 16);
  if (!IsUserPointer(tensor)) tensor = graph_.Pointer(object + 24);
  const uint64_t begin = graph_.Pointer(tensor + 8) >> 32 != 0 ? 16 : 24;
  const uint64_t storage = graph_.Pointer(tensor + begin);
  const auto meta = ReadValue<uint64_t>(cached_, tensor + begin + 8);
  const auto is_of = [&](uint64_t in_cpp, absl::string_view name) {  // by the std::type_info before its vtable
    return ReadCString(cached_, graph_.Pointer(graph_.Pointer(graph_.Pointer(in_cpp) - 8) + 8), kMaxNameBytes) == name;
  };
  const auto may_refuse = [&](const char* runs) {
    Note(node, {.type = rule.shape.info.name, .runs = runs}, &unknowns, &unknowns_left_out);
  };
  if (!is_of(tensor, "N3c1010TensorImplE") || !is_of(storage, "N3c1011StorageImplE") ||
      ReadValue<uint8_t>(cached_, storage + begin + 24) != 0)
    return may_refuse("reduce_tensor, of a tensor that is not dense, or not on the CPU");
  if (rule.shape.info.name != "torch.nn.parameter.Parameter" && meta != 0)
    may_refuse("reduce_tensor, which refuses a tensor with a gradient that is not a leaf");
}

}  // namespace cowprof
