// What all commands share: how a failure is said.
#include "commands.h"

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace cowprof {

int Fail(ExitCode code, absl::string_view sentence) {
  std::fputs(absl::StrCat("cowprof: ", sentence, "\n").c_str(), stderr);
  return code;
}

}  // namespace cowprof
