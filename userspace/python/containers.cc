// Reads strings and dicts of a target as far as naming types and code requires (declared in objects.h). Every length
// and table that the target claims is bounded by the limits here.
#include <algorithm>
#include <cstring>
#include <vector>

#include "model/utf8.h"
#include "python/objects.h"

namespace cowprof {
namespace {

constexpr size_t kFirstBatch = 8, kBatch = 128;           // "__module__" is nearly always the first key of a class
constexpr uint64_t kUnicodeSubclass = uint64_t{1} << 28;  // Include/object.h

uint64_t WordAt(const char* bytes, size_t offset) {
  uint64_t word;
  memcpy(&word, bytes + offset, sizeof(word));
  return word;
}

struct StringHead {
  uint64_t type = 0, length = 0;  // length in characters
  uint32_t kind = 0;              // bytes per character: 1, 2, 4
  bool ascii = false;
  uint64_t data = 0;  // address
};

// `bytes`: as many as HeadBytes::string. nullopt if they can't be the head of a compact string (PEP 393). Only
// subclasses of str have other strings.
std::optional<StringHead> ParseStringHead(const PythonLayout& layout, uint64_t address, const char* bytes) {
  const StringOffsets& offsets = layout.string;
  uint32_t state;
  memcpy(&state, bytes + offsets.state, sizeof(state));
  StringHead head;
  head.type = WordAt(bytes, layout.object.type);
  head.length = WordAt(bytes, offsets.length);
  state >>= offsets.kind_shift;
  head.kind = state & 7;
  const bool compact = (state >> 3 & 1) != 0;
  head.ascii = (state >> 4 & 1) != 0;
  if (!compact || (head.kind != 1 && head.kind != 2 && head.kind != 4) || (head.ascii && head.kind != 1) ||
      head.length >= uint64_t{1} << 40) {
    return std::nullopt;
  }
  head.data = address + (head.ascii ? offsets.ascii_data : offsets.compact_data);
  return head;
}

uint32_t CharacterAt(const char* data, uint32_t kind, size_t index) {
  if (kind == 1) return static_cast<unsigned char>(data[index]);
  if (kind == 2) {
    uint16_t value;
    memcpy(&value, data + index * 2, sizeof(value));
    return value;
  }
  uint32_t value;
  memcpy(&value, data + index * 4, sizeof(value));
  return value;
}

void AppendUtf8(uint32_t c, std::string* text) {
  if (c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff)) c = '?';
  if (c < 0x80) {
    text->push_back(static_cast<char>(c));
    return;
  }
  const int rest = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr unsigned kLead[] = {0, 0xc0, 0xe0, 0xf0};
  text->push_back(static_cast<char>(kLead[rest] | c >> (6 * rest)));
  for (int i = rest - 1; i >= 0; --i) text->push_back(static_cast<char>(0x80 | (c >> (6 * i) & 0x3f)));
}

}  // namespace

std::optional<KeysTable> ReadKeysTable(const PythonLayout& layout, const MemoryReader& memory, uint64_t keys) {
  // Objects/dict-common.h of 3.6 to 3.10, Include/internal/pycore_dict.h from 3.11 on.
  char bytes[40];
  if (!IsUserPointer(keys) || !memory.Read(keys, absl::MakeSpan(bytes))) return std::nullopt;
  KeysTable table;
  uint64_t count = 0, indices = 0;
  if (layout.container.keys_kind == DictKeysKind::kSized) {
    const uint64_t size = WordAt(bytes, 8);
    count = WordAt(bytes, 32);
    if (size == 0 || size > uint64_t{1} << 32 || (size & (size - 1)) != 0 || count > size) return std::nullopt;
    indices = size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : size <= 0xffffffff ? 4 : 8);
    table = {keys + 40 + indices, 0, 24, 8};
  } else {
    const unsigned log2_size = static_cast<unsigned char>(bytes[8]);
    const unsigned log2_bytes = static_cast<unsigned char>(bytes[9]);
    const unsigned kind = static_cast<unsigned char>(bytes[10]);
    count = WordAt(bytes, 24);
    if (log2_size > 32 || log2_bytes > 35 || kind > 2 || count > uint64_t{1} << log2_size) return std::nullopt;
    indices = uint64_t{1} << log2_bytes;
    // DICT_KEYS_GENERAL is 0: {hash, key, value}; of str keys only {key, value}.
    table = kind == 0 ? KeysTable{keys + 32 + indices, 0, 24, 8} : KeysTable{keys + 32 + indices, 0, 16, 0};
  }
  table.count = count;
  return table;
}

