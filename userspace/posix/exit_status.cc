// Writes the line with one fputs(), so that lines of several processes do not mix.
#include "posix/exit_status.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "posix/output_file.h"

namespace cowprof {

std::string LineOf(absl::string_view sentence) { return absl::StrCat("cowprof: ", sentence, "\n"); }

int Fail(ExitCode code, absl::string_view sentence) {
  std::fputs(LineOf(sentence).c_str(), stderr);
  return code;
}

int PrintToStdout(absl::string_view text) {
  errno = 0;
  bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  written = written && !std::ferror(stdout);
  if (written) errno = ErrorAtClose(STDOUT_FILENO);
  if (written && errno == 0) return kDone;
  return Fail(kCannotWrite, absl::StrCat("write to stdout: ", errno != 0 ? strerror(errno) : "failed before"));
}

}  // namespace cowprof
