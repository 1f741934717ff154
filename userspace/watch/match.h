// The regular expression of --match: POSIX extended, held against command lines of strangers.
#ifndef COWPROF_WATCH_MATCH_H_
#define COWPROF_WATCH_MATCH_H_

#include <regex.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace cowprof {

class CommandPattern {
 public:
  // InvalidArgument: not a regular expression, or one with back references, which no bound on the text makes fast.
  static absl::StatusOr<CommandPattern> Compile(const std::string& text);
  // `command`: arguments joined by blanks; what comes after kMaxCommandBytes is not looked at.
  bool Matches(const std::string& command) const;

 private:
  explicit CommandPattern(regex_t compiled);
  std::shared_ptr<const regex_t> compiled_;
};

}  // namespace cowprof

#endif  // COWPROF_WATCH_MATCH_H_