namespace {

// A text as a str stores it: in the narrowest kind that holds its characters.
struct StoredText {
  uint64_t length = 0;  // characters
  uint32_t kind = 1;    // bytes per character
  bool ascii = true;
  std::string data;
};

// nullopt: not UTF-8, so no str is equal to it.
std::optional<StoredText> StoredTextOf(absl::string_view utf8) {
  std::vector<uint32_t> characters;
  uint32_t widest = 0;
  while (!utf8.empty()) {
    const Utf8Sequence sequence = Utf8SequenceOf(utf8);
    if (sequence.length == 0) return std::nullopt;
    characters.push_back(sequence.point);
    widest = std::max(widest, sequence.point);
    utf8.remove_prefix(sequence.length);
  }
  StoredText text{.length = characters.size(), .ascii = widest < 0x80};
  text.kind = widest < 0x100 ? 1 : widest < 0x10000 ? 2 : 4;
  for (const uint32_t character : characters)
    text.data.append(reinterpret_cast<const char*>(&character), text.kind);  // little-endian
  return text;
}

// The index of the element of `objects` that is a str equal to `key`, or objects.size().
size_t FindString(const PythonLayout& layout, const MemoryReader& memory, const std::vector<uint64_t>& objects,
                  const StoredText& key) {
  const size_t data = key.ascii ? layout.string.ascii_data : layout.string.compact_data;
  const size_t head_size = HeadBytesOf(layout).string, bytes = std::max(head_size, data + key.data.size());
  if (std::max(head_size, data) > kMaxHeadBytes) return objects.size();
  std::vector<char> heads(bytes * objects.size());
  std::vector<ReadRequest> requests;
  std::vector<size_t> index;
  for (size_t i = 0; i < objects.size(); ++i) {
    if (!IsUserPointer(objects[i])) continue;  // a hole where an entry was deleted
    requests.push_back({objects[i], absl::MakeSpan(heads.data() + i * bytes, bytes)});
    index.push_back(i);
  }
  memory.ReadMany(absl::MakeSpan(requests));
  for (size_t i = 0; i < requests.size(); ++i) {
    // Unreadable: possibly a shorter string at the end of its page, which can't be the key either.
    if (!requests[i].ok) continue;
    const char* head_bytes = requests[i].bytes.data();
    const auto head = ParseStringHead(layout, requests[i].address, head_bytes);
    if (head && head->ascii == key.ascii && head->kind == key.kind && head->length == key.length &&
        absl::string_view(head_bytes + data, key.data.size()) == key.data) {
      return index[i];
    }
  }
  return objects.size();
}

}  // namespace

std::optional<std::string> ReadString(const PythonLayout& layout, const MemoryReader& memory, uint64_t address,
                                      size_t max_bytes) {
  char bytes[kMaxHeadBytes];
  const size_t head_bytes = HeadBytesOf(layout).string;
  if (!IsUserPointer(address) || head_bytes > sizeof(bytes) ||
      !memory.Read(address, absl::MakeSpan(bytes, head_bytes))) {
    return std::nullopt;
  }
  const auto head = ParseStringHead(layout, address, bytes);
  if (!head || !IsUserPointer(head->type)) return std::nullopt;
  const auto flags = ReadValue<uint64_t>(memory, head->type + layout.type.flags);
  if (!flags || !(*flags & kUnicodeSubclass)) return std::nullopt;

  const size_t count = std::min<uint64_t>(head->length, max_bytes);
  std::vector<char> data(count * head->kind);
  if (!memory.Read(head->data, absl::MakeSpan(data))) return std::nullopt;
  std::string text;
  for (size_t i = 0; i < count; ++i) {
    const size_t before = text.size();
    AppendUtf8(CharacterAt(data.data(), head->kind, i), &text);
    if (text.size() > max_bytes) {
      text.resize(before);
      break;
    }
  }
  return text;
}

