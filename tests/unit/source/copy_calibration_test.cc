// The cost of a copy on this host: a plausible figure, and no child or mapping left behind.
#include "source/copy_calibration.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "json_schema.h"

namespace cowprof {

TEST_CASE("copy cost: more than a memcpy of a page, less than any fault takes") {
  while (waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  const double ns = CopyCalibration(sysconf(_SC_PAGESIZE)).Take();
  CHECK(ns > 20);
  CHECK(ns < 1e6);
  CHECK(waitpid(-1, nullptr, WNOHANG) <= 0);  // no zombie is left
}

TEST_CASE("copy cost: nothing stays mapped") {
  const auto mappings = [] {
    const std::string maps = ReadWhole("/proc/self/maps");
    return std::count(maps.begin(), maps.end(), '\n');
  };
  CopyCalibration(4096).Take();
  const auto before = mappings();
  for (int i = 0; i < 3; ++i) CopyCalibration(4096).Take();
  CHECK(mappings() <= before + 1);
}

}  // namespace cowprof
