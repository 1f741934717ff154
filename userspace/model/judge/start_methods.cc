// Words a reason and its fix side by side.
#include "model/judge/start_methods.h"

#include <algorithm>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "model/format.h"

namespace cowprof {
namespace {

constexpr size_t kLongestPath = 400;

// Whether it is the class of the object that isn't found by its name, not the object: a class or a function.
bool IsInstance(const PickleFailure& failure) {
  const absl::string_view type = failure.type;
  return type != "function" && type != "type" &&
         (failure.name == type || absl::EndsWith(failure.name, absl::StrCat(".", type)));
}

// Of reducers that always raise, with a message that has no name of a type.
bool NamesLibrary(const StartFailed& error, const PickleFailure& failure) {
  constexpr std::pair<absl::string_view, absl::string_view> kMessages[] = {
      {"h5py.", "h5py objects cannot be pickled"},
      {"google.", "Pickling client objects"},
      {"torch.utils.data.dataloader.", "{} cannot be pickled"}};
  return absl::c_any_of(kMessages, [&](const auto& known) {
    return absl::StartsWith(failure.type, known.first) && absl::StartsWith(error.message, known.second);
  });
}

// Messages name a type by the name in its type object, which may lack the module, or a function by its qualified name:
//   cannot pickle '_thread.RLock' object
//   Can't pickle local object 'Vocab.load.<locals>.<lambda>'
//   Can't pickle <function <lambda> at 0x7f0a>: attribute lookup <lambda> on __main__ failed
//   Can't pickle <class '__main__.Row'>: it's not the same object as __main__.Row
//   A SemLock created in a fork context is being shared with a process in a spawn context. ...
//   logger cannot be pickled
bool FitsMessage(const StartFailed& error, const PickleFailure& failure) {
  if (failure.reason == PickleReason::kForkContext) return absl::StrContains(error.message, "fork context");
  if (failure.reason == PickleReason::kLogger) return absl::StrContains(error.message, "logger cannot");
  absl::string_view name = failure.name.empty() ? failure.type : failure.name;
  for (;;) {
    if (!name.empty() && (absl::StrContains(error.message, absl::StrCat("'", name, "'")) ||
                          absl::StrContains(error.message, absl::StrCat(" ", name, " "))))
      return true;
    const size_t dot = name.find('.');
    if (dot == name.npos) return NamesLibrary(error, failure);
    name.remove_prefix(dot + 1);
  }
}

// "dataset", "parts", "test", "3" of "dataset.parts['test'][3]".
std::vector<absl::string_view> StepsOf(absl::string_view path) {
  return absl::StrSplit(path, absl::ByAnyChar(".[]'"), absl::SkipEmpty());
}

// Whether pickle's own notes do not lead to the failure. Both paths end at it, but begin with other names: that of a
// variable, or of what a DataLoader sends of itself; the Process, and the argument that holds it, which torch may put
// into a list of one.
bool NotesContradict(const StartFailed& error, const PickleFailure& failure) {
  if (error.path.empty() || absl::EndsWith(error.path, "...") || absl::EndsWith(failure.path, "...")) return false;
  constexpr absl::string_view kParts[] = {"dataset", "collate_fn", "worker_init_fn"};
  const std::vector<absl::string_view> seen = StepsOf(failure.path), noted = StepsOf(error.path);
  size_t of_variable = 1, of_argument = 1;
  if (seen.size() > 1 && absl::c_linear_search(kParts, seen[1])) of_variable = 2;
  if (noted.size() > 1 && (noted[1] == "_args" || noted[1] == "_kwargs")) of_argument = 3;
  if (noted.size() > of_argument && noted[of_argument] == "0") ++of_argument;
  for (size_t i = 1; i + of_variable <= seen.size() && i + of_argument <= noted.size(); ++i) {
    if (seen[seen.size() - i] != noted[noted.size() - i]) return true;
  }
  return false;
}

}  // namespace

absl::string_view NameOf(PickleVerdict verdict) {
  switch (verdict) {
    case PickleVerdict::kWillFail:
      return "will-fail";
    case PickleVerdict::kNoObstacleFound:
      return "no-obstacle-found";
    case PickleVerdict::kUnknown:
      break;
  }
  return "unknown";
}

const PickleFailure* FirstFailure(const PickleLook& look) {
  const auto first = std::find_if(look.failures.begin(), look.failures.end(), [](const PickleFailure& failure) {
    return failure.confirmed && !failure.below_unknown;
  });
  return first == look.failures.end() ? nullptr : &*first;
}

PickleVerdict VerdictOf(const PickleLook& look) {
  if (FirstFailure(look) != nullptr) return PickleVerdict::kWillFail;
  const bool whole = !look.root.empty() && look.failures.empty() && look.refused == 0 && look.failures_left_out == 0 &&
                     look.unknowns.empty() && look.unknowns_left_out == 0 && look.unreadable == 0 && !look.capped &&
                     look.walks_agree;
  return whole ? PickleVerdict::kNoObstacleFound : PickleVerdict::kUnknown;
}

std::string WhyUnknown(const PickleLook& look) {
  if (VerdictOf(look) != PickleVerdict::kUnknown) return "";
  if (look.root.empty())
    return "no DataLoader with workers and no unstarted Process was found in frames or globals; name the object with --object";
  if (look.capped) return "the walk stopped at its limit; name a part of it with --object";
  if (look.refused > 0) return "the objects changed while they were read; look again";
  if (look.unreadable > 0) return "some objects could not be read; look again";
  const bool locks_alone =
      look.failures.empty() && look.unknowns_left_out == 0 && !look.unknowns.empty() &&
      absl::c_all_of(look.unknowns, [](const PickleUnknown& unknown) { return unknown.runs == kFollowsStartMethod; });
  if (locks_alone) {
    return "its multiprocessing locks pickle if set_start_method() comes before they are made, and fail if only the "
           "workers get another context";
  }
  if (!look.unknowns.empty()) return "reading alone can't tell whether some of the objects pickle";
  return "two readings differ; look again";
}

std::string WhyNotJudged(absl::string_view python) {
  const std::vector<absl::string_view> numbers = absl::StrSplit(python, '.');
  int minor = 0;
  if (numbers.size() < 2 || numbers[0] != "3" || !absl::SimpleAtoi(numbers[1], &minor) || minor >= 8) return "";
  return absl::StrCat("pickle's rules are known from Python 3.8 on, and this is ", Printable(python));
}

const SeenStartMethods* SentToWorkers(const RunModel& model, Framework framework) {
  if (!model.start_methods) return nullptr;
  const std::optional<bool>& of_loader = model.start_methods->look.of_loader;
  const bool of_pool = framework == Framework::kPool || framework == Framework::kExecutor;
  const bool of_others = of_loader && (framework == Framework::kDataLoader ? !*of_loader : of_pool && *of_loader);
  return of_others ? nullptr : &*model.start_methods;
}

std::string SentText(const PickleLook& look) {
  if (!look.bytes.high && !look.capped) return absl::StrCat("at least ", HumanBytes(look.bytes.low));
  return absl::StrCat("about ", HumanBytes(look.bytes.best));
}

std::string StartMethodsSentence(const PickleLook& look) {
  if (look.root.empty()) return "";
  const PickleFailure* const first = FirstFailure(look);
  const std::string sent = absl::StrCat(SentText(look), " to each worker");
  if (first != nullptr) {
    return absl::StrCat("spawn and forkserver would fail at ", Printable(first->path, kLongestPath), " (",
                        Printable(first->type), "); without what fails they would send ", sent);
  }
  const std::string why = WhyUnknown(look);
  return absl::StrCat("spawn and forkserver would send ", sent,
                      why.empty() ? "; nothing was found there that pickle refuses"
                                  : absl::StrCat("; whether pickle accepts it is unknown: ", why));
}

bool RefusesToPickle(const StartFailed& error) {
  constexpr absl::string_view kTypes[] = {"PicklingError",  "_pickle.PicklingError", "TypeError",
                                          "AttributeError", "NotImplementedError",   "RecursionError"};
  constexpr absl::string_view kWords[] = {"pickl", "serializ", "fork context", "ctypes objects"};
  const std::string message = absl::AsciiStrToLower(error.message);
  return absl::c_linear_search(kTypes, error.type) ||
         absl::c_any_of(kWords, [&](absl::string_view words) { return absl::StrContains(message, words); });
}

const PickleFailure* FailureOf(const StartFailed& error, const PickleLook& look) {
  const PickleFailure* once = nullptr;  // read only once, as the process was taken down
  for (const PickleFailure& failure : look.failures) {
    if (failure.below_unknown || !FitsMessage(error, failure) || NotesContradict(error, failure)) continue;
    if (failure.confirmed) return &failure;
    if (once == nullptr) once = &failure;
  }
  return once;
}

const PickleFailure* PossibleFailureOf(const StartFailed& error, const PickleLook& look) {
  const auto found = absl::c_find_if(look.failures, [&](const PickleFailure& failure) {
    return failure.below_unknown && FitsMessage(error, failure) && !NotesContradict(error, failure);
  });
  return found == look.failures.end() ? nullptr : &*found;
}

const PickleUnknown* RaisedBy(const StartFailed& error, const PickleLook& look) {
  const auto raised = [&](const PickleUnknown& unknown) {
    return unknown.runs == error.raised_in || absl::EndsWith(unknown.runs, absl::StrCat(".", error.raised_in));
  };
  if (error.raised_in.empty() || look.unknowns_left_out > 0 || absl::c_count_if(look.unknowns, raised) != 1)
    return nullptr;
  const auto found = absl::c_find_if(look.unknowns, raised);
  return found->count == 1 ? &*found : nullptr;
}

std::string ReasonOf(const PickleFailure& failure) {
  switch (failure.reason) {
    case PickleReason::kNone:
      return "";
    case PickleReason::kNoNew:
      return "pickle can't make one: its type can't be instantiated";
    case PickleReason::kNativeState:
      return "its type keeps state in C that pickle can't see, and has no __reduce__";
    case PickleReason::kOpenFile:
      return "an open file can't be pickled";
    case PickleReason::kSocket:
      return "a socket of this type can't be pickled";
    case PickleReason::kLock:
      return "a lock can't be pickled";
    case PickleReason::kThread:
      return "state of a thread can't be pickled";
    case PickleReason::kModule:
      return "a module can't be pickled";
    case PickleReason::kDictView:
      return "a view of a dict can't be pickled";
    case PickleReason::kGenerator:
      return "a generator can't be pickled";
    case PickleReason::kWeakref:
      return "a weak reference can't be pickled";
    case PickleReason::kLambda:
      return "a lambda has no name to find it by";
    case PickleReason::kLocalFunction:
      return "a function inside a function can't be found by its name";
    case PickleReason::kLocalClass:
      return "a class inside a function can't be found by its name";
    case PickleReason::kNotFound:
      return absl::StrCat("there is no ", Printable(failure.name), " to find it by");
    case PickleReason::kNotTheSame:
      return absl::StrCat(Printable(failure.name), " now refers to a different object");
    case PickleReason::kMainWithoutFile:
      return "a new process can't import this __main__: it has no file";
    case PickleReason::kForbidden:
      return "its type forbids it";
    case PickleReason::kForkContext:
      return "the fork context made it, and only forked workers can have it";
    case PickleReason::kLogger:
      return absl::StrCat(Printable(failure.name), " returns a different logger");
    case PickleReason::kEnumMember:
      return "its enum forbids it";
    case PickleReason::kCannotBeMade:
      return absl::StrCat("the worker can't make it: ", Printable(failure.name),
                          " takes other arguments than unpickling passes");
  }
  return "";
}

std::string FixOf(const PickleFailure& failure) {
  constexpr absl::string_view kDrop = "drop it in __getstate__ and make it again in __setstate__";
  switch (failure.reason) {
    case PickleReason::kNone:
      return "";
    case PickleReason::kDictView:
      return absl::StrCat("keep a copy instead of the view: list(d.",
                          absl::StrContains(failure.type, "values")  ? "values"
                          : absl::StrContains(failure.type, "items") ? "items"
                                                                     : "keys",
                          "())");
    case PickleReason::kLambda:
    case PickleReason::kLocalFunction:
      return "use a function at module level, or functools.partial of one";
    case PickleReason::kLocalClass:
      return "move the class to module level";
    case PickleReason::kOpenFile:
      return "keep the path, and open the file in the worker at its first use";
    case PickleReason::kSocket:
      return "connect in the worker at its first use";
    case PickleReason::kModule:
      return "import the module where it is used, instead of keeping it in an attribute";
    case PickleReason::kGenerator:
      return "keep what the generator is made from, and make it in the worker; or a list";
    case PickleReason::kNotFound:
      if (failure.type == "numpy.ufunc") return "keep the function, and make the ufunc in the worker at its first use";
      return IsInstance(failure)
                 ? "let its module have its class under that name; or, if a library makes the class at run time, drop "
                   "the object in __getstate__ and make it in the worker"
                 : "give it the name under which its module has it";
    case PickleReason::kNotTheSame:
      return absl::StrCat(IsInstance(failure) ? "make it again, of the class that its module has now"
                                              : "send what its module has under that name",
                          ": a reload, a decorator or a notebook cell that ran twice put that there");
    case PickleReason::kForkContext:
      return "make it, or the Queue or Event that holds it, with the context that starts the workers: after "
             "set_start_method(), or get_context('spawn').Queue()";
    case PickleReason::kLogger:
      return "get it from logging.getLogger() instead of calling its class";
    case PickleReason::kEnumMember:
      return "define __reduce_ex__ on the enum, or __getnewargs__ on the type that it mixes in";
    case PickleReason::kMainWithoutFile:
      return "put it into a module with a file, or run the program from one";
    case PickleReason::kCannotBeMade:
      return "define __reduce__ on the class, and have it return the arguments that the class takes";
    default:
      return std::string(kDrop);
  }
}

}  // namespace cowprof
