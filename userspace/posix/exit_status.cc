// Writes the line with one fputs(), so that lines of several processes do not mix.
#include "posix/exit_status.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace cowprof {

std::string LineOf(absl::string_view sentence) { return absl::StrCat("cowprof: ", sentence, "\n"); }

int Fail(ExitCode code, absl::string_view sentence) {
  std::fputs(LineOf(sentence).c_str(), stderr);
  return code;
}

int PrintToStdout(absl::string_view text) {
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (written && !std::ferror(stdout)) return kDone;
  return Fail(kCannotWrite, absl::StrCat("write to stdout: ", errno != 0 ? strerror(errno) : "failed before"));
}

}  // namespace cowprof
