#include "cli/flag_words.h"

#include <CLI/CLI.hpp>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/recording_options.h"
#include "model/format.h"

namespace cowprof {
namespace {

struct Flag {
  std::string name;                     // "--output"; of "-qo", "-o"
  const CLI::Option* option = nullptr;  // nullptr: there is none of that name
  std::optional<std::string> value;
  size_t words = 1;  // 2: the value is a word of its own
};

bool IsFlag(const std::string& word) { return word.size() > 1 && word[0] == '-'; }

const CLI::App* CommandNamed(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; });
  return found.empty() ? nullptr : found[0];
}

// While the command is not known: an option of a recording or, if there is none, of any command. Options of one name
// take the same kind of value everywhere.
const CLI::Option* OptionNamed(const CLI::App& app, const CLI::App* command, const std::string& name) {
  if (command != nullptr) return command->get_option_no_throw(name);
  const CLI::Option* option = app.get_option_no_throw(name);
  for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (option == nullptr) option = one->get_option_no_throw(name);
  }
  return option;
}

Flag FlagAt(const CLI::App& app, const CLI::App* command, const std::vector<std::string>& words, size_t i) {
  const std::string& word = words[i];
  Flag flag;
  const auto takes_value = [&] { return flag.option != nullptr && flag.option->get_items_expected_max() > 0; };
  if (absl::StartsWith(word, "--")) {
    const size_t equals = word.find('=');
    flag.name = word.substr(0, equals);
    flag.option = OptionNamed(app, command, flag.name);
    if (takes_value() && equals != word.npos) flag.value = word.substr(equals + 1);
  } else {
    for (size_t at = 1; at < word.size() && !takes_value(); ++at) {
      flag.name = absl::StrCat("-", word.substr(at, 1));
      flag.option = OptionNamed(app, command, flag.name);
      if (takes_value() && at + 1 < word.size()) flag.value = word.substr(at + 1);
    }
  }
  if (!takes_value() || flag.value || i + 1 == words.size()) return flag;
  const std::string& next = words[i + 1];
  if (flag.option->get_items_expected_min() > 0 || (!IsFlag(next) && CommandNamed(app, next) == nullptr)) {
    flag.value = next;
    flag.words = 2;
  }
  return flag;
}

std::string EmptyValue(const Flag& flag) {
  if (!flag.value || !flag.value->empty()) return "";
  return absl::StrCat(flag.name, " has an empty value; give one, or leave it out");
}

// Flags that stay before the command: those of every command, and for prove all of a recording.
bool StaysBefore(const CLI::App& app, const CLI::App& command, const std::string& name) {
  const CLI::Option* option = app.get_option_no_throw(name);
  if (option == nullptr) return false;
  return option->get_group().empty() || option->get_group() == kOtherOptions ||
         (command.get_name() == "prove" && command.get_option_no_throw(name) == nullptr);
}

}  // namespace

std::string ArrangeFlags(const CLI::App& app, std::vector<std::string>* words) {
  std::vector<std::pair<std::string, std::vector<std::string>>> before;  // name and words of each flag
  size_t i = 0;
  while (i < words->size() && IsFlag((*words)[i])) {
    const Flag flag = FlagAt(app, nullptr, *words, i);
    if (std::string error = EmptyValue(flag); !error.empty()) return error;
    before.push_back({flag.name, {words->begin() + i, words->begin() + i + flag.words}});
    i += flag.words;
  }
  const CLI::App* const command = i < words->size() ? CommandNamed(app, (*words)[i]) : nullptr;
  if (command == nullptr) return "";
  std::vector<std::string> arranged, moved = {command->get_name()};
  for (const auto& [name, of_flag] : before) {
    const bool stays = StaysBefore(app, *command, name);
    if (!stays && command->get_option_no_throw(name) == nullptr)
      return absl::StrCat("'", command->get_name(), "' does not take ", Printable(name));
    std::vector<std::string>& to = stays ? arranged : moved;
    to.insert(to.end(), of_flag.begin(), of_flag.end());
  }
  for (++i; i < words->size();) {
    Flag flag;
    if (IsFlag((*words)[i])) flag = FlagAt(app, command, *words, i);
    if (std::string error = EmptyValue(flag); !error.empty()) return error;
    moved.insert(moved.end(), words->begin() + i, words->begin() + i + flag.words);
    i += flag.words;
  }
  arranged.insert(arranged.end(), moved.begin(), moved.end());
  *words = std::move(arranged);
  return "";
}

}  // namespace cowprof
