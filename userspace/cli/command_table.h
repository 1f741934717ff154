// The command line as data: what options.cc declares, and the prose of manual.cc. Help, man page and completions are
// made from it, so that none of them can lack an option.
#ifndef COWPROF_CLI_COMMAND_TABLE_H_
#define COWPROF_CLI_COMMAND_TABLE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "posix/exit_status.h"

namespace CLI {
class App;
}

namespace cowprof {

// What a value is, for completion.
enum class ValueKind { kNone, kText, kFile, kPid, kProgram, kChoice };

struct OptionRow {
  std::string short_name, long_name;  // "-o", "--output"; "": none
  std::string value;                  // "FILE"; "": a flag
  bool value_optional = false, repeatable = false;
  std::string about, group;
  ValueKind kind = ValueKind::kNone;
  std::vector<std::string> choices;
};

struct OperandRow {
  std::string name, about;
  bool required = false, repeatable = false;
  ValueKind kind = ValueKind::kText;
  std::vector<std::string> choices;
};

struct Example {
  std::string line, does;
};

struct CommandRow {
  std::string name;                  // "": recording, which needs no command
  std::string summary;               // one line, without a period
  std::vector<std::string> usage;    // whole lines
  std::vector<std::string> details;  // paragraphs
  std::vector<OptionRow> options;
  std::vector<OperandRow> operands;
  std::vector<Example> examples;
  std::vector<ExitCode> statuses;
};

// Without prose, examples and statuses.
CommandRow RowOf(const CLI::App& app);

// Recording first. Every command but the internal ones.
std::vector<CommandRow> CommandTable();

// When this command ends with this status. `command` "": cowprof itself.
std::string MeaningOf(ExitCode code, absl::string_view command);

// ---- What is made of it; pure ----

// The text of --help, in 80 columns. `name` "": of cowprof itself.
std::string HelpText(const std::vector<CommandRow>& table, const std::string& name);
// A page for man(1), in section 1. `date`: "2026-11-25".
std::string ManPage(const std::vector<CommandRow>& table, const std::string& date);
// `shell`: bash, zsh or fish; otherwise "".
std::string CompletionScript(const std::vector<CommandRow>& table, const std::string& shell);

}  // namespace cowprof

#endif  // COWPROF_CLI_COMMAND_TABLE_H_
