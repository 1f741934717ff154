// A script for each shell. All name every command, option and choice; what they offer for a value depends on its kind.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "cli/command_table.h"

namespace cowprof {
namespace {

std::vector<std::string> NamesOf(const OptionRow& option) {
  std::vector<std::string> names;
  for (const std::string& name : {option.short_name, option.long_name}) {
    if (!name.empty()) names.push_back(name);
  }
  return names;
}

std::string CommandNames(const std::vector<CommandRow>& table, const char* separator) {
  std::vector<std::string> names;
  for (const CommandRow& command : table) {
    if (!command.name.empty()) names.push_back(command.name);
  }
  return absl::StrJoin(names, separator);
}

// ---- bash ----

// Sets COMPREPLY for a value.
std::string BashValue(ValueKind kind, const std::vector<std::string>& choices) {
  switch (kind) {
    case ValueKind::kFile:
      return "_cowprof_files";
    case ValueKind::kPid:
      return "_cowprof_words -W \"$(cd /proc && echo [0-9]*)\"";
    case ValueKind::kProgram:
      return "_cowprof_words -c";
    case ValueKind::kChoice:
      return absl::StrCat("_cowprof_words -W \"", absl::StrJoin(choices, " "), "\"");
    case ValueKind::kText:
    case ValueKind::kNone:
      break;
  }
  return ":";
}

// Sets COMPREPLY for the operand that comes after `given` others.
std::string BashOperands(const std::vector<OperandRow>& operands) {
  if (operands.empty()) return BashValue(ValueKind::kNone, {});
  std::string cases;
  for (size_t i = 0; i + 1 < operands.size(); ++i)
    absl::StrAppend(&cases, i, ") ", BashValue(operands[i].kind, operands[i].choices), " ;; ");
  const std::string last = BashValue(operands.back().kind, operands.back().choices);
  return cases.empty() ? last : absl::StrCat("case $given in ", cases, "*) ", last, " ;; esac");
}

std::string BashScript(const std::vector<CommandRow>& table) {
  std::string values, takes_value, words;
  for (const CommandRow& command : table) {
    std::vector<std::string> names, with_value;
    for (const OptionRow& option : command.options) {
      for (const std::string& name : NamesOf(option)) {
        names.push_back(name);
        if (!option.value.empty() && !option.value_optional) with_value.push_back(name);
      }
      if (!option.value.empty() && !option.value_optional)
        absl::StrAppend(&values, "    ", command.name, ":",
                        absl::StrJoin(NamesOf(option), absl::StrCat("|", command.name, ":")), ") ",
                        BashValue(option.kind, option.choices), "; return ;;\n");
    }
    for (const std::string& name : with_value)
      absl::StrAppend(&takes_value, takes_value.empty() ? "" : "|", command.name, ":", name);
    absl::StrAppend(&words, "    ", command.name.empty() ? "''" : command.name, ") options=\"",
                    absl::StrJoin(names, " "), command.name.empty() ? " --" : "", "\"\n      operands() { ",
                    command.name.empty() ? absl::StrCat("_cowprof_words -W \"", CommandNames(table, " "), "\"")
                                         : BashOperands(command.operands),
                    "; } ;;\n");
  }
  return absl::StrCat(
      R"(# bash completion for cowprof, made by: cowprof completions bash
_cowprof_files() {
  compopt -o filenames 2>/dev/null
  _cowprof_words -f
}
_cowprof_words() {
  mapfile -t COMPREPLY < <(compgen "$@" -- "$cur")
}

_cowprof() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' options='' given=0 i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "$command:${COMP_WORDS[i]}" in
      *:--) # a program and its arguments
        if declare -F _command_offset >/dev/null; then
          _command_offset $((i + 1))
        elif ((COMP_CWORD == i + 1)); then
          _cowprof_words -c
        else
          _cowprof_files
        fi
        return
        ;;
      )",
      takes_value, R"()
        [ "${COMP_WORDS[i + 1]}" != = ] || ((i++))
        ((i + 1 >= COMP_CWORD)) || ((i++))
        ;;
      :)",
      CommandNames(table, "|:"), R"() command=${COMP_WORDS[i]} ;;
      *:-*) ;;
      *) given=$((given + 1)) ;;
    esac
  done
  # bash takes "--output=FILE" for three words.
  if [ "$cur" = = ]; then
    cur=''
  elif [ "$prev" = = ]; then
    prev=${COMP_WORDS[COMP_CWORD - 2]}
  fi
  case "$command:$prev" in
)",
      values, R"(  esac
  case "$command" in
)",
      words, R"(  esac
  case "$cur" in
    -*) _cowprof_words -W "$options" ;;
    *) operands ;;
  esac
}
complete -F _cowprof cowprof
)");
}

// ---- zsh ----

std::string ZshText(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"'", "'\\''"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
}

std::string ZshAction(ValueKind kind, const std::vector<std::string>& choices) {
  switch (kind) {
    case ValueKind::kFile:
      return "_files";
    case ValueKind::kPid:
      return "_pids";
    case ValueKind::kProgram:
      return "_command_names -e";
    case ValueKind::kChoice:
      return absl::StrCat("(", absl::StrJoin(choices, " "), ")");
    case ValueKind::kText:
    case ValueKind::kNone:
      break;
  }
  return "";
}

std::string ZshOption(const OptionRow& option) {
  std::string value;
  if (!option.value.empty())
    value = absl::StrCat(option.value_optional ? "::" : ":", ZshText(option.value), ":",
                         ZshAction(option.kind, option.choices));
  const std::vector<std::string> names = NamesOf(option);
  std::string out;
  for (const std::string& name : names) {
    const char* const equals = option.value.empty() || name == option.short_name ? ""
                               : option.value_optional                           ? "=-"
                                                                                 : "=";
    const std::string once = option.repeatable  ? "*"
                             : names.size() > 1 ? absl::StrCat("(", absl::StrJoin(names, " "), ")")
                                                : "";
    absl::StrAppend(&out, " \\\n        '", once, name, equals, "[", ZshText(option.about), "]", value, "'");
  }
  return out;
}

