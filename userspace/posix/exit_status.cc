// Writes the line with one fputs(), so that lines of several processes do not mix.
#include "posix/exit_status.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace cowprof {

std::string LineOf(absl::string_view sentence) { return absl::StrCat("cowprof: ", sentence, "\n"); }

int Fail(ExitCode code, absl::string_view sentence) {
  std::fputs(LineOf(sentence).c_str(), stderr);
  return code;
}

}  // namespace cowprof
