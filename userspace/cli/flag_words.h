// What CLI11 does not do with the words of flags: those that belong to a command may stand before it, and an empty
// value, such as that of an unset variable, is an error.
#ifndef COWPROF_CLI_FLAG_WORDS_H_
#define COWPROF_CLI_FLAG_WORDS_H_

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace cowprof {

// Moves the flags before a command behind it. Returns what is wrong, such as a flag that the command does not take, or
// "". `app` declares all commands.
std::string ArrangeFlags(const CLI::App& app, std::vector<std::string>* words);

}  // namespace cowprof

#endif  // COWPROF_CLI_FLAG_WORDS_H_