std::string ZshScript(const std::vector<CommandRow>& table) {
  std::string commands, cases;
  for (const CommandRow& command : table) {
    if (command.name.empty()) continue;
    absl::StrAppend(&commands, "        '", command.name, ":", ZshText(command.summary), "'\n");
    absl::StrAppend(&cases, "        ", command.name, ")\n          _arguments -s");
    for (const OptionRow& option : command.options) cases += ZshOption(option);
    for (const OperandRow& operand : command.operands)
      absl::StrAppend(&cases, " \\\n        '",
                      operand.repeatable ? "*:"
                      : operand.required ? ":"
                                         : "::",
                      operand.name, ":", ZshAction(operand.kind, operand.choices), "'");
    absl::StrAppend(&cases, "\n          ;;\n");
  }
  std::string options;
  for (const OptionRow& option : table.front().options) options += ZshOption(option);
  return absl::StrCat(R"(#compdef cowprof
# zsh completion for cowprof, made by: cowprof completions zsh
_cowprof() {
  local -i dashes=${words[(i)--]}
  if (( dashes < CURRENT )); then # a program and its arguments
    shift $dashes words
    (( CURRENT -= dashes ))
    _normal
    return
  fi
  local curcontext=$curcontext state line
  typeset -A opt_args
  _arguments -C -s -A '-*')",
                      options, R"( \
        '1:command:->command' '*:: :->operands'
  case $state in
    command)
      local -a commands=(
)",
                      commands, R"(      )
      _describe command commands
      ;;
    operands)
      case $line[1] in
)",
                      cases, R"(      esac
      ;;
  esac
}
if [ "$funcstack[1]" = _cowprof ]; then
  _cowprof "$@"
else
  compdef _cowprof cowprof
fi
)");
}

// ---- fish ----

std::string FishText(absl::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"\\", "\\\\"}, {"'", "\\'"}}), "'");
}

std::string FishValue(ValueKind kind, const std::vector<std::string>& choices) {
  switch (kind) {
    case ValueKind::kFile:
      return " -r -F";
    case ValueKind::kPid:
      return " -x -a '(__fish_complete_pids)'";
    case ValueKind::kProgram:
      return " -x -a '(__fish_complete_command)'";
    case ValueKind::kChoice:
      return absl::StrCat(" -x -a '", absl::StrJoin(choices, " "), "'");
    case ValueKind::kText:
      return " -x";
    case ValueKind::kNone:
      break;
  }
  return "";
}

std::string FishScript(const std::vector<CommandRow>& table) {
  const std::string names = CommandNames(table, " ");
  std::vector<std::string> with_value;
  for (const OptionRow& option : table.front().options) {
    const std::vector<std::string> own = NamesOf(option);
    if (!option.value.empty() && !option.value_optional) with_value.insert(with_value.end(), own.begin(), own.end());
  }
  std::string out = absl::StrCat(
      R"(# fish completion for cowprof, made by: cowprof completions fish
function __cowprof_command -d 'Whether the command line has this command (without one: none), with as many operands'
    set -l words (commandline -opc)
    contains -- -- $words; and return 1
    set -l value no
    set -l command ''
    set -l given 0
    for word in $words[2..-1]
        if test $value = yes
            set value no
        else if contains -- $word )",
      absl::StrJoin(with_value, " "), R"(
            set value yes
        else if test -z "$command"; and contains -- $word )",
      names, R"(
            set command $word
        else if not string match -q -- '-*' $word
            set given (math $given + 1)
        end
    end
    test "$command" = "$argv[1]"; or return 1
    test (count $argv) -lt 2; or test $given = $argv[2]
end
function __cowprof_program -d 'Completes what follows --'
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..-1]) (commandline -ct))
end
complete -c cowprof -f
complete -c cowprof -n 'contains -- -- (commandline -opc)' -a '(__cowprof_program)'
)");
  for (const CommandRow& command : table) {
    const std::string when = absl::StrCat("complete -c cowprof -n '__cowprof_command ", command.name, "'");
    if (!command.name.empty())
      absl::StrAppend(&out, "complete -c cowprof -n __cowprof_command -a ", command.name, " -d ",
                      FishText(command.summary), "\n");
    for (const OptionRow& option : command.options) {
      out += when;
      if (!option.short_name.empty()) absl::StrAppend(&out, " -s ", option.short_name.substr(1));
      if (!option.long_name.empty()) absl::StrAppend(&out, " -l ", option.long_name.substr(2));
      absl::StrAppend(&out, option.value_optional ? "" : FishValue(option.kind, option.choices), " -d ",
                      FishText(option.about), "\n");
    }
    for (size_t i = 0; i < command.operands.size(); ++i) {
      const OperandRow& operand = command.operands[i];
      absl::StrAppend(&out, "complete -c cowprof -n '__cowprof_command ", command.name,
                      command.operands.size() > 1 ? absl::StrCat(" ", i) : "", "'",
                      operand.kind == ValueKind::kFile ? " -F" : FishValue(operand.kind, operand.choices), "\n");
    }
  }
  return out;
}

}  // namespace

std::string CompletionScript(const std::vector<CommandRow>& table, const std::string& shell) {
  if (shell == "bash") return BashScript(table);
  if (shell == "zsh") return ZshScript(table);
  if (shell == "fish") return FishScript(table);
  return "";
}

}  // namespace cowprof
