// Who a user is, as /etc/passwd and /etc/group say: getpwuid(3) and initgroups(3) may load modules of the host's glibc,
// which a static binary can't do. The functions are pure and accept any text.
#ifndef COWPROF_POSIX_USERS_H_
#define COWPROF_POSIX_USERS_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cowprof {

struct UserEntry {
  std::string name, home;
};
// `text`: of /etc/passwd. None: it does not list that user.
std::optional<UserEntry> UserIn(absl::string_view text, uid_t uid);

// All groups of the user, with `main` first. `text`: of /etc/group.
std::vector<gid_t> GroupsIn(absl::string_view text, absl::string_view user, gid_t main);

}  // namespace cowprof

#endif  // COWPROF_POSIX_USERS_H_
