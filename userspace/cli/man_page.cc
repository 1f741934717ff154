// The man page, in the macros of man(7), which groff and mandoc understand.
#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "cli/command_table.h"
#include "sink/terminal/columns.h"

namespace cowprof {
namespace {

// A minus that can be copied, no escapes, and no line that begins with a request.
std::string Escaped(absl::string_view text) {
  std::string out = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"~", "\\(ti"}, {"^", "\\(ha"}});
  if (absl::StartsWith(out, ".") || absl::StartsWith(out, "'")) out.insert(0, "\\&");
  return out;
}

// Filled text: where its lines break does not matter, but mandoc wants them short.
std::string Prose(absl::string_view text) {
  std::string out;
  for (const std::string& line : WrapTo(text, 72)) absl::StrAppend(&out, out.empty() ? "" : "\n", Escaped(line));
  return out;
}

std::string Italic(absl::string_view value) {
  return value.empty() ? "" : absl::StrCat(" \\fI", Escaped(value), "\\fR");
}

std::string OptionText(const OptionRow& option) {
  std::string names;
  for (const std::string& name : {option.short_name, option.long_name}) {
    if (!name.empty()) absl::StrAppend(&names, names.empty() ? "" : ", ", "\\fB", Escaped(name), "\\fR");
  }
  const std::string value =
      option.value_optional ? absl::StrCat("[=\\fI", Escaped(option.value), "\\fR]") : Italic(option.value);
  return absl::StrCat(".TP\n", names, value, "\n", Prose(absl::StrCat(option.about, ".")), "\n");
}

std::string OptionsText(const CommandRow& command, const std::string& group) {
  std::string out;
  for (const OptionRow& option : command.options) {
    if (group.empty() || option.group == group) out += OptionText(option);
  }
  return out;
}

std::string Details(const CommandRow& command) {
  std::string out;
  for (const std::string& text : command.details)
    absl::StrAppend(&out, &text == &command.details.front() ? "" : ".PP\n", Prose(text), "\n");
  return out;
}

std::string Examples(const CommandRow& command) {
  std::string out;
  for (const Example& example : command.examples) {
    std::string does = example.does;
    does[0] = absl::ascii_toupper(does[0]);
    absl::StrAppend(&out, ".TP\n\\fB", Escaped(example.line), "\\fR\n",
                    Prose(does + (absl::EndsWith(does, "?") ? "" : ".")), "\n");
  }
  return out;
}

}  // namespace

std::string ManPage(const std::vector<CommandRow>& table, const std::string& date) {
  const CommandRow& record = table.front();
  std::string out = absl::StrCat(".TH COWPROF 1 ", date, " \"cowprof ", COWPROF_VERSION, "\" \"User Commands\"\n",
                                 ".SH NAME\ncowprof \\- copy\\-on\\-write memory growth profiler\n.SH SYNOPSIS\n");
  for (const std::string& line : record.usage) {
    absl::StrAppend(&out, &line == &record.usage.front() ? "" : ".br\n", "\\fB", Escaped(line), "\\fR\n");
  }
  absl::StrAppend(&out, ".SH DESCRIPTION\n", Details(record), ".SH OPTIONS\n");
  std::set<std::string> seen;
  for (const OptionRow& option : record.options) {
    if (!seen.insert(option.group).second) continue;
    absl::StrAppend(&out, ".SS ", option.group, "\n", OptionsText(record, option.group));
  }
  absl::StrAppend(&out, ".SH COMMANDS\n");
  for (const CommandRow& command : table) {
    if (command.name.empty()) continue;
    absl::StrAppend(&out, ".SS ", command.name, "\n");
    for (const std::string& line : command.usage) absl::StrAppend(&out, "\\fB", Escaped(line), "\\fR\n.PP\n");
    out += Details(command);
    for (const OperandRow& operand : command.operands)
      absl::StrAppend(&out, ".TP\n\\fI", Escaped(operand.name), "\\fR\n", Prose(operand.about + "."), "\n");
    out += OptionsText(command, "");
  }
  absl::StrAppend(&out, ".SH EXIT STATUS\n");
  for (const ExitCode code : record.statuses)
    absl::StrAppend(&out, ".TP\n\\fB", code, "\\fR\n", Escaped(MeaningOf(code, "")), ".\n");
  absl::StrAppend(&out, ".PP\nWith \\fB\\-\\- CMD\\fR the status is that of CMD, unless 1, 3 or 6\n",
                  "applies: 127 if there is no CMD, 126 if it can't be run, 128 + N if signal N\nkilled it.\n",
                  "If cowprof can't begin (2, 4, 5, or 1 and 6 before the recording began), CMD is\nnot run.\n",
                  ".SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\n",
                  "If set and not empty, no colours are used, unless\n\\fB\\-\\-color always\\fR is given.\n",
                  ".SH FILES\n.TP\n\\fIcowprof\\-PID.json\\fR\n",
                  "The recording, in the current folder. An earlier one of that name is kept as\n",
                  "\\fIcowprof\\-PID.json.old\\fR.\n", ".SH EXAMPLES\n");
  for (const CommandRow& command : table) out += Examples(command);
  return out + ".SH SEE ALSO\n.BR fork (2),\n.BR proc (5),\n.BR capabilities (7)\n";
}

}  // namespace cowprof
