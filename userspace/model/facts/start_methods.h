// What the start methods spawn and forkserver would do with the objects of a process: what they can't pickle, what
// can't be told by reading, and the bytes that each worker would be sent. Facts of one look; the verdict is
// model/judge/start_methods.h's.
#ifndef COWPROF_MODEL_FACTS_START_METHODS_H_
#define COWPROF_MODEL_FACTS_START_METHODS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "model/facts/count.h"
#include "model/facts/enum_names.h"
#include "model/facts/pickle_mix.h"

namespace cowprof {

enum class PickleReason : uint8_t {
  kNone,
  kNoNew,        // a type that can't be made by calling it: generator, dict_keys, lock
  kNativeState,  // fields in C that pickle can't see: basicsize, itemsize
  kOpenFile,
  kSocket,
  kLock,
  kThread,
  kModule,
  kDictView,
  kGenerator,
  kWeakref,
  kLambda,
  kLocalFunction,
  kLocalClass,
  kNotFound,         // its module does not have it under its name
  kNotTheSame,       // its module has another object under its name
  kMainWithoutFile,  // of a __main__ that a new process can't import again
  kForbidden,        // its own __reduce__ or __getstate__ always raises
  kForkContext,      // a lock of multiprocessing that the fork context made
  kLogger,           // not the one that logging.getLogger() returns
  kEnumMember,       // of an enum that enum.py made impossible to pickle, since it mixes in a type without a reducer
  kCannotBeMade,     // in the worker: its class takes other arguments than unpickling passes
};
template <>
inline constexpr auto kNamesOf<PickleReason> = NamesFor<PickleReason>(
    "", "no-new", "native-state", "open-file", "socket", "lock", "thread", "module", "dict-view", "generator",
    "weakref", "lambda", "local-function", "local-class", "not-found", "not-the-same", "main-without-file", "forbidden",
    "fork-context", "logger", "enum-member", "cannot-be-made");

// Whether the parent pickles the object, and it is the worker that fails.
constexpr bool FailsInWorker(PickleReason reason) {
  return reason == PickleReason::kMainWithoutFile || reason == PickleReason::kCannotBeMade;
}

struct PickleFailure {
  std::string path;  // "dataset.logger.handlers[0].lock", as the target spells it: any bytes
  std::string type;
  PickleReason reason = PickleReason::kNone;
  std::string name;        // of the class or function that isn't found; "" otherwise
  std::string defined_at;  // "vocab.py:12"; "": unknown
  uint64_t count = 1;      // objects of this type and reason that differ in indexes and keys only
  bool confirmed = false;  // the chain was read twice more and was still there
  bool below_unknown = false;
  bool operator==(const PickleFailure&) const = default;
};

// Decides on a lock of multiprocessing that the fork context made, in a program that starts its workers by fork: those
// of the default context are made anew by the start method that the program is given, others are not.
inline constexpr char kFollowsStartMethod[] =
    "the start method that is set when it is made; a context of the workers alone fails";

struct PickleUnknown {
  std::string path, type;
  std::string runs;  // the code that decides: "Vocab.__getstate__ (vocab.py:12)"
  uint64_t count = 1;
  bool operator==(const PickleUnknown&) const = default;
};

// What a pickle of the object holds. Bytes without the memory that tensors share.
struct PickleSize {
  uint64_t low = 0, best = 0;
  Count high;  // nullopt: not bounded, since a part could not be followed
  bool operator==(const PickleSize&) const = default;
};

struct PickleLook {
  std::string root;        // "train_loader (in main, train.py:31)"; "": found nothing that a worker would be sent
  std::string expression;  // what the paths begin with
  std::string python;      // version
  std::optional<bool> of_loader;        // whether workers of a DataLoader would be sent it; absent: not known
  std::vector<PickleFailure> failures;  // in the order in which pickle meets them
  std::vector<PickleUnknown> unknowns;
  uint64_t failures_left_out = 0, unknowns_left_out = 0;  // beyond those listed
  uint64_t refused = 0;                                   // findings that a second reading did not show
  uint64_t objects = 0, unreadable = 0;
  std::string object_array;         // path of the largest numpy array with dtype=object; "": there is none
  uint64_t object_array_items = 0;  // its length
  bool capped = false;              // stopped at the limit of objects or time
  bool walks_agree = false;
  PickleSize bytes;
  std::optional<PickleSize> held;    // memory that it takes in a worker once unpickled; absent: not estimated
  std::optional<PickleItems> items;  // of the container with most of what is sent; absent: none has most, or unreadable
  absl::Duration took;
  bool operator==(const PickleLook&) const = default;
};

// What workers of the process would be sent, as it was read during a recording.
struct StartMethodsSeen {
  PickleLook look;
  bool operator==(const StartMethodsSeen&) const = default;
};

// Python printed a traceback that nobody caught, of an error while an object was pickled to start a process.
struct StartFailed {
  std::string type, message;  // of the exception: "TypeError", "cannot pickle 'dict_keys' object"
  std::string package;        // that pickled: "multiprocessing", "multiprocess"; "": not known
  std::string method;         // of the start that failed: "spawn", "forkserver"; "": not known
  std::string raised_in;      // what pickle had called: "__getstate__ (vocab.py:12)"; "": nothing, or not known
  std::string path;           // by pickle's own notes: "Process._args[0].vocab"; "": not known
  PickleLook look;            // at what was to be sent, while the process was ending: only its failures mean anything
  bool operator==(const StartFailed&) const = default;
};

}  // namespace cowprof

#endif  // COWPROF_MODEL_FACTS_START_METHODS_H_
