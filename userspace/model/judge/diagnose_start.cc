// Diagnoses of processes that could not be started: what they were to be sent can't be pickled, or they started others
// as they imported the main module.
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "model/facts/bad_end.h"
#include "model/format.h"
#include "model/judge/diagnosis_facts.h"
#include "model/judge/post_mortem.h"
#include "model/judge/start_methods.h"
#include "model/judge/unexplained.h"

namespace cowprof {
namespace {

constexpr size_t kMostTold = 3;

bool DiedOfPickling(const ProcessModel& process) {
  const StartFailed* const error = process.exit ? FatalStartError(process) : nullptr;
  return error != nullptr && RefusesToPickle(*error);
}

// What the failure was, by the look at the end or, where that came too late, by one before.
const PickleFailure* FailureOf(const ProcessModel& process, const RunModel& model) {
  if (const PickleFailure* found = FailureOf(*process.start_failed, process.start_failed->look)) return found;
  const bool seen = model.start_methods && model.start_methods->index == process.index;
  return seen ? FailureOf(*process.start_failed, model.start_methods->look) : nullptr;
}

// "dataset.keys (dict_keys): a view of a dict can't be pickled; defined at data.py:12"
std::string FailureText(const PickleFailure& failure) {
  return absl::StrCat(Printable(failure.path, 400), " (", Printable(failure.type), "): ", ReasonOf(failure),
                      failure.defined_at.empty() ? "" : absl::StrCat("; defined at ", Printable(failure.defined_at)));
}

absl::string_view PackageOf(const StartFailed& error) {
  return error.package.empty() ? "multiprocessing" : absl::string_view(error.package);
}

std::string Sentence(std::string words) {
  if (!words.empty()) words[0] = absl::ascii_toupper(words[0]);
  return absl::StrCat(words, ".");
}

}  // namespace

Diagnosis CouldNotPickle(const Facts& facts) {
  Diagnosis diagnosis;
  const PickleFailure* failure = nullptr;
  const ProcessModel* first = nullptr;
  for (const ProcessModel& process : facts.model.processes) {
    if (!DiedOfPickling(process)) continue;
    diagnosis.pids.push_back(process.id.pid);
    if (first == nullptr) first = &process;
    if (failure == nullptr) failure = FailureOf(process, facts.model);
    if (diagnosis.pids.size() > kMostTold) continue;
    const StartFailed& error = *process.start_failed;
    diagnosis.evidence.push_back(absl::StrCat("the last error of ", NameOf(process), ", while ",
                                              Printable(PackageOf(error), 40), " pickled: ", Printable(error.type),
                                              ": ", Printable(error.message, 200)));
  }
  if (first == nullptr) return {};
  diagnosis.id = "pickle-failure";
  diagnosis.harm = Harm::kDeath;
  diagnosis.confidence = failure == nullptr ? 0.9 : 0.97;
  const std::string died = absl::StrCat("The ", NameOf(*first),
                                        " died because it could not start a process: what it sends can't be pickled");
  const StartFailed& error = *first->start_failed;
  if (const PickleUnknown* culprit = failure == nullptr ? RaisedBy(error, error.look) : nullptr) {
    diagnosis.summary =
        absl::StrCat(died, "; ", Printable(culprit->path, 400), " is ", WithArticle(Printable(culprit->type)),
                     ", whose ", Printable(error.raised_in), " raised ", Printable(error.type), ": ",
                     Printable(absl::StripSuffix(error.message, "."), 200), ".");
    diagnosis.advice = {"Drop it in the __getstate__ of the object that holds it, and make it again in the worker."};
    return diagnosis;
  }
  if (failure == nullptr) {
    diagnosis.summary = absl::StrCat(
        died, " (", Printable(error.message, 200),
        error.path.empty() ? "). Which attribute holds that was not seen."
                           : absl::StrCat("). Pickle's notes say where: ", Printable(error.path, 400), "."));
    diagnosis.advice = {
        "Run the program with python -i: after the error its objects are still there, and `cowprof pickle PID` names the "
        "path to what can't be pickled."};
    return diagnosis;
  }
  diagnosis.summary =
      absl::StrCat(died, "; ", Printable(failure->path, 400), " is ", WithArticle(Printable(failure->type)), ".");
  diagnosis.evidence.push_back(FailureText(*failure));
  diagnosis.advice = {Sentence(FixOf(*failure))};
  // Who chose spawn has reasons, as torch.multiprocessing.spawn() and ranks with CUDA have, or no choice.
  // multiprocess, on which datasets' map(num_proc=) runs, has a context of its own, and still forks by default.
  const absl::string_view package = PackageOf(error);
  if (!first->python.empty() && !HasOlderPython(facts.model, 14) && package == "multiprocessing" &&
      error.method != "spawn") {
    diagnosis.advice.push_back(
        "Since Python 3.14 workers start by forkserver unless the program says otherwise: "
        "multiprocessing.get_context('fork') (with DataLoader, multiprocessing_context='fork') pickles nothing, but is "
        "safe only while the parent has no threads and no CUDA context.");
  }
  // What pickle would meet next.
  size_t more = 0;
  for (const PickleFailure& other : error.look.failures) {
    if (&other == failure || !other.confirmed || other.below_unknown || ++more > kMostTold) continue;
    diagnosis.advice.push_back(absl::StrCat("Then ", FailureText(other), ": ", FixOf(other), "."));
  }
  return diagnosis;
}

}  // namespace cowprof
