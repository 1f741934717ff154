#include "posix/invoking_user.h"

#include <grp.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string>

#include "posix/users.h"

namespace cowprof {

std::vector<gid_t> GroupsOfInvokingUser(const UserIds& user) {
  const char* const name = getenv("SUDO_USER");
  std::ifstream file("/etc/group");
  const std::string text(std::istreambuf_iterator<char>(file), {});
  return GroupsIn(text, name == nullptr ? "" : name, user.gid);
}

AsInvokingUser::AsInvokingUser() {
  const std::optional<UserIds> user = InvokedBySudo();
  if (!user) return;
  // Groups first: once root is given up they can no longer be changed.
  groups_.resize(std::max(getgroups(0, nullptr), 0));
  groups_.resize(std::max(getgroups(static_cast<int>(groups_.size()), groups_.data()), 0));
  const std::vector<gid_t> theirs = GroupsOfInvokingUser(*user);
  active_ = setgroups(theirs.size(), theirs.data()) == 0 && setegid(user->gid) == 0 && seteuid(user->uid) == 0;
}

AsInvokingUser::~AsInvokingUser() {
  if (!active_) return;
  if (seteuid(0) != 0 || setegid(0) != 0 || setgroups(groups_.size(), groups_.data()) != 0) abort();
}

bool AsEitherUser(absl::FunctionRef<bool()> read) {
  static std::mutex mutex;  // all threads are the same user
  if (read()) return true;
  if (errno != EACCES) return false;
  const std::lock_guard lock(mutex);
  {
    AsInvokingUser user;
    if (read()) return true;
  }
  return read();  // at first another thread may have made this one the user
}

}  // namespace cowprof
