// Catch2's main(), the list of skipped tests, and the name of one that crashes or hangs. Each *_test.cc below this
// folder mirrors a file of userspace/.
#define CATCH_CONFIG_RUNNER
#define CATCH_CONFIG_NO_POSIX_SIGNALS  // its handler allocates: what crashed inside malloc() or fork() would hang
#include <signal.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "skip.h"

namespace cowprof {
namespace {

// Skips that are expected even as root. Any other skip fails a run as root.
constexpr const char* kExpected[] = {"a small address space", "FUSE", "glibc's malloc", "python3", "PAGEMAP_SCAN"};

std::map<std::string, int> skips;

bool AllExpected() {
  return geteuid() != 0 || std::all_of(skips.begin(), skips.end(), [](const auto& skip) {
           return std::find(std::begin(kExpected), std::end(kExpected), skip.first) != std::end(kExpected);
         });
}

// ---- What crashes or hangs is named, and ends ----

constexpr unsigned kMostSeconds = 600, kMostSecondsOfLong = 3600;

// The test case that runs, and where its latest assertion is.
char running[300];
const char* volatile file = "";
volatile size_t line = 0;

// Makes only calls that are safe in a signal handler.
void NameAndEnd(int signal) {
  char digits[24] = {};
  char* number = digits + sizeof(digits) - 1;
  for (size_t rest = line; number > digits && rest > 0; rest /= 10) *--number = static_cast<char>('0' + rest % 10);
  const char* const texts[] = {
      signal == SIGALRM ? "\nhangs: " : "\ncrashed: ", running, "\nafter ", file, ":", number, "\n"};
  for (const char* text : texts) static_cast<void>(!write(STDERR_FILENO, text, strlen(text)));
  ::signal(signal, SIG_DFL);
  raise(signal);
}

class Watchdog : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    snprintf(running, sizeof(running), "%s", test.name.c_str());
    const bool is_long = std::find(test.tags.begin(), test.tags.end(), "long") != test.tags.end();
    alarm(is_long ? kMostSecondsOfLong : kMostSeconds);
  }
  void assertionStarting(const Catch::AssertionInfo& assertion) override {
    file = assertion.lineInfo.file;
    line = assertion.lineInfo.line;
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    alarm(0);
    if (!stats.totals.assertions.allOk()) fprintf(stderr, "failed: %s\n", running);
  }
};
CATCH_REGISTER_LISTENER(Watchdog)

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
  for (const int fatal : {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) {
    struct sigaction action = {};
    sigaction(fatal, nullptr, &action);
    if (action.sa_handler == SIG_DFL) signal(fatal, cowprof::NameAndEnd);  // not instead of AddressSanitizer's
  }
  setvbuf(stdout, nullptr, _IOLBF, 0);  // what was printed before a crash
  const int result = Catch::Session().run(argc, argv);
  for (const auto& [capability, tests] : cowprof::skips) printf("skipped %d: %s\n", tests, capability.c_str());
  if (cowprof::AllExpected()) return result;
  puts("UNEXPECTED SKIP, not in kExpected of tests/unit/main.cc");
  return result == 0 ? 1 : result;
}
