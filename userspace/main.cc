// Parses the command line, runs the command and returns its exit status. Nothing else.
#include <cstdio>
#include <exception>
#include <string>

#include "cli/commands.h"
#include "cli/options.h"
#include "posix/exit_status.h"
#include "posix/standard_streams.h"
#include "recorder/privileges.h"

int main(int argc, char** argv) try {
  cowprof::OccupyClosedStreams();
  const cowprof::ParsedOptions parsed = cowprof::ParseOptions(argc, argv);
  if (parsed.exit_now) {
    if (parsed.exit_code == cowprof::kDone) return cowprof::PrintToStdout(parsed.message);
    std::fputs(parsed.message.c_str(), stderr);
    return parsed.exit_code;
  }
  for (const auto& command : cowprof::kCommands) {
    if (command.name != parsed.options.command) continue;
    if (!command.looks_at_processes) cowprof::GiveUpCapabilities();
    return command.run(parsed.options);
  }
  return cowprof::kInternalFailure;
} catch (const std::exception& error) {
  return cowprof::Fail(cowprof::kInternalFailure,
                       std::string("internal failure: ") + error.what() + "; please report it, with the command line");
}
