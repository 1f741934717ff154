// What follows from a look at what workers would be sent: a verdict for each start method, and the fix that fits each
// failure. Pure.
#ifndef COWPROF_MODEL_JUDGE_START_METHODS_H_
#define COWPROF_MODEL_JUDGE_START_METHODS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "model/facts/framework.h"
#include "model/facts/run_model.h"
#include "model/facts/start_methods.h"

namespace cowprof {

enum class PickleVerdict { kWillFail, kNoObstacleFound, kUnknown };
absl::string_view NameOf(PickleVerdict verdict);  // "will-fail", "no-obstacle-found", "unknown"

// Spawn and forkserver pickle the same objects by the same rules, so the verdict holds for both. "No obstacle" takes
// two whole walks that agree.
PickleVerdict VerdictOf(const PickleLook& look);
// Why the verdict is unknown, half a sentence; "" where it isn't.
std::string WhyUnknown(const PickleLook& look);

// Why a process that runs this version of Python, "3.7.16", is not judged; "": that is not the version's fault.
std::string WhyNotJudged(absl::string_view python);

// What was seen of what these workers would be sent. Null: nothing, or what other processes would be: a DataLoader's
// workers, or all but those.
const SeenStartMethods* SentToWorkers(const RunModel& model, Framework framework);

// "about 1.2 GiB", "at least 4.0 KiB": what each worker is sent, without what fails.
std::string SentText(const PickleLook& look);
// The first failure that pickle meets for sure; null: none is sure.
const PickleFailure* FirstFailure(const PickleLook& look);
// "spawn and forkserver would send about 1.2 GiB to each worker, and fail at dataset.logger (a _thread.RLock)"; "" if
// nothing was found that a worker would be sent. One clause, for a person who did not ask.
std::string StartMethodsSentence(const PickleLook& look);

// Whether the exception says that an object can't be pickled. Pickling may also fail for want of shared memory,
// descriptors or memory, or since a reducer has a bug.
bool RefusesToPickle(const StartFailed& error);

// The failure in `look` that the exception speaks of: the first in the order of pickle that fits its message, and that
// pickle's notes, where it has any, do not contradict. Null: none fits of those that pickle meets for sure.
const PickleFailure* FailureOf(const StartFailed& error, const PickleLook& look);
// The same of those that pickle meets only if code of the program sends them. Null: none fits.
const PickleFailure* PossibleFailureOf(const StartFailed& error, const PickleLook& look);

// What code of the program decides, and whose code raised the exception. Null: none, or several have it.
const PickleUnknown* RaisedBy(const StartFailed& error, const PickleLook& look);

std::string ReasonOf(const PickleFailure& failure);  // "a lambda has no name to find it by"
std::string FixOf(const PickleFailure& failure);     // imperative, without a full stop

}  // namespace cowprof

#endif  // COWPROF_MODEL_JUDGE_START_METHODS_H_
