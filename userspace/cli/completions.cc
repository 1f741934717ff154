// `cowprof completions SHELL`. command_table.h says how its output is made.
#include <cstdio>

#include "cli/command_table.h"
#include "cli/commands.h"

namespace cowprof {

int Completions(const Options& options) {
  const std::string script = CompletionScript(CommandTable(), options.shell);
  if (script.empty()) return Fail(kUsage, "completions: give bash, zsh or fish");
  if (std::fputs(script.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    return Fail(kCannotWrite, "write the completions to stdout: failed");
  return kDone;
}

}  // namespace cowprof
