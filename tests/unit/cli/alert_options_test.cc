// Values of --alert-at and --alert-eta: what they set, for which kinds, and the message for each kind of nonsense.
#include "cli/alert_options.h"

#include <catch2/catch.hpp>

#include "absl/strings/match.h"

namespace cowprof {
namespace {

using Values = std::vector<std::string>;

AlertSettings Ratios(const Values& values) {
  AlertSettings settings;
  CHECK(ParseAlertRatios(values, &settings) == "");
  return settings;
}
AlertSettings Etas(const Values& values) {
  AlertSettings settings;
  CHECK(ParseAlertEtas(values, &settings) == "");
  return settings;
}

}  // namespace

TEST_CASE("rules without a kind apply to all kinds, others to their kind only") {
  CHECK(Ratios({}).of(LimitKind::kShm).ratio == 0.9);
  CHECK(Ratios({"80%"}).of(LimitKind::kShm).ratio == 0.8);
  CHECK(Ratios({"0.75"}).of(LimitKind::kHost).ratio == 0.75);
  CHECK(Ratios({"100%"}).of(LimitKind::kHost).ratio == 1.0);
  CHECK_FALSE(Ratios({"80%"}).of(LimitKind::kShm).ratio_hold);
  for (const Values& values : {Values{"shm=70%:10s", "80%"}, Values{"80%", "shm=70%:10s"}}) {
    const AlertSettings settings = Ratios(values);
    CHECK(settings.of(LimitKind::kShm).ratio == 0.7);
    CHECK(settings.of(LimitKind::kShm).ratio_hold == absl::Seconds(10));
    CHECK(settings.of(LimitKind::kCgroupV2).ratio == 0.8);
    CHECK_FALSE(settings.of(LimitKind::kCgroupV2).ratio_hold);
  }
  const AlertSettings cgroup = Ratios({"cgroup=85%", "cgroup-v2=86%"});
  CHECK(cgroup.of(LimitKind::kCgroupV1).ratio == 0.85);
  CHECK(cgroup.of(LimitKind::kCgroupV2).ratio == 0.86);
  CHECK_FALSE(Ratios({"fds=off"}).of(LimitKind::kDescriptors).ratio);
  CHECK(Ratios({"off"}).any());  // the other rule is still on
  AlertSettings none = Ratios({"off"});
  CHECK(ParseAlertEtas({"off"}, &none) == "");
  CHECK_FALSE(none.any());
}

TEST_CASE("hangs can be turned off, and have no threshold") {
  CHECK(Ratios({"off"}).hangs);
  const AlertSettings settings = Ratios({"hang=off", "80%"});
  CHECK_FALSE(settings.hangs);
  CHECK(settings.of(LimitKind::kHost).ratio == 0.8);
  for (const char* text : {"hang=90%", "hang=on", "hang=", "hang=off:10s"}) {
    AlertSettings refused;
    CHECK(absl::StrContains(ParseAlertRatios({text}, &refused), "a hang has no threshold"));
  }
}

TEST_CASE("times until a limit is reached") {
  CHECK(Etas({}).of(LimitKind::kHost).eta == absl::Minutes(2));
  CHECK(Etas({"30"}).of(LimitKind::kHost).eta == absl::Seconds(30));
  CHECK(Etas({"1h30m"}).of(LimitKind::kHost).eta == absl::Minutes(90));
  CHECK(Etas({"shm=30s:500ms"}).of(LimitKind::kShm).eta_hold == absl::Milliseconds(500));
  CHECK_FALSE(Etas({"host=off"}).of(LimitKind::kHost).eta);
}

TEST_CASE("nonsense ratios are refused in one sentence") {
  const std::string text = GENERATE("", "0", "-1", "90", "101%", "0%", "nan", "inf", "ninety", "%", "90%%",
                                    "90%:", "90%:0s", "90%:-2s", "90%:x", "90%:inf", "=90%", "ram=90%", "shm=", "shm",
                                    "shm=shm=90%", "Off", "90%:1s:2s", "0x1p9", "\x1b[2J", "cgroup-v3=1%");
  AlertSettings settings;
  const std::string error = ParseAlertRatios({text}, &settings);
  INFO(text << ": " << error);
  CHECK(!error.empty());
  CHECK_FALSE(absl::StrContains(error, "\n"));
  CHECK_FALSE(absl::StrContains(error, "\x1b"));
}

TEST_CASE("nonsense times are refused in one sentence") {
  const std::string text =
      GENERATE("", "0", "-1s", "90%", "nan", "inf", "1e300", "soon", "2m:", "2m:0", "disk=2m", "2 m", "\n");
  AlertSettings settings;
  const std::string error = ParseAlertEtas({text}, &settings);
  INFO(text << ": " << error);
  CHECK(!error.empty());
  CHECK_FALSE(absl::StrContains(error, "\n"));
}

}  // namespace cowprof
