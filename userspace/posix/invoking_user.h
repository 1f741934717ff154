// Acts as the user who called sudo, for files that are to be theirs.
#ifndef COWPROF_POSIX_INVOKING_USER_H_
#define COWPROF_POSIX_INVOKING_USER_H_

#include <sys/types.h>

#include <vector>

#include "absl/functional/function_ref.h"
#include "posix/rights.h"

namespace cowprof {

// Their main group and those that /etc/group gives them, but not those of a directory service (LDAP).
std::vector<gid_t> GroupsOfInvokingUser(const UserIds& user);

// For as long as it lives, with these groups. Does nothing unless this process became root by sudo.
class AsInvokingUser {
 public:
  AsInvokingUser();
  ~AsInvokingUser();
  AsInvokingUser(const AsInvokingUser&) = delete;

 private:
  std::vector<gid_t> groups_;
  bool active_ = false;
};

// Calls `read`, which returns false and sets errno if it fails, as this process; on EACCES calls it as the user who
// called sudo, whose files on NFS may be closed to root (root squashing). Thread-safe.
bool AsEitherUser(absl::FunctionRef<bool()> read);

}  // namespace cowprof

#endif  // COWPROF_POSIX_INVOKING_USER_H_
