// passwd(5) and group(5).
#include "posix/users.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace cowprof {
namespace {

// The fields of each line that has at least `fields` of them.
template <typename Function>
void ForEachLine(absl::string_view text, size_t fields, Function function) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ':');
    if (words.size() >= fields) function(words);
  }
}

}  // namespace

std::optional<UserEntry> UserIn(absl::string_view text, uid_t uid) {
  std::optional<UserEntry> found;
  ForEachLine(text, 6, [&](const std::vector<absl::string_view>& words) {
    uid_t number = 0;
    if (!found && absl::SimpleAtoi(words[2], &number) && number == uid)
      found = {std::string(words[0]), std::string(words[5])};
  });
  return found;
}

std::vector<gid_t> GroupsIn(absl::string_view text, absl::string_view user, gid_t main) {
  std::vector<gid_t> groups = {main};
  ForEachLine(text, 4, [&](const std::vector<absl::string_view>& words) {
    gid_t number = 0;
    const std::vector<absl::string_view> members = absl::StrSplit(words[3], ',', absl::SkipEmpty());
    if (absl::SimpleAtoi(words[2], &number) && std::find(members.begin(), members.end(), user) != members.end() &&
        std::find(groups.begin(), groups.end(), number) == groups.end())
      groups.push_back(number);
  });
  return groups;
}

}  // namespace cowprof
