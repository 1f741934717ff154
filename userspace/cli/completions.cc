// `cowprof completions SHELL`. command_table.h says how its output is made.
#include "cli/command_table.h"
#include "cli/commands.h"

namespace cowprof {

int Completions(const Options& options) {
  const std::string script = CompletionScript(CommandTable(), options.shell);
  if (script.empty()) return Fail(kUsage, "completions: give bash, zsh or fish");
  return PrintToStdout(script);
}

}  // namespace cowprof
