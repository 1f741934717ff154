// Writes the line with one fputs(), so that lines of several processes do not mix.
#include "posix/exit_status.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace cowprof {

int Fail(ExitCode code, absl::string_view sentence) {
  std::fputs(absl::StrCat("cowprof: ", sentence, "\n").c_str(), stderr);
  return code;
}

}  // namespace cowprof
