#include <catch2/catch.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "builders.h"
#include "judged.h"
#include "model/judge/start_methods.h"

namespace cowprof {
namespace {

constexpr int kExit1 = 1 << 8;

PickleFailure Keys() {
  return {.path = "dataset.class_names", .type = "dict_keys", .reason = PickleReason::kDictView, .confirmed = true};
}
StartFailed Error(std::vector<PickleFailure> failures) {
  return {.type = "TypeError",
          .message = "cannot pickle 'dict_keys' object",
          .look = {.root = "p (in the last traceback)", .expression = "p", .failures = std::move(failures)}};
}

Run Died(const StartFailed& error, int status = kExit1, absl::Duration after = absl::Milliseconds(30)) {
  Run run;
  Append({.t = absl::Seconds(1), .events = {Started(0, -1)}, .processes = {RowWithCopies(0, 0)}}, &run);
  const absl::Duration t = absl::Seconds(2);
  Append({.t = t + after,
          .events = {{.t = t, .index = 0, .what = error}, Exited(0, status, t + after)},
          .processes = {RowWithCopies(0, 0)}},
         &run);
  return run;
}

TEST_CASE("pickle-failure names path and type of what the error speaks of", "[start_methods]") {
  const Run run = Died(Error({Keys()}));
  REQUIRE(IdsOf(run) == Ids{"pickle-failure"});
  CHECK(
      HeadlineOf(run) ==
      "The parent 1000 died because it could not start a process: what it sends can't be pickled; dataset.class_names "
      "is a dict_keys.");
  CHECK(DiagnosesOf(run)[0].advice == std::vector<std::string>{"Keep a copy instead of the view: list(d.keys())."});
}

TEST_CASE("pickle-failure: the start method that 3.14 took away", "[start_methods]") {
  for (const auto& [version, told] : {std::pair("3.13.1", false), std::pair("3.14.0", true)}) {
    Run run = Died(Error({Keys()}));
    run.model.processes[0].python = version;
    CHECK((DiagnosesOf(run)[0].advice.back().find("get_context('fork')") != std::string::npos) == told);
  }
  // spawn was chosen.
  StartFailed error = Error({Keys()});
  error.method = "spawn";
  Run run = Died(error);
  run.model.processes[0].python = "3.14.0";
  CHECK(TextOf(DiagnosesOf(run)[0]).find("get_context('fork')") == std::string::npos);
  // multiprocess still forks by default.
  error.method = "";
  error.package = "multiprocess";
  run = Died(error);
  run.model.processes[0].python = "3.14.0";
  CHECK(TextOf(DiagnosesOf(run)[0]).find("get_context('fork')") == std::string::npos);
  CHECK(TextOf(DiagnosesOf(run)[0]).find(", while multiprocess pickled: TypeError: ") != std::string::npos);
}

TEST_CASE("pickle-failure without the object says how to see it", "[start_methods]") {
  PickleFailure other = Keys();
  other.type = "_thread.lock";
  for (const std::vector<PickleFailure>& failures : {std::vector<PickleFailure>{}, {other}}) {
    const Run run = Died(Error(failures));
    REQUIRE(IdsOf(run) == Ids{"pickle-failure"});
    CHECK(HeadlineOf(run).find("cannot pickle 'dict_keys' object") != std::string::npos);
    CHECK(HeadlineOf(run).find("dataset") == std::string::npos);
    CHECK(DiagnosesOf(run)[0].advice[0].find("python -i") != std::string::npos);
  }
}

TEST_CASE("pickle-failure blames nothing for sure that code of the program may not send", "[start_methods]") {
  PickleFailure dropped = Keys(), sent = Keys();
  dropped.path = "dataset.vocab.names";
  dropped.below_unknown = true;
  sent.path = "dataset.client.names";
  const auto first = [](const StartFailed& error) { return DiagnosesOf(Died(error))[0]; };
  const Diagnosis both = first(Error({dropped, sent}));
  CHECK(absl::EndsWith(both.summary, "; dataset.client.names is a dict_keys."));
  CHECK(absl::StrContains(TextOf(both), "perhaps it failed at dataset.vocab.names (dict_keys): "));
  CHECK(both.confidence < 0.95);
  const Diagnosis after = first(Error({sent, dropped}));
  CHECK_FALSE(absl::StrContains(TextOf(after), "vocab"));
  CHECK(after.confidence > 0.95);
  const Diagnosis one = first(Error({dropped}));
  CHECK(absl::EndsWith(one.summary, " (cannot pickle 'dict_keys' object), perhaps at dataset.vocab.names."));
  CHECK(one.advice[0] == "If it was that: keep a copy instead of the view: list(d.keys()).");
  // It was read once, as the process was taken down.
  sent.confirmed = false;
  CHECK(absl::EndsWith(first(Error({dropped, sent})).summary, "; dataset.client.names is a dict_keys."));
}

TEST_CASE("pickle-failure follows pickle's notes where they lead elsewhere", "[start_methods]") {
  const auto names = [](const char* path, const char* noted) {
    PickleFailure failure = Keys();
    failure.path = path;
    StartFailed error = Error({failure});
    error.path = noted;
    const std::string said = HeadlineOf(Died(error));
    const bool told = absl::EndsWith(said, absl::StrCat("; ", path, " is a dict_keys."));
    if (!told) CHECK(absl::EndsWith(said, absl::StrCat("Pickle's notes say where: ", noted, ".")));
    return told;
  };
  CHECK(names("dataset.client.names", "Process._args[0].client.names"));
  CHECK(names("dataset.parts['test'][3].names", "Process._args[0].parts['test'][3].names"));
  CHECK(names("loader.dataset.names", "Process._args[1][0].names"));
  CHECK(names("__main__.loader.collate_fn", "Process._args[4]"));
  CHECK(names("client.names", "Process._kwargs['holder'].client.names"));
  CHECK(names("p.names", "Process.names"));
  CHECK(names("names", "Process._args[0].client.names"));
  CHECK_FALSE(names("dataset.vocab.names", "Process._args[0].client.names"));
  CHECK_FALSE(names("dataset.client.names", "Process._args[0].client.others"));
  CHECK_FALSE(names("dataset.parts[2].names", "Process._args[0].parts[3].names"));
}

TEST_CASE("pickle-failure names the object whose own code raised the error", "[start_methods]") {
  StartFailed error = {
      .type = "ValueError", .message = "can't pickle an open client", .raised_in = "__getstate__ (x.py:3)"};
  error.look.unknowns = {{.path = "dataset.other", .type = "Other", .runs = "Other.__getstate__ (x.py:30)"},
                         {.path = "dataset.client", .type = "Client", .runs = "Client.__getstate__ (x.py:3)"}};
  CHECK(absl::StrContains(HeadlineOf(Died(error)),
                          "; dataset.client is a Client, whose __getstate__ (x.py:3) raised ValueError: can't pickle"));
  error.look.unknowns[1].count = 2;
  error.path = "Process._args[0].client";
  CHECK(absl::StrContains(HeadlineOf(Died(error)), "Pickle's notes say where: Process._args[0].client."));
}

TEST_CASE("pickle-failure takes the path from a look before the death", "[start_methods]") {
  Run run;
  const PickleLook look = {.root = "dataset", .expression = "dataset", .failures = {Keys()}};
  Append({.t = absl::Seconds(1),
          .events = {Started(0, -1), {.t = absl::Seconds(1), .index = 0, .what = StartMethodsSeen{look}}},
          .processes = {RowWithCopies(0, 0)}},
         &run);
  Append({.t = absl::Seconds(2),
          .events = {{.t = absl::Seconds(2), .index = 0, .what = Error({})}, Exited(0, kExit1, absl::Seconds(2))},
          .processes = {RowWithCopies(0, 0)}},
         &run);
  CHECK(HeadlineOf(run).find("dataset.class_names is a dict_keys") != std::string::npos);
}

TEST_CASE("no pickle-failure where memory or descriptors ran out as something was pickled", "[start_methods]") {
  const StartFailed errors[] = {
      {.type = "RuntimeError", .message = "unable to open shared memory object </torch_1_2> in read-write mode: full"},
      {.type = "RuntimeError", .message = "unable to mmap 1024 bytes: Cannot allocate memory (12)"},
      {.type = "OSError", .message = "Too many open files"},
      {.type = "MemoryError"}};
  for (const StartFailed& error : errors) {
    Run run = Died(error);
    run.model.processes[0].python = "3.12.1";
    CHECK_FALSE(absl::StrContains(HeadlineOf(run), "pickle"));
    CHECK(absl::StrContains(HeadlineOf(run), error.type));
    CHECK(absl::StrContains(HeadlineOf(run), error.message));
    CHECK_FALSE(absl::c_linear_search(IdsOf(run), "pickle-failure"));
  }
  const StartFailed refusals[] = {
      {.type = "_pickle.PicklingError", .message = "Can't pickle <class 'Row'>"},
      {.type = "RuntimeError", .message = "A SemLock created in a fork context is being shared"},
      {.type = "RuntimeError", .message = "Cowardly refusing to serialize non-leaf tensor"},
      {.type = "ValueError", .message = "ctypes objects containing pointers cannot be pickled"}};
  for (const StartFailed& error : refusals) CHECK(IdsOf(Died(error)) == Ids{"pickle-failure"});
}

TEST_CASE("no pickle-failure where nobody died of it", "[start_methods]") {
  CHECK(IdsOf(Died(Error({Keys()}), /*status=*/0)) != Ids{"pickle-failure"});
  CHECK(IdsOf(Died(Error({Keys()}), /*status=*/9)) != Ids{"pickle-failure"});              // killed
  CHECK(IdsOf(Died(Error({Keys()}), kExit1, absl::Minutes(5))) != Ids{"pickle-failure"});  // python -i
  Run alive;
  Append({.t = absl::Seconds(1),
          .events = {Started(0, -1), {.t = absl::Seconds(1), .index = 0, .what = Error({Keys()})}},
          .processes = {RowWithCopies(0, 0)}},
         &alive);
  CHECK(IdsOf(alive) != Ids{"pickle-failure"});
}

// A worker that ends, with the error that was read of it.
Run EndedAfter(const LastErrorSeen& error, int status = kExit1, absl::Duration after = absl::Milliseconds(30)) {
  Run run;
  Append({.t = absl::Seconds(1),
          .events = {Started(0, -1), Started(1, 0), {.index = 1, .what = PythonFound{.version = "3.12.1"}}},
          .processes = {RowWithCopies(0, 0), RowWithCopies(1, 0)}},
         &run);
  const absl::Duration t = absl::Seconds(2);
  Append({.t = t + after, .events = {{.t = t, .index = 1, .what = error}, Exited(1, status, t + after)}}, &run);
  return run;
}

TEST_CASE("a main module that starts processes without a guard is told, with what to do") {
  const LastErrorSeen error = {"RuntimeError", "\n        An attempt has been made to start a new process before the",
                               /*importing_main=*/true};
  CHECK(HeadlineOf(EndedAfter(error)) ==
        "1 of 1 worker ended badly: worker 1001 exited unexpectedly with code 1 (it tried to start a process while it "
        "imported the main module). What starts processes must stand under if __name__ == \"__main__\" in the main "
        "module.");
  const auto told = [&](int status, absl::Duration after) {
    return absl::StrContains(HeadlineOf(EndedAfter(error, status, after)), "__main__");
  };
  CHECK_FALSE(told(/*status=*/0, absl::Milliseconds(30)));
  CHECK_FALSE(told(/*status=*/9, absl::Milliseconds(30)));
  CHECK_FALSE(told(kExit1, absl::Minutes(5)));
}

TEST_CASE("a worker's last error stands beside its exit code") {
  const auto end_of = [](const LastErrorSeen& error, int status = kExit1) {
    const Run run = EndedAfter(error, status);
    return Judge(run).EndOf(run.model.processes[1]).text;
  };
  CHECK(end_of({"AttributeError", "Can't get attribute 'work' on <module '__main__' (built-in)>"}) ==
        "exited unexpectedly with code 1 (AttributeError: Can't get attribute 'work' on <module '__main__' "
        "(built-in)>)");
  CHECK(end_of({"KeyError", ""}) == "exited unexpectedly with code 1 (KeyError)");
  CHECK(end_of({"RuntimeError", "\n    first\n    second"}) == "exited unexpectedly with code 1 (RuntimeError: first)");
  CHECK(end_of({"KeyError", ""}, /*status=*/3 << 8) == "exited unexpectedly with code 3");
}

TEST_CASE("the error of arguments that can't be pickled stands beside the parent's exit code") {
  Run run;
  Append({.t = absl::Seconds(1),
          .events = {Started(0, -1), {.index = 0, .what = PythonFound{.version = "3.12.1"}}},
          .processes = {RowWithCopies(0, 0)}},
         &run);
  const absl::Duration t = absl::Seconds(2);
  const LastErrorSeen error = {"AttributeError", "Can't pickle local object 'main.<locals>.<lambda>'"};
  Append({.t = t, .events = {{.t = t, .index = 0, .what = error}, Exited(0, kExit1, t)}}, &run);
  CHECK(absl::StrContains(HeadlineOf(run),
                          "exit 1 (AttributeError: Can't pickle local object 'main.<locals>.<lambda>')"));
  CHECK_FALSE(absl::c_linear_search(IdsOf(run), "pickle-failure"));
}

TEST_CASE("an exception's message fits the failure that it names", "[start_methods]") {
  struct Case {
    const char *type, *name, *message;
    bool fits;
  };
  const Case cases[] = {
      {"h5py._hl.files.File", "", "h5py objects cannot be pickled", true},
      {"google.cloud.storage.client.Client", "", "Pickling client objects is explicitly not supported.", true},
      {"_io.BufferedReader", "", "h5py objects cannot be pickled", false},
      {"_thread.RLock", "", "cannot pickle '_thread.RLock' object", true},
      {"socket.socket", "", "cannot pickle 'socket' object", true},
      {"_thread.lock", "", "cannot pickle '_thread.RLock' object", false},
      {"function", "data.Vocab.load.<locals>.<lambda>", "Can't pickle local object 'Vocab.load.<locals>.<lambda>'",
       true},
      {"function", "__main__.f.<locals>.g", "Can't get local object 'f.<locals>.g'", true},
      {"function", "__main__.f.<locals>.g",
       "Can't pickle local object <function f.<locals>.g at 0x7f12> when serializing", true},
      {"function", "__main__.<lambda>",
       "Can't pickle <function <lambda> at 0x7f0a>: attribute lookup <lambda> on __main__ failed", true},
      {"function", "__main__.collate",
       "Can't pickle <function work at 0x7f0a>: attribute lookup work on __main__ failed", false},
      {"Row", "__main__.Row", "Can't pickle <class '__main__.Row'>: it's not the same object as __main__.Row", true},
      {"Row", "", "", false},
  };
  for (const Case& one : cases) {
    INFO(one.message);
    const PickleLook look = {.failures = {{.path = "x", .type = one.type, .name = one.name}}};
    CHECK((FailureOf({.type = "TypeError", .message = one.message, .look = {}}, look) != nullptr) == one.fits);
  }
}

}  // namespace
}  // namespace cowprof
