// That help, man page and completions lack nothing of the command line, and that help fits 80 columns.
#include "cli/command_table.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "cli/commands.h"
#include "sink/hook/alert_hook.h"
#include "sink/terminal/columns.h"

namespace cowprof {
namespace {

// Every word of the command line that a person can type and cowprof knows.
std::vector<std::string> NamesOf(const CommandRow& command) {
  std::vector<std::string> names;
  for (const OptionRow& option : command.options) {
    for (const std::string& name : {option.short_name, option.long_name}) {
      if (!name.empty()) names.push_back(name);
    }
    names.insert(names.end(), option.choices.begin(), option.choices.end());
  }
  return names;
}

}  // namespace

TEST_CASE("every command but the internal one is in the table, with all that its help needs") {
  const std::vector<CommandRow> table = CommandTable();
  REQUIRE(table.front().name.empty());
  for (const auto& command : kCommands) {
    const bool there = std::any_of(table.begin(), table.end(), [&](const CommandRow& row) {
      return row.name == (command.name == "record" ? "" : command.name);
    });
    INFO(command.name);
    CHECK(there == (command.name != "serve-page"));
  }
  for (const CommandRow& row : table) {
    INFO(row.name);
    CHECK_FALSE(row.summary.empty());
    CHECK_FALSE(row.usage.empty());
    CHECK_FALSE(row.details.empty());
    CHECK(row.examples.size() >= 2);
    CHECK(row.statuses.size() >= 2);
    for (const OptionRow& option : row.options) {
      INFO(option.long_name);
      CHECK_FALSE(option.about.empty());
      CHECK_FALSE(absl::EndsWith(option.about, "."));
      CHECK(absl::StartsWith(option.long_name, "--"));
    }
    for (const OperandRow& operand : row.operands) {
      INFO(operand.name);
      CHECK(std::any_of(row.usage.begin(), row.usage.end(), [&](const std::string& line) {
        return absl::StrContains(line, operand.name) ||
               absl::StrContains(line, operand.choices.empty() ? "?" : operand.choices[0]);
      }));
    }
  }
}

TEST_CASE("status 3 of a command is what that command can meet") {
  CHECK(MeaningOf(kGateHit, "check") == "a bound is broken");
  CHECK(MeaningOf(kGateHit, "prove") == "there was an alert, and --fail-on-alert was given");  // it has no bounds
}

TEST_CASE("what the table says of values") {
  const CommandRow record = CommandTable().front();
  const auto option = [&](const std::string& name) {
    const auto found = std::find_if(record.options.begin(), record.options.end(),
                                    [&](const OptionRow& row) { return row.long_name == name; });
    REQUIRE(found != record.options.end());
    return *found;
  };
  CHECK(option("--output").short_name == "-o");
  CHECK(option("--output").kind == ValueKind::kFile);
  CHECK(option("--attach").kind == ValueKind::kPid);
  CHECK(option("--on-alert").kind == ValueKind::kProgram);
  CHECK(option("--quiet").kind == ValueKind::kNone);
  CHECK(option("--serve").value_optional);
  CHECK(option("--without").repeatable);
  CHECK(option("--color").choices == std::vector<std::string>{"auto", "always", "never"});
  const std::vector<std::string> rungs = option("--without").choices;
  CHECK(std::count(rungs.begin(), rungs.end(), "page-map") == 1);
}

TEST_CASE("each bound of check says what it bounds, and its value is not offered as a word") {
  const std::vector<CommandRow> table = CommandTable();
  const CommandRow& check = *std::find_if(table.begin(), table.end(), [](auto& row) { return row.name == "check"; });
  for (const auto& [name, about] : {std::pair("--max-shm", "Most that may be used of /dev/shm, whoever uses it"),
                                    std::pair("--max-private-per-worker", "Most private memory that one worker")}) {
    const auto is_it = [&, wanted = name](const OptionRow& row) { return row.long_name == wanted; };
    const OptionRow& option = *std::find_if(check.options.begin(), check.options.end(), is_it);
    CHECK(absl::StartsWith(option.about, about));
    CHECK(option.kind == ValueKind::kText);
    CHECK(option.choices.empty());
  }
}

TEST_CASE("help names every option, and no line is wider than 80 columns") {
  const std::vector<CommandRow> table = CommandTable();
  for (const CommandRow& row : table) {
    const std::string help = HelpText(table, row.name);
    INFO(help);
    for (const OptionRow& option : row.options) CHECK(absl::StrContains(help, option.long_name));
    for (const OperandRow& operand : row.operands) CHECK(absl::StrContains(help, operand.name));
    for (const Example& example : row.examples) CHECK(absl::StrContains(help, example.line));
    CHECK(absl::StrContains(help, "Exit status:\n  0  done\n"));
    for (const absl::string_view line : absl::StrSplit(help, '\n')) CHECK(ColumnsOf(line) <= 80);
  }
}

TEST_CASE("the examples of the help are command lines") {
  for (const CommandRow& row : CommandTable()) {
    for (const Example& example : row.examples) {
      INFO(example.line);
      // sudo finds neither a cowprof nor a python3 of a virtual environment by itself.
      const std::string line =
          absl::StrReplaceAll(example.line.substr(0, example.line.find(" > ")),
                              {{"sudo $(command -v cowprof) ", "cowprof "}, {"sudo env \"PATH=$PATH\" ", ""}});
      std::vector<std::string> words = *SplitWords(line);
      if (words[0] == "source") continue;  // the shell runs cowprof there
      CHECK(words[0] == "cowprof");
      CHECK(absl::StrContains(example.line, "sudo env ") == (line != example.line && absl::StrContains(line, " -- ")));
      std::vector<const char*> argv;
      for (const std::string& word : words) argv.push_back(word.c_str());
      const ParsedOptions parsed = ParseOptions(static_cast<int>(argv.size()), argv.data());
      CHECK(parsed.message.empty());
      CHECK(parsed.options.command == (row.name.empty() && words[1][0] == '-' ? "record" : words[1]));
    }
  }
}

TEST_CASE("help says what a status means for this command") {
  const std::vector<CommandRow> table = CommandTable();
  CHECK(absl::StrContains(HelpText(table, "check"), "  2  a bound can't be decided, or wrong command line\n"));
  CHECK(absl::StrContains(HelpText(table, "check"), "  6  a file can't be read, or is not a recording; or the output"));
  CHECK(absl::StrContains(HelpText(table, "diff"), "  2  no verdict, "));
  CHECK(absl::StrContains(HelpText(table, "prove"), "  2  no verdict, "));
  CHECK(absl::StrContains(HelpText(table, ""), "or no verdict"));
  CHECK(absl::StrContains(HelpText(table, "report"),
                          "  2  wrong command line, or a file that is not a readable recording\n"));
}

TEST_CASE("the man page names every command and option") {
  const std::vector<CommandRow> table = CommandTable();
  const std::string page = absl::StrReplaceAll(ManPage(table, "2026-11-25"), {{"\\-", "-"}});
  CHECK(absl::StartsWith(page, ".TH COWPROF 1 2026-11-25 "));
  for (const CommandRow& row : table) {
    if (!row.name.empty()) CHECK(absl::StrContains(page, absl::StrCat(".SS ", row.name, "\n")));
    for (const OptionRow& option : row.options) CHECK(absl::StrContains(page, absl::StrCat("\\fB", option.long_name)));
  }
}

TEST_CASE("the completions of every shell name every command, option and choice") {
  const std::vector<CommandRow> table = CommandTable();
  for (const std::string shell : {"bash", "zsh", "fish"}) {
    const std::string script = CompletionScript(table, shell);
    INFO(shell);
    for (const CommandRow& row : table) {
      CHECK(absl::StrContains(script, row.name));
      for (const std::string& name : NamesOf(row)) {
        INFO(name);
        // fish: -l NAME and -s N
        const std::string flag = absl::StartsWith(name, "--")  ? absl::StrCat("-l ", name.substr(2))
                                 : absl::StartsWith(name, "-") ? absl::StrCat("-s ", name.substr(1))
                                                               : name;
        CHECK(absl::StrContains(script, shell == "fish" ? flag : name));
      }
    }
  }
  CHECK(CompletionScript(table, "tcsh").empty());
}

}  // namespace cowprof
