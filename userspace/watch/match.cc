#include "watch/match.h"

#include <cctype>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "model/format.h"
#include "source/proc_text.h"

namespace cowprof {

CommandPattern::CommandPattern(regex_t compiled)
    : compiled_(new regex_t(compiled), [](const regex_t* one) {
        regfree(const_cast<regex_t*>(one));
        delete one;
      }) {}

absl::StatusOr<CommandPattern> CommandPattern::Compile(const std::string& text) {
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') continue;
    if (isdigit(static_cast<unsigned char>(text[++i])) != 0)
      return absl::InvalidArgumentError(absl::StrCat("'", Printable(text), "' has a back reference; write it out"));
  }
  regex_t compiled;
  if (const int error = regcomp(&compiled, text.c_str(), REG_EXTENDED | REG_NOSUB); error != 0) {
    char words[200];
    regerror(error, &compiled, words, sizeof(words));
    return absl::InvalidArgumentError(
        absl::StrCat("'", Printable(text), "' is not an extended regular expression: ", words));
  }
  return CommandPattern(compiled);
}

bool CommandPattern::Matches(const std::string& command) const {
  return regexec(compiled_.get(), command.substr(0, kMaxCommandBytes).c_str(), 0, nullptr, 0) == 0;
}

}  // namespace cowprof
