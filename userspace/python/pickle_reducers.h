// Types and functions of CPython, numpy and torch whose own reducers are known, as data.
#ifndef COWPROF_PYTHON_PICKLE_REDUCERS_H_
#define COWPROF_PYTHON_PICKLE_REDUCERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "model/facts/start_methods.h"
#include "python/pickle_rules.h"

namespace cowprof {

struct NamedRule {
  absl::string_view name;
  Replay replay;
  uint64_t bytes = 0;
  bool sends_state = true;  // attributes and slots beside the items
};
// Types that save() treats itself.
inline constexpr NamedRule kExact[] = {
    {"NoneType", Replay::kAtom, 1},
    {"bool", Replay::kAtom, 1},
    {"int", Replay::kNumber},
    {"float", Replay::kAtom, 9},
    {"str", Replay::kText},
    {"bytes", Replay::kBytes},
    {"bytearray", Replay::kBytes},
    {"list", Replay::kList},
    {"tuple", Replay::kTuple},
    {"dict", Replay::kDict},
    {"set", Replay::kSet},
    {"frozenset", Replay::kSet},
    {"function", Replay::kByName},
    {"ellipsis", Replay::kAtom, 14},
    {"NotImplementedType", Replay::kAtom, 20},
    {"complex", Replay::kAtom, 40},
    {"range", Replay::kAtom, 40},
    {"method", Replay::kMethod},
    {"slice", Replay::kSlice},
    {"builtin_function_or_method", Replay::kBuiltin},
};
// Types with a reducer of their own, in C or in Python, under the name of the type that defines it.
inline constexpr NamedRule kReducers[] = {
    {"method-wrapper", Replay::kMethodWrapper},
    {"array.array", Replay::kArray},
    {"functools._lru_cache_wrapper", Replay::kByName},
    {"method_descriptor", Replay::kAtom, 50},
    {"wrapper_descriptor", Replay::kAtom, 50},
    {"member_descriptor", Replay::kAtom, 50},
    {"list_iterator", Replay::kIterator},
    {"tuple_iterator", Replay::kIterator},
    {"list_reverseiterator", Replay::kIterator},
    {"reversed", Replay::kIterator},
    {"enumerate", Replay::kIterator},
    {"range_iterator", Replay::kAtom, 70},
    {"map", Replay::kMap},
    {"filter", Replay::kFilter},
    {"callable_iterator", Replay::kFilter},
    {"zip", Replay::kZip},
    {"functools.partial", Replay::kPartial},
    {"collections.defaultdict", Replay::kItems, 0, /*sends_state=*/false},
    {"collections.OrderedDict", Replay::kItems},
    {"collections.Counter", Replay::kItems, 0, /*sends_state=*/false},
    {"collections.deque", Replay::kItems},
    {"set", Replay::kItems},
    {"frozenset", Replay::kItems},
    {"BaseException", Replay::kException},
    {"OSError", Replay::kException},
    {"range", Replay::kAtom, 40},
    {"decimal.Decimal", Replay::kAtom, 50},
    {"fractions.Fraction", Replay::kAtom, 60},
    {"uuid.UUID", Replay::kAtom, 60},
    {"pathlib.PurePath", Replay::kAtom, 60},
    {"pathlib._local.PurePath", Replay::kAtom, 60},
    {"random.Random", Replay::kAtom, 3000},
    {"datetime.datetime", Replay::kZoned, 40},
    {"datetime.date", Replay::kAtom, 30},
    {"datetime.time", Replay::kZoned, 30},
    {"datetime.timedelta", Replay::kAtom, 30},
    {"datetime.timezone", Replay::kAtom, 40},
    {"zoneinfo.ZoneInfo", Replay::kZoneInfo, 60},
    {"numpy.ndarray", Replay::kArray},
    {"numpy.dtype", Replay::kAtom, 60},
    {"numpy.generic", Replay::kScalar, 80},
    {"enum.Enum", Replay::kEnum},
    {"logging.Logger", Replay::kLogger},
    {"logging.RootLogger", Replay::kAtom, 30},
    {"multiprocessing.process.AuthenticationString", Replay::kAtom, 90},
    {"multiprocessing.queues.Queue", Replay::kAttributes},
    {"multiprocessing.queues.JoinableQueue", Replay::kAttributes},
    {"multiprocessing.queues.SimpleQueue", Replay::kAttributes},
    {"multiprocessing.synchronize.SemLock", Replay::kSemLock, 35},
    {"multiprocessing.synchronize.Condition", Replay::kAttributes},
    {"torch.nn.modules.module.Module", Replay::kState},
    {"types.SimpleNamespace", Replay::kState},
    {"_io.BytesIO", Replay::kBuffer, 60},
    {"_io.StringIO", Replay::kBuffer, 60},
};
// Reducers that call another method of the object, which a subclass may have otherwise.
struct CallingReducer {
  absl::string_view owner, name, calls;
};
inline constexpr CallingReducer kCalling[] = {
    {"random.Random", "__reduce__", "getstate"},
    {"numpy.ndarray", "__reduce_ex__", "__reduce__"},
};
// Functions that copyreg.dispatch_table and ForkingPickler have for a type, with the end of their files. None sends the
// state.
struct RegisteredRule {
  absl::string_view name, file;
  Replay replay;
  uint64_t bytes = 0;
};
inline constexpr RegisteredRule kRegistered[] = {
    {"pickle_complex", "/copyreg.py", Replay::kAtom, 40},
    {"pickle_union", "/copyreg.py", Replay::kAtom, 80},
    {"_pickle", "/re.py", Replay::kAtom, 60},
    {"_pickle", "/re/__init__.py", Replay::kAtom, 60},
    {"_reduce_method", "/multiprocessing/reduction.py", Replay::kMethod},
    {"_reduce_method_descriptor", "/multiprocessing/reduction.py", Replay::kAtom, 50},
    {"_reduce_partial", "/multiprocessing/reduction.py", Replay::kPartial},
    {"_reduce_socket", "/multiprocessing/reduction.py", Replay::kAtom, 200},
    {"reduce_connection", "/multiprocessing/connection.py", Replay::kAtom, 50},
    {"reduce_tensor", "/torch/multiprocessing/reductions.py", Replay::kTensor, 400},
    {"reduce_storage", "/torch/multiprocessing/reductions.py", Replay::kAtom, 200},
    {"_ufunc_reduce", "/numpy/core/__init__.py", Replay::kUfunc},
    {"_ufunc_reduce", "/numpy/_core/__init__.py", Replay::kUfunc},
    {"_DType_reduce", "/numpy/core/__init__.py", Replay::kAtom, 40},
    {"_DType_reduce", "/numpy/_core/__init__.py", Replay::kAtom, 40},
};
// Replay::kAttributes: what __getstate__ returns, in its order.
struct SentAttributes {
  absl::string_view owner;
  absl::string_view names[10];
};
inline constexpr SentAttributes kSentAttributes[] = {
    {"multiprocessing.queues.Queue",
     {"_ignore_epipe", "_maxsize", "_reader", "_writer", "_rlock", "_wlock", "_sem", "_opid"}},
    {"multiprocessing.queues.JoinableQueue",
     {"_ignore_epipe", "_maxsize", "_reader", "_writer", "_rlock", "_wlock", "_sem", "_opid", "_cond",
      "_unfinished_tasks"}},
    {"multiprocessing.queues.SimpleQueue", {"_reader", "_writer", "_rlock", "_wlock"}},
    {"multiprocessing.synchronize.Condition", {"_lock", "_sleeping_count", "_woken_count", "_wait_semaphore"}},
};
// Functions of enum.py that a class has as its __reduce_ex__.
inline constexpr NamedRule kEnumReducers[] = {
    {"__reduce_ex__", Replay::kEnum},
    {"pickle_by_enum_name", Replay::kAtom, 50},
    {"pickle_by_global_name", Replay::kGlobalName},
    {"_reduce_ex_by_global_name", Replay::kGlobalName},  // 3.11.0 to 3.11.3
    {"_reduce_ex_by_name", Replay::kGlobalName},         // up to 3.10
    {"_break_on_call_reduce", Replay::kFails},
};
// Methods whose code always raises.
struct Forbidden {
  absl::string_view owner;
  PickleReason reason;
};
inline constexpr Forbidden kForbidden[] = {
    {"_io.FileIO", PickleReason::kOpenFile},
    {"_io.BufferedReader", PickleReason::kOpenFile},
    {"_io.BufferedWriter", PickleReason::kOpenFile},
    {"_io.BufferedRandom", PickleReason::kOpenFile},
    {"_io.BufferedRWPair", PickleReason::kOpenFile},
    {"_io.TextIOWrapper", PickleReason::kOpenFile},
    {"socket.socket", PickleReason::kSocket},
    {"multiprocessing.pool.Pool", PickleReason::kForbidden},
    {"random.SystemRandom", PickleReason::kForbidden},
    {"h5py._hl.base.HLObject", PickleReason::kOpenFile},
    {"google.cloud.client.Client", PickleReason::kForbidden},
    {"torch.utils.data.dataloader._BaseDataLoaderIter", PickleReason::kForbidden},
};

// The row whose `field` is `name`; nullptr: there is none.
template <typename Row, size_t n>
const Row* RowOf(const Row (&rows)[n], absl::string_view name, absl::string_view Row::*field) {
  const Row* found = std::find_if(rows, rows + n, [&](const Row& row) { return row.*field == name; });
  return found == rows + n ? nullptr : found;
}

}  // namespace cowprof

#endif  // COWPROF_PYTHON_PICKLE_REDUCERS_H_
