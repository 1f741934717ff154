// When copy sites and pages are told, and when names are worth a tick of their own.
#include "attribution/tell_schedule.h"

#include <catch2/catch.hpp>

namespace cowprof {
namespace {

absl::Duration Seconds(double seconds) { return absl::Seconds(seconds); }

TEST_CASE("tell schedule: copy sites are told at gaps that grow with the recording") {
  TellSchedule schedule;
  CHECK(schedule.copy_sites_due(Seconds(0)));
  schedule.ToldCopySites(Seconds(0));
  CHECK_FALSE(schedule.copy_sites_due(Seconds(0.4)));
  CHECK(schedule.copy_sites_due(Seconds(0.5)));
  schedule.ToldCopySites(Seconds(100));
  CHECK_FALSE(schedule.copy_sites_due(Seconds(104)));
  CHECK(schedule.copy_sites_due(Seconds(105)));
  schedule.ToldCopySites(Seconds(10'000));
  CHECK(schedule.copy_sites_due(Seconds(10'030)));
}

TEST_CASE("tell schedule: pages are told soon after a fork") {
  TellSchedule schedule;
  schedule.Tick(Seconds(0), /*forked=*/false);
  schedule.ToldPages(Seconds(200));
  CHECK_FALSE(schedule.pages_due(Seconds(209)));
  CHECK(schedule.pages_due(Seconds(210)));
  schedule.Tick(Seconds(201), /*forked=*/true);
  CHECK_FALSE(schedule.pages_due(Seconds(201)));
  CHECK(schedule.pages_due(Seconds(201.1)));
  schedule.ToldPages(Seconds(201.1));
  CHECK(schedule.pages_due(Seconds(201.2)));
}

TEST_CASE("tell schedule: extra ticks are limited, and come back with time") {
  TellSchedule schedule;
  schedule.Tick(Seconds(0), /*forked=*/false);
  int spent = 0;
  for (; schedule.may_tick() && spent < 100; ++spent) schedule.SpendTick();
  CHECK(spent == 30);
  schedule.Tick(Seconds(4), /*forked=*/false);
  CHECK_FALSE(schedule.may_tick());
  schedule.Tick(Seconds(5.5), /*forked=*/false);
  CHECK(schedule.may_tick());
}

TEST_CASE("tell schedule: kills that tell everything are limited, and come back with time") {
  TellSchedule schedule;
  schedule.Tick(Seconds(0), /*forked=*/false);
  int spent = 0;
  for (; schedule.may_tell_all() && spent < 100; ++spent) schedule.SpendKill();
  CHECK(spent == 30);
  schedule.Tick(Seconds(29), /*forked=*/false);
  CHECK_FALSE(schedule.may_tell_all());
  schedule.Tick(Seconds(31), /*forked=*/false);
  CHECK(schedule.may_tell_all());
}

}  // namespace
}  // namespace cowprof
