// Diagnoses of processes that could not be started: what they were to be sent can't be pickled, or they started others
// as they imported the main module.
#include <string>
#include <vector>

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

// What the failure was, by the look at the end or, where that came too late, by one before; and what it may have been,
// where nothing fits for sure or that comes first.
struct Culprits {
  const PickleFailure* sure = nullptr;
  const PickleFailure* possible = nullptr;
};
Culprits CulpritsOf(const ProcessModel& process, const RunModel& model) {
  const StartFailed& error = *process.start_failed;
  std::vector<const PickleLook*> looks = {&error.look};
  if (model.start_methods && model.start_methods->index == process.index) looks.push_back(&model.start_methods->look);
  Culprits found;
  for (const PickleLook* look : looks) {
    const PickleFailure* const possible = PossibleFailureOf(error, *look);
    if (const PickleFailure* sure = FailureOf(error, *look))
      return {.sure = sure, .possible = possible != nullptr && possible < sure ? possible : nullptr};
    if (found.possible == nullptr) found.possible = possible;
  }
  return found;
}

// "dataset.keys (dict_keys): a view of a dict can't be pickled; defined at data.py:12"
std::string FailureText(const PickleFailure& failure) {
  return absl::StrCat(Printable(failure.path, 400), " (", Printable(failure.type), "): ", ReasonOf(failure),
                      failure.defined_at.empty() ? "" : absl::StrCat("; defined at ", Printable(failure.defined_at)));
}

std::string PossibleText(const PickleFailure& failure) {
  return absl::StrCat("perhaps it failed at ", FailureText(failure),
                      "; code of the program decides whether that is sent");
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
  const PickleFailure *failure = nullptr, *possible = nullptr;
  const ProcessModel* first = nullptr;
  for (const ProcessModel& process : facts.model.processes) {
    if (!DiedOfPickling(process)) continue;
    diagnosis.pids.push_back(process.id.pid);
    if (first == nullptr) first = &process;
    if (failure == nullptr) {
      const Culprits culprits = CulpritsOf(process, facts.model);
      failure = culprits.sure;
      if (failure != nullptr || possible == nullptr) possible = culprits.possible;
    }
    if (diagnosis.pids.size() > kMostTold) continue;
    const StartFailed& error = *process.start_failed;
    diagnosis.evidence.push_back(absl::StrCat("the last error of ", NameOf(process), ", while ",
                                              Printable(PackageOf(error), 40), " pickled: ", Printable(error.type),
                                              ": ", Printable(error.message, 200)));
  }
  if (first == nullptr) return {};
  diagnosis.id = "pickle-failure";
  diagnosis.harm = Harm::kDeath;
  diagnosis.confidence = failure != nullptr && failure->confirmed && possible == nullptr ? 0.97 : 0.9;
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
  if (possible != nullptr) diagnosis.evidence.push_back(PossibleText(*possible));
  if (failure == nullptr) {
    diagnosis.summary =
        absl::StrCat(died, " (", Printable(error.message, 200), ")",
                     !error.path.empty() ? absl::StrCat(". Pickle's notes say where: ", Printable(error.path, 400), ".")
                     : possible != nullptr ? absl::StrCat(", perhaps at ", Printable(possible->path, 400), ".")
                                           : ". Which attribute holds that was not seen.");
    diagnosis.advice = {
        "Run the program with python -i: after the error its objects are still there, and `cowprof pickle PID` names the "
        "path to what can't be pickled."};
    if (possible != nullptr)
      diagnosis.advice.insert(diagnosis.advice.begin(), absl::StrCat("If it was that: ", FixOf(*possible), "."));
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
