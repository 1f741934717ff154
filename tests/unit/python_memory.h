// Lays out the Python objects of a made-up process, so that a test states the contents of memory beside its assertion.
// Uses the layout of 3.11.
#ifndef COWPROF_TESTS_UNIT_PYTHON_MEMORY_H_
#define COWPROF_TESTS_UNIT_PYTHON_MEMORY_H_

#include <string>
#include <utility>
#include <vector>

#include "python/interpreter.h"
#include "python/state_layout.h"
#include "python_recording.h"

namespace cowprof {

class PythonMemory : public RecordedMemory {
 public:
  static constexpr uint64_t kTypeType = 0x10000, kStrType = 0x11000, kCodeType = 0x12000;
  static constexpr uint64_t kStaticFlags = 1 << 12, kHeapFlags = 1 << 12 | 1 << 9 | 1 << 14;
  static constexpr uint64_t kMetaFlags = kStaticFlags | uint64_t{1} << 31, kStrFlags = kStaticFlags | 1 << 28;

  PythonMemory() {
    interpreter_.layout = LayoutOf(11, 2, false);
    interpreter_.type_type = kTypeType;
    interpreter_.code_type = kCodeType;
    AddType(kTypeType, kTypeType, "type", kMetaFlags);
    AddType(kStrType, kTypeType, "str", kStrFlags);
    AddType(kCodeType, kTypeType, "code", kStaticFlags);
  }

  const Interpreter& interpreter() const { return interpreter_; }
  const PythonLayout& layout() const { return interpreter_.layout; }

  void Word(uint64_t address, uint64_t value) {
    Add(address, std::string(reinterpret_cast<const char*>(&value), sizeof(value)));
  }

  // A static type of 900 bytes at `address`, followed by its name.
  void AddType(uint64_t address, uint64_t metatype, const std::string& name, uint64_t flags) {
    Add(address, std::string(900, '\0'));
    Word(address, 1);
    Word(address + layout().object.type, metatype);
    Word(address + layout().type.name, address + 900);
    Word(address + layout().type.basic_size, 64);
    Word(address + layout().type.flags, flags);
    Add(address + 900, name + std::string(64, '\0'));  // names are read 64 bytes at a time
  }

  // An ASCII str.
  void AddStr(uint64_t address, const std::string& text) {
    const uint32_t head = layout().string.ascii_data;
    Add(address, std::string(head, '\0'));
    Word(address, 1);
    Word(address + layout().object.type, kStrType);
    Word(address + layout().string.length, text.size());
    Word(address + layout().string.state, 1 << 2 | 1 << 5 | 1 << 6);
    Add(address + head, text + '\0');
  }

  // A dict whose keys are str, as a class has; at most 8 items.
  void AddDict(uint64_t address, const std::vector<std::pair<std::string, uint64_t>>& items) {
    const uint64_t keys = address + 64, entries = keys + 40, texts = address + 0x200;
    Add(address, std::string(0x200, '\0'));
    Word(address + layout().container.dict_keys, keys);
    Word(keys + 8, 3 | 3 << 8 | 1 << 16);  // log2_size, log2_index_bytes, kind: keys are str
    Word(keys + 24, items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      AddStr(texts + 0x100 * i, items[i].first);
      Word(entries + 16 * i, texts + 0x100 * i);
      Word(entries + 16 * i + 8, items[i].second);
    }
  }

  // The bases of a type, itself first.
  void AddBases(uint64_t type, const std::vector<uint64_t>& bases) {
    const uint64_t tuple = type + 0x800;
    Word(type + StateLayoutOf(layout()).mro, tuple);
    Word(tuple + layout().object.var_size, bases.size());
    for (size_t i = 0; i < bases.size(); ++i) Word(tuple + layout().container.tuple_items + 8 * i, bases[i]);
  }

  Interpreter interpreter_;
};

}  // namespace cowprof

#endif  // COWPROF_TESTS_UNIT_PYTHON_MEMORY_H_
