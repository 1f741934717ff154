// Catch2's main(), and the list of skipped tests. Each *_test.cc below this folder mirrors a file of userspace/.
#define CATCH_CONFIG_RUNNER
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "skip.h"

namespace cowprof {
namespace {

// Skips that are expected even as root. Any other skip fails a run as root.
constexpr const char* kExpected[] = {"a small address space", "glibc's malloc", "python3", "PAGEMAP_SCAN"};

std::map<std::string, int> skips;

bool AllExpected() {
  return geteuid() != 0 || std::all_of(skips.begin(), skips.end(), [](const auto& skip) {
           return std::find(std::begin(kExpected), std::end(kExpected), skip.first) != std::end(kExpected);
         });
}

}  // namespace

bool Lacks(const std::string& capability, bool is_there, const std::string& reason) {
  if (is_there) return false;
  WARN("skipped: " << capability << ": " << reason);
  ++skips[capability];
  return true;
}

bool LacksPagemapScan() {
  utsname kernel = {};
  int version = 0, patch_level = 0;
  uname(&kernel);
  sscanf(kernel.release, "%d.%d", &version, &patch_level);
  return Lacks("PAGEMAP_SCAN", std::pair(version, patch_level) >= std::pair(6, 7), "Linux before 6.7");
}

bool LacksRoot() { return Lacks("root", geteuid() == 0, "run as root"); }

}  // namespace cowprof

int main(int argc, char** argv) {
  // cowprof would act as the user who called sudo, who may not write where tests of root do. Tests set these.
  for (const char* name : {"SUDO_UID", "SUDO_GID"}) unsetenv(name);
  const int result = Catch::Session().run(argc, argv);
  for (const auto& [capability, tests] : cowprof::skips) printf("skipped %d: %s\n", tests, capability.c_str());
  if (cowprof::AllExpected()) return result;
  puts("UNEXPECTED SKIP, not in kExpected of tests/unit/main.cc");
  return result == 0 ? 1 : result;
}
