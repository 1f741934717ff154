#include "model/judge/start_methods.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"
#include "sink/report/start_methods_format.h"
#include "timeline/json_start_methods.h"

namespace cowprof {
namespace {

PickleLook Whole() { return {.root = "data", .expression = "data", .objects = 3, .walks_agree = true}; }
PickleFailure Lock() {
  return {.path = "data.lock", .type = "_thread.lock", .reason = PickleReason::kLock, .confirmed = true};
}

TEST_CASE("start methods: no obstacle takes two whole walks that agree", "[start_methods]") {
  CHECK(VerdictOf(Whole()) == PickleVerdict::kNoObstacleFound);
  CHECK(WhyUnknown(Whole()).empty());
  PickleLook look = Whole();
  SECTION("they differ") { look.walks_agree = false; }
  SECTION("an object was unreadable") { look.unreadable = 1; }
  SECTION("the limit was met") { look.capped = true; }
  SECTION("code decides") { look.unknowns.push_back({.path = "data.x"}); }
  SECTION("more code decides than is listed") { look.unknowns_left_out = 1; }
  SECTION("a finding was not there any more") { look.refused = 1; }
  SECTION("nothing was found to judge") { look.root.clear(); }
  CHECK(VerdictOf(look) == PickleVerdict::kUnknown);
  CHECK_FALSE(WhyUnknown(look).empty());
  CHECK(StartMethodsText(look, {.anonymous_bytes = 5})
            .starts_with("Whether spawn or forkserver would work is unknown: "));
}

TEST_CASE("start methods: a confirmed failure decides, a possible one does not", "[start_methods]") {
  PickleLook look = Whole();
  look.failures = {Lock()};
  look.capped = true;
  CHECK(VerdictOf(look) == PickleVerdict::kWillFail);
  CHECK(StartMethodsText(look, {.anonymous_bytes = 5})
            .starts_with("spawn and forkserver will fail: data.lock is a _thread.lock.\n"));
  CHECK(StartMethodsJson(look)[0]["failures"][0]["certainty"] == "confirmed");
  look.failures[0].below_unknown = true;
  CHECK(VerdictOf(look) == PickleVerdict::kUnknown);
  CHECK(StartMethodsJson(look)[1]["failures"][0]["certainty"] == "possible");
}

TEST_CASE("start methods: locks that follow the start method are the reason, if nothing else is unknown") {
  PickleLook look = Whole();
  look.unknowns = {{.path = "q._rlock", .type = "multiprocessing.synchronize.Lock", .runs = kFollowsStartMethod}};
  CHECK(StartMethodsText(look, {.anonymous_bytes = 5})
            .starts_with("Whether spawn or forkserver would work is unknown: its multiprocessing locks pickle if "
                         "set_start_method() comes before they are made, and fail if only the workers get another "
                         "context.\n"));
  look.unknowns.push_back({.path = "data.x", .type = "X", .runs = "X.__reduce__ (x.py:3)"});
  CHECK(WhyUnknown(look) == "reading alone can't tell whether some of the objects pickle");
}

TEST_CASE("start methods: an interpreter that is too old is the reason", "[start_methods]") {
  CHECK(WhyNotJudged("3.7.16").find("3.7.16") != std::string::npos);
  CHECK(WhyNotJudged("3.8.0").empty());
  CHECK(WhyNotJudged("3.14.0").empty());
  CHECK(WhyNotJudged("").empty());
}

TEST_CASE("start methods: the fix fits what failed", "[start_methods]") {
  PickleFailure failure = Lock();
  CHECK(FixOf(failure) == "drop it in __getstate__ and make it again in __setstate__");
  failure.path = "dataset.request_handlers['x'].lock";
  CHECK(FixOf(failure) == "drop it in __getstate__ and make it again in __setstate__");
  failure = {.type = "dict_values", .reason = PickleReason::kDictView};
  CHECK(FixOf(failure) == "keep a copy instead of the view: list(d.values())");
  failure = {.type = "colours.Colour", .reason = PickleReason::kEnumMember};
  CHECK(FixOf(failure) == "define __reduce_ex__ on the enum, or __getnewargs__ on the type that it mixes in");
  for (size_t reason = 1; reason < kCountOf<PickleReason>; ++reason) {
    failure.reason = static_cast<PickleReason>(reason);
    CHECK_FALSE(ReasonOf(failure).empty());
    CHECK_FALSE(FixOf(failure).empty());
  }
}

TEST_CASE("start methods: the fix of an object whose class is not found is the object's or the class's") {
  const auto fix = [](const char* type, PickleReason reason) {
    return FixOf({.type = type, .reason = reason, .name = "botocore.client.S3"});
  };
  CHECK(absl::StrContains(fix("botocore.client.S3", PickleReason::kNotFound), "make it in the worker"));
  CHECK(absl::StrContains(fix("S3", PickleReason::kNotFound), "make it in the worker"));
  CHECK(fix("type", PickleReason::kNotFound) == "give it the name under which its module has it");
  CHECK(absl::StartsWith(fix("S3", PickleReason::kNotTheSame), "make it again, of the class that its module has now"));
  CHECK(absl::StartsWith(fix("function", PickleReason::kNotTheSame), "send what its module has under that name"));
}

TEST_CASE("start methods: the text says what type fails, and what decides the rest", "[start_methods]") {
  PickleLook look = Whole();
  PickleFailure failure = Lock();
  failure.type = "OSError";
  look.failures = {failure};
  look.unknowns = {{.path = "data.x", .type = "X", .runs = "X.__reduce__ (x.py:3)"}};
  const std::string text = StartMethodsText(look, {.anonymous_bytes = 5});
  CHECK(text.starts_with("spawn and forkserver will fail: data.lock is an OSError.\n"));
  CHECK(text.find("\n      decided by: X.__reduce__ (x.py:3)\n") != std::string::npos);
}

TEST_CASE("start methods: what fails in the worker is sent to it, and fork pickles nothing") {
  PickleLook look = Whole();
  look.failures = {Lock()};
  const auto text = [&] { return StartMethodsText(look, {.anonymous_bytes = 5}); };
  CHECK(absl::StrContains(text(), "\n  start       pickles  each worker is sent"));
  CHECK(absl::StrContains(text(), "\n  fork        -        nothing"));
  CHECK(absl::StrContains(text(), "\n  spawn       no "));
  CHECK(absl::StrContains(text(), "leave out the objects that fail"));
  look.failures[0].reason = PickleReason::kCannotBeMade;
  look.failures[0].name = "Row.__new__ (rows.py:3)";
  CHECK(absl::StrContains(text(), "the worker can't make it: Row.__new__ (rows.py:3) takes other arguments"));
  CHECK_FALSE(absl::StrContains(text(), "leave out the objects that fail"));
}

TEST_CASE("start methods: errors that do not name the type are told by what they say", "[start_methods]") {
  PickleLook look = Whole();
  look.failures = {
      Lock(),
      {.path = "data.logger", .type = "logging.Logger", .reason = PickleReason::kLogger},
      {.path = "data.mp_lock", .type = "multiprocessing.synchronize.Lock", .reason = PickleReason::kForkContext}};
  StartFailed error = {
      .type = "RuntimeError", .message = "A SemLock created in a fork context is being shared", .look = {}};
  CHECK(FailureOf(error, look) == &look.failures[2]);
  error.message = "logger cannot be pickled";
  CHECK(FailureOf(error, look) == &look.failures[1]);
  error.message = "cannot pickle '_thread.lock' object";
  CHECK(FailureOf(error, look) == &look.failures[0]);
}

}  // namespace
}  // namespace cowprof
