// What pickle does with an object of a type, and whether a class or function can be found again by its name: the tests
// of _pickle.c's save(), object.__reduce_ex__() and ForkingPickler (Lib/multiprocessing/reduction.py), by reading. What
// code of the target would decide is kUnknown, never guessed.
#ifndef COWPROF_PYTHON_PICKLE_RULES_H_
#define COWPROF_PYTHON_PICKLE_RULES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "model/facts/start_methods.h"
#include "python/graph.h"

namespace cowprof {

enum class Replay : uint8_t {
  kAtom,    // pickles whatever it holds
  kNumber,  // int
  kText,    // str
  kBytes,   // bytes, bytearray
  kList,
  kTuple,
  kDict,
  kSet,      // exactly these types
  kByName,   // a class, a function
  kBuiltin,  // a function written in C: by name, or as a method of its self
  kMethod,
  kMethodWrapper,
  kPartial,
  kSlice,
  kIterator,   // over one object
  kMap,        // a function and a tuple of iterators
  kFilter,     // a function and an iterator
  kZip,        // a tuple of iterators
  kState,      // copyreg.__newobj__ with attributes and slots; subclasses of list and dict with their items
  kItems,      // its class and its items: defaultdict, OrderedDict, Counter, deque, set subclasses
  kException,  // its class, args and attributes
  kArray,      // numpy.ndarray
  kTensor,     // torch's: sent as shared memory
  kEnum,       // its class and value
  kLogger,     // by name, if the logging module knows it
  kFails,
  kUnknown,
};

struct TypeRule {
  Replay replay = Replay::kUnknown;
  TypeShape shape;
  PickleReason reason = PickleReason::kNone;  // kFails
  std::string runs;                           // kUnknown: the code that decides, "Vocab.__getstate__ (vocab.py:12)"
  std::vector<Slot> slots;                    // kState
  bool tuple_arguments = false;               // kState of a subclass of tuple
  uint64_t bytes = 0;                         // kAtom: about
};

struct ByName {
  PickleReason reason = PickleReason::kNone;  // kNone: it is found
  bool unknown = false;
  std::string module, name;
};

class PickleRules {
 public:
  // `ending`: the process is taking its modules down. Then classes and functions count as found by their names, unless
  // the name itself says that they can't be.
  explicit PickleRules(ObjectGraph* graph, bool ending = false);

  // Of objects of the type at `type`; nullptr: it is not a type, or unreadable.
  const TypeRule* RuleOf(uint64_t type);
  // Whether `object`, a class or a Python function, is what its module has under its qualified name.
  ByName FindByName(uint64_t object);
  ByName FindBuiltin(uint64_t function);
  // "file.py:12" of a function or a class; "" if unknown.
  std::string DefinedAt(uint64_t object);
  bool main_has_file() const { return main_has_file_; }

 private:
  TypeRule Judge(TypeShape shape);
  bool JudgeReducer(const ObjectGraph::Method& method, absl::string_view name, TypeRule* rule);
  void JudgeState(TypeRule* rule);
  bool JudgeDescriptors(TypeRule* rule);
  bool JudgeItems(TypeRule* rule);
  bool SlotsAreDeclared(const TypeShape& shape);
  ByName Lookup(uint64_t object, std::string module, std::string name);
  std::string CodeName(uint64_t function, std::string* file);
  uint64_t FunctionIn(uint64_t object);  // through staticmethod and classmethod

  ObjectGraph& graph_;
  absl::flat_hash_map<uint64_t, TypeRule> rules_;
  absl::flat_hash_map<uint64_t, uint64_t> reducers_;  // type → function, as ForkingPickler's dispatch_table
  absl::flat_hash_map<uint64_t, ByName> names_;
  bool main_has_file_ = false;
  const bool ending_;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PICKLE_RULES_H_
