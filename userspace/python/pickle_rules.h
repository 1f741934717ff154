// What pickle does with an object of a type, and whether a class or function can be found again by its name: the tests
// of _pickle.c's save(), object.__reduce_ex__() and ForkingPickler (Lib/multiprocessing/reduction.py), by reading. What
// code of the target would decide is kUnknown, never guessed.
#ifndef COWPROF_PYTHON_PICKLE_RULES_H_
#define COWPROF_PYTHON_PICKLE_RULES_H_

#include <cstdint>
#include <functional>
#include <optional>
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
  kIterator,    // over one object
  kMap,         // a function and a tuple of iterators
  kFilter,      // a function and an iterator
  kZip,         // a tuple of iterators
  kState,       // copyreg.__newobj__ with attributes and slots; subclasses of list and dict with their items
  kItems,       // its class and its items: defaultdict, OrderedDict, Counter, deque, set subclasses
  kException,   // its class, args and attributes
  kArray,       // numpy.ndarray
  kScalar,      // of numpy
  kBuffer,      // BytesIO, StringIO: their content and attributes
  kZoned,       // a datetime or time: its tzinfo
  kZoneInfo,    // by its key, unless it was read from a file
  kTensor,      // torch's: sent as shared memory
  kEnum,        // its class and value
  kGlobalName,  // an enum's member, as a global of its module
  kLogger,      // by name, if logging.getLogger() returns it
  kAttributes,  // those that its __getstate__ names
  kSemLock,     // of multiprocessing
  kUfunc,       // of numpy: by name, wherever a module has it
  kFails,
  kUnknown,
};

// A __new__ or __init__ in Python that unpickling calls, and the positional arguments that it takes beside the first.
struct Maker {
  std::string name;  // "Row.__new__ (rows.py:12)"
  uint64_t least = 0, most = 0;
};

struct TypeRule {
  Replay replay = Replay::kUnknown;
  TypeShape shape;
  PickleReason reason = PickleReason::kNone;  // kFails
  std::string runs;                           // kUnknown: the code that decides, "Vocab.__getstate__ (vocab.py:12)"
  std::vector<Slot> slots;                    // kState
  std::string owner;                          // the type whose reducer it is; "": object's, or a registered one
  bool sends_state = true;                    // kItems, kPartial: attributes, too
  absl::string_view left_out;                 // the attribute that its __getstate__ drops; "": none
  uint64_t bytes = 0;                         // kAtom: about
  static constexpr uint64_t kItsItems = UINT64_MAX;
  uint64_t new_arguments = 0;  // kState: of __new__ in the worker; kItsItems: those of the tuple
  std::vector<Maker> makers;   // what unpickling calls
  std::string runs_in_worker;  // code that unpickling runs, and that may raise; "": none
};

struct ByName {
  PickleReason reason = PickleReason::kNone;  // kNone: it is found
  bool unknown = false;
  std::string module, name;
  std::string runs;        // what decides, if it is unknown; "": the import of the name
  bool in_worker = false;  // it is unknown what unpickling does
};

class PickleRules {
 public:
  // `ending`: the process is taking its modules down. Then classes and functions count as found by their names, unless
  // the name itself says that they can't be.
  // `out_of_time` is asked often while a type is judged: from true on, what is not judged yet is unknown.
  explicit PickleRules(ObjectGraph* graph, bool ending = false, std::function<bool()> out_of_time = nullptr);

  // Of objects of the type at `type`; nullptr: it is not a type, or unreadable.
  const TypeRule* RuleOf(uint64_t type);
  // Whether `object`, a class or a Python function, is what its module has under its qualified name.
  ByName FindByName(uint64_t object);
  ByName FindBuiltin(uint64_t function);
  // The same of others that are not sent as their class and state: what pickle asks of `object` itself.
  ByName FindItself(uint64_t object, const TypeRule& rule);
  // "file.py:12" of a function or a class; "" if unknown.
  std::string DefinedAt(uint64_t object);
  // Who starts the workers that are sent the objects: PickleRoot::starter.
  void set_starter(uint64_t starter) {
    starter_ = starter;
    start_method_.reset();
  }
  // "the program's own pickler, dill._dill.Pickler", if the program has multiprocessing pickle by other code than its
  // own: that decides what fails. "": it has not, or that is unreadable.
  std::string OwnPickler();
  bool main_has_file() const { return main_has_file_; }

 private:
  TypeRule Judge(TypeShape shape);
  ObjectGraph::Method FindMethod(const TypeShape& shape, absl::string_view name);
  bool JudgeReducer(const ObjectGraph::Method& method, absl::string_view name, TypeRule* rule);
  void JudgeOwnedState(TypeRule* rule);
  void JudgeState(TypeRule* rule);
  bool JudgeDescriptors(TypeRule* rule);
  bool JudgeItems(TypeRule* rule);
  bool SlotsAreDeclared(const TypeShape& shape);
  void JudgeUnpickling(TypeRule* rule);
  std::optional<uint64_t> PassedArguments(uint64_t object, const TypeRule& rule);
  ByName FindMakers(uint64_t object, const TypeRule& rule);
  ByName FindUfunc(uint64_t ufunc);
  ByName Lookup(uint64_t object, std::string module, std::string name);
  ByName FindSemLock(uint64_t lock);
  const std::string& StartMethod();
  ByName FindLogger(uint64_t logger);
  std::string NameText(uint64_t text);  // at most kMaxKeyBytes and some; longer ones are unknown
  std::string CodeName(uint64_t function, std::string* file);
  uint64_t FunctionIn(uint64_t object);  // through staticmethod and classmethod

  ObjectGraph& graph_;
  absl::flat_hash_map<uint64_t, TypeRule> rules_;
  absl::flat_hash_map<uint64_t, int> failures_;       // of types that could not be judged
  absl::flat_hash_map<uint64_t, uint64_t> reducers_;  // type → function, as ForkingPickler's dispatch_table
  absl::flat_hash_map<uint64_t, ByName> names_;
  uint64_t starter_ = 0;
  std::optional<std::string> start_method_;  // of its workers, once something asked for it
  bool main_has_file_ = false;
  const bool ending_;
  const std::function<bool()> out_of_time_;
  bool stopped_ = false;
};

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PICKLE_RULES_H_