std::optional<int64_t> ReadInt(const PythonLayout& layout, const MemoryReader& memory, uint64_t object) {
  // Include/cpython/longintrepr.h: digits of 30 bits behind their number, which 3.12 made a tag with the sign in its
  // lowest bits: 0 positive, 1 zero, 2 negative.
  char bytes[16];
  if (!IsUserPointer(object) || !memory.Read(object + layout.object.var_size, absl::MakeSpan(bytes))) {
    return std::nullopt;
  }
  const uint64_t tag = WordAt(bytes, 0), both = WordAt(bytes, 8);
  const bool tagged = layout.minor >= 12;
  const bool negative = tagged ? (tag & 3) == 2 : static_cast<int64_t>(tag) < 0;
  const uint64_t digits = !tagged ? (negative ? -tag : tag) : (tag & 3) == 1 ? 0 : tag >> 3;
  const uint64_t low = both & 0xffffffff, high = both >> 32;
  if (digits > 2 || (digits > 0 && low >> 30 != 0) || (digits > 1 && high >> 30 != 0)) return std::nullopt;
  const auto value = static_cast<int64_t>(digits == 0 ? 0 : digits == 1 ? low : high << 30 | low);
  return negative ? -value : value;
}

uint64_t FindInDict(const PythonLayout& layout, const MemoryReader& memory, uint64_t address, absl::string_view key,
                    DictSearch* search) {
  DictSearch own;
  if (search == nullptr) search = &own;
  const ContainerOffsets& offsets = layout.container;
  const std::optional<StoredText> text = StoredTextOf(key);
  search->whole = address == 0 || !text;
  search->readable = search->whole || key.size() > kMaxKeyBytes;
  if (!IsUserPointer(address) || search->readable) return 0;
  const auto keys = ReadValue<uint64_t>(memory, address + offsets.dict_keys);
  const auto values = ReadValue<uint64_t>(memory, address + offsets.dict_values);
  if (!keys || !values) return 0;
  const auto table = ReadKeysTable(layout, memory, *keys);
  if (!table) return 0;
  const size_t most = std::min(table->count, search->most);
  std::vector<char> entries(kBatch * table->entry_bytes);
  for (size_t done = 0, count = 0; done < most; done += count) {
    count = std::min(done == 0 ? kFirstBatch : kBatch, most - done);
    const size_t first = search->newest_first ? table->count - done - count : done;
    if (!memory.Read(table->entries + first * table->entry_bytes,
                     absl::MakeSpan(entries.data(), count * table->entry_bytes))) {
      return 0;
    }
    std::vector<uint64_t> objects(count);
    for (size_t i = 0; i < count; ++i) objects[i] = WordAt(entries.data(), i * table->entry_bytes + table->key_offset);
    const size_t found = FindString(layout, memory, objects, *text);
    search->compared += count;
    if (found == count) continue;
    search->whole = search->readable = true;
    // A split table stores the values separately, in the order of the keys.
    if (*values != 0) {
      return ReadValue<uint64_t>(memory, *values + offsets.first_value + (first + found) * 8).value_or(0);
    }
    return WordAt(entries.data(), found * table->entry_bytes + table->key_offset + 8);
  }
  search->whole = most == table->count;
  search->readable = true;
  return 0;
}

}  // namespace cowprof
