// The text of --help, in 80 columns.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/command_table.h"
#include "sink/terminal/columns.h"

namespace cowprof {
namespace {

constexpr size_t kColumns = 80, kMostLeft = 30;

using Pairs = std::vector<std::pair<std::string, std::string>>;

// Two columns. What is too long for the first has a line of its own.
std::string Columns(const Pairs& rows) {
  size_t left = 0;
  for (const auto& [name, about] : rows) {
    if (name.size() <= kMostLeft) left = std::max(left, name.size());
  }
  std::string out;
  const std::string indent(left + 4, ' ');
  for (const auto& [name, about] : rows) {
    std::string before = absl::StrCat("  ", name);
    if (name.size() > left) {
      absl::StrAppend(&out, before, "\n");
      before.clear();
    }
    before.resize(indent.size(), ' ');
    for (const std::string& line : WrapTo(about, kColumns - indent.size())) {
      absl::StrAppend(&out, before, line, "\n");
      before = indent;
    }
  }
  return out;
}

std::string Paragraphs(const std::vector<std::string>& texts) {
  std::string out;
  for (const std::string& text : texts) absl::StrAppend(&out, absl::StrJoin(WrapTo(text, kColumns), "\n"), "\n\n");
  return out;
}

std::string NameOf(const OptionRow& option) {
  const char* const separator = option.short_name.empty() || option.long_name.empty() ? "" : ", ";
  std::string value = option.value.empty() ? "" : absl::StrCat(" ", option.value);
  if (option.value_optional) value = absl::StrCat("[=", option.value, "]");
  // Under each other, with and without a short name.
  return absl::StrCat(option.short_name.empty() ? "    " : option.short_name, separator, option.long_name, value);
}

std::string OptionsText(const CommandRow& command) {
  std::vector<std::string> groups;
  for (const OptionRow& option : command.options) {
    if (std::find(groups.begin(), groups.end(), option.group) == groups.end()) groups.push_back(option.group);
  }
  std::string out;
  for (const std::string& group : groups) {
    Pairs rows;
    for (const OptionRow& option : command.options) {
      if (option.group == group) rows.emplace_back(NameOf(option), option.about);
    }
    absl::StrAppend(&out, "\n", group, ":\n", Columns(rows));
  }
  return out;
}

}  // namespace

std::string HelpText(const std::vector<CommandRow>& table, const std::string& name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const CommandRow& command) { return command.name == name; });
  const CommandRow& command = found == table.end() ? table.front() : *found;
  std::string out = Paragraphs(command.details);
  absl::StrAppend(&out, "Usage:\n  ", absl::StrJoin(command.usage, "\n  "), "\n");
  if (command.name.empty()) {
    Pairs rows;
    for (const CommandRow& other : table) {
      if (!other.name.empty()) rows.emplace_back(other.name, other.summary);
    }
    absl::StrAppend(&out, "\nCommands (cowprof COMMAND --help says more):\n", Columns(rows));
  }
  Pairs operands, examples, statuses;
  for (const OperandRow& operand : command.operands) operands.emplace_back(operand.name, operand.about);
  if (!operands.empty()) absl::StrAppend(&out, "\nOperands:\n", Columns(operands));
  out += OptionsText(command);
  for (const Example& example : command.examples) {
    absl::StrAppend(&out, &example == &command.examples.front() ? "\nExamples:\n" : "");
    // Above the command, so that it can be copied.
    absl::StrAppend(&out, "  # ", example.does, "\n  ", example.line, "\n");
  }
  for (const ExitCode code : command.statuses) statuses.emplace_back(absl::StrCat(code), MeaningOf(code, command.name));
  absl::StrAppend(&out, "\nExit status:\n", Columns(statuses));
  if (command.name.empty())
    absl::StrAppend(&out, "With -- CMD: the status of CMD, unless 1, 3 or 6 applies; 127 if there is no\n",
                    "CMD, 126 if it can't be run, 128 + N if signal N killed it. If cowprof can't\n",
                    "begin (2, 4, 5, or 1 and 6 before the recording began), CMD is not run.\n");
  return out;
}

}  // namespace cowprof
